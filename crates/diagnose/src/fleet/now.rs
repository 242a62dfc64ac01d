//! What nodes are now: of several runs of a node, those since it last changed.
//!
//! Newest first: runs are taken back in time as long as they agree with those that are taken already, within what runs of nodes
//! that did not change differ by. So a node that was repaired is judged by what it is since, and one that became slow is not
//! hidden by what it was.

use jiff::Timestamp;
use stats::{LEAST_DEFICIT, Member, median};

use super::evidence::{Evidence, halves};
use super::taken::Measured;

/// Runs that follow each other, over all nodes, that tell how much runs differ. Fewer do not tell a change from noise.
const FEWEST_STEPS: usize = 8;
/// A run agrees within so many deviations of the difference.
const AGREES: f64 = 4.0;
/// Runs are taken to differ by at least this, on logarithms.
const LEAST_DEVIATION: f64 = 0.002;

/// A run of a node, with what it took for one kind of work.
#[derive(Clone, Debug)]
pub(super) struct TimedRun {
    pub(super) started: Option<Timestamp>,
    pub(super) measured: Measured,
}

impl TimedRun {
    fn value(&self) -> f64 {
        self.measured.median_s.ln()
    }
}

/// By how much runs of a node that does not change differ, from runs that follow each other; None where they are too few.
pub(super) fn between_runs<'r>(nodes: impl Iterator<Item = &'r [TimedRun]>) -> Option<f64> {
    let mut steps: Vec<f64> = Vec::new();
    for runs in nodes {
        steps.extend(
            runs.windows(2)
                .filter(|pair| is_later(&pair[1], &pair[0]))
                .map(|pair| (pair[1].value() - pair[0].value()).abs()),
        );
    }
    // The difference of two runs has twice the variance of a run; 0.6745 is the third quartile of the normal law.
    (steps.len() >= FEWEST_STEPS).then(|| (median(&steps) / (0.6745 * std::f64::consts::SQRT_2)).max(LEAST_DEVIATION))
}

fn is_later(run: &TimedRun, other: &TimedRun) -> bool {
    run.started.zip(other.started).is_some_and(|(run, other)| run > other)
}

/// The place of the first run that still holds, of runs in the order of time.
fn begin(runs: &[TimedRun], deviation: Option<f64>) -> usize {
    let Some(deviation) = deviation else { return 0 };
    let mut first = runs.len() - 1;
    while first > 0 {
        let taken = &runs[first..];
        let mean = taken.iter().map(TimedRun::value).sum::<f64>() / taken.len() as f64;
        let most = (AGREES * deviation * (1.0 + 1.0 / taken.len() as f64).sqrt()).max(LEAST_DEFICIT.ln_1p());
        let earlier = &runs[first - 1];
        if is_later(&runs[first], earlier) && (earlier.value() - mean).abs() > most {
            break;
        }
        first -= 1;
    }
    first
}

/// A change of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// The day of its first run after it.
    pub(super) since: String,
    /// How many times as long it takes as just before.
    pub(super) ratio: f64,
}

/// What a node shows now, from its runs in the order of time, and how it came to be so.
pub(super) fn now(runs: &[TimedRun], deviation: Option<f64>) -> (Evidence, Option<Change>) {
    let first = begin(runs, deviation);
    let current = &runs[first..];
    let change = first.checked_sub(1).map(|before| {
        let value = median(&current.iter().map(TimedRun::value).collect::<Vec<_>>());
        let since = current[0].started.map(|started| started.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
        Change { since, ratio: (value - runs[before].value()).exp() }
    });
    // Runs that nothing disturbed, where there are any.
    let quiet: Vec<&Measured> =
        current.iter().map(|run| &run.measured).filter(|measured| !measured.disturbed).collect();
    let disturbed = quiet.is_empty();
    let taken = if disturbed { current.iter().map(|run| &run.measured).collect() } else { quiet };
    let since = change.as_ref().map(|change| change.since.clone());
    let logs: Vec<f64> =
        taken.iter().flat_map(|measured| measured.trials.iter().map(|(_, trial)| trial.ln())).collect();
    let rounds = taken.iter().map(|measured| rounds(measured)).sum();
    let member = member(&taken, deviation);
    (Evidence { member, rounds, halves: halves(&logs), disturbed, since }, change)
}

/// Trials in different rounds.
fn rounds(measured: &Measured) -> usize {
    let mut rounds: Vec<u32> = measured.trials.iter().map(|(round, _)| *round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.len()
}

/// The mean of the runs, whose variance is the largest of what trials, runs, and runs of all nodes tell.
fn member(taken: &[&Measured], deviation: Option<f64>) -> Member {
    let number = taken.len() as f64;
    let of_trials = |measured: &&Measured| {
        let trials: Vec<f64> = measured.trials.iter().map(|(_, trial)| *trial).collect();
        if trials.is_empty() {
            Member { value: 0.0, variance: 0.0, degrees: 0.0 }
        } else {
            Member::from_trials(&trials)
        }
    };
    let members: Vec<Member> = taken.iter().map(of_trials).collect();
    let values: Vec<f64> = taken.iter().map(|measured| measured.median_s.ln()).collect();
    let own = members.iter().map(|member| member.variance).sum::<f64>() / number;
    let between = stats::standard_deviation(&values).map_or(0.0, |deviation| deviation.powi(2));
    let of_runs = deviation.map_or(0.0, |deviation| deviation.powi(2));
    let own_degrees = members.iter().map(|member| member.degrees).sum::<f64>();
    let degrees = if between > own { number - 1.0 } else { own_degrees };
    Member { value: values.iter().sum::<f64>() / number, variance: own.max(between).max(of_runs) / number, degrees }
}
