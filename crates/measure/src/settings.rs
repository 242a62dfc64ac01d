//! How a case is sampled: its settings, read once.

use std::time::Duration;

use record::Case;
use stats::StopRule;
use terms::Mode;

/// At most this many samples are kept of a case and launch.
pub const MAX_SAMPLES: usize = 10_000;

/// How long, how often, how precisely.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How calls are timed.
    pub mode: Mode,
    /// When to stop, unless `iters` says.
    pub rule: StopRule,
    /// Sampling time, in seconds.
    pub max_seconds: f64,
    /// A fixed number of warm-up samples.
    pub warmup: Option<u32>,
    /// A fixed number of samples.
    pub iters: Option<u32>,
    /// Time for everything beside sampling.
    pub timeout: Duration,
    /// Whether to measure the machine's limit.
    pub limits: bool,
    /// Whether entry and exit times of operations are wanted whatever they cost: the plan asked for profiling.
    pub traced: bool,
}

impl Settings {
    /// The settings of a case; what it does not say is as the fields' declared defaults have it.
    pub fn of(case: &Case) -> Self {
        let rule = StopRule::default();
        let count = |name: &str| case.whole(name).and_then(|count| u32::try_from(count).ok());
        let seconds = |name: &str, otherwise: f64| case.number(name).unwrap_or(otherwise);
        // A day bounds what the user can ask for, so that durations cannot overflow.
        let timeout = Duration::from_secs_f64(seconds("timeout", 120.0).clamp(0.001, 86_400.0));
        // So many steps and no others: a warm-up would train, too.
        let steps = count("steps");
        let target = case.number("target_precision").unwrap_or(rule.target);
        Self {
            mode: case.word("mode").unwrap_or(Mode::Streaming),
            rule: StopRule {
                target,
                // A constant series is within 0%, too; still the user asked to sample for the whole time.
                min_effective: if target == 0.0 { f64::INFINITY } else { rule.min_effective },
                max_samples: MAX_SAMPLES,
                ..rule
            },
            max_seconds: seconds("max_seconds", 5.0).clamp(0.0, 7.0 * 86_400.0),
            warmup: count("warmup").or(steps.map(|_| 0)),
            iters: steps.or_else(|| count("iters")),
            timeout,
            limits: case.value("limits").and_then(serde_json::Value::as_bool).unwrap_or(true),
            traced: false,
        }
    }

    /// When the whole case has failed.
    pub fn deadline(&self) -> Duration {
        self.timeout + Duration::from_secs_f64(self.max_seconds)
    }

    /// Whether the user asked to sample for the whole time: no precision is ever enough.
    pub fn soaks(&self) -> bool {
        self.rule.target == 0.0 && self.iters.is_none()
    }
}
