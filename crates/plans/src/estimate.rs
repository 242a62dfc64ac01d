//! How long a run takes: wall time from what is known before it begins, and what is left of it once rounds are made.

use std::collections::{BTreeMap, BTreeSet};

use benchmarks::TrialCost;
use measure::Settings;
use record::{Case, Plan};
use serde_json::Value;

/// Seconds of the program itself: its start, that of the first ranks, the report. This and what follows is the middle of
/// release builds on small machines; `rankmark run --dry-run` next to a run shows how it holds elsewhere.
const PROGRAM: f64 = 0.5;
/// Seconds of a trial in addition to its samples: new ranks, warm-up, checks.
const TRIAL: f64 = 0.07;
/// Seconds for each byte of a message in a trial: filling, warm-up and checks.
const BYTE: f64 = 4e-9;
/// Seconds of a trial of a case that ranks prepare once and keep, such as a trainer: its warm-up takes whole steps.
const PREPARED: f64 = 0.38;
/// Seconds until a Python has imported torch. Its ranks stay for the whole run.
const TORCH: f64 = 6.0;
/// Seconds of a trial whose times are computed.
const SIMULATED: f64 = 0.002;
/// Samples of a warm-up, unless the first takes longer than its time.
const WARM_UP: f64 = 9.0;
/// Samples of the warm-up in the first trial: it can tell from then on whether times are steady.
const WARM_UP_FIRST: f64 = 17.0;
/// Share of the case's time that the warm-up in the first trial may take.
const WARM_UP_SHARE: f64 = 0.1;
/// Samples in which the first trial finds the number of calls of a sample.
const CALIBRATION: f64 = 3.0;

/// How long a run takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Seconds; of adaptive runs the most.
    pub seconds: f64,
    /// The seconds of a run whose intervals reach their target after the fewest trials; None where their number is fixed.
    pub least: Option<f64>,
    /// Rounds over all cases, at most.
    rounds: usize,
}

/// A case, and how it is sampled.
pub struct Sampled<'a> {
    /// The case.
    pub case: &'a Case,
    /// How it is sampled.
    pub settings: Settings,
    /// Whether its times are computed.
    pub simulated: bool,
}

/// The estimate of a whole plan.
pub fn of_plan(plan: &Plan, several: bool, is_computed: impl Fn(&Case) -> bool) -> Estimate {
    let sampled = |case| {
        let simulated = is_computed(case);
        let settings = measure::CaseRun::new(case, Settings::from_case(case), simulated).settings;
        Sampled { case, settings, simulated }
    };
    let runs = plan.cases.iter().filter(|case| case.skip.is_none());
    of_cases(&runs.map(sampled).collect::<Vec<_>>(), several)
}

/// The estimate of these cases. Unless worlds may be alive side by side, each makes all of its trials before the next begins.
pub fn of_cases(cases: &[Sampled<'_>], several: bool) -> Estimate {
    let mut worlds: BTreeMap<String, Vec<&Sampled<'_>>> = BTreeMap::new();
    for case in cases {
        let world = if several { String::new() } else { world_of(case.case) };
        worlds.entry(world).or_default().push(case);
    }
    let paced = |trials: fn(&Settings) -> usize, at_most: bool| -> f64 {
        worlds.values().map(|cases| work(cases, trials, at_most).max(pacing(cases, trials))).sum()
    };
    let torches: BTreeSet<String> =
        cases.iter().filter(|case| benchmarks::is_pytorch(case.case)).map(|case| world_of(case.case)).collect();
    let seconds = |trials, at_most| PROGRAM + paced(trials, at_most) + torches.len() as f64 * TORCH;
    let is_adaptive = cases.iter().any(|case| case.settings.fewest_trials() < case.settings.most_trials());
    let is_open = is_adaptive || cases.iter().any(|case| cost(case.case).more_s > 0.0);
    Estimate {
        seconds: seconds(|settings| settings.most_trials(), true),
        least: is_open.then(|| seconds(|settings| settings.fewest_trials(), false)),
        rounds: cases.iter().map(|case| case.settings.most_trials()).max().unwrap_or(0),
    }
}

fn world_of(case: &Case) -> String {
    Value::Object(case.world.to_map()).to_string()
}

/// Seconds in which so many trials of each case are made.
fn work(cases: &[&Sampled<'_>], trials: fn(&Settings) -> usize, at_most: bool) -> f64 {
    let of = |case: &&Sampled<'_>| first(case) + trials(&case.settings) as f64 * trial(case, at_most);
    cases.iter().map(of).sum()
}

fn cost(case: &Case) -> TrialCost {
    benchmarks::benchmark(&case.benchmark).map_or_else(TrialCost::default, |benchmark| benchmark.trial_cost(case))
}

/// Seconds that the first trial of a case takes in addition.
fn first(sampled: &Sampled<'_>) -> f64 {
    let sample = sample_s(&cost(sampled.case));
    if sampled.simulated || sampled.settings.iters.is_some() || sampled.settings.warmup.is_some() {
        return 0.0;
    }
    let budget = (WARM_UP_SHARE * sampled.settings.max_seconds).max(WARM_UP * sample);
    CALIBRATION * sample + ((WARM_UP_FIRST - WARM_UP) * sample).min(budget)
}

fn sample_s(cost: &TrialCost) -> f64 {
    cost.sample_s + cost.around_s
}

fn trial(sampled: &Sampled<'_>, at_most: bool) -> f64 {
    if sampled.simulated {
        return SIMULATED;
    }
    let (settings, cost) = (&sampled.settings, cost(sampled.case));
    let (sample, given) = (sample_s(&cost), settings.trial_seconds());
    let samples = match settings.iters {
        // How long a counted number of samples takes is not known, unless each takes a known time.
        Some(iters) => f64::from(iters) * sample,
        // The last sample ends after the time that is given.
        None => given.max(sample) + sample / 2.0,
    };
    let warm_up = match settings.warmup {
        Some(samples) => f64::from(samples),
        None if sample > settings.warm_up_seconds() => 1.0,
        None => WARM_UP,
    };
    let prepared = if stays_prepared(sampled.case) { PREPARED } else { 0.0 };
    let more = cost.trial_s + if at_most { cost.more_s } else { 0.0 };
    samples + warm_up * sample + more + TRIAL + prepared + sampled.case.bytes().unwrap_or(0) as f64 * BYTE
}

fn stays_prepared(case: &Case) -> bool {
    benchmarks::benchmark(&case.benchmark).is_some_and(|benchmark| benchmark.keeps_prepared())
}

/// Seconds from the first trial of a case to its last, which begin so far apart.
fn pacing(cases: &[&Sampled<'_>], trials: fn(&Settings) -> usize) -> f64 {
    let waits =
        |case: &&&Sampled<'_>| trials(&case.settings).saturating_sub(1) as f64 * case.settings.spacing.as_secs_f64();
    cases.iter().filter(|case| !case.simulated).map(|case| waits(&case)).fold(0.0, f64::max)
}

impl Estimate {
    /// The estimate of a run that ends after so many seconds whatever is open.
    pub fn within(self, budget: Option<f64>) -> Self {
        let within = |seconds: f64| budget.map_or(seconds, |budget| seconds.min(budget));
        Self { seconds: within(self.seconds), least: self.least.map(within), ..self }
    }

    /// The estimate of a share of the cases.
    pub fn share(self, share: f64) -> Self {
        let part = |seconds: f64| PROGRAM + (seconds - PROGRAM).max(0.0) * share;
        Self { seconds: part(self.seconds), least: self.least.map(part), ..self }
    }

    /// `about 90 s`; `15 s to 66 s` where it depends on how much times vary.
    pub fn words(&self) -> String {
        let lasting = |seconds: f64| view::number::lasting(rounded(seconds));
        match self.least.map(lasting).filter(|least| *least != lasting(self.seconds)) {
            Some(least) => format!("{least} to {}", lasting(self.seconds)),
            None => format!("about {}", lasting(self.seconds)),
        }
    }

    /// Seconds that are left after so many rounds, parts of one counted. Until the first is made, what was expected: cases take
    /// unlike times. A first round that outlasts the whole estimate shows that it was wrong; then the pace so far is what is known.
    pub fn left(&self, made: f64, elapsed: f64) -> f64 {
        let left = match made <= 0.0 || made < 1.0 && elapsed < self.seconds {
            true => self.seconds - elapsed,
            false => elapsed / made * (self.rounds as f64 - made),
        };
        left.max(0.0)
    }
}

/// To two digits: the rest is not known.
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
        assert!((one.seconds - (PROGRAM + 6.0 * (0.1 + TRIAL))).abs() < 0.01 && one.least.is_none(), "{one:?}");
        let four = estimate(&[&sampled[..], &[("bytes", "1KiB,2KiB,4KiB,8KiB")]].concat());
        assert!((four.seconds - PROGRAM) / (one.seconds - PROGRAM) > 3.9, "{four:?}");
        // Six trials that begin 1.6 s apart take eight seconds, however short they are.
        let paced = estimate(&[("trials", "6"), ("max_seconds", "0.6s"), ("bytes", "1KiB")]);
        assert!((paced.seconds - PROGRAM - 8.0).abs() < 0.01, "{paced:?}");
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
    fn what_a_benchmark_knows_of_its_trials_is_counted() {
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
        assert!((alone - (PROGRAM + 0.22 + 10.0 * (0.125 + 0.01 + 0.18 + TRIAL))).abs() < 0.01, "{alone}");
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
