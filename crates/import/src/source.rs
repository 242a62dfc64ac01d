//! A file's text, its lines, and errors that name them.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use terms::Error;

use crate::Here;
use crate::decode::{self, Decoded};
use crate::prefix::Prefixes;

/// The largest file that is read: logs of a long day are smaller.
const LARGEST: u64 = 1 << 30;

/// A file of another tool.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    text: String,
    sha256: String,
    /// How its bytes were read, where that is not plain.
    notes: Vec<String>,
    /// The number of its last line if that has no end; 0 if it has one.
    unended: usize,
    /// What other programs put before its lines.
    prefixes: Prefixes,
    given: BTreeMap<String, String>,
    here: Here,
    changed: Option<jiff::Timestamp>,
}

/// One line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'s> {
    /// From 1.
    pub number: usize,
    /// Text of the line, without line end and without what other programs put before it (`[1,0]<stdout>:`, `0: `, `node-a: `).
    pub text: &'s str,
}

impl Source {
    /// A file's bytes. `name` is for messages.
    ///
    /// # Errors
    /// When they are not text, with the line, or are compressed by another program than gzip.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Error> {
        let name = name.into();
        let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let Decoded { text, notes } = decode::decode(&name, bytes, LARGEST)?;
        let prefixes = Prefixes::find(&text);
        let unended = unended(&text);
        Ok(Self {
            name,
            text,
            sha256,
            notes,
            unended,
            prefixes,
            given: BTreeMap::new(),
            here: Here::default(),
            changed: None,
        })
    }

    /// Reads a file that the user names.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is not text.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let unread = |error: std::io::Error| Error::new(format!("cannot read {name}")).cause(error.to_string());
        let file = record::file::open_named(path).map_err(unread)?;
        let changed = file.metadata().and_then(|about| about.modified()).ok();
        // Whole seconds, as records have them.
        let changed = changed.and_then(|time| jiff::Timestamp::try_from(time).ok());
        let changed = changed.and_then(|time| jiff::Timestamp::from_second(time.as_second()).ok());
        Ok(Self { changed, ..Self::from_reader(&name, file)? })
    }

    /// Reads all of a reader, such as standard input.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or is not text.
    pub fn from_reader(name: &str, reader: impl std::io::Read) -> Result<Self, Error> {
        use std::io::Read;
        let unread = |error: std::io::Error| Error::new(format!("cannot read {name}")).cause(error.to_string());
        let mut bytes = Vec::new();
        reader.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unread)?;
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

    /// When the file last changed; None of standard input.
    pub fn changed(&self) -> Option<jiff::Timestamp> {
        self.changed
    }

    /// Name of the source, as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the source without folders.
    pub fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of its bytes.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// How its bytes were read, where that is not plain: one sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What is said of the last line where it has no end: the file may have been copied while it was written, so the line may be
    /// cut, and nothing of it is read. None where the file ends with a line end, or in a line without letters and digits.
    pub fn unfinished(&self) -> Option<String> {
        let number = self.unended;
        (number > 0).then(|| format!("line {number}, the last, has no line end, so it may be cut: it is left out"))
    }

    /// Lines of the source as they stand, without an unfinished last one.
    pub(crate) fn whole_lines(&self) -> impl Iterator<Item = &str> {
        let whole = if self.unended > 0 { self.unended - 1 } else { usize::MAX };
        self.text.lines().take(whole)
    }

    /// Lines of the source, without what other programs put before them and without an unfinished last one. Two that were written
    /// as one have the same number.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let may_be_glued = self.prefixes.may_be_glued();
        self.whole_lines().enumerate().flat_map(move |(at, line)| {
            let (first, mut rest) = if may_be_glued { self.prefixes.split(line) } else { (line, None) };
            let more = std::iter::from_fn(move || {
                let (next, behind) = self.prefixes.split(rest?);
                rest = behind;
                Some(next)
            });
            let bare = move |text| Line { number: at + 1, text: self.prefixes.strip(text) };
            std::iter::once(first).chain(more).map(bare)
        })
    }

    /// The first lines, for the readers that look at what a file is.
    pub fn head(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines().take(200)
    }

    /// The source with these lines blank. Others keep their numbers.
    pub(crate) fn without(&self, lines: &[usize]) -> Self {
        let mut text = String::with_capacity(self.text.len());
        let mut hidden = lines.iter().copied().peekable();
        for (at, line) in self.text.split_inclusive('\n').enumerate() {
            let is_hidden = std::iter::from_fn(|| hidden.next_if(|number| *number <= at + 1)).last() == Some(at + 1);
            text.push_str(match is_hidden {
                true => "\n",
                false => line,
            });
        }
        Self { text, ..self.clone() }
    }

    /// An error at a line: `FILE, line N: WHAT`.
    pub fn error(&self, line: usize, what: impl std::fmt::Display) -> Error {
        Error::new(format!("{}, line {line}: {what}", self.name))
    }
}

/// The number of the last line if that has no end; 0 if it has one, or holds nothing that could be cut.
fn unended(text: &str) -> usize {
    let last = text.rsplit('\n').next().unwrap_or_default();
    let holds_something = last.chars().any(char::is_alphanumeric);
    if holds_something { 1 + text.bytes().filter(|byte| *byte == b'\n').count() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_numbers() {
        let source = Source::new("dir/x.log", b"\xef\xbb\xbfa\r\nb".to_vec()).unwrap();
        assert_eq!(source.lines().map(|line| line.text).collect::<Vec<_>>(), ["a"]);
        assert!(source.unfinished().unwrap().contains("line 2, the last"));
        assert_eq!(source.file_name(), "x.log");
        let ends_in_a_fence = Source::new("x.log", b"a 1\n```".to_vec()).unwrap();
        assert_eq!((ends_in_a_fence.lines().count(), ends_in_a_fence.unfinished()), (2, None));
        let text = "[1,0]<stdout>:# size x\n[1,0]<stdout>:1[1,0]<stdout>:2[1,1]<stdout>:\n[1,0]<stdout>:3\n";
        let source = Source::new("x.log", text.as_bytes().to_vec()).unwrap();
        let lines: Vec<(usize, &str)> = source.lines().map(|line| (line.number, line.text)).collect();
        assert_eq!(lines, [(1, "# size x"), (2, "1"), (2, "2"), (2, ""), (3, "3")]);
    }
}
