//! Names of files as types: code that gives a text of data to a writer does not compile.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use terms::outside::is_stand_in;

/// The most bytes of a name on common file systems.
const LONGEST: usize = 255;
/// Characters that a [`FileStem`] keeps of one text.
const KEPT: usize = 48;
/// Characters of a [`FileStem`] of several texts: an ending and the name of a temporary file have room.
const LONGEST_STEM: usize = 200;

/// The name of a file or of a folder in a folder: not empty, not `.` or `..`, without separators and control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Cow<'static, str>);

impl FileName {
    /// A name that the program has. In a constant, a text that cannot be a name does not compile.
    ///
    /// # Panics
    /// When the text cannot be a name.
    pub const fn literal(name: &'static str) -> Self {
        assert!(is_name(name), "this text cannot name a file");
        Self(Cow::Borrowed(name))
    }

    /// A name from outside, unchanged; None where the text cannot be a name.
    pub fn checked(name: &str) -> Option<Self> {
        (is_name(name) && !name.contains(is_stand_in)).then(|| Self(Cow::Owned(name.to_owned())))
    }

    /// The name under which this process writes the file until it is whole.
    #[must_use]
    pub fn temporary(&self) -> Self {
        Self(Cow::Owned(format!(".{self}.{}.part", std::process::id())))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a text can name a file.
const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // The characters U+0080 to U+009F are two bytes.
        let is_control =
            bytes[at] < 0x20 || bytes[at] == 0x7f || bytes[at] == 0xc2 && at + 1 < bytes.len() && bytes[at + 1] < 0xa0;
        if is_control || bytes[at] == b'/' {
            return false;
        }
        at += 1;
    }
    !matches!(bytes, b"" | b"." | b"..") && bytes.len() <= LONGEST
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for FileName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<Path> for FileName {
    fn as_ref(&self) -> &Path {
        Path::new(self.as_str())
    }
}

/// The beginning of a file's name, made from any text: letters, digits, `_` and `-`, never empty. It is also an `id` of HTML.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileStem(String);

impl FileStem {
    /// The stem of a text: other characters become `-`, and 48 are kept.
    pub fn of(text: &str) -> Self {
        let kept = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let stem: String = text.chars().map(kept).take(KEPT).collect();
        // A leading dash would read as an option in a shell.
        let stem = stem.trim_matches('-');
        Self(if stem.is_empty() { "chart" } else { stem }.to_owned())
    }

    /// `this-part`.
    #[must_use]
    pub fn and(&self, part: impl Into<FileStem>) -> Self {
        let mut stem = format!("{self}-{}", part.into());
        stem.truncate(LONGEST_STEM);
        Self(stem)
    }

    /// The name of a file with an ending of the program's, such as `.svg`.
    ///
    /// # Panics
    /// When the ending cannot be a part of a name.
    pub fn file(&self, ending: &'static str) -> FileName {
        assert!(is_name(ending) && ending.len() < LONGEST - LONGEST_STEM, "this text cannot end a file's name");
        FileName(Cow::Owned(format!("{self}{ending}")))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for FileStem {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl From<&FileStem> for FileStem {
    fn from(stem: &FileStem) -> Self {
        stem.clone()
    }
}

impl From<u64> for FileStem {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl AsRef<str> for FileStem {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for FileStem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a file below a folder: in it, or in a folder of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InnerPath {
    /// The folder, where there is one between.
    pub folder: Option<FileName>,
    /// The file's name.
    pub name: FileName,
}

impl InnerPath {
    /// A file of a folder in the folder.
    pub const fn within(folder: FileName, name: FileName) -> Self {
        Self { folder: Some(folder), name }
    }

    /// The name as a path.
    pub fn to_path(&self) -> PathBuf {
        self.folder.iter().chain([&self.name]).map(FileName::as_str).collect()
    }
}

impl From<FileName> for InnerPath {
    fn from(name: FileName) -> Self {
        Self { folder: None, name }
    }
}

impl fmt::Display for InnerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.folder {
            Some(folder) => write!(f, "{folder}/{}", self.name),
            None => self.name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path() {
        for name in ["", ".", "..", "a/b", "/a", "a\n", "\0", "a\u{7f}", "a\u{9b}2J", "a\u{FDDA}"] {
            assert_eq!(FileName::checked(name), None, "{name:?}");
        }
        assert_eq!(FileName::checked(&"x".repeat(256)), None);
        for name in ["run.json", ".x", "-x", "a b", "ü", "..."] {
            assert_eq!(FileName::checked(name).unwrap().as_str(), name);
        }
        assert_eq!(
            InnerPath::within(FileName::literal("charts"), FileStem::of("../a").file(".svg")).to_string(),
            "charts/a.svg"
        );
    }

    #[test]
    fn stems_of_names_are_as_readable_as_can_be() {
        for (text, stem) in
            [("all_reduce", "all_reduce"), ("../../etc/passwd", "etc-passwd"), ("|", "chart"), ("", "chart")]
        {
            assert_eq!(FileStem::of(text).as_str(), stem);
        }
        assert_eq!(FileStem::of("a b").and("time").and(2).as_str(), "a-b-time-2");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_gives_a_name(parts in proptest::collection::vec("\\PC{0,80}|[-./\\x00-\\x1f]{0,9}", 1..6)) {
            let first = FileStem::of(&parts[0]);
            let stem = parts[1..].iter().fold(first, |stem, part| stem.and(part.as_str()));
            let name = stem.file(".json.gz");
            prop_assert!(FileName::checked(name.as_str()) == Some(name.clone()) && name.as_str().len() <= 210);
            prop_assert!(stem.as_str().chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{}", stem);
            prop_assert!(!stem.as_str().starts_with('-'));
        }
    }
}
