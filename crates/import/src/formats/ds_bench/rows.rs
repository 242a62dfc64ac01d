//! Heads and rows of the tables.

use terms::Error;

use super::super::deepspeed_tables::{PrintedSize, decimals};
use super::super::nccl::plain;
use super::super::row_like::{self, WordCount};
use super::super::versions::unknown_column;
use crate::Source;

/// What the columns of a table mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// `--raw`: sizes in bytes and durations in us, without units.
    pub(super) raw: bool,
    /// Gb/s or GB/s of 1e9.
    pub(super) bits: bool,
}

/// What a row says.
pub(super) struct DsBenchRow {
    pub(super) elements: u64,
    pub(super) element: u64,
    pub(super) bytes: u64,
    pub(super) time_s: f64,
    /// Half of the last digit of the duration, as a share.
    pub(super) time_within: f64,
    pub(super) busbw: f64,
}

/// The units of a head.
pub(super) fn units(source: &Source, line: usize, text: &str) -> Result<Units, Error> {
    let head = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    for raw in [false, true] {
        for (bits, unit) in [(true, "Gbps"), (false, "GBps")] {
            let duration = if raw { "Duration (us)" } else { "Duration" };
            let whole = format!("Size (Bytes) Description {duration} Throughput ({unit}) BusBW ({unit})");
            if head == whole {
                return Ok(Units { raw, bits });
            }
            if whole.starts_with(&head) && head != "Size (Bytes)" {
                let what = "the head of the table is cut: its last column is `BusBW (Gbps)` or `BusBW (GBps)`";
                return Err(source.error(line, what).hint("print it again with wider lines, or into a file"));
            }
        }
    }
    let known = "Size (Bytes), Description, Duration, Duration (us), Throughput and BusBW, both in Gbps or GBps";
    let odd = head.trim_start_matches("Size (Bytes)").trim_start().trim_start_matches("Description").trim();
    Err(unknown_column(source, line, "ds_bench, which names no version,", odd, known))
}

/// `1048576x4`.
pub(super) fn is_description(word: &str) -> bool {
    word.split_once('x').is_some_and(|(elements, element)| {
        let is_whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_whole(elements) && is_whole(element)
    })
}

/// Whether a row may stand behind a prefix that is not that of the table.
pub(super) fn is_row_within(text: &str) -> bool {
    text.split_ascii_whitespace().any(is_description) && WordCount::count(text).numbers >= 3
}

/// Whether a line of a table is hardly anything but a row.
pub(super) fn is_row(text: &str) -> bool {
    text.split_ascii_whitespace().take(3).any(is_description)
        || (row_like::begins_with_number(text) && !row_like::is_heading(text) && WordCount::count(text).may_be(5))
}

/// `31.67 GB  8501054668x4  3176.620 ms  171.272  149.863`, or `4194304  1048576x4  172.352  48.671  36.504` of
/// `--raw`.
pub(super) fn row(text: &str, units: Units) -> Result<DsBenchRow, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (size, rest) = match units.raw {
        false => PrintedSize::parse(&words).map(|(size, rest)| (Some(size), rest))?,
        true => (None, words.get(1..).unwrap_or_default()),
    };
    let (description, duration, unit, tput, busbw) = match (units.raw, rest) {
        (false, &[description, duration, unit, tput, busbw]) => (description, duration, unit, tput, busbw),
        (true, &[description, duration, tput, busbw]) => (description, duration, "us", tput, busbw),
        (raw, rest) => {
            let expected = if raw { 4 } else { 5 };
            return Err(format!("expected {expected} words behind the size, found {}", rest.len()));
        }
    };
    let parts = description.split_once('x').and_then(|(elements, element)| {
        let (elements, element): (u64, u64) = (elements.parse().ok()?, element.parse().ok()?);
        Some((elements, element, elements.checked_mul(element).filter(|bytes| *bytes > 0)?))
    });
    let wrong = || format!("expected elements x bytes of one, such as `1048576x4`, found `{}`", plain(description));
    let (elements, element, bytes) = parts.ok_or_else(wrong)?;
    let is_that = match size {
        Some(size) => size.bytes.abs_diff(bytes) as f64 <= size.within() + 1.0,
        None => words[0].parse() == Ok(bytes),
    };
    if !is_that {
        return Err(format!("the size is not that of `{}`, which has {bytes} bytes", plain(description)));
    }
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        _ => return Err(format!("expected a duration in us or ms, found `{}`", plain(unit))),
    };
    let printed = decimals(duration, 3)?;
    if printed <= 0.0 {
        return Err(format!("a duration of {duration} {unit} is not a time"));
    }
    decimals(tput, 3)?;
    let busbw = decimals(busbw, 3)?;
    Ok(DsBenchRow { elements, element, bytes, time_s: printed * unit_s, time_within: 0.0005 / printed, busbw })
}
