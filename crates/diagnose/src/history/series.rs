//! One case over the runs of a machine.

use stats::{BetweenRuns, median};

use super::RunCase;

/// One case over the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The case as the latest run has it.
    pub latest: RunCase,
    /// The state of the machine that its results are of, where the machine is known to have several.
    pub state: Option<StateOfSeries>,
    /// Results of the case, the oldest first.
    pub points: Vec<SeriesPoint>,
    /// The noise between runs, around the levels that changes separate; None below five runs.
    pub noise: Option<BetweenRuns>,
    /// Where it changed.
    pub changes: Vec<SeriesChange>,
}

/// Which state of a machine with several a series is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StateOfSeries {
    /// The one of this name.
    Named(String),
    /// Nobody knows which: canaries did not look, or saw what no other run saw.
    Unknown,
}

impl std::fmt::Display for StateOfSeries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("state not known"),
        }
    }
}

/// One result of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// The run, as an index into [`super::History::runs`].
    pub run: usize,
    /// Median time in seconds.
    pub median_s: f64,
    /// 95% interval over that run's own span.
    pub ci95: Option<[f64; 2]>,
    /// The interval that is shown: of an equal run, where that is known.
    pub printed: Option<[f64; 2]>,
}

/// A change of one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesChange {
    /// Index into [`Series::points`] of the first result after it.
    pub at: usize,
    /// The run of that result.
    pub run: usize,
    /// The run of the result before.
    pub before: usize,
    /// Time after it over time before it.
    pub ratio: f64,
    /// Results of the levels before and after it.
    pub results: [usize; 2],
    /// Median times of the levels before and after it.
    pub level_s: [f64; 2],
    /// The chance of such a change anywhere, in any case of this history, if all runs were equal.
    pub p_value: f64,
}

impl Series {
    /// The median of its medians.
    pub fn median_s(&self) -> f64 {
        let values: Vec<f64> = self.points.iter().map(|point| point.median_s).collect();
        if values.is_empty() { 0.0 } else { median(&values) }
    }
}
