//! Trends over a long run: Theil-Sen slopes and the Mann-Kendall test.

use crate::dependence::autocorrelation;
use crate::distribution::normal_cdf;
use crate::quantile::median;

/// Kendall's rank correlation of a series with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kendall {
    /// Pairs that rise minus pairs that fall, over all pairs: tau-a, in -1 to 1.
    pub tau: f64,
    /// Two-sided p-value of no trend for independent samples: normal approximation with continuity and tie correction.
    pub p_value: f64,
}

/// A trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Change from the first to the last sample along the Theil-Sen line, relative to the median: 0.05 is 5% slower.
    pub change: f64,
    /// Kendall's tau of the block medians.
    pub tau: f64,
    /// Two-sided p-value, corrected for autocorrelation.
    pub p_value: f64,
}

/// Blocks of a series: enough for the normal approximation, few enough that a block outlasts the correlation.
const BLOCKS: usize = 25;

/// The p-value below which there is a drift. Strict, because every case of every run is tested.
const SIGNIFICANT: f64 = 1e-4;

/// The Mann-Kendall test of a series against time (Kendall, Rank Correlation Methods, 1975); O(n^2). Fewer than two
/// samples have no trend: tau 0, p-value 1.
pub fn kendall(series: &[f64]) -> Kendall {
    corrected_kendall(series, 1.0)
}

/// [`kendall`] with the variance of its sum multiplied by `inflation`.
fn corrected_kendall(series: &[f64], inflation: f64) -> Kendall {
    let n = series.len() as f64;
    let mut sum = 0.0;
    for (index, early) in series.iter().enumerate() {
        for late in &series[index + 1..] {
            sum += f64::from(i8::from(late > early) - i8::from(late < early));
        }
    }
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ordered = crate::quantile::sorted(series);
    let ties: f64 = ordered.chunk_by(|a, b| a == b).map(|tied| spread(tied.len() as f64)).sum();
    let variance = (spread(n) - ties) / 18.0 * inflation;
    if variance <= 0.0 {
        return Kendall { tau: 0.0, p_value: 1.0 };
    }
    let z = (sum.abs() - 1.0).max(0.0) / variance.sqrt();
    Kendall { tau: sum / (0.5 * n * (n - 1.0)), p_value: 2.0 * normal_cdf(-z) }
}

/// The median of the slopes between all pairs of samples, per sample (Theil 1950, Sen 1968); 0 under two samples. O(n^2).
pub fn theil_sen(series: &[f64]) -> f64 {
    let mut slopes = Vec::with_capacity(series.len() * series.len().saturating_sub(1) / 2);
    for (index, early) in series.iter().enumerate() {
        slopes.extend(series[index + 1..].iter().zip(1..).map(|(late, steps)| (late - early) / f64::from(steps)));
    }
    if slopes.is_empty() { 0.0 } else { median(&slopes) }
}

/// A significant trend of a series of positive timings in order of time, or `None`: none that 25 block medians show at
/// p < 0.01%, or fewer than 100 samples.
///
/// Whether it matters is the caller's question: require a practical [`Drift::change`] too. On stationary series
/// (autoregressions with phi up to 0.8, 20,000 each) it is raised in under 0.01% for phi up to 0.5 and 600 samples or
/// more, in 0.05% at worst (phi = 0.8, 150 samples: blocks shorter than the correlation).
pub fn drift(series: &[f64]) -> Option<Drift> {
    trend(series).filter(|trend| trend.p_value < SIGNIFICANT)
}

/// The trend of a series of positive timings, significant or not; `None` under 100 samples.
///
/// The variance of the Mann-Kendall sum is inflated by `1 + 2 sum (1 - k/n) r^k`, r being the lag-1 autocorrelation of the
/// detrended block medians (Yue and Wang, Water Resources Management 18, 2004), corrected for its bias and never below 0.
pub fn trend(series: &[f64]) -> Option<Drift> {
    let size = series.len() / BLOCKS;
    if size < 4 {
        return None;
    }
    let medians: Vec<f64> = series[series.len() - size * BLOCKS..].chunks_exact(size).map(median).collect();
    let (slope, test) = slope_and_test(&medians);
    let change = slope * (series.len() - 1) as f64 / size as f64 / median(series).abs();
    // A median of 0 has no relative change.
    change.is_finite().then_some(Drift { change, tau: test.tau, p_value: test.p_value })
}

/// The fewest trials that let this strict test tell a trend from chance.
const TRIALS: usize = 13;

/// A significant trend of trial medians in order of time; None under 13 trials.
pub fn trial_drift(medians: &[f64]) -> Option<Drift> {
    if medians.len() < TRIALS {
        return None;
    }
    let (slope, test) = slope_and_test(medians);
    let change = slope * (medians.len() - 1) as f64 / median(medians).abs();
    let found = change.is_finite().then_some(Drift { change, tau: test.tau, p_value: test.p_value });
    found.filter(|trend| trend.p_value < SIGNIFICANT)
}

/// The slope of values in order of time, and the test of it that their own correlation does not deceive.
fn slope_and_test(medians: &[f64]) -> (f64, Kendall) {
    let slope = theil_sen(medians);
    let detrended: Vec<f64> = medians.iter().zip(0..).map(|(m, block)| m - slope * f64::from(block)).collect();
    let blocks = medians.len() as f64;
    // Two parameters were fitted, so the bias is that of an autoregression around a line, -(2 + 4 r) / n (Kendall 1954).
    let r = ((autocorrelation(&detrended, 1) + 2.0 / blocks) / (1.0 - 4.0 / blocks)).clamp(0.0, 0.95);
    let lags = 1..medians.len();
    let inflation = 1.0 + 2.0 * lags.map(|k| (1.0 - k as f64 / blocks) * r.powi(k as i32)).sum::<f64>();
    (slope, corrected_kendall(medians, inflation))
}
