//! Estimates of how long a run takes: its wall time before it begins, and what is left of it after each round.

use std::collections::{BTreeMap, BTreeSet};

use benchmarks::TrialCost;
use measure::Settings;
use record::{Case, Plan};
use serde_json::Value;

/// Seconds of the program itself: its start, that of the first ranks, the report. This and the constants below are
/// typical of release builds on small machines; `rankmark run --dry-run` next to a run shows how they fit elsewhere.
const PROGRAM_S: f64 = 0.5;
/// Seconds of a trial in addition to its samples: new ranks, warm-up, checks.
const TRIAL_S: f64 = 0.07;
/// Seconds for each byte of a message in a trial: filling, warm-up and checks.
const BYTE_S: f64 = 4e-9;
/// Further seconds of a trial if ranks prepare its case once and keep it, such as a trainer: warm-up runs whole steps.
const PREPARED_S: f64 = 0.38;
/// Seconds until Python has imported torch, once for each world of PyTorch ranks: they stay for the whole run.
const TORCH_S: f64 = 6.0;
/// Seconds of a trial whose times are computed.
const SIMULATED_S: f64 = 0.002;
/// Samples of a warm-up, unless the first one takes longer than the time for all.
const WARM_UP_SAMPLES: f64 = 9.0;
/// Samples of the warm-up in the first trial: the fewest from which it can tell whether times are steady.
const FIRST_WARM_UP_SAMPLES: f64 = 17.0;
/// Share of the case's time that the warm-up in the first trial may take.
const WARM_UP_SHARE: f64 = 0.1;
/// Samples from which the first trial finds the number of calls in a sample.
const CALIBRATION_SAMPLES: f64 = 3.0;

/// The estimated wall time of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Seconds; for an adaptive run the most that it takes.
    pub seconds: f64,
    /// Seconds if every interval reaches its target after the fewest trials; None if the time does not depend on that.
    pub least: Option<f64>,
    /// The most rounds over all cases.
    rounds: usize,
}

/// A case, and how it is sampled.
pub struct Sampled<'a> {
    /// The case.
    pub case: &'a Case,
    /// How it is sampled.
    pub settings: Settings,
    /// What its benchmark knows of the time of its trials.
    pub cost: TrialCost,
    /// Whether its times are computed rather than measured.
    pub simulated: bool,
}

/// The estimate of a whole plan.
pub fn of_plan(plan: &Plan, side_by_side: bool, is_computed: impl Fn(&Case) -> bool) -> Estimate {
    let sampled = |case| {
        let simulated = is_computed(case);
        let cost = benchmarks::trial_cost(case);
        let settings = measure::CaseRun::new(case, Settings::from_case(case), simulated).settings;
        Sampled { case, settings, cost, simulated }
    };
    let runs = plan.cases.iter().filter(|case| case.skip.is_none());
    of_cases(&runs.map(sampled).collect::<Vec<_>>(), side_by_side)
}

/// The estimate of these cases. Unless worlds can run `side_by_side`, each completes all of its trials before the next
/// begins.
pub fn of_cases(cases: &[Sampled<'_>], side_by_side: bool) -> Estimate {
    let mut worlds: BTreeMap<String, Vec<&Sampled<'_>>> = BTreeMap::new();
    for case in cases {
        let world = if side_by_side { String::new() } else { world_of(case.case) };
        worlds.entry(world).or_default().push(case);
    }
    let all_trials = |trials: fn(&Settings) -> usize, at_most: bool| -> f64 {
        worlds.values().map(|cases| work_seconds(cases, trials, at_most).max(spacing_seconds(cases, trials))).sum()
    };
    let torch_worlds: BTreeSet<String> =
        cases.iter().filter(|case| benchmarks::is_pytorch(case.case)).map(|case| world_of(case.case)).collect();
    let seconds = |trials, at_most| PROGRAM_S + all_trials(trials, at_most) + torch_worlds.len() as f64 * TORCH_S;
    let is_adaptive = cases.iter().any(|case| case.settings.fewest_trials() < case.settings.most_trials());
    let is_open = is_adaptive || cases.iter().any(|case| case.cost.more_s > 0.0);
    Estimate {
        seconds: seconds(|settings| settings.most_trials(), true),
        least: is_open.then(|| seconds(|settings| settings.fewest_trials(), false)),
        rounds: cases.iter().map(|case| case.settings.most_trials()).max().unwrap_or(0),
    }
}

fn world_of(case: &Case) -> String {
    Value::Object(case.world.to_map()).to_string()
}

/// Seconds that this many trials of each case take.
fn work_seconds(cases: &[&Sampled<'_>], trials: fn(&Settings) -> usize, at_most: bool) -> f64 {
    let seconds = |case: &&Sampled<'_>| {
        first_trial_extra_seconds(case) + trials(&case.settings) as f64 * trial_seconds(case, at_most)
    };
    cases.iter().map(seconds).sum()
}

/// Further seconds of a case's first trial: calibration, and a longer warm-up.
fn first_trial_extra_seconds(sampled: &Sampled<'_>) -> f64 {
    let sample = whole_sample_s(&sampled.cost);
    if sampled.simulated || sampled.settings.iters.is_some() || sampled.settings.warmup.is_some() {
        return 0.0;
    }
    let budget = (WARM_UP_SHARE * sampled.settings.max_seconds).max(WARM_UP_SAMPLES * sample);
    CALIBRATION_SAMPLES * sample + ((FIRST_WARM_UP_SAMPLES - WARM_UP_SAMPLES) * sample).min(budget)
}

/// Seconds of a sample with what surrounds it.
fn whole_sample_s(cost: &TrialCost) -> f64 {
    cost.sample_s + cost.around_s
}

fn trial_seconds(sampled: &Sampled<'_>, at_most: bool) -> f64 {
    if sampled.simulated {
        return SIMULATED_S;
    }
    let (settings, cost) = (&sampled.settings, sampled.cost);
    let (sample, given) = (whole_sample_s(&cost), settings.trial_seconds());
    let samples = match settings.iters {
        // Zero unless the benchmark knows how long a sample takes.
        Some(iters) => f64::from(iters) * sample,
        // The last sample ends half a sample after the given time, on average.
        None => given.max(sample) + sample / 2.0,
    };
    let warm_up = match settings.warmup {
        Some(samples) => f64::from(samples),
        None if sample > settings.warm_up_seconds() => 1.0,
        None => WARM_UP_SAMPLES,
    };
    let prepared = if stays_prepared(sampled.case) { PREPARED_S } else { 0.0 };
    let extra = cost.trial_s + if at_most { cost.more_s } else { 0.0 };
    samples + warm_up * sample + extra + TRIAL_S + prepared + sampled.case.bytes().unwrap_or(0) as f64 * BYTE_S
}

fn stays_prepared(case: &Case) -> bool {
    benchmarks::benchmark(&case.benchmark).is_some_and(|benchmark| benchmark.keeps_prepared())
}

/// Seconds from the start of a case's first trial to that of its last: trials begin at least `spacing` apart.
fn spacing_seconds(cases: &[&Sampled<'_>], trials: fn(&Settings) -> usize) -> f64 {
    let waits =
        |case: &&&Sampled<'_>| trials(&case.settings).saturating_sub(1) as f64 * case.settings.spacing.as_secs_f64();
    cases.iter().filter(|case| !case.simulated).map(|case| waits(&case)).fold(0.0, f64::max)
}

impl Estimate {
    /// The estimate of a run that ends after `budget` seconds even if cases are still open.
    pub fn within(self, budget: Option<f64>) -> Self {
        let within = |seconds: f64| budget.map_or(seconds, |budget| seconds.min(budget));
        Self { seconds: within(self.seconds), least: self.least.map(within), ..self }
    }

    /// The estimate of a run that measures this share of the cases.
    pub fn share(self, share: f64) -> Self {
        let part = |seconds: f64| PROGRAM_S + (seconds - PROGRAM_S).max(0.0) * share;
        Self { seconds: part(self.seconds), least: self.least.map(part), ..self }
    }

    /// `about 90 s`, or `15 s to 66 s` if it depends on how much times vary.
    pub fn words(&self) -> String {
        let lasting = |seconds: f64| view::number::lasting(rounded(seconds));
        match self.least.map(lasting).filter(|least| *least != lasting(self.seconds)) {
            Some(least) => format!("{least} to {}", lasting(self.seconds)),
            None => format!("about {}", lasting(self.seconds)),
        }
    }

    /// Seconds that are left after `made` rounds, which may be a fraction. During the first round the estimate counts,
    /// because cases take different times. If the first round outlasts the whole estimate, the pace so far counts.
    pub fn left(&self, made: f64, elapsed: f64) -> f64 {
        let left = match made <= 0.0 || made < 1.0 && elapsed < self.seconds {
            true => self.seconds - elapsed,
            false => elapsed / made * (self.rounds as f64 - made),
        };
        left.max(0.0)
    }
}

/// Rounds to two digits: an estimate is not more precise.
fn rounded(seconds: f64) -> f64 {
    let unit = 10_f64.powf((seconds.max(1.0)).log10().floor() - 1.0).max(1.0);
    (seconds / unit).round().max(1.0) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(fields: &[(&str, &str)]) -> Estimate {
        let about = benchmarks::benchmark("collective").unwrap().about();
        of_plan(&record::plan::from_flags(about, fields, &[]).unwrap(), true, benchmarks::is_simulated)
    }

    #[test]
    fn trials_add_up_and_wait_for_each_other() {
        let sampled = [("trials", "6"), ("max_seconds", "0.6s"), ("spacing", "0s")];
        let one = estimate(&[&sampled[..], &[("bytes", "1KiB")]].concat());
        assert!((one.seconds - (PROGRAM_S + 6.0 * (0.1 + TRIAL_S))).abs() < 0.01 && one.least.is_none(), "{one:?}");
        let four = estimate(&[&sampled[..], &[("bytes", "1KiB,2KiB,4KiB,8KiB")]].concat());
        assert!((four.seconds - PROGRAM_S) / (one.seconds - PROGRAM_S) > 3.9, "{four:?}");
        // Six trials that begin 1.6 s apart take eight seconds, however short they are.
        let paced = estimate(&[("trials", "6"), ("max_seconds", "0.6s"), ("bytes", "1KiB")]);
        assert!((paced.seconds - PROGRAM_S - 8.0).abs() < 0.01, "{paced:?}");
        let adaptive = estimate(&[("bytes", "1KiB")]);
        let words = adaptive.words();
        assert!(
            adaptive.least.is_some_and(|least| least < 0.5 * adaptive.seconds) && words.contains(" to "),
            "{words}"
        );
        assert_eq!(adaptive.within(Some(3.0)).words(), "about 3 s", "the budget ends both");
        assert!(estimate(&[("backend", "sim"), ("bytes", "1KiB")]).seconds < 1.0);
        assert_eq!(paced.within(Some(3.0)).words(), "about 3 s");
    }

    #[test]
    fn what_a_benchmark_knows_about_its_trials_is_counted() {
        let fields = [("activity", "collective"), ("beside", "none"), ("trials", "10"), ("max_seconds", "1.25s")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let about = benchmarks::benchmark("interference").unwrap().about();
        let mut more = fields.to_vec();
        more.push(("spacing".to_owned(), "0s".to_owned()));
        let of = |fields: &[(String, String)]| {
            of_plan(&record::plan::from_flags(about, fields, &[]).unwrap(), true, benchmarks::is_simulated)
        };
        // A trial of 0.125 s has samples of 20 ms, and nine more to warm up.
        let alone = of(&more).seconds;
        assert!((alone - (PROGRAM_S + 0.22 + 10.0 * (0.125 + 0.01 + 0.18 + TRIAL_S))).abs() < 0.01, "{alone}");
        more[1].1 = "storage_read".to_owned();
        let beside = of(&more);
        assert!(beside.seconds > 1.5 * alone, "{beside:?} and {alone}");
    }

    #[test]
    fn what_is_left_follows_the_rounds() {
        let estimate = Estimate { seconds: 60.0, least: None, rounds: 6 };
        assert_eq!((estimate.left(0.5, 5.0), estimate.left(0.0, 70.0)), (55.0, 0.0));
        // The whole estimate is over, and half of the first of six rounds is made.
        assert_eq!((estimate.left(0.5, 70.0), estimate.left(0.0, 50.0)), (770.0, 10.0));
        assert_eq!((estimate.left(3.0, 45.0), estimate.left(6.0, 90.0)), (45.0, 0.0));
    }

    #[test]
    fn two_digits_are_enough() {
        assert_eq!([0.4, 7.3, 83.2, 127.0].map(rounded), [1.0, 7.0, 83.0, 130.0]);
    }
}
