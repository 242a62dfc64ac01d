//! Versions of tools with tables that were seen. A table of another version is read if all its columns are known.

use terms::Error;

use super::nccl::plain;
use crate::Source;

/// Major and minor.
type TwoNumbers = (u32, u32);

/// A tool, and its versions with tables that were seen: ranges, both ends included.
pub(super) struct KnownVersions {
    pub(super) tool: &'static str,
    pub(super) ranges: &'static [(TwoNumbers, TwoNumbers)],
}

/// nccl-tests, and rccl-tests, which follows it.
pub(super) const NCCL_TESTS: KnownVersions = KnownVersions { tool: "nccl-tests", ranges: &[((2, 0), (2, 20))] };
pub(super) const RCCL_TESTS: KnownVersions = KnownVersions { tool: "rccl-tests", ..NCCL_TESTS };
pub(super) const OSU: KnownVersions = KnownVersions { tool: "the OSU Micro-Benchmarks", ranges: &[((3, 0), (7, 5))] };
pub(super) const IMB: KnownVersions = KnownVersions {
    tool: "the Intel MPI Benchmarks",
    ranges: &[((3, 0), (4, 1)), ((2017, 0), (2019, 6)), ((2021, 0), (2021, 7))],
};

impl KnownVersions {
    /// What to note of a version that is none of these.
    pub(super) fn unseen(&self, line: usize, version: &str) -> Option<String> {
        let found = parsed(version);
        if found.is_some_and(|found| self.ranges.iter().any(|(first, last)| *first <= found && found <= *last)) {
            return None;
        }
        let shown = |(major, minor): TwoNumbers| format!("{major}.{minor}");
        let ranges: Vec<String> =
            self.ranges.iter().map(|(first, last)| format!("{} to {}", shown(*first), shown(*last))).collect();
        Some(format!(
            "line {line}: version `{}` of {} is new to this reader, which knows {}; all columns of its tables are known",
            plain(version),
            self.tool,
            ranges.join(", ")
        ))
    }
}

/// `2.19.4`, `v7.3`, `2.17.9-develop:2596ca5f71`, `2019`.
fn parsed(version: &str) -> Option<TwoNumbers> {
    let mut parts = version.trim_start_matches(['v', 'V']).split('.');
    let digits = |part: &str| {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse().ok()
    };
    Some((digits(parts.next()?)?, parts.next().map_or(Some(0), digits)?))
}

/// The error for a column that a reader does not know, with the version that has it.
pub(super) fn unknown_column(source: &Source, line: usize, tool: &str, column: &str, known: &str) -> Error {
    let what = format!("the table of {tool} has a column `{}` that this reader does not know", plain(column));
    source.error(line, what).hint(format!("known columns: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_their_tools_write_them() {
        for (text, version) in [
            ("2.19.4", Some((2, 19))),
            ("v7.3", Some((7, 3))),
            ("V3.2", Some((3, 2))),
            ("2.17.9-develop:2596ca5f71", Some((2, 17))),
            ("2019", Some((2019, 0))),
            ("develop:2596", None),
            ("", None),
        ] {
            assert_eq!(parsed(text), version, "{text}");
        }
    }
}
