//! Intervals by bootstrap: several launches of one case, and the ratio of two cases.
//!
//! **The statistic of several launches is the median of the launch medians**, not the pooled median: the launch is the
//! experimental unit, and adaptive sampling takes more samples where it is noisy, so pooling would weigh the noisiest
//! launch most.
//!
//! **Launches are resampled whole.** Launch medians already vary by what samples within a launch add; resampling these
//! again would count it twice, as much as doubling the variance (Davison and Hinkley, Bootstrap Methods and their
//! Application, 1997, section 3.8).
//!
//! **The bootstrap's standard error is studentised by simulation.** Percentiles of the replicates cannot leave the range
//! of the launches, which holds the median in 94% (five launches), 75% (three) or 50% (two) of cases; Student's t with the
//! standard error of a median of three or five covers 98 to 99%. So the critical value is that of the same statistic,
//! median over bootstrap standard error, for normal logarithms of launch medians. Only this step assumes a shape.
//!
//! **Resampling a median costs one random number.** A bootstrap replicate of the median of n samples is an order
//! statistic whose rank has mean (n+1)/2 and variance n/4 (Efron, Annals of Statistics 7, 1979, section 3). Resampling
//! blocks instead of samples widens that variance by the dependence's inflation F, so the rank is drawn from the law
//! that `interval` uses; Student's factor carries the uncertainty of F. Rejected: copying blocks, which gives the same
//! law after 10,000 times the work and needs a block length.
//!
//! All draws come from xoshiro256++ with the caller's seed: the same on every machine.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::distribution::normal_quantile;
use crate::interval::{Interval, Method, RankLaw, median_interval};
use crate::quantile::{at_rank, median, quantile, sorted};

/// Replicates: the standard error of a 2.5% quantile is then 2.5% of the standard deviation.
const REPLICATES: usize = 4_000;

/// The 95% interval of a ratio of medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioInterval {
    /// Median of `a` over median of `b`; of pairs, the median of their ratios.
    pub ratio: f64,
    /// Its interval; `effective_samples` is the smaller of the two sides, or the number of pairs.
    pub interval: Interval,
}

/// Normal samples simulated for a critical value: its own standard error is then 1% (3% at two launches).
const CALIBRATIONS: usize = 20_000;

/// The 95% interval of the median of launch medians. Every launch is a series of positive timings in order of time.
///
/// `exp(ln m +- q s)`, s the bootstrap's standard error of the logarithm and q its critical value, see the module's text.
/// One launch says nothing about the variation between launches: its [`median_interval`] is returned, and its method
/// says so. `None` without launches, or if that one has too few samples.
pub fn hierarchical_interval(launches: &[Vec<f64>], seed: u64) -> Option<Interval> {
    let filled: Vec<&Vec<f64>> = launches.iter().filter(|launch| !launch.is_empty()).collect();
    match filled.as_slice() {
        [] => None,
        [only] => median_interval(only),
        _ => {
            let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
            let side = Side::of(launches, random)?;
            let reach = side.error() * critical_value(&[&side], random);
            Some(around(side.center(), reach, filled.len() as f64, Method::HierarchicalBootstrap))
        }
    }
}

/// The 95% interval of median(a) / median(b), each a series of positive timings within one launch, in order of time;
/// `None` when either side is too short for an interval of its own. Says nothing about variation between launches.
pub fn ratio_interval(a: &[f64], b: &[f64], seed: u64) -> Option<RatioInterval> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (a, b) = (RankLaw::of(a), RankLaw::of(b));
    let effective_samples = a.interval()?.effective_samples.min(b.interval()?.effective_samples);
    let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let ratios: Vec<f64> = (0..REPLICATES).map(|_| replicate(&a, random) / replicate(&b, random)).collect();
    let ratios = sorted(&ratios);
    let ratio = a.median() / b.median();
    // Percentiles of a skewed law with ties may miss the point by a rounding error.
    let (low, high) = (quantile(&ratios, 0.025).min(ratio), quantile(&ratios, 0.975).max(ratio));
    Some(RatioInterval { ratio, interval: Interval { low, high, effective_samples, method: Method::Bootstrap } })
}

/// The 95% interval of the ratio of the medians of launch medians, as [`hierarchical_interval`]; the critical value is
/// simulated at the two sides' own standard errors (the problem of Behrens and Fisher has no exact one). `None` unless
/// both sides have at least two launches.
pub fn hierarchical_ratio_interval(a: &[Vec<f64>], b: &[Vec<f64>], seed: u64) -> Option<RatioInterval> {
    let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let (a, b) = (Side::of(a, random)?, Side::of(b, random)?);
    let reach = a.error().hypot(b.error()) * critical_value(&[&a, &b], random);
    let center = a.center() - b.center();
    let launches = a.logs.len().min(b.logs.len()) as f64;
    let interval = around(center, reach, launches, Method::HierarchicalBootstrap);
    Some(RatioInterval { ratio: center.exp(), interval })
}

/// The 95% interval of a ratio whose two sides were launched together: the median of the ratios launch by launch, of launch
/// medians `a[i]` and `b[i]`, in which what changes from launch to launch and meets both sides alike does not show. As
/// [`hierarchical_interval`] of these ratios; None below two pairs, or if the sides are not equally long.
pub fn paired_ratio_interval(a: &[f64], b: &[f64], seed: u64) -> Option<RatioInterval> {
    if a.len() != b.len() {
        return None;
    }
    let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
    let ratios = Side::of_medians(a.iter().zip(b).map(|(a, b)| a / b), random)?;
    let reach = ratios.error() * critical_value(&[&ratios], random);
    let interval = around(ratios.center(), reach, ratios.logs.len() as f64, Method::HierarchicalBootstrap);
    Some(RatioInterval { ratio: ratios.center().exp(), interval })
}

fn around(center: f64, reach: f64, effective_samples: f64, method: Method) -> Interval {
    Interval { low: (center - reach).exp(), high: (center + reach).exp(), effective_samples, method }
}

/// One bootstrap replicate of a series' median.
fn replicate(law: &RankLaw, random: &mut Xoshiro256PlusPlus) -> f64 {
    at_rank(&law.sorted, law.center() + standard_normal(random) * law.reach() / normal_quantile(0.975))
}

fn standard_normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    // Half of the last of 53 random bits away from 0, where the quantile would be infinite.
    normal_quantile((random.random::<f64>() + 2f64.powi(-54)).min(1.0 - 2f64.powi(-53)))
}

/// The launches of one side.
struct Side {
    /// Logarithms of launch medians, ascending.
    logs: Vec<f64>,
    /// The replicates of their median: the two ranks (from 0) whose mean it is, and its share of the replicates.
    replicates: Vec<(usize, usize, f64)>,
}

impl Side {
    /// `None` under two launches with samples.
    fn of(launches: &[Vec<f64>], random: &mut Xoshiro256PlusPlus) -> Option<Side> {
        let filled = launches.iter().filter(|launch| !launch.is_empty());
        Self::of_medians(filled.map(|launch| median(launch)), random)
    }

    fn of_medians(medians: impl Iterator<Item = f64>, random: &mut Xoshiro256PlusPlus) -> Option<Side> {
        let medians: Vec<f64> = medians.collect();
        debug_assert!(medians.iter().all(|m| *m > 0.0), "timings are positive");
        let logs: Vec<f64> = medians.iter().map(|m| m.max(f64::MIN_POSITIVE).ln()).collect();
        (logs.len() >= 2).then(|| Side { replicates: resampled_ranks(logs.len(), random), logs: sorted(&logs) })
    }

    fn center(&self) -> f64 {
        quantile(&self.logs, 0.5)
    }

    fn error(&self) -> f64 {
        self.error_of(&self.logs)
    }

    /// The bootstrap's standard error of the median of as many ascending values.
    fn error_of(&self, ascending: &[f64]) -> f64 {
        let center = quantile(ascending, 0.5);
        let (mut first, mut second) = (0.0, 0.0);
        for (low, high, share) in &self.replicates {
            let away = 0.5 * (ascending[*low] + ascending[*high]) - center;
            first += share * away;
            second += share * away * away;
        }
        (second - first * first).max(0.0).sqrt()
    }
}

/// The ranks at which medians of resamples of `count` values fall; the values themselves do not matter.
fn resampled_ranks(count: usize, random: &mut Xoshiro256PlusPlus) -> Vec<(usize, usize, f64)> {
    let mut replicates: Vec<(usize, usize)> = (0..REPLICATES)
        .map(|_| {
            let mut draw: Vec<usize> = (0..count).map(|_| random.random_range(0..count)).collect();
            draw.sort_unstable();
            (draw[(count - 1) / 2], draw[count / 2])
        })
        .collect();
    replicates.sort_unstable();
    let share = |same: &[(usize, usize)]| (same[0].0, same[0].1, same.len() as f64 / REPLICATES as f64);
    replicates.chunk_by(|a, b| a == b).map(share).collect()
}

/// The 95% quantile of |sum of medians| / standard error for normal launches, each side of the scale of its error.
fn critical_value(sides: &[&Side], random: &mut Xoshiro256PlusPlus) -> f64 {
    let scales: Vec<f64> = sides.iter().map(|side| side.error() * (side.logs.len() as f64).sqrt()).collect();
    if scales.iter().all(|scale| *scale <= 0.0) {
        // No spread at all: the interval is a point whatever the value.
        return 1.0;
    }
    let statistics: Vec<f64> = (0..CALIBRATIONS)
        .map(|_| {
            let (mut sum, mut variance) = (0.0, 0.0);
            for (side, scale) in sides.iter().zip(&scales) {
                let draw: Vec<f64> = side.logs.iter().map(|_| scale * standard_normal(random)).collect();
                let draw = sorted(&draw);
                sum += quantile(&draw, 0.5);
                variance += side.error_of(&draw).powi(2);
            }
            sum.abs() / variance.sqrt().max(f64::MIN_POSITIVE)
        })
        .collect();
    quantile(&sorted(&statistics), 0.95)
}
