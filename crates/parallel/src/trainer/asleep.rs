//! Computation replaced by sleep: the exchanges, waits and phases of a step are real, and what is between them takes a known
//! time. More ranks than cores then disturb each other little, so what is said about slow ranks can be checked against the
//! truth. Nothing is computed: parameters stay as they are.

use std::time::Duration;

use trace::StepRecorder;

/// How long a rank sleeps in each pass of a block, and in the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asleep {
    /// Seconds of a pass without jitter.
    pub pass_s: f64,
    /// Standard deviation of a step's factor: all passes of a step of a rank take the same.
    pub jitter: f64,
    /// One step of fifty takes longer by a factor with a heavy tail, at most four.
    pub heavy_tail: bool,
    /// Seed of the series.
    pub seed: u64,
    /// Each rank has its own series.
    pub rank: u32,
}

/// Share of slow steps with a heavy tail, their least excess, the exponent of their Pareto law, and the largest factor.
const SLOW: f64 = 0.02;
const EXCESS: f64 = 0.1;
const EXPONENT: f64 = 1.5;
const LARGEST: f64 = 4.0;

impl Asleep {
    /// What the times of a step are multiplied by.
    fn factor(&self, step: u32) -> f64 {
        let mut state = self.seed ^ (u64::from(self.rank) << 32) ^ u64::from(step);
        let mut uniform = || {
            state = terms::splitmix64(state);
            // In (0, 1], so that its logarithm is finite.
            ((state >> 11) + 1) as f64 / (1u64 << 53) as f64
        };
        // Box and Muller, Annals of Mathematical Statistics 29 (1958).
        let normal = (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let factor = 1.0 + self.jitter * normal;
        let slow = if self.heavy_tail && uniform() < SLOW { EXCESS * uniform().powf(-1.0 / EXPONENT) } else { 0.0 };
        (factor + slow).clamp(0.1, LARGEST)
    }

    /// Sleeps until a pass that began then is over.
    pub(super) fn rest(&self, begun_ns: u64, recorder: &StepRecorder) {
        let end_ns = begun_ns + (self.pass_s * self.factor(recorder.step()) * 1e9) as u64;
        let left = end_ns.saturating_sub(recorder.now_ns());
        if left > 0 {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(jitter: f64, heavy_tail: bool, rank: u32) -> Vec<f64> {
        let asleep = Asleep { pass_s: 1e-3, jitter, heavy_tail, seed: 42, rank };
        (0..20_000).map(|step| asleep.factor(step)).collect()
    }

    #[test]
    fn steps_vary_as_asked_and_ranks_apart_from_each_other() {
        for jitter in [0.01, 0.05, 0.15] {
            let (one, other) = (factors(jitter, false, 0), factors(jitter, false, 1));
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let (a, b) = (mean(&one), mean(&other));
            let spread = (one.iter().map(|x| (x - a).powi(2)).sum::<f64>() / one.len() as f64).sqrt();
            let joint = one.iter().zip(&other).map(|(x, y)| (x - a) * (y - b)).sum::<f64>() / one.len() as f64;
            assert!((a - 1.0).abs() < 0.02 * jitter.max(0.1) && (spread / jitter - 1.0).abs() < 0.05, "{a} {spread}");
            assert!((joint / jitter.powi(2)).abs() < 0.05, "{joint}");
        }
    }

    #[test]
    fn a_heavy_tail_is_rare_and_long() {
        let slow = |factor: &&f64| **factor > 1.08;
        let (light, heavy) = (factors(0.01, false, 0), factors(0.01, true, 0));
        assert_eq!(light.iter().filter(slow).count(), 0);
        let share = heavy.iter().filter(slow).count() as f64 / heavy.len() as f64;
        let longest = heavy.iter().copied().fold(0.0, f64::max);
        assert!((0.015..0.025).contains(&share) && longest > 2.0 && longest <= LARGEST, "{share} {longest}");
    }
}
