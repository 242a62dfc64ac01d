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
    /// Least seconds of a sample that are known before the run; 0: nothing is known.
    pub sample_s: f64,
    /// Whether to measure the machine's limit.
    pub limits: bool,
    /// Whether entry and exit times of operations are wanted whatever they cost: the plan asked for profiling.
    pub traced: bool,
    /// Whether times are computed and the same in every trial.
    pub exact: bool,
}

/// A sample may take this many times the least that is known of it: memory, waits, cores that others use.
const SLOWEST: f64 = 4.0;
/// Samples of a first trial, with those that warm up and find out how many calls a sample has, where each takes long.
const FIRST_SAMPLES: u32 = 8;

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
            sample_s: 0.0,
            // A path names a profile of the machine instead.
            limits: case.limits().is_none_or(|text| text == "true"),
            traced: false,
            exact: false,
        }
    }

    /// When a trial has failed.
    pub fn deadline(&self) -> Duration {
        let samples = FIRST_SAMPLES + self.iters.unwrap_or(0) + self.warmup.unwrap_or(0);
        self.timeout + Duration::from_secs_f64(self.max_seconds.max(self.slowest_s() * f64::from(samples)))
    }

    /// Seconds that a sample may take although nothing is wrong.
    pub fn slowest_s(&self) -> f64 {
        SLOWEST * self.sample_s.clamp(0.0, 86_400.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_of_long_steps_has_the_time_for_them() {
        let case = serde_json::json!({"id": "0", "benchmark": "training", "parameters": {}, "settings": {}, "world": {},
            "caveats": [], "bytes_requested": null, "skip": null});
        let short = Settings::from_case(&serde_json::from_value(case).unwrap());
        assert_eq!(short.deadline().as_secs_f64(), 125.0);
        let long = Settings { sample_s: 30.0, ..short.clone() };
        assert_eq!((long.slowest_s(), long.deadline().as_secs_f64()), (120.0, 120.0 + 8.0 * 120.0));
        let counted = Settings { iters: Some(10), warmup: Some(2), ..long };
        assert_eq!(counted.deadline().as_secs_f64(), 120.0 + 20.0 * 120.0);
        assert_eq!(Settings { sample_s: 0.1, ..short }.deadline().as_secs_f64(), 125.0);
    }
}
