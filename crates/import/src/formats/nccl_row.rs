//! A row of the table of nccl-tests, and lines that are parts of one.

use super::nccl::{Half, Printed, RawLine, plain};
use super::row_like::WordCount;
use crate::numbers;

/// What a column holds; 0 is out of place, 1 in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NcclColumn {
    Bytes,
    Count,
    Type,
    Reduction,
    Root,
    Time(usize),
    Algbw(usize),
    Busbw(usize),
    /// Wrong elements.
    Wrong(usize),
    /// The largest difference, in versions before 2.13.
    Difference(usize),
    /// Elements that a repeated run computed with other bits, since 2.20.
    BitDifference(usize),
    Min(usize),
    Max(usize),
    P99(usize),
    Variation,
    /// Two words: date and time.
    Timestamp,
}

/// Columns that become no figure, and why.
pub(super) const UNREAD: &[(NcclColumn, &str)] = &[
    (
        NcclColumn::Difference(0),
        "the column `error`: it is the largest difference, and the record counts wrong elements",
    ),
    (
        NcclColumn::BitDifference(0),
        "the column `#bitdiff`: it counts results that differ from run to run, and the record counts wrong ones",
    ),
    (NcclColumn::Variation, "the column `i_cv%`: the record has no coefficient of variation"),
    (NcclColumn::Timestamp, "the column `timestamp`: the record has the times of the first and the last row"),
];

/// Whether a line that is not a row looks like a part of one.
pub(super) fn is_damaged(text: &str) -> bool {
    let words = WordCount::count(text);
    // NCCL's own lines list numbers, too.
    (words.are_a_row() && !text.contains(" NCCL ")) || (words.numbers > 0 && has_type(text))
}

/// Whether an element type is among the words.
pub(super) fn has_type(text: &str) -> bool {
    text.split_ascii_whitespace().any(|word| crate::collective::dtype(word).is_some() || OTHER_TYPES.contains(&word))
}

/// Element types that the record lacks.
const OTHER_TYPES: &[&str] = &["uint32", "uint64", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"];

/// Reads a line of the table.
pub(super) fn row<'s>(columns: &[NcclColumn], words: &[&'s str], line: usize) -> Result<RawLine<'s>, String> {
    const NONE: Printed = Printed { value: f64::NAN, within: 0.0 };
    let empty = Half { time_us: NONE, algbw: NONE, busbw: NONE, wrong: None, spread_us: None };
    let mut halves = [empty; 2];
    let mut raw = RawLine {
        line,
        bytes: 0,
        dtype: "",
        reduction: None,
        root: None,
        halves: [None; 2],
        processes: Default::default(),
    };
    for (column, word) in columns.iter().zip(words) {
        let word = *word;
        let number =
            |what: &str| Printed::parse(word).ok_or_else(|| format!("expected {what}, {}", numbers::found(word)));
        let mut spread = |half: usize, at: usize| {
            let us = number("a time")?.value;
            halves[half].spread_us.get_or_insert([f64::NAN; 7])[at] = us;
            Ok::<(), String>(())
        };
        match *column {
            NcclColumn::Bytes => {
                raw.bytes = word.parse().map_err(|_| format!("expected a size, found `{}`", plain(word)))?
            }
            NcclColumn::Type => raw.dtype = word,
            NcclColumn::Reduction => raw.reduction = Some(word).filter(|word| !matches!(*word, "none" | "-" | "N/A")),
            NcclColumn::Root => {
                raw.root = Some(word.parse().map_err(|_| format!("expected a root, found `{}`", plain(word)))?);
            }
            NcclColumn::Time(half) => halves[half].time_us = number("a time")?,
            NcclColumn::Algbw(half) => halves[half].algbw = number("a bandwidth")?,
            NcclColumn::Busbw(half) => halves[half].busbw = number("a bandwidth")?,
            NcclColumn::Wrong(half) if word != "N/A" => {
                let count = word.trim_end_matches('*').parse::<f64>().ok();
                let count = count.filter(|count| *count >= 0.0);
                let none = || format!("expected a count of wrong elements, found `{}`", plain(word));
                halves[half].wrong = Some(count.ok_or_else(none)? as u64);
            }
            NcclColumn::Min(half) => spread(half, 0)?,
            NcclColumn::Max(half) => spread(half, 1)?,
            NcclColumn::P99(half) => spread(half, 2)?,
            NcclColumn::Count
            | NcclColumn::Wrong(_)
            | NcclColumn::Difference(_)
            | NcclColumn::BitDifference(_)
            | NcclColumn::Variation
            | NcclColumn::Timestamp => {}
        }
    }
    raw.halves[0] = Some(halves[0]);
    raw.halves[1] = columns.contains(&NcclColumn::Time(1)).then_some(halves[1]);
    Ok(raw)
}
