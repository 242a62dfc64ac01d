//! Records of one machine over time: a series for each case, its noise between runs, and the runs at which it changed.
//!
//! Reading records is the caller's part. A [`Run`] keeps of a record what a history needs, so that many fit in memory.

mod differences;
mod facts;
mod matching;
mod run;
mod series;

use std::collections::HashMap;

use stats::{change_points, median, noise_around};

pub use differences::HistoryDifference;
pub use run::{KnownCases, LeftOut, Run, RunCase, without_copies};
pub use series::{Series, SeriesChange, SeriesPoint, StateOfSeries};

/// Seed of the permutations: equal records give equal histories.
const SEED: u64 = 24;

/// The runs of one machine, and what its cases show over them.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The machine, see [`Run::machine_key`].
    pub machine: String,
    /// Runs of the machine, the oldest first, without their cases.
    pub runs: Vec<Run>,
    /// Cases of the machine, in the order in which they first appear.
    pub series: Vec<Series>,
    /// Runs at which cases changed, the oldest first.
    pub changes: Vec<ChangedRun>,
}

/// A run at which cases changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRun {
    /// Index into [`History::runs`].
    pub run: usize,
    /// The run before it that the same cases were in.
    pub before: usize,
    /// The cases that changed, as indices into [`History::series`], and which of their changes it is.
    pub cases: Vec<(usize, usize)>,
    /// What differs between the two runs.
    pub differences: Vec<HistoryDifference>,
}

/// The histories of these runs, one a machine: the one with the most runs first.
pub fn histories(mut runs: Vec<Run>) -> Vec<History> {
    runs.sort_by(|a, b| (a.started, &a.directory).cmp(&(b.started, &b.directory)));
    let mut machines: Vec<(String, Vec<Run>)> = Vec::new();
    for run in runs {
        match machines.iter_mut().find(|(key, _)| *key == run.machine_key) {
            Some((_, runs)) => runs.push(run),
            None => machines.push((run.machine_key.clone(), vec![run])),
        }
    }
    let mut histories: Vec<History> = machines.into_iter().map(|(machine, runs)| history(machine, runs)).collect();
    // Stable: of equally many runs, the machine that was measured first comes first.
    histories.sort_by_key(|history| std::cmp::Reverse(history.runs.len()));
    histories
}

fn history(machine: String, mut runs: Vec<Run>) -> History {
    let mut series = matching::series(&runs);
    let medians: Vec<Vec<(usize, f64)>> =
        series.iter().map(|series| series.points.iter().map(|point| (point.run, point.median_s)).collect()).collect();
    for (series, changes) in series.iter_mut().zip(change_points(&medians, SEED)) {
        let values: Vec<f64> = series.points.iter().map(|point| point.median_s).collect();
        series.noise = noise_around(&values, &changes);
        let mut edges: Vec<usize> = changes.iter().map(|change| change.at).collect();
        // Runs before are not searched, so they belong to no level.
        edges.insert(0, values.len().saturating_sub(stats::MOST_FOR_A_CHANGE));
        edges.push(values.len());
        let change = |(index, change): (usize, &stats::ChangePoint)| SeriesChange {
            at: change.at,
            run: series.points[change.at].run,
            before: series.points[change.at - 1].run,
            ratio: change.ratio,
            results: [change.at - edges[index], edges[index + 2] - change.at],
            level_s: [median(&values[edges[index]..change.at]), median(&values[change.at..edges[index + 2]])],
            p_value: change.p_value,
        };
        series.changes = changes.iter().enumerate().map(change).collect();
    }
    let changes = changed_runs(&runs, &series);
    // Series have them now.
    runs.iter_mut().for_each(|run| run.cases = Vec::new());
    History { machine, runs, series, changes }
}

/// Changes of several cases at one run together.
fn changed_runs(runs: &[Run], series: &[Series]) -> Vec<ChangedRun> {
    let mut places: HashMap<(usize, usize), usize> = HashMap::new();
    let mut changed: Vec<ChangedRun> = Vec::new();
    for (case, series) in series.iter().enumerate() {
        for (number, change) in series.changes.iter().enumerate() {
            let (run, before) = (change.run, change.before);
            let place = *places.entry((run, before)).or_insert_with(|| {
                changed.push(ChangedRun { run, before, cases: Vec::new(), differences: Vec::new() });
                changed.len() - 1
            });
            changed[place].cases.push((case, number));
        }
    }
    for change in &mut changed {
        let keys: Vec<&str> = change.cases.iter().map(|(case, _)| &*series[*case].latest.id).collect();
        change.differences = differences::between(&runs[change.before], &runs[change.run], &keys);
    }
    changed.sort_by_key(|change| (change.run, change.before));
    changed
}

impl History {
    /// The noise between runs over all cases: the median of their bands; None where no case tells one.
    pub fn typical_band(&self) -> Option<f64> {
        let bands: Vec<f64> = self.series.iter().filter_map(|series| series.noise.map(|noise| noise.band())).collect();
        (!bands.is_empty()).then(|| median(&bands))
    }

    /// Whether its times were computed and never measured.
    pub fn simulated(&self) -> bool {
        self.runs.iter().any(|run| run.simulated)
    }
}
