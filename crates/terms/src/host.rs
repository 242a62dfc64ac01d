//! The name of a host, as lists of hosts hold it.

use std::fmt;

use crate::{Error, outside};

/// A host's name that can be a line of a list, or a word of one: letters, digits, `.`, `_` and `-`. Whatever writes lists of
/// hosts takes this type, so that no name can hold another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct HostName(String);

/// Characters of the longest name: that of DNS.
const LONGEST: usize = 253;

impl HostName {
    /// A name from data.
    ///
    /// # Errors
    /// When it cannot be a host's name. The error shows it on one line.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if !text.is_empty() && text.len() <= LONGEST && !text.starts_with('-') && text.bytes().all(is_of_name) {
            return Ok(Self(text.to_owned()));
        }
        let text = outside::original(text);
        let shown: String = text.escape_default().take(80).collect();
        let more = if shown.len() < text.escape_default().count() { "..." } else { "" };
        Err(Error::new(format!("`{shown}{more}` is not the name of a host"))
            .cause(format!("a name has 1 to {LONGEST} letters, digits, `.`, `_` and `-`, and does not begin with `-`")))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl PartialEq<str> for HostName {
    fn eq(&self, other: &str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<&str> for HostName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_list() {
        for name in ["node00", "a.b-c_D", "10.0.0.1", ".", &"a".repeat(LONGEST)] {
            assert_eq!(HostName::parse(name).unwrap(), name);
        }
        for name in ["", "-x", "a b", "a\nb", "a,b", "a[1-2]", "é", "a\0", "a/b", "a:1", &"a".repeat(LONGEST + 1)] {
            assert!(HostName::parse(name).is_err(), "{name:?}");
        }
        let said = HostName::parse("evil\nnode00\u{1b}[2J\u{202e}").unwrap_err().to_string();
        assert!(said.starts_with(r"`evil\nnode00\u{1b}[2J\u{202e}` is not the name of a host"), "{said}");
        let long = HostName::parse(&"\n".repeat(1000)).unwrap_err().what;
        assert!(long.len() < 150 && long.contains("..."), "{long}");
    }
}
