//! Addresses that a page links to.

use std::fmt::{self, Write as _};

use super::{ADDRESS, Part, language};

/// The address of a file near the page: a path, which is never another scheme, host or script.
pub(crate) struct Address(String);

impl Address {
    /// A relative path as an address: every byte that could mean something else is written by its number. A first part with a
    /// colon would be a scheme, and two slashes a host, so the path begins with a dot.
    pub(crate) fn of_path(path: &str) -> Self {
        let mut address = if path.starts_with("../") { String::new() } else { "./".to_owned() };
        for byte in path.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    address.push(char::from(byte))
                }
                other => {
                    let _ = write!(address, "%{other:02X}");
                }
            }
        }
        Self(address)
    }
}

impl Part<language::Html, ADDRESS> for Address {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::markup::{Address, html};

    #[test]
    fn a_path_stays_a_path() {
        let linked = |path: &str| html!("<a href=\"{}\">", Address::of_path(path)).into_string();
        assert_eq!(linked("../a/b.md"), "<a href=\"../a/b.md\">");
        assert_eq!(linked("a:b/report.md"), "<a href=\"./a%3Ab/report.md\">");
        assert_eq!(linked("javascript:\"<>"), "<a href=\"./javascript%3A%22%3C%3E\">");
        assert_eq!(linked("//host/x"), "<a href=\".///host/x\">");
    }
}
