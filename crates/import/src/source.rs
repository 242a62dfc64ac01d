//! A file's text, its lines, and errors that name them.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use terms::Error;

use crate::{Here, launcher};

/// The largest file that is read: logs of a long day are smaller.
const LARGEST: u64 = 1 << 30;

/// A file of another tool.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    sha256: String,
    /// Hosts that lines begin with.
    hosts: Vec<String>,
    given: BTreeMap<String, String>,
    here: Here,
}

/// One line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'s> {
    /// From 1.
    pub number: usize,
    /// Its text, without line end and without a launcher's prefix (`[1,0]<stdout>:`, `0: `, `node-a: `).
    pub text: &'s str,
}

impl Source {
    /// A file's bytes. `name` is for messages.
    ///
    /// # Errors
    /// When it is no UTF-8 text, with the line.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Error> {
        let name = name.into();
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
            Error::new(format!("{name} is no text: line {line} is not UTF-8"))
                .hint("name a file that the other tool wrote as text, JSON, YAML or CSV")
        })?;
        // A byte order mark, as editors under Windows write it.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        let hosts = launcher::hosts(&text);
        Ok(Self { name, text, sha256, hosts, given: BTreeMap::new(), here: Here::default() })
    }

    /// Reads a file that the user names.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is no text.
    pub fn load(path: &Path) -> Result<Self, Error> {
        use std::io::Read;
        let name = path.display().to_string();
        let unread = |error: std::io::Error| Error::new(format!("cannot read {name}")).cause(error.to_string());
        let mut bytes = Vec::new();
        let file = record::file::open_named(path).map_err(unread)?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 > LARGEST {
            return Err(Error::new(format!("{name} is larger than {} MiB", LARGEST >> 20)).hint("split it by runs"));
        }
        Self::new(name, bytes)
    }

    /// With what the user says of the file because the file does not: `ranks`, `op`.
    #[must_use]
    pub fn with_given(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.given.insert(name.into(), value.into());
        self
    }

    /// What the user says of the file under this name.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(String::as_str)
    }

    /// With the machine that a configuration shall run on.
    #[must_use]
    pub fn on(self, here: Here) -> Self {
        Self { here, ..self }
    }

    /// The machine that a configuration shall run on.
    pub fn here(&self) -> &Here {
        &self.here
    }

    /// Its name, as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name without folders.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of its bytes.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Its lines, without launchers' prefixes.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let bare = |(at, line): (usize, _)| Line { number: at + 1, text: launcher::without_prefix(line, &self.hosts) };
        self.text.lines().enumerate().map(bare)
    }

    /// The first lines, for whoever looks what a file is.
    pub fn head(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines().take(200)
    }

    /// An error at a line: `FILE, line N: WHAT`.
    pub fn error(&self, line: usize, what: impl std::fmt::Display) -> Error {
        Error::new(format!("{}, line {line}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused_with_its_line() {
        let why = Source::new("x.log", b"a\nb\xff\n".to_vec()).unwrap_err();
        assert!(why.what.contains("line 2"), "{why}");
        let source = Source::new("dir/x.log", b"\xef\xbb\xbfa\r\nb".to_vec()).unwrap();
        assert_eq!(source.lines().map(|line| line.text).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(source.file_name(), "x.log");
    }
}
