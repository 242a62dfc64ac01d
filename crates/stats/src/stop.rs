//! When to stop sampling: precise enough, out of time, or at the most samples that a case may store.
//!
//! Looking at an interval again and again and stopping when it happens to be narrow makes it too optimistic: the
//! half width is itself an estimate, and stopping selects its low values. Five things keep the coverage, and the
//! coverage simulation runs with this rule in place:
//!
//! 1. **Two widths must agree.** The width of an order-statistic interval rests on the spacing of few samples around the
//!    median and is noisy (about 20% at 100 samples). The rule also asks for the width predicted from the interquartile
//!    range, which half of the samples determine. The second is the steadier and, wherever the density falls away from
//!    the median, a little the larger, so it decides; the first keeps the promise that the printed interval is within
//!    the target.
//! 2. **Few looks**, at least a quarter more samples apart, at sizes predicted from the width (as in Stein's two-stage
//!    procedure, Annals of Mathematical Statistics 16, 1945: the size is set by earlier samples).
//! 3. **A smallest size**, in samples and in effective samples, below which no look is taken: the inflation by
//!    correlation must be known well enough for Student's t to account for its error.
//! 4. **Student's t with the degrees of freedom of the inflation.**
//! 5. **The inflation is taken half a standard error above its estimate**: what the four above leave of the selection,
//!    see `SELECTION` in `interval`.
//!
//! What they cost and what remains is in the table that `examples/coverage` prints. Aiming beyond the target (10 to 30%
//! more samples than predicted) and fewer looks were tried and changed the coverage by less than 0.4%.

use crate::interval::{Interval, RankLaw};
use crate::quantile::quantile;

/// When to stop. The fields are a plan's values; [`StopRule::default`] is what a plan starts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// Relative half width of the 95% interval of the median to reach; 0.02 is "within 2%".
    pub target: f64,
    /// Samples before the first look.
    pub min_samples: usize,
    /// Effective samples below which the series is never called precise.
    pub min_effective: f64,
    /// Samples at which to stop whatever the precision.
    pub max_samples: usize,
}

impl Default for StopRule {
    fn default() -> Self {
        StopRule { target: 0.02, min_samples: 60, min_effective: 50.0, max_samples: 10_000 }
    }
}

/// Why sampling stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The interval is within the target.
    Precise,
    /// The time is used up.
    Budget,
    /// The most samples were taken.
    MaxSamples,
}

impl StopReason {
    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Precise => "precise",
            StopReason::Budget => "budget",
            StopReason::MaxSamples => "max_samples",
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Take `more` samples (at least one) and ask again. Asking more often costs coverage.
    Continue {
        /// Samples to take before the next look.
        more: usize,
    },
    /// Enough.
    Stop(StopReason),
}

impl StopRule {
    /// Decides after `series`, which took `elapsed_s` of `budget_s` seconds. Cost: one sort, at a number of looks that
    /// grows with the logarithm of the samples if the caller takes what [`Decision::Continue`] asks for.
    pub fn decide(&self, series: &[f64], elapsed_s: f64, budget_s: f64) -> Decision {
        self.look(series, elapsed_s, budget_s).0
    }

    /// [`StopRule::decide`] and the interval that it saw, which is [`crate::median_interval`]'s; `None` also before the
    /// first look.
    pub fn look(&self, series: &[f64], elapsed_s: f64, budget_s: f64) -> (Decision, Option<Interval>) {
        let taken = series.len();
        let out_of_samples = taken >= self.max_samples;
        let out_of_time = elapsed_s >= budget_s;
        if taken == 0 || (taken < self.min_samples && !out_of_samples && !out_of_time) {
            let decision = if taken == 0 && out_of_time {
                Decision::Stop(StopReason::Budget)
            } else {
                self.proceed(taken, self.min_samples.max(1) - taken, elapsed_s, budget_s)
            };
            return (decision, None);
        }
        let law = RankLaw::of(series);
        let shortfall = self.shortfall(&law);
        let decision = if shortfall <= 1.0 && taken >= self.min_samples {
            Decision::Stop(StopReason::Precise)
        } else if out_of_samples {
            Decision::Stop(StopReason::MaxSamples)
        } else if out_of_time {
            Decision::Stop(StopReason::Budget)
        } else {
            let predicted = taken as f64 * (shortfall - 1.0);
            let more = predicted.clamp(0.25 * taken as f64, taken as f64).ceil() as usize;
            self.proceed(taken, more, elapsed_s, budget_s)
        };
        (decision, law.interval())
    }

    /// As many of the `wanted` samples as the limits leave, at least one.
    fn proceed(&self, taken: usize, wanted: usize, elapsed_s: f64, budget_s: f64) -> Decision {
        let left = self.max_samples.saturating_sub(taken);
        let affordable = (budget_s - elapsed_s) / elapsed_s * taken as f64;
        let within_time = if affordable.is_finite() && taken > 0 { affordable as usize } else { usize::MAX };
        Decision::Continue { more: wanted.min(left).min(within_time).max(1) }
    }

    /// How many times the samples taken would do: precision goes with their square root. At most 1 is precise; infinite
    /// when there is no interval.
    fn shortfall(&self, law: &RankLaw) -> f64 {
        let n = law.sorted.len() as f64;
        let Some(interval) = law.interval() else { return f64::INFINITY };
        let median = law.median();
        let quartiles = 0.5 * (quantile(&law.sorted, 0.75) - quantile(&law.sorted, 0.25));
        // The quartiles are n/4 ranks from the median.
        let smooth = if quartiles > 0.0 { quartiles * law.reach() / (0.25 * n) / median.abs() } else { 0.0 };
        let excess = smooth.max(interval.relative_half_width(median)) / self.target;
        (excess * excess).max(self.min_effective / interval.effective_samples)
    }
}
