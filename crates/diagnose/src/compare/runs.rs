//! The noise between runs, from equal runs of the same cases.

use std::collections::HashMap;

use record::{CaseLine, Record};
use stats::{Variance, between_runs, moderated};
use terms::Status;

use super::matching::{declared, identity};
use super::quantity::Quantity;
use super::states::times_alike;

/// The values of one case in equal runs, in the order of their dates.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub(super) values: Vec<f64>,
    trials: Vec<usize>,
}

impl Series {
    /// Trials of a run, on average.
    fn trials(&self) -> f64 {
        self.trials.iter().sum::<usize>() as f64 / self.trials.len().max(1) as f64
    }
}

/// The noise of one case between runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Variance of the logarithm of a run's value.
    pub(super) variance: f64,
    pub(super) degrees: f64,
    /// Runs that tell it.
    pub(super) runs: usize,
    /// Trials of such a run, on average.
    pub(super) trials: f64,
}

/// Records by date: UTC in RFC 3339 sorts as text.
pub(super) fn by_date<'r>(records: &[&'r Record]) -> Vec<&'r Record> {
    let mut ordered = records.to_vec();
    ordered.sort_by(|a, b| a.file.started.cmp(&b.file.started));
    ordered
}

/// The series of these cases over records, each where a record has it measured and right.
pub(super) fn series(cases: &[&CaseLine], own: &Record, records: &[&Record]) -> Vec<Series> {
    let mut found = vec![Series::default(); cases.len()];
    for record in by_date(records) {
        let by_id: HashMap<&str, &CaseLine> = record.cases.iter().map(|line| (line.id.as_str(), line)).collect();
        let mut by_key: Option<HashMap<_, &CaseLine>> = None;
        for (case, series) in cases.iter().zip(&mut found) {
            let line = by_id.get(case.id.as_str()).copied().or_else(|| {
                let keys = by_key.get_or_insert_with(|| {
                    let key = |line| identity(line, declared(record, line), declared(own, line));
                    record.cases.iter().map(|line| (key(line), line)).collect()
                });
                keys.get(&identity(case, declared(own, case), declared(record, case))).copied()
            });
            let quantity = Quantity::from_declared(declared(own, case));
            let usable = |line: &&CaseLine| line.status == Status::Ok && line.wrong.unwrap_or(0) == 0;
            let Some(line) = line.filter(usable) else { continue };
            // Of a machine with several states, the times in that of the case.
            let alike = if quantity.is_time() { times_alike(own, case, record, line) } else { Some(None) };
            let (value, trials) = match alike {
                Some(None) => (quantity.value(line), line.trial_median_s.len()),
                Some(Some(times)) => (Some(times.median_s), times.trials as usize),
                None => continue,
            };
            let Some(value) = value else { continue };
            series.values.push(value);
            series.trials.push(trials.max(1));
        }
    }
    found
}

/// The noise of each series; None where it has too few runs. `plain`: the series is one level by claim (a baseline), so what
/// its values scatter around their mean counts where that is more.
pub(super) fn noise(series: &[Series], plain: bool) -> Vec<Option<Noise>> {
    let own: Vec<Variance> = series
        .iter()
        .map(|series| {
            let Some(between) = between_runs(&series.values) else { return Variance { value: 0.0, degrees: 0.0 } };
            let logs: Vec<f64> = series.values.iter().map(|value| value.ln()).collect();
            let around = stats::standard_deviation(&logs).filter(|_| plain).unwrap_or(0.0);
            Variance { value: between.sd_log.max(around).powi(2), degrees: between.degrees }
        })
        .collect();
    let variances = moderated(&own);
    let with = |(series, variance): (&Series, &Variance)| {
        (variance.value > 0.0).then(|| Noise {
            variance: variance.value,
            degrees: variance.degrees,
            runs: series.values.len(),
            trials: series.trials(),
        })
    };
    series.iter().zip(&variances).map(with).collect()
}
