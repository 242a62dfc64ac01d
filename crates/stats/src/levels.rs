//! The median of one run's trials at any level of confidence, for comparisons of many cases: what an equal run soon after
//! shows, as distances on logarithms.
//!
//! The ranks are those of [`crate::again_interval`], with the level of a corrected comparison in the place of 95%. A strict
//! level needs ranks beyond the smallest and the largest trial. Then the distance to these grows in proportion to the ranks
//! and by Student's t: an assumption about the distribution, so callers say so ([`Reach::extrapolated`]).

use crate::distribution::{normal_quantile, student_quantile};
use crate::quantile::{median, quantile, sorted};
use crate::trials::{FEWEST_TRIALS, MOST_CORRELATION, sign_rank};

/// The inter-quartile range of a normal distribution in standard deviations.
const QUARTILES: f64 = 1.349;

/// The smallest level that is looked at; beyond, quantiles are not accurate.
pub const SMALLEST_LEVEL: f64 = 1e-12;

/// How far from a median an interval reaches on both sides, on natural logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// Downwards.
    pub low: f64,
    /// Upwards.
    pub high: f64,
    /// Whether the level needs more trials than there are, so that the distances rest on a distribution.
    pub extrapolated: bool,
}

/// What the trials of one case in one run say of its median.
#[derive(Clone, Debug, PartialEq)]
pub struct MedianLaw {
    logs: Vec<f64>,
    middle: f64,
    inflation: f64,
    error: f64,
    drift: f64,
}

impl MedianLaw {
    /// The law of trials in their order; `correlation` is what [`crate::pooled_correlation`] gives. None below [`FEWEST_TRIALS`],
    /// and for times that are not positive.
    pub fn new(trials: &[f64], correlation: f64) -> Option<Self> {
        let usable = |trial: &f64| trial.is_finite() && *trial > 0.0;
        if trials.len() < FEWEST_TRIALS || !trials.iter().all(usable) {
            return None;
        }
        let in_order: Vec<f64> = trials.iter().map(|trial| trial.ln()).collect();
        let logs = sorted(&in_order);
        let q = correlation.clamp(0.0, MOST_CORRELATION);
        let inflation = (1.0 + q) / (1.0 - q);
        let n = logs.len() as f64;
        let deviation = (quantile(&logs, 0.75) - quantile(&logs, 0.25)) / QUARTILES;
        // The variance of the median of n normal values is pi / 2n of theirs.
        let error = deviation * (std::f64::consts::FRAC_PI_2 * inflation / n).sqrt();
        let half = in_order.len() / 2;
        let drift = median(&in_order[in_order.len() - half..]) - median(&in_order[..half]);
        Some(Self { middle: median(trials).ln(), logs, inflation, error, drift })
    }

    /// The natural logarithm of the median.
    pub fn middle(&self) -> f64 {
        self.middle
    }

    /// The standard error of [`MedianLaw::middle`] as these trials tell it.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Degrees of freedom of the error.
    pub fn degrees(&self) -> f64 {
        (self.logs.len() - 1) as f64
    }

    /// The squared change from the first half of the run to the second, in units of what trials without a slow change show:
    /// 1 on average for these. None for trials without any spread.
    pub fn slow_change(&self) -> Option<f64> {
        // Two halves have twice the variance each.
        (self.error > 0.0).then(|| self.drift.powi(2) / (4.0 * self.error.powi(2)))
    }

    /// The two-sided interval at this level (0.05 is 95%).
    pub fn reach(&self, level: f64) -> Reach {
        let level = level.clamp(SMALLEST_LEVEL, 0.999);
        let n = self.logs.len();
        if let Some(rank) = rank_at(n, self.inflation, level) {
            let (low, high) = (self.logs[rank - 1], self.logs[n - rank]);
            return Reach {
                low: (self.middle - low).max(0.0),
                high: (high - self.middle).max(0.0),
                extrapolated: false,
            };
        }
        let needed = student_quantile(1.0 - level / 2.0, self.degrees()) * (n as f64 / 4.0 * self.inflation).sqrt();
        let beyond = (needed / ((n - 1) as f64 / 2.0)).max(1.0);
        Reach {
            low: (self.middle - self.logs[0]).max(0.0) * beyond,
            high: (self.logs[n - 1] - self.middle).max(0.0) * beyond,
            extrapolated: true,
        }
    }
}

/// The rank of the order statistic that bounds the median at this level from below; None where it leaves the trials.
fn rank_at(n: usize, inflation: f64, level: f64) -> Option<usize> {
    let reach = normal_quantile(1.0 - level / 2.0) * (n as f64 / 4.0 * inflation).sqrt();
    let widened = ((n as f64 + 1.0) / 2.0 - reach).floor();
    let exact = sign_rank(n, level)?;
    (widened >= 1.0).then(|| exact.min(widened as usize))
}

/// The fewest trials that have an interval at this level without an assumption about their distribution. None beyond 10,000.
pub fn trials_needed(level: f64, correlation: f64) -> Option<usize> {
    let q = correlation.clamp(0.0, MOST_CORRELATION);
    let level = level.clamp(SMALLEST_LEVEL, 0.999);
    (FEWEST_TRIALS..=10_000).find(|n| rank_at(*n, (1.0 + q) / (1.0 - q), level).is_some())
}

/// The quantile of Student's t for a two-sided interval at this level, with these degrees of freedom (at least 1).
pub fn student_two_sided(level: f64, degrees: f64) -> f64 {
    student_quantile(1.0 - level.clamp(SMALLEST_LEVEL, 0.999) / 2.0, degrees.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{again_interval, sign_interval};

    fn trials(count: u32) -> Vec<f64> {
        (0..count).map(|i| 1.0 + f64::from((i * 11) % count) / 100.0).collect()
    }

    #[test]
    fn at_five_percent_it_is_the_interval_of_one_case() {
        for (count, q) in [(6, 0.0), (13, 0.0), (13, 0.2), (28, 0.4), (42, 0.6)] {
            let trials = trials(count);
            let law = MedianLaw::new(&trials, q).unwrap();
            let reach = law.reach(0.05);
            let Some([low, high]) = again_interval(&trials, q) else { panic!("{count} trials, {q}") };
            let middle = law.middle().exp();
            assert!((middle * (-reach.low).exp() - low).abs() < 1e-9, "{count} {q}: {reach:?} {low}");
            assert!((middle * reach.high.exp() - high).abs() < 1e-9 && !reach.extrapolated, "{count} {q}");
        }
        assert_eq!(sign_rank(13, 0.05), Some(3));
        assert_eq!(sign_interval(&trials(13)).map(|ends| ends[0] > 1.0), Some(true));
    }

    #[test]
    fn strict_levels_go_to_the_extremes_and_then_beyond() {
        let trials = trials(13);
        let law = MedianLaw::new(&trials, 0.0).unwrap();
        let widths: Vec<f64> = [0.5, 0.05, 0.01, 1e-3, 1e-5].map(|level| law.reach(level).high).to_vec();
        assert!(widths.is_sorted() && widths[0] < widths[4], "{widths:?}");
        assert!(!law.reach(0.01).extrapolated && law.reach(1e-5).extrapolated);
        // 1 - 2^(1-n): the extremes of 9 trials hold the median with 99.6%.
        assert_eq!(sign_rank(9, 0.0039), None);
        assert_eq!(sign_rank(9, 0.004), Some(1));
        assert!(trials_needed(0.005, 0.0) < trials_needed(0.005, 0.4), "{:?}", trials_needed(0.005, 0.4));
        let needed = trials_needed(0.005, 0.3).unwrap();
        assert!(rank_at(needed, 1.3 / 0.7, 0.005).is_some() && rank_at(needed - 1, 1.3 / 0.7, 0.005).is_none());
    }

    #[test]
    fn a_slow_change_is_told_from_noise() {
        let rising: Vec<f64> = (0..14).map(|i| 1.0 + 0.01 * f64::from(i)).collect();
        let mixed: Vec<f64> = (0..14).map(|i| 1.0 + 0.01 * f64::from((i * 5) % 14)).collect();
        let of = |trials: &[f64]| MedianLaw::new(trials, 0.0).unwrap().slow_change().unwrap();
        assert!(of(&rising) > 3.0 && of(&mixed) < 1.0, "{} {}", of(&rising), of(&mixed));
        assert_eq!(MedianLaw::new(&[1.0; 9], 0.0).unwrap().slow_change(), None);
        assert_eq!(MedianLaw::new(&[1.0; 5], 0.0), None);
        assert_eq!(MedianLaw::new(&[1.0, 1.0, 1.0, 1.0, 1.0, 0.0], 0.0), None);
    }
}
