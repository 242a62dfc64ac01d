//! What is known of the ratio of one case in two runs: how far its interval reaches at any level, and the smallest change
//! that could have been shown.

use stats::{MedianLaw, Reach, SMALLEST_LEVEL, student_two_sided};

/// Chance that a change of the printed smallest size is found, as Student's t over both sides: 90% on one side.
const MISSED: f64 = 0.2;

/// The law of the logarithm of a ratio `new / base`.
#[derive(Clone, Debug)]
pub(super) enum Law {
    /// Both values are computed, or both never differ: what is seen is all there is.
    Exact,
    /// Trials of both runs, and a slow change of the machine that the runs themselves show.
    Trials {
        base: MedianLaw,
        new: MedianLaw,
        /// Standard deviation of the slow change, and its degrees of freedom.
        slow: (f64, f64),
    },
    /// Equal runs before: the standard deviation of the ratio, and its degrees of freedom.
    Runs { deviation: f64, degrees: f64 },
}

impl Law {
    /// The interval's distances at this level.
    pub(super) fn reach(&self, level: f64) -> Reach {
        match self {
            Self::Exact => Reach { low: 0.0, high: 0.0, extrapolated: false },
            Self::Trials { base, new, slow: (deviation, degrees) } => {
                let (base, new) = (base.reach(level), new.reach(level));
                let slow = if *deviation > 0.0 { student_two_sided(level, *degrees) * deviation } else { 0.0 };
                Reach {
                    low: new.low.hypot(base.high).hypot(slow),
                    high: new.high.hypot(base.low).hypot(slow),
                    extrapolated: base.extrapolated || new.extrapolated,
                }
            }
            Self::Runs { deviation, degrees } => {
                let reach = student_two_sided(level, *degrees) * deviation;
                Reach { low: reach, high: reach, extrapolated: false }
            }
        }
    }

    /// The p-value of no change: the smallest level at which the interval around `log_ratio` leaves out 0.
    pub(super) fn p_value(&self, log_ratio: f64) -> f64 {
        let leaves_out = |level: f64| {
            let reach = self.reach(level);
            log_ratio > reach.low || -log_ratio > reach.high
        };
        let (mut low, mut high) = (SMALLEST_LEVEL.ln(), 0.999f64.ln());
        if !leaves_out(0.999) {
            return 1.0;
        }
        if leaves_out(SMALLEST_LEVEL) {
            return SMALLEST_LEVEL;
        }
        for _ in 0..48 {
            let middle = (low + high) / 2.0;
            if leaves_out(middle.exp()) { high = middle } else { low = middle }
        }
        high.exp()
    }

    /// The smallest change that is found in nine of ten tries at this level, relative: 0.05 is 5%. None where there is no noise.
    pub(super) fn smallest_change(&self, level: f64) -> Option<f64> {
        let reach = self.reach(level);
        let (error, degrees) = match self {
            Self::Exact => return None,
            Self::Trials { base, new, slow } => {
                (base.error().hypot(new.error()).hypot(slow.0), base.degrees().min(new.degrees()))
            }
            Self::Runs { deviation, degrees } => (*deviation, *degrees),
        };
        let beyond = student_two_sided(MISSED, degrees) * error;
        Some((reach.low.max(reach.high) + beyond).exp_m1())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(around: f64, count: u32) -> MedianLaw {
        let trials: Vec<f64> = (0..count).map(|i| around * (1.0 + f64::from((i * 5) % count) / 200.0)).collect();
        MedianLaw::new(&trials, 0.0).unwrap()
    }

    #[test]
    fn the_p_value_is_the_level_at_which_the_interval_leaves_no_change_out() {
        for law in [
            Law::Runs { deviation: 0.01, degrees: 7.0 },
            Law::Trials { base: trials(1.0, 13), new: trials(1.1, 13), slow: (0.0, 1.0) },
            Law::Trials { base: trials(1.0, 13), new: trials(1.1, 13), slow: (0.01, 12.0) },
        ] {
            let p = law.p_value(0.05);
            assert!(p > SMALLEST_LEVEL && p < 0.05, "{law:?}: {p}");
            assert!(law.reach(p * 1.05).low <= 0.05 && law.reach(p * 0.95).low >= 0.05, "{law:?}: {p}");
            assert_eq!(law.p_value(0.0), 1.0);
            let smallest = law.smallest_change(0.005).unwrap().ln_1p();
            assert!(smallest > law.reach(0.005).low, "{law:?}");
        }
        assert_eq!(Law::Exact.p_value(1e-6), SMALLEST_LEVEL);
        assert_eq!(Law::Exact.smallest_change(0.05), None);
    }
}
