//! Tables of the OSU Micro-Benchmarks: their columns, and the figures of a row.
//!
//! `osu_util.c` and `osu_util_mpi.c` of its folder `c/util` write them (`print_header`, `print_only_header`,
//! `print_only_header_nbc`, `print_stats`, `print_stats_nbc`), and each program its rows of bandwidths.

use terms::Error;

use super::nccl::plain;
use super::versions::unknown_column;
use crate::{Details, Figures, Source, numbers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OsuColumn {
    Bytes,
    /// Average of a call, or of a non-blocking one and its wait without computation.
    Average,
    Min,
    Max,
    P50,
    P90,
    P99,
    Iterations,
    Validation,
    /// In 1e6 bytes a second.
    Bandwidth,
    /// In percent.
    Overlap,
    /// Times of a call that overlaps with computation, and percentiles of bandwidths.
    Unread,
}

const KNOWN: &str = "Size, Avg Latency(us), Latency (us), Min Latency(us), Max Latency(us), P50/P90/P99 Tail Lat(us), \
                     Iterations, Validation, Bandwidth (MB/s), Overall(us), Compute(us), Coll. Init(us), MPI_Test(us), \
                     MPI_Wait(us), Pure Comm.(us), Min Comm.(us), Max Comm.(us), Overlap(%)";

/// Whether a line behind its `#` is the header of a table.
pub(super) fn is_header(bare: &str) -> bool {
    // A sentence above tables of non-blocking calls begins with `Overall =`.
    ["Size ", "Avg Latency", "Overall(us)", "Bandwidth (MB/s)"].iter().any(|name| bare.starts_with(name))
}

/// Columns by a header: `Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations`.
///
/// # Errors
/// When a column is unknown, or the time or the bandwidth is missing.
pub(super) fn columns(source: &Source, number: usize, tool: &str, bare: &str) -> Result<Vec<OsuColumn>, Error> {
    let mut columns = Vec::new();
    let mut name = String::new();
    for word in bare.split_ascii_whitespace() {
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(word);
        if let Some(column) = column(&name) {
            columns.push(column);
            name.clear();
        }
    }
    // `-f` adds both.
    if columns.contains(&OsuColumn::Min) && !columns.contains(&OsuColumn::Max) {
        return Err(source.error(number, "the table's header is cut off: the smallest and the largest stand together"));
    }
    let measures = columns.contains(&OsuColumn::Average) || columns.contains(&OsuColumn::Bandwidth);
    match name.is_empty() && measures {
        true => Ok(columns),
        false => Err(unknown_column(source, number, tool, &name, KNOWN)),
    }
}

fn column(name: &str) -> Option<OsuColumn> {
    Some(match name {
        "Size" => OsuColumn::Bytes,
        "Avg Latency(us)" | "Avg Latency (us)" | "Latency (us)" | "Latency(us)" | "Pure Comm.(us)" => {
            OsuColumn::Average
        }
        "Min Latency(us)" | "Min Comm.(us)" => OsuColumn::Min,
        "Max Latency(us)" | "Max Comm.(us)" => OsuColumn::Max,
        "P50 Tail Lat(us)" => OsuColumn::P50,
        "P99 Tail Lat(us)" => OsuColumn::P99,
        "P90 Tail Lat(us)" => OsuColumn::P90,
        "Iterations" => OsuColumn::Iterations,
        "Validation" => OsuColumn::Validation,
        "Bandwidth (MB/s)" | "Bi-Bandwidth (MB/s)" => OsuColumn::Bandwidth,
        "Overlap(%)" => OsuColumn::Overlap,
        "Overall(us)" | "Compute(us)" | "Coll. Init(us)" | "MPI_Test(us)" | "MPI_Wait(us)" => OsuColumn::Unread,
        "P50 Tail BW(MB/s)" | "P90 Tail BW(MB/s)" | "P99 Tail BW(MB/s)" => OsuColumn::Unread,
        _ => return None,
    })
}

/// What is said of columns that no case has.
pub(super) fn unread(columns: &[OsuColumn]) -> Vec<&'static str> {
    let has = |column: OsuColumn| columns.contains(&column);
    let mut said = Vec::new();
    if has(OsuColumn::P90) {
        said.push("the column `P90 Tail Lat(us)`: the record has the percentiles 5, 50, 95, 99");
    }
    if has(OsuColumn::Unread) && has(OsuColumn::Bandwidth) {
        said.push("the columns of the `Tail BW(MB/s)`: the record has no percentiles of bandwidths");
    } else if has(OsuColumn::Unread) {
        said.push(
            "the columns `Overall(us)`, `Compute(us)` and their parts: a case has the time of the communication alone",
        );
    }
    said
}

/// What a row says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OsuRow {
    pub(super) bytes: u64,
    /// Without a time where the table has bandwidths.
    pub(super) figures: Figures,
    /// In bytes a second.
    pub(super) bandwidth: Option<f64>,
    /// How much of a call overlaps with computation, in percent.
    pub(super) overlap: Option<f64>,
}

/// The figures of a line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn row(columns: &[OsuColumn], text: &str) -> Result<OsuRow, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.len() != columns.len() {
        return Err(format!("expected {} columns, found {}", columns.len(), words.len()));
    }
    let (mut row, mut details) = (OsuRow::default(), Details::default());
    for (column, word) in columns.iter().zip(words) {
        let seconds = || time(word, 1e-6);
        match column {
            OsuColumn::Bytes => row.bytes = whole(word)?,
            OsuColumn::Average => row.figures.time_s = seconds()?,
            OsuColumn::Min => details.min = Some(seconds()?),
            OsuColumn::Max => details.max = Some(seconds()?),
            OsuColumn::P50 => details.p50 = Some(seconds()?),
            OsuColumn::P99 => details.p99 = Some(seconds()?),
            OsuColumn::Iterations => row.figures.iterations = Some(whole(word)?),
            OsuColumn::Validation if word == "Pass" => row.figures.wrong = Some(0),
            OsuColumn::Validation if word == "Fail" => return Err("its own check failed".to_owned()),
            OsuColumn::Bandwidth => row.bandwidth = Some(positive(word, "a bandwidth")? * 1e6),
            OsuColumn::Overlap => row.overlap = Some(percent(word)?),
            OsuColumn::Validation | OsuColumn::P90 | OsuColumn::Unread => {}
        }
    }
    if details != Details::default() {
        row.figures.details = Some(Box::new(details));
    }
    Ok(row)
}

/// A time in units of so many seconds.
pub(super) fn time(word: &str, unit: f64) -> Result<f64, String> {
    Ok(positive(word, "a time")? * unit)
}

/// A share in percent.
pub(super) fn percent(word: &str) -> Result<f64, String> {
    let value = numbers::plain(word).map_err(|why| format!("expected percent, {}", why.found(word)))?;
    let is_share = (0.0..=100.0).contains(&value);
    is_share.then_some(value).ok_or_else(|| format!("expected 0 to 100 percent, found `{}`", plain(word)))
}

/// A whole number.
pub(super) fn whole(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("expected a whole number, found `{}`", plain(word)))
}

fn positive(word: &str, what: &str) -> Result<f64, String> {
    let value = numbers::plain(word).map_err(|why| format!("expected {what}, {}", why.found(word)))?;
    let is_one = value > 0.0;
    is_one.then_some(value).ok_or_else(|| format!("expected {what}, found `{}`", plain(word)))
}
