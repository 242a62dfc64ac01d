//! What nccl-tests and rccl-tests measured, by text or by JSON, run by run.

use std::collections::BTreeMap;

use super::runs::Origin;
use crate::collective::MeasuredBy;

/// The name that nccl-tests has for the reduction in tables and files. Our own word is another, so it is spelled once.
pub(super) const REDUCTION: &str = "re\u{64}op";

/// One run of a program: what it says of itself, and its table.
#[derive(Debug, Default)]
pub(super) struct NcclRun<'s> {
    /// Where it begins.
    pub(super) line: usize,
    /// `nccl-tests` or `rccl-tests`, with the version if the file has it.
    pub(super) tool: String,
    pub(super) by: MeasuredBy,
    /// `all_reduce_perf`.
    pub(super) program: Option<&'s str>,
    /// Whether the program is known from a command line, and not from its own output.
    pub(super) program_is_from_command: bool,
    pub(super) hosts: Vec<String>,
    pub(super) started: Option<String>,
    pub(super) versions: BTreeMap<String, String>,
    /// Ranks of its communicator, where it lists them.
    pub(super) ranks: Option<u32>,
    /// Programs of so many ranks that wrote at once; 0 where ranks are not listed.
    pub(super) programs: usize,
    /// Ranks that the command line above starts.
    pub(super) launched: Option<u32>,
    /// Command line of the program, and what stands above it.
    pub(super) origin: Origin,
    /// What it says of its end, if it did not end well.
    pub(super) failure: Option<String>,
    /// Timed iterations times aggregated calls.
    pub(super) iterations: Option<u64>,
    /// How calls wait for each other.
    pub(super) blocking: Blocking,
    /// The value of `-a`.
    pub(super) average: Option<&'s str>,
    /// What else decides how calls are timed: unlike runs are not trials of one case.
    pub(super) method: String,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) notes: Vec<String>,
    /// Whether its end is missing: it was ended, or the file is cut.
    pub(super) cut: bool,
    pub(super) rows: Vec<RawLine<'s>>,
    /// Lines that could not be read, with the reason.
    pub(super) omitted: Vec<(usize, String)>,
    /// Columns and keys that the record has no place for, with the reason.
    pub(super) unread: Vec<String>,
}

/// How the calls of a run wait for each other (`-z`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Blocking {
    /// They do not: calls are queued.
    #[default]
    Off,
    /// The time of a call includes a barrier behind it: `-z 1`.
    BarrierTimed,
    /// The host waits for each call, and ranks do not meet: `-z 2`, since 2.19.
    WithoutBarrier,
    /// Ranks meet behind each call, outside of its time: `-z 3`, since 2.19.
    BarrierUntimed,
}

impl Blocking {
    /// What the line `Blocking Enabled: ...` says.
    pub(super) fn from_line(bare: &str) -> Self {
        if bare.contains("no barrier") {
            Self::WithoutBarrier
        } else if bare.contains("excludes barrier") {
            Self::BarrierUntimed
        } else {
            Self::BarrierTimed
        }
    }

    /// Whether ranks meet before each call.
    pub(super) fn is_isolated(self) -> bool {
        matches!(self, Self::BarrierTimed | Self::BarrierUntimed)
    }

    /// What is timed, where no mode here times the same.
    pub(super) fn implementation(self) -> Option<&'static str> {
        match self {
            Self::Off | Self::BarrierUntimed => None,
            Self::BarrierTimed => Some("-z 1: a call and a barrier"),
            Self::WithoutBarrier => Some("-z 2: a wait behind each call"),
        }
    }
}

impl NcclRun<'_> {
    /// Says that so many communicators ran at once. Runs of other numbers are not trials of one case.
    pub(super) fn split(&mut self, communicators: usize) {
        if communicators > 1 {
            let split = format!("{communicators} communicators ran at once (NCCL_TESTS_SPLIT)");
            self.method += &format!("{split}; ");
            self.notes.push(format!("{split}: sizes and bandwidths are those of one of them"));
        }
    }
}

/// The note about calls of a CUDA graph.
pub(super) fn of_graph(launches: u64) -> String {
    format!("calls are those of a CUDA graph, which was launched {launches} times (`-G`)")
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct RawLine<'s> {
    pub(super) line: usize,
    pub(super) bytes: u64,
    pub(super) dtype: &'s str,
    /// None where the operation has none.
    pub(super) reduction: Option<&'s str>,
    pub(super) root: Option<i64>,
    /// Out of place, in place.
    pub(super) halves: [Option<Half>; 2],
    /// `[process][iteration]` of each half, in microseconds; empty where the file has none.
    pub(super) processes: [Vec<Vec<f64>>; 2],
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    pub(super) time_us: Printed,
    pub(super) algbw: Printed,
    pub(super) busbw: Printed,
    pub(super) wrong: Option<u64>,
    /// Smallest, largest, 99th, 50th and 95th percentile, mean and standard deviation over iterations, in microseconds; NaN
    /// where one is missing.
    pub(super) spread_us: Option<[f64; 7]>,
}

/// A number as it was printed: its value, and half of its last digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Printed {
    pub(super) value: f64,
    pub(super) within: f64,
}

impl Printed {
    /// Reads a number. None where it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value: f64 = text.parse().ok()?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
        let exponent: i32 = exponent.parse().unwrap_or(0);
        Some(Self { value, within: 0.5 * 10f64.powi(exponent.clamp(-400, 400) - decimals) })
    }
}

/// NCCL's version code as a version: 22907 is 2.29.7, and before 2.9, 2408 is 2.4.8.
pub(super) fn version_of_code(code: &str) -> Option<String> {
    let code: u32 = code.parse().ok().filter(|code| *code >= 1000)?;
    let (major, rest) = if code < 10_000 { (code / 1000, code % 1000) } else { (code / 10_000, code % 10_000) };
    Some(format!("{major}.{}.{}", rest / 100, rest % 100))
}

/// A text of a file for a message or a short fact: one line, no control characters. A text that is cut ends in an ellipsis.
pub(super) fn plain(text: &str) -> String {
    cut(text, 300)
}

/// As [`plain`], of arguments and settings, which may be long.
pub(super) fn fact(text: &str) -> String {
    cut(text, 4000)
}

fn cut(text: &str, most: usize) -> String {
    let text = text.trim();
    let mut shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_numbers_know_their_last_digit() {
        let printed = |text| Printed::parse(text).unwrap();
        assert_eq!(printed("12.90"), Printed { value: 12.9, within: 0.005 });
        assert_eq!(printed("619657"), Printed { value: 619657.0, within: 0.5 });
        assert_eq!(printed("1.2e+06"), Printed { value: 1.2e6, within: 50_000.0 });
        assert_eq!(Printed::parse("N/A"), None);
    }

    #[test]
    fn version_codes_are_those_of_nccl() {
        assert_eq!(version_of_code("22907").as_deref(), Some("2.29.7"));
        assert_eq!(version_of_code("2408").as_deref(), Some("2.4.8"));
        assert_eq!(version_of_code("-1"), None);
    }
}
