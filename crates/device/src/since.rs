//! What a library has only since one of its versions, and what an older one leads to: each optional library has a table of these.
//!
//! Whatever came after the oldest version that docs/how-to/gpu.md names is in such a table, and is looked up before it is used: a library
//! that is too old must lead to another way, or to a skipped case that names both versions.

use std::fmt;

/// A version: major and minor number.
pub type Version = [u32; 2];

/// One function, attribute, descriptor or data type that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The library, as a user calls it.
    pub library: &'static str,
    /// Name in the library's header, or what several names are for.
    pub what: &'static str,
    /// The first version that has it.
    pub version: Version,
    /// What happens with an older library.
    pub otherwise: &'static str,
}

impl Since {
    /// Whether a library of this version has it.
    pub fn is_in(&self, version: Version) -> bool {
        version >= self.version
    }

    /// Why it cannot be used, with both versions: the one that is needed and the `found` one.
    pub fn lacks(&self, found: &str) -> String {
        let Self { library, what, version: [major, minor], .. } = self;
        format!("{what} needs {library} {major}.{minor}, and {found} was found")
    }
}

impl fmt::Display for Since {
    /// As a row of the table in docs/how-to/gpu.md.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, what, version: [major, minor], otherwise } = self;
        write!(to, "| {library} {major}.{minor} | {what} | {otherwise} |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Since = Since { library: "cuDNN", what: "graphs", version: [9, 8], otherwise: "skipped" };

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(
            [[8, 9], [9, 7], [9, 8], [9, 10], [10, 0]].map(|version| ROW.is_in(version)),
            [false, false, true, true, true]
        );
    }

    #[test]
    fn what_is_missing_is_said_with_both_versions() {
        assert_eq!(ROW.lacks("9.1.0"), "graphs needs cuDNN 9.8, and 9.1.0 was found");
        assert_eq!(ROW.to_string(), "| cuDNN 9.8 | graphs | skipped |");
    }
}
