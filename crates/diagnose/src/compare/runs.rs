//! The noise between runs, from equal runs of the same cases.

use std::collections::HashMap;

use record::{CaseLine, Caveat, Record};
use stats::{FEWEST_RUNS, Variance, between_runs, moderated};
use terms::Status;

use super::differs::other_machine;
use super::matching::{Held, declared, identity};
use super::quantity::Quantity;
use super::states::times_alike;

/// The values of one case in equal runs, in the order of their dates.
#[derive(Clone, Debug, Default)]
pub(super) struct EqualRunSeries {
    pub(super) values: Vec<f64>,
    trials: Vec<usize>,
}

impl EqualRunSeries {
    /// The geometric mean of its values; None without any.
    pub(super) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().map(|value| value.ln()).sum();
        (!self.values.is_empty()).then(|| (sum / self.values.len() as f64).exp())
    }

    /// Trials of a run, on average.
    fn trials(&self) -> f64 {
        self.trials.iter().sum::<usize>() as f64 / self.trials.len().max(1) as f64
    }
}

/// The noise of one case between runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// Variance of the logarithm of a run's value: of the base, and of the new side.
    pub(super) variances: [f64; 2],
    /// Degrees of freedom with which the ratio's variance is known.
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
pub(super) fn series(cases: &[Held], records: &[&Record]) -> Vec<EqualRunSeries> {
    let mut found = vec![EqualRunSeries::default(); cases.len()];
    for record in by_date(records) {
        let by_id: HashMap<&str, &CaseLine> = record.cases.iter().map(|line| (line.id.as_str(), line)).collect();
        let mut by_key: Option<HashMap<_, &CaseLine>> = None;
        for (Held { record: own, line: case }, series) in cases.iter().zip(&mut found) {
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
                // Runs that stand in one file of another program: each is a run, and none has trials.
                Some(None) if quantity.is_time() && runs_of_one_file(line) > 1 => {
                    series.values.extend(&line.trial_median_s);
                    series.trials.extend(line.trial_median_s.iter().map(|_| 1));
                    continue;
                }
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

/// A run with more than so many times the trials of another scatters less than that does.
const MOST_TRIALS: usize = 2;

/// The median times that earlier runs of these cases of `own` show, by date: on the same hardware, in the state of the machine
/// in which the line has its time, and with at most twice its trials. None of a case that is compared by something else.
pub fn equal_medians(own: &Record, lines: &[&CaseLine], earlier: &[&Record]) -> Vec<Vec<f64>> {
    let is_equal = |record: &&&Record| !record.file.simulated && !other_machine(&own.file, &record.file);
    let earlier: Vec<&Record> = earlier.iter().filter(is_equal).copied().collect();
    let held: Vec<Held> = lines.iter().map(|line| Held { record: own, line }).collect();
    let of_case = |(line, series): (&&CaseLine, EqualRunSeries)| {
        if !Quantity::from_declared(declared(own, line)).is_time() {
            return Vec::new();
        }
        let most = MOST_TRIALS * line.trial_median_s.len();
        let runs = series.values.into_iter().zip(series.trials);
        runs.filter(|(_, trials)| *trials <= most).map(|(value, _)| value).collect()
    };
    lines.iter().zip(series(&held, &earlier)).map(of_case).collect()
}

/// Runs of another program that one file holds and that are the trials of this line; 0 for any other line.
pub(super) fn runs_of_one_file(line: &CaseLine) -> usize {
    if line.caveats.contains(&Caveat::Imported) { line.trial_median_s.len() } else { 0 }
}

/// What is not known.
const UNKNOWN: Variance = Variance { value: 0.0, degrees: 0.0 };

/// The noise of each series of a history; None where it has too few runs.
pub(super) fn of_history(series: &[EqualRunSeries]) -> Vec<Option<Noise>> {
    let variance = |series: &EqualRunSeries| {
        let between = between_runs(&series.values);
        between.map_or(UNKNOWN, |between| Variance { value: between.sd_log.powi(2), degrees: between.degrees })
    };
    let own: Vec<Variance> = series.iter().map(variance).collect();
    let known = series.iter().zip(moderated(&own));
    known.map(|(series, variance)| one_level(variance, series.values.len(), series)).collect()
}

fn one_level(Variance { value, degrees }: Variance, runs: usize, series: &EqualRunSeries) -> Option<Noise> {
    (value > 0.0).then(|| Noise { variances: [value; 2], degrees, runs, trials: series.trials() })
}

/// The noise of each case between the runs of a base and of a new side, which are equal by claim; None where both together
/// have too few. Where both have enough, each has its own (Welch, Biometrika 34, 1947); else they share one.
pub(super) fn of_sides(bases: &[EqualRunSeries], news: &[EqualRunSeries]) -> Vec<Option<Noise>> {
    let sides: [Vec<Variance>; 2] = [bases, news].map(|side| side.iter().map(scatter).collect());
    let shared: Vec<Variance> = (0..bases.len())
        .map(|at| {
            let both = [sides[0][at], sides[1][at]];
            let spare = bases[at].values.len().saturating_sub(1) + news[at].values.len().saturating_sub(1);
            if spare < FEWEST_RUNS - 1 { UNKNOWN } else { pooled(both) }
        })
        .collect();
    let shared = with_equal_values(moderated(&shared));
    let own = sides.map(|side| with_equal_values(moderated(&side)));
    (0..bases.len())
        .map(|at| {
            let (base, new) = (&bases[at], &news[at]);
            let runs = [base, new].map(|side| side.values.len());
            let counted = runs.into_iter().filter(|runs| *runs > 1).sum();
            let noise = one_level(shared[at], counted, if runs[0] > 1 { base } else { new })?;
            if runs.into_iter().any(|runs| runs < FEWEST_RUNS) {
                return Some(noise);
            }
            let variances = [own[0][at].value, own[1][at].value];
            let parts = [0, 1].map(|side| variances[side] / runs[side] as f64);
            let uncertainty: f64 =
                [0, 1].iter().map(|side| parts[*side].powi(2) / own[*side][at].degrees.max(1.0)).sum();
            Some(Noise { variances, degrees: (parts[0] + parts[1]).powi(2) / uncertainty, ..noise })
        })
        .collect()
}

/// How the runs of one side scatter. They are one level by claim, so what they scatter around their mean counts where that is
/// more than what neighbours differ by.
fn scatter(series: &EqualRunSeries) -> Variance {
    let logs: Vec<f64> = series.values.iter().map(|value| value.ln()).collect();
    let Some(around) = stats::standard_deviation(&logs).filter(|around| around.is_finite()) else { return UNKNOWN };
    match between_runs(&series.values) {
        Some(between) => Variance { value: between.sd_log.max(around).powi(2), degrees: between.degrees },
        None => Variance { value: around.powi(2), degrees: logs.len().saturating_sub(1) as f64 },
    }
}

fn pooled(both: [Variance; 2]) -> Variance {
    let degrees: f64 = both.iter().map(|one| one.degrees).sum();
    let sum: f64 = both.iter().map(|one| one.value * one.degrees).sum();
    if degrees > 0.0 { Variance { value: sum / degrees, degrees } } else { UNKNOWN }
}

/// Cases whose runs all printed the same digits have the noise of the median case: theirs is below what was printed.
fn with_equal_values(mut variances: Vec<Variance>) -> Vec<Variance> {
    let known: Vec<f64> = variances.iter().map(|one| one.value).filter(|value| *value > 0.0).collect();
    if !known.is_empty() {
        let common = stats::median(&known);
        variances.iter_mut().filter(|one| one.value == 0.0 && one.degrees > 0.0).for_each(|one| one.value = common);
    }
    variances
}
