//! Simulated pairs of runs of known truth, which verdicts answer to: how often equal runs differ, and planted changes are found.
//!
//! A run's trials follow an autoregression of first order around a level. The level of each run has noise of its own, half
//! of it common to all cases. Records are made of them and compared as any others. `examples/rates` prints the table of
//! docs/appendix/comparisons.md.

use record::{CaseLine, Record, RunFile};
use serde_json::json;
use stats::samples::{Marginal, Situation as Law, StationarySeries};

use diagnose::Verdict;
use diagnose::compare::{Comparison, Settings, compare};

/// What is known of the noise between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Two runs and nothing else.
    Nothing,
    /// Two runs, and so many equal ones before.
    History(usize),
    /// A baseline of so many equal runs, and a new one.
    Baseline(usize),
}

/// One simulated situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Situation {
    /// Cases of a run.
    pub(crate) cases: usize,
    /// Trials of a case.
    pub(crate) trials: usize,
    /// Correlation of consecutive trials.
    pub(crate) correlation: f64,
    /// Standard deviation of a trial, relative.
    pub(crate) noise: f64,
    /// Standard deviation of a run's level, relative.
    pub(crate) between: f64,
    /// What is known besides.
    pub(crate) history: Known,
}

/// What verdicts achieved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Share of pairs of equal runs in which any case is better or worse.
    pub(crate) any_false: f64,
    /// Share of pairs in which a change of the printed smallest size, planted in the first case, is found there.
    pub(crate) found: f64,
    /// Share of cases of equal runs that are the same at a threshold of 1.5 times their smallest change.
    pub(crate) same: f64,
    /// Share of pairs in which a planted 10% is called the same at a threshold of 3%.
    pub(crate) ten_percent_same: f64,
    /// Median smallest change, relative.
    pub(crate) smallest_change: f64,
}

/// The threshold for all rates but `same`.
const THRESHOLD: f64 = 0.03;

/// Draws the runs of one pair.
struct Draw {
    situation: Situation,
    /// The noise of levels: common to all cases, and of each.
    levels: Vec<StationarySeries>,
    seed: u64,
    made: u64,
}

impl Draw {
    fn new(situation: Situation, seed: u64) -> Self {
        let law = Law { phi: 0.0, marginal: Marginal::Lognormal, noise: situation.between };
        let levels = (0..=situation.cases as u64).map(|case| StationarySeries::new(law, seed * 1_000 + case)).collect();
        Self { situation, levels, seed, made: 0 }
    }

    /// The trials of each case of one run.
    fn run(&mut self) -> Vec<Vec<f64>> {
        let Situation { trials, correlation, noise, .. } = self.situation;
        let next = |series: &mut StationarySeries| {
            series.extend(1);
            series.samples[series.samples.len() - 1].ln()
        };
        let (common, own) = self.levels.split_first_mut().expect("a level is common");
        let common = next(common);
        self.made += 1;
        let mut cases = Vec::new();
        for (case, own) in own.iter_mut().enumerate() {
            let level = (std::f64::consts::FRAC_1_SQRT_2 * (common + next(own))).exp();
            let law = Law { phi: correlation, marginal: Marginal::Lognormal, noise };
            let mut series = StationarySeries::new(law, (self.seed * 1_000 + case as u64) * 1_000 + 500 + self.made);
            series.extend(trials);
            // Cases are of very different times.
            let scale = level * 1e-6 * 2f64.powi(case as i32);
            cases.push(series.samples.iter().map(|trial| trial * scale).collect());
        }
        cases
    }
}

/// A record of these trials, so many days after others.
pub(crate) fn record_of(cases: &[Vec<f64>], day: usize) -> Record {
    let line = |(case, trials): (usize, &Vec<f64>)| -> CaseLine {
        let value = json!({
            "schema": 1, "id": format!("{case:012x}"), "benchmark": "simulated", "parameters": {"bytes": case}, "status": "ok",
            "ranks": 2, "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [],
            "simulated": false, "wrong": 0, "trials": trials.len(), "trial_median_s": trials,
            "trial_round": (0..trials.len()).collect::<Vec<_>>(), "time_s": {"median": stats::median(trials)},
        });
        serde_json::from_value(value).expect("a case line")
    };
    let file: RunFile = serde_json::from_value(json!({
        "schema": 1, "tool": {"name": "rankmark", "version": "0"}, "experiment": "simulated", "command_line": [],
        "started": format!("2026-01-{:02}T{:02}:00:00Z", 1 + day / 24, day % 24), "benchmarks": [], "simulated": false,
        "machine": {"host": "a", "os": "", "kernel": "", "arch": "x86_64", "cpu_model": "model"},
        "plan": {"experiment": "simulated", "profiling": false, "cases": []},
    }))
    .expect("a run file");
    Record {
        file,
        cases: cases.iter().enumerate().map(line).collect(),
        end: record::RunEnd::Ended,
        damaged: Vec::new(),
        notes: Vec::new(),
    }
}

/// Simulates this many pairs.
pub(crate) fn simulate(situation: &Situation, pairs: usize, seed: u64) -> Rates {
    let mut rates = Rates::default();
    let mut smallest = Vec::new();
    for pair in 0..pairs {
        let mut draw = Draw::new(*situation, seed * 100_000 + pair as u64);
        let count = match situation.history {
            Known::Nothing => 0,
            Known::History(runs) | Known::Baseline(runs) => runs,
        };
        let known: Vec<Record> = (0..count).map(|day| record_of(&draw.run(), day)).collect();
        let (base, new) = (record_of(&draw.run(), count), draw.run());
        let judged = |threshold: f64, factor: f64, look: &mut dyn FnMut(&Comparison)| {
            let mut planted = new.clone();
            planted[0].iter_mut().for_each(|trial| *trial *= factor);
            let new = record_of(&planted, count + 1);
            let known: Vec<&Record> = known.iter().collect();
            match situation.history {
                Known::Baseline(_) => look(&compare(&known, &new, &Settings { threshold, history: Vec::new() })),
                _ => look(&compare(&[&base], &new, &Settings { threshold, history: known })),
            }
        };
        let first = |comparison: &Comparison| {
            let case = comparison.cases.iter().find(|case| case.base.id == format!("{:012x}", 0)).expect("the case");
            (case.verdict, case.smallest_change)
        };
        let mut change = None;
        judged(THRESHOLD, 1.0, &mut |comparison| {
            let changed = comparison.count(Verdict::Better) + comparison.count(Verdict::Worse);
            rates.any_false += f64::from(u8::from(changed > 0));
            change = first(comparison).1;
        });
        let Some(change) = change else { continue };
        smallest.push(change);
        judged(THRESHOLD, 1.0 + change, &mut |comparison| {
            rates.found += f64::from(u8::from(first(comparison).0 == Some(Verdict::Worse)));
        });
        judged(THRESHOLD, 1.1, &mut |comparison| {
            rates.ten_percent_same += f64::from(u8::from(first(comparison).0 == Some(Verdict::Same)));
        });
        judged(1.5 * change, 1.0, &mut |comparison| {
            rates.same += f64::from(u8::from(first(comparison).0 == Some(Verdict::Same)));
        });
    }
    let pairs = pairs.max(1) as f64;
    let share = |count: f64| count / pairs;
    Rates {
        any_false: share(rates.any_false),
        found: share(rates.found),
        same: share(rates.same),
        ten_percent_same: share(rates.ten_percent_same),
        smallest_change: if smallest.is_empty() { 0.0 } else { stats::median(&smallest) },
    }
}
