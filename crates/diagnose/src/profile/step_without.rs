//! What a replay says: how long a step would take without something, and how well it gives the recorded steps.

use std::fmt;

use serde::Serialize;
use terms::Seconds;

/// How well the recorded dependencies explain the steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Replay {
    /// Steps that were replayed, without the first of those that follow each other: it begins with lateness of the step before.
    pub steps: usize,
    /// How much a replay with the recorded times differs from a recorded step: the median, as a share of a step.
    pub error_share: f64,
    /// Waits that end with no collective of all ranks, as a share of a step. They stay as they are.
    pub fixed_waits_share: f64,
}

/// Which step a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Typical {
    /// The median step.
    Median,
    /// The mean step: what hits some steps only does not move the median.
    Mean,
}

/// How long a step would take without something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Without {
    /// Which step.
    pub of: Typical,
    /// Seconds of a step without it.
    pub step_s: f64,
    /// The 95% interval over steps.
    pub ci95: [f64; 2],
    /// Seconds of the same steps as recorded.
    pub recorded_s: f64,
    /// What a step would save, in seconds.
    pub saves_s: f64,
    /// What a step would save, as a share of a recorded step.
    pub share: f64,
    /// What the mean step would save: findings have their seconds and shares of the mean step.
    pub mean_saves_s: f64,
}

/// `a median step would take 180 ms instead of 217 ms (178 ms to 182 ms)`: shares beside it are of the mean step.
impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = if self.of == Typical::Mean { "a mean step" } else { "a median step" };
        let [low, high] = self.ci95.map(Seconds);
        let (after, before) = (Seconds(self.step_s), Seconds(self.recorded_s));
        let is_within = self.ci95[0] <= self.recorded_s && self.recorded_s <= self.ci95[1];
        let noise = if is_within { ": no more than the noise of steps" } else { "" };
        write!(f, "{step} would take {after} instead of {before} ({low} to {high}{noise})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_a_sentence() {
        let without = Without {
            of: Typical::Median,
            step_s: 0.18,
            ci95: [0.178, 0.182],
            recorded_s: 0.217,
            saves_s: 0.037,
            share: 0.17,
            mean_saves_s: 0.036,
        };
        assert_eq!(without.to_string(), "a median step would take 180 ms instead of 217 ms (178 ms to 182 ms)");
        let noisy = Without { ci95: [0.15, 0.25], ..without }.to_string();
        assert!(noisy.ends_with("(150 ms to 250 ms: no more than the noise of steps)"), "{noisy}");
    }
}
