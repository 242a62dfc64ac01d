//! How a case is sampled: its settings, read once.

use std::time::Duration;

use record::Case;
use stats::{FEWEST_TRIALS, MOST_TRIALS};
use terms::Mode;

/// At most this many samples are kept of a case, over all of its trials.
pub const MAX_SAMPLES: usize = 10_000;

/// Trials of a quick look.
const QUICK_TRIALS: u32 = 3;

/// Share of a trial's time that warm-up may take.
const WARM_UP: f64 = 0.25;

/// How long, how often, how precisely.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How calls are timed.
    pub mode: Mode,
    /// Half width of the printed interval to reach, relative to the median; 0: sample for the whole time.
    pub target: f64,
    /// Sampling time over all trials, in seconds.
    pub max_seconds: f64,
    /// A fixed number of trials.
    pub trials: Option<u32>,
    /// Three trials without spacing and without an interval: for a look.
    pub quick: bool,
    /// Trials begin at least so many seconds apart.
    pub spacing: Duration,
    /// A fixed number of warm-up samples in each trial.
    pub warmup: Option<u32>,
    /// A fixed number of samples in each trial.
    pub iters: Option<u32>,
    /// Time of one trial for everything but sampling.
    pub timeout: Duration,
    /// Whether to measure the machine's limit.
    pub limits: bool,
    /// Whether entry and exit times of operations are wanted whatever they cost: the plan asked for profiling.
    pub traced: bool,
    /// Whether times are computed and the same in every trial.
    pub exact: bool,
}

impl Settings {
    /// The settings of a case; what it does not say is as the fields' declared defaults have it.
    pub fn from_case(case: &Case) -> Self {
        // A day bounds what the user can ask for, so that durations cannot overflow.
        let duration = |seconds: f64| Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0));
        // So many steps and no others: a warm-up would train, too.
        let steps = case.steps();
        let quick = case.is_quick();
        Self {
            mode: case.mode(),
            target: case.target_precision().unwrap_or(0.02),
            max_seconds: case.max_seconds().unwrap_or(5.0).clamp(0.0, 7.0 * 86_400.0),
            trials: if quick { Some(QUICK_TRIALS) } else { case.trials() },
            quick,
            spacing: if quick { Duration::ZERO } else { duration(case.spacing().unwrap_or(1.6)) },
            warmup: case.warmup().or(steps.map(|_| 0)),
            iters: steps.or_else(|| case.iters()),
            timeout: duration(case.timeout().unwrap_or(120.0).max(0.001)),
            // A path names a profile of the machine instead.
            limits: case.limits().is_none_or(|text| text == "true"),
            traced: false,
            exact: false,
        }
    }

    /// When a trial has failed.
    pub fn deadline(&self) -> Duration {
        self.timeout + Duration::from_secs_f64(self.max_seconds)
    }

    /// Whether the user asked to sample for the whole time: no precision is ever enough.
    pub fn soaks(&self) -> bool {
        self.target == 0.0 && self.iters.is_none() && self.trials.is_none()
    }

    /// Trials that a case makes at least, where nothing ends the run before.
    pub fn fewest_trials(&self) -> usize {
        match self.trials {
            None if !self.exact => FEWEST_TRIALS,
            _ => self.most_trials(),
        }
    }

    /// Trials that a case makes at most.
    pub fn most_trials(&self) -> usize {
        match self.trials {
            Some(trials) => trials as usize,
            // What is computed is the same each time.
            None if self.exact => 1,
            None => MOST_TRIALS,
        }
    }

    /// Seconds that the samples of one trial take.
    pub fn trial_seconds(&self) -> f64 {
        // Trials of a look are as short as those of a measurement.
        let trials = if self.quick { MOST_TRIALS } else { self.most_trials() };
        self.max_seconds / trials as f64
    }

    /// Seconds that warm-up may take in a trial after the first.
    pub fn warm_up_seconds(&self) -> f64 {
        WARM_UP * self.trial_seconds()
    }

    /// Samples that one trial keeps at most.
    pub fn trial_samples(&self) -> u32 {
        (MAX_SAMPLES / self.most_trials()).max(1) as u32
    }
}
