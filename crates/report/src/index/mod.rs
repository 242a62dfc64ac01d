//! The index page of a folder of records: its runs, and a series for each case with the runs at which it changed. One HTML
//! file that loads nothing and runs no script; the same content gives the same bytes.
//!
//! What stands on it is decided by the caller, who reads the records; how it looks is decided here.

mod chart;
mod page;
mod style;

pub(crate) use style::CSS;

use std::path::Path;

use crate::Error;
use crate::formats::write::put_at;

/// The page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// What stands on top (`results`).
    pub title: String,
    /// What the records say, in one sentence.
    pub summary: String,
    /// A part for each machine.
    pub machines: Vec<IndexMachine>,
    /// Records that are left out: where, and why.
    pub left_out: Vec<[String; 2]>,
}

/// The runs of one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexMachine {
    /// The machine in a line.
    pub name: String,
    /// A warning: simulated times.
    pub banner: Option<String>,
    /// The runs, the oldest first.
    pub runs: Vec<IndexRun>,
    /// The cases.
    pub cases: Vec<IndexCase>,
    /// Runs at which cases changed.
    pub changes: Vec<IndexChange>,
    /// How much equal runs differ, in a sentence; empty where that is not known.
    pub noise: String,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexRun {
    /// When it began.
    pub date: String,
    /// What the user calls it, else the plan's name.
    pub name: String,
    /// Tags of the run.
    pub tags: String,
    /// The plan's name.
    pub plan: String,
    /// Cases that are ok, failed, skipped, and without a result.
    pub counts: [usize; 4],
    /// What to know of its record: damaged lines.
    pub note: String,
    /// The path of its report from the page's folder; None where there is none.
    pub link: Option<String>,
    /// The path of its record.
    pub directory: String,
}

/// One case over the runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexCase {
    /// The case in a few words.
    pub label: String,
    /// Results of the case, the oldest first.
    pub points: Vec<IndexPoint>,
    /// By how much equal runs differ, as text; empty where that is not known.
    pub noise: String,
    /// Where it changed.
    pub changes: Vec<IndexMark>,
}

/// One result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IndexPoint {
    /// The run, as an index into [`IndexMachine::runs`].
    pub run: usize,
    /// Median time in seconds.
    pub median_s: f64,
    /// 95% interval of the median.
    pub ci95: Option<[f64; 2]>,
}

/// A change of one case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IndexMark {
    /// Index into [`IndexCase::points`] of the first result after it.
    pub at: usize,
    /// Time after it over time before it.
    pub ratio: f64,
}

/// A run at which cases changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexChange {
    /// Index into [`IndexMachine::runs`].
    pub run: usize,
    /// A line for each case that changed.
    pub cases: Vec<String>,
    /// Whether all of them became faster.
    pub better: bool,
    /// What else differs between that run and the one before.
    pub differences: Vec<String>,
}

/// The page as HTML.
pub fn index(index: &Index) -> String {
    page::page(index).into_string()
}

/// Writes the page to a file that the user names.
///
/// # Errors
/// When it cannot be written.
pub fn write_index(index: &Index, file: &Path) -> Result<(), Error> {
    put_at(file, &page::page(index).into_bytes())
}
