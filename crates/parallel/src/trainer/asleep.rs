//! Computation replaced by sleep: the exchanges, waits and phases of a step are real, and what is between them takes a known
//! time. More ranks than cores then disturb each other little, so what is said about slow ranks can be checked against the
//! truth. Nothing is computed: parameters stay as they are.

use std::sync::Arc;
use std::time::Duration;

use engine::Phase;
use trace::StepRecorder;

/// How long passes take without jitter.
#[derive(Clone, Debug, PartialEq)]
pub enum SleepTimes {
    /// So many seconds each, and the optimizer as long.
    Equal(f64),
    /// Each block's own.
    Table {
        /// Seconds of the forward and the backward pass of each block of the model.
        passes: Arc<[[f64; 2]]>,
        /// Seconds of the optimizer.
        optimizer_s: f64,
    },
}

impl SleepTimes {
    /// Seconds of what runs in a phase: a pass of this block, or the optimizer.
    pub fn seconds(&self, phase: Phase, block: usize) -> f64 {
        match (self, phase) {
            (Self::Equal(seconds), _) => *seconds,
            (Self::Table { optimizer_s, .. }, Phase::Optimizer) => *optimizer_s,
            (Self::Table { passes, .. }, _) => {
                passes.get(block).map_or(0.0, |passes| passes[usize::from(phase == Phase::Backward)])
            }
        }
    }
}

/// A sleep that ended late is made up for by those after it, up to so much: a late wake-up is the system's, and not part of a pass,
/// but a rank that was held up for longer was held up.
const MADE_UP_NS: u64 = 200_000;

/// How long a rank sleeps in each pass of a block, and in the optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Asleep {
    /// Time of passes without jitter.
    pub times: SleepTimes,
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

    /// Sleeps until a pass that began then is over; `late_ns` is by how much the last one ended late.
    pub(super) fn rest(
        &self,
        begun_ns: u64,
        (phase, block): (Phase, usize),
        late_ns: &mut u64,
        recorder: &StepRecorder,
    ) {
        let seconds = self.times.seconds(phase, block);
        let end_ns = begun_ns + (seconds * self.factor(recorder.step()) * 1e9) as u64;
        let end_ns = end_ns.saturating_sub(*late_ns).max(begun_ns);
        let left = end_ns.saturating_sub(recorder.now_ns());
        if left > 0 {
            std::thread::sleep(Duration::from_nanos(left));
        }
        *late_ns = recorder.now_ns().saturating_sub(end_ns).min(MADE_UP_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(jitter: f64, heavy_tail: bool, rank: u32) -> Vec<f64> {
        let asleep = Asleep { times: SleepTimes::Equal(1e-3), jitter, heavy_tail, seed: 42, rank };
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
    fn a_table_tells_passes_apart() {
        let times = SleepTimes::Table { passes: vec![[1.0, 2.0], [3.0, 4.0]].into(), optimizer_s: 5.0 };
        let of = |phase, block| times.seconds(phase, block);
        assert_eq!([of(Phase::Forward, 0), of(Phase::Backward, 0), of(Phase::Forward, 1)], [1.0, 2.0, 3.0]);
        assert_eq!([of(Phase::Backward, 1), of(Phase::Optimizer, 0), of(Phase::Forward, 2)], [4.0, 5.0, 0.0]);
        assert_eq!(SleepTimes::Equal(7.0).seconds(Phase::Optimizer, 9), 7.0);
    }

    #[test]
    fn what_one_sleep_is_late_the_next_makes_up_for() {
        let times = SleepTimes::Table { passes: vec![[2e-3, 2e-3]].into(), optimizer_s: 0.0 };
        let asleep = Asleep { times, jitter: 0.0, heavy_tail: false, seed: 1, rank: 0 };
        let recorder = StepRecorder::default();
        let (begun_ns, mut late_ns) = (recorder.now_ns(), 0);
        for _ in 0..20 {
            asleep.rest(recorder.now_ns(), (Phase::Forward, 0), &mut late_ns, &recorder);
        }
        // Not judged from above: others may hold the thread up.
        let passed = recorder.now_ns() - begun_ns;
        assert!(passed + MADE_UP_NS >= 40_000_000 && late_ns <= MADE_UP_NS, "{passed} ns, {late_ns} ns late");
        asleep.rest(recorder.now_ns() - 5_000_000, (Phase::Forward, 0), &mut late_ns, &recorder);
        assert_eq!(late_ns, MADE_UP_NS, "a rank that was held up was held up");
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
