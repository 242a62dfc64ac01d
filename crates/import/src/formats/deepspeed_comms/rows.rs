//! Lines of the table: its two heads, names of operations, and rows.

use super::super::deepspeed_tables::{PrintedSize, decimals};
use super::super::nccl::plain;
use super::super::row_like::WordCount;

/// How a head begins.
pub(super) const HEAD: &str = "Comm. Op";
/// What lines of two programs in one table mean.
pub(super) const MIXED: &str = "separate programs wrote here at once, and their lines are mixed";
/// The columns that are known, for a hint.
pub(super) const COLUMNS: &str = "Comm. Op, Message Size, Count, Total Latency(ms), Avg Latency(ms), \
                                  tput_avg (Gbps), busbw_avg (Gbps); Total comm lat(ms), Total straggler(ms), \
                                  Avg comm lat(ms), Avg straggler(ms)";
const LATENCY: &str = "Comm. Op Message Size Count Total Latency(ms) Avg Latency(ms) tput_avg (Gbps) busbw_avg (Gbps)";
const STRAGGLER: &str =
    "Comm. Op Message Size Count Total comm lat(ms) Total straggler(ms) Avg comm lat(ms) Avg straggler(ms)";

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    /// Times of rank 0, and bandwidths.
    Latency,
    /// Times of the rank that waited least, and what rank 0 waited.
    Straggler,
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CommsRow {
    /// The place of its operation among the names of the table.
    pub(super) name: usize,
    pub(super) size: PrintedSize,
    pub(super) count: u64,
    pub(super) total_ms: f64,
    pub(super) average_ms: f64,
    /// tput and busbw in Gb/s; nothing in a table of stragglers.
    pub(super) rates: [f64; 2],
}

/// What a line of a table is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TableLine<'l> {
    Row(CommsRow),
    Name(&'l str),
    Damaged(String),
    Other,
}

/// What stands before the head of a table; None where a line is none.
pub(super) fn head(text: &str) -> Option<&str> {
    let at = text.find(HEAD)?;
    let rest = one_spaced(&text[at..]);
    rest.starts_with("Comm. Op Message Size").then(|| &text[..at])
}

/// What the table under a head holds. An error is the column that is not known, or None where the head is cut.
pub(super) fn kind(head: &str) -> Result<TableKind, Option<String>> {
    let head = one_spaced(head);
    match head.as_str() {
        LATENCY => Ok(TableKind::Latency),
        STRAGGLER => Ok(TableKind::Straggler),
        _ if LATENCY.starts_with(&head) || STRAGGLER.starts_with(&head) => Err(None),
        _ => {
            let known = |one: &str| COLUMNS.split([',', ';']).any(|column| column.trim() == one);
            let words: Vec<&str> = head.split(' ').collect();
            // Columns are told apart by the known ones before them.
            let mut from = 0;
            for end in 1..=words.len() {
                if known(&words[from..end].join(" ")) {
                    from = end;
                }
            }
            let odd = words[from..].join(" ");
            Err(Some(if odd.is_empty() { "in another order".to_owned() } else { odd }))
        }
    }
}

fn one_spaced(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a row may stand behind a prefix that is not that of the table.
pub(super) fn is_row_within(text: &str) -> bool {
    let is_unit = |word: &str| matches!(word, "0B" | "B" | "KB" | "MB" | "GB" | "TB");
    text.split_ascii_whitespace().any(is_unit) && WordCount::count(text).numbers >= 5
}

/// Reads a line below a head. A row needs the name of an operation above it.
pub(super) fn read(text: &str, kind: TableKind, has_no_name: bool) -> TableLine<'_> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if let [name] = words[..]
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name.starts_with(|first: char| first.is_ascii_lowercase())
    {
        return TableLine::Name(name);
    }
    if text.contains(" | [Caller Func: ") {
        return match text.trim().ends_with(']') {
            true => TableLine::Name(text.trim()),
            false => TableLine::Damaged(format!("the name of an operation is cut: `{}`", plain(text))),
        };
    }
    let has_unit = matches!(words.get(1), Some(&("B" | "KB" | "MB" | "GB" | "TB")));
    let looks_like_a_row = words.first() == Some(&"0B") || has_unit;
    if !looks_like_a_row && WordCount::count(text).numbers < 4 {
        return TableLine::Other;
    }
    if has_no_name {
        return TableLine::Damaged("a row without the name of its operation above it".to_owned());
    }
    row(&words, kind).map_or_else(TableLine::Damaged, TableLine::Row)
}

fn row(words: &[&str], kind: TableKind) -> Result<CommsRow, String> {
    let (size, rest) = PrintedSize::parse(words)?;
    let &[count, total, second, third, fourth] = rest else {
        return Err(format!("expected 5 columns behind the size, found {}", rest.len()));
    };
    let count = count.parse().ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| format!("expected how many calls, found `{}`", plain(rest[0])))?;
    let [total_ms, second] = [decimals(total, 2)?, decimals(second, 2)?];
    let [third, fourth] = [decimals(third, 2)?, decimals(fourth, 2)?];
    // The table of stragglers has both totals in front.
    Ok(match kind {
        TableKind::Latency => CommsRow { name: 0, size, count, total_ms, average_ms: second, rates: [third, fourth] },
        TableKind::Straggler => CommsRow { name: 0, size, count, total_ms, average_ms: third, rates: [0.0, 0.0] },
    })
}

/// The operation, and the function that called it: `all_reduce | [Caller Func: has_overflow]`.
pub(super) fn caller(name: &str) -> (&str, &str) {
    match name.split_once(" | [Caller Func: ") {
        Some((name, caller)) => (name.trim(), caller.trim_end_matches(']').trim()),
        None => (name, ""),
    }
}

/// Which numbers of ranks the rows allow: busbw / tput is (n-1)/n, as exact as its printed digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranks {
    low: f64,
    high: f64,
    /// The line that narrowed them last.
    pub(super) line: usize,
}

impl Default for Ranks {
    fn default() -> Self {
        Self { low: 0.0, high: f64::INFINITY, line: 0 }
    }
}

impl Ranks {
    /// What a row of the table of latencies says.
    pub(super) fn narrow(&mut self, line: usize, row: &CommsRow) {
        let [tput, busbw] = row.rates;
        if tput < 0.1 {
            return;
        }
        let ranks = |share: f64| if share < 1.0 { 1.0 / (1.0 - share) } else { f64::INFINITY };
        let (low, high) = (ranks((busbw - 0.005) / (tput + 0.005)), ranks((busbw + 0.005) / (tput - 0.005)));
        if low > self.low || high < self.high {
            self.line = line;
        }
        (self.low, self.high) = (self.low.max(low), self.high.min(high));
    }

    /// Whether there may be so many.
    pub(super) fn may_be(&self, ranks: u32) -> bool {
        self.low <= f64::from(ranks) && f64::from(ranks) <= self.high
    }

    /// The only number that fits, where one alone does.
    pub(super) fn only(&self) -> Option<u32> {
        let first = self.low.ceil().max(1.0);
        let is_only = first <= self.high && first + 1.0 > self.high && first <= 1e6;
        is_only.then_some(first as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_of_ranks_fits_a_share_with_enough_digits() {
        let row = |tput: f64, busbw: f64| CommsRow {
            name: 0,
            size: PrintedSize { bytes: 1, rounded_in: None },
            count: 1,
            total_ms: 1.0,
            average_ms: 1.0,
            rates: [tput, busbw],
        };
        let told = |rows: &[(f64, f64)]| {
            let mut ranks = Ranks::default();
            rows.iter().for_each(|(tput, busbw)| ranks.narrow(1, &row(*tput, *busbw)));
            ranks
        };
        assert_eq!(told(&[(1468.06, 1376.31)]).only(), Some(16));
        assert_eq!(told(&[(11.17, 5.58)]).only(), Some(2));
        assert_eq!(told(&[(0.01, 0.01)]).only(), None);
        assert_eq!(told(&[(4.20, 3.94)]).only(), Some(16));
        assert!(!told(&[(4.20, 3.94)]).may_be(8) && told(&[]).may_be(8));
        assert_eq!(told(&[(1468.06, 1376.31), (100.0, 50.0)]).only(), None);
    }
}
