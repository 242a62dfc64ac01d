//! A line of a record that is damaged: named, and left out of what is read.

use std::fmt;

/// Where a damaged line stands, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedLine {
    /// The file's name, without its folder.
    pub file: String,
    /// From 1; 0 where it is the whole file.
    pub line: usize,
    /// The case's identity, where it can still be read.
    pub id: Option<String>,
    /// What is wrong.
    pub cause: String,
    /// Whether there is a line, which is left out.
    pub is_there: bool,
}

impl DamagedLine {
    pub(super) fn new(file: &str, line: usize, bytes: &[u8], cause: impl Into<String>) -> Self {
        let file = file.rsplit('/').next().unwrap_or(file).to_owned();
        Self { file, line, id: id_in(bytes), cause: cause.into(), is_there: true }
    }

    /// A place of the run file. Its other members are read.
    pub(super) fn of_run_file(line: usize, cause: impl Into<String>) -> Self {
        Self { file: super::RUN_FILE.to_owned(), line, id: None, cause: cause.into(), is_there: false }
    }

    /// What it is, and what became of it.
    pub fn sentence(&self) -> String {
        if self.is_there { format!("{self}; it is left out") } else { self.to_string() }
    }

    /// Whether it is about the run file.
    pub fn is_of_run_file(&self) -> bool {
        self.file == super::RUN_FILE
    }
}

/// `cases.jsonl:7 (case 9f2c1ab04d77): its checksum does not match`.
impl fmt::Display for DamagedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
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
