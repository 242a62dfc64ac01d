//! A line of a record that is damaged: named, and left out of what is read.

use std::fmt;

/// Where a damaged line stands, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedLine {
    /// The file's name, without its folder.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// The case's identity, where it can still be read.
    pub id: Option<String>,
    /// What is wrong.
    pub cause: String,
}

impl DamagedLine {
    pub(super) fn new(file: &str, line: usize, bytes: &[u8], cause: impl Into<String>) -> Self {
        let file = file.rsplit('/').next().unwrap_or(file).to_owned();
        Self { file, line, id: id_in(bytes), cause: cause.into() }
    }
}

/// `cases.jsonl:7 (case 9f2c1ab04d77): its checksum does not match`.
impl fmt::Display for DamagedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if let Some(id) = &self.id {
            write!(f, " (case {id})")?;
        }
        write!(f, ": {}", self.cause)
    }
}

/// The first text that looks like a case's identity.
fn id_in(bytes: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\"id\":\"";
    const DIGITS: usize = 12;
    let at = bytes.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let id = bytes.get(at..at + DIGITS).filter(|_| bytes.get(at + DIGITS) == Some(&b'"'))?;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    id.iter().all(is_digit).then(|| String::from_utf8_lossy(id).into_owned())
}
