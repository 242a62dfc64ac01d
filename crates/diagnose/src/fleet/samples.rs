//! What each rank took in each trial, from the samples of a record.

use std::cell::RefCell;
use std::path::Path;

use record::{CaseLine, CaseSamples, Record, SampleLines};

use super::RankTrial;

/// The samples of a record of several hosts; of one host its case lines tell.
pub struct Samples(Option<RefCell<SampleLines>>);

impl Samples {
    /// Opens them. A record without samples, or with damaged ones, has no trials of ranks: its nodes cannot be told.
    pub fn of(directory: &Path, record: &Record) -> Self {
        let several = !record.file.hosts.is_empty();
        Self(several.then(|| record::read_samples(directory, &record.file.id).ok()).flatten().map(RefCell::new))
    }

    /// What each rank took in each trial of a case.
    pub fn rank_trials(&self, line: &CaseLine) -> Option<Vec<RankTrial>> {
        let trials = self.0.as_ref()?.borrow_mut().of_case(&line.id).ok()?;
        Some(trials.iter().map(|trial| rank_trial(trial, line.ranks as usize)).collect())
    }
}

fn rank_trial(trial: &CaseSamples, ranks: usize) -> RankTrial {
    let calls = trial.calls.max(1) as f64;
    let median = |ns: &Vec<u64>| {
        let seconds: Vec<f64> = ns.iter().map(|ns| *ns as f64 / 1e9 / calls).collect();
        if seconds.is_empty() { f64::NAN } else { stats::median(&seconds) }
    };
    let rows: Vec<f64> = trial.ns.iter().map(median).collect();
    let seconds = match trial.rows.as_slice() {
        [] => rows,
        shared => shared
            .iter()
            .flat_map(|[row, ranks]| {
                std::iter::repeat_n(rows.get(*row as usize).copied().unwrap_or(f64::NAN), *ranks as usize)
            })
            .take(ranks)
            .collect(),
    };
    RankTrial { round: trial.round, seconds }
}
