//! Warm-up: whether the tail of a series is steady.

use crate::dependence::dependence;
use crate::distribution::normal_quantile;
use crate::drift::theil_sen;
use crate::quantile::{median, quantile, sorted};

/// Fewest samples that [`steady`] judges: two windows of four can still differ significantly.
const FEWEST: usize = 16;

/// Inflation above which short residuals are not believed: that of an autoregression with phi = 0.85. A few samples of
/// a curved warm-up look like a random walk. The inflation of a random walk would excuse any change.
const MOST_INFLATION: f64 = 9.0;

/// Whether the tail of a warm-up series is steady: the medians of its last two quarters do not differ.
///
/// A two-sided 5% test of the difference of the two medians against its standard error `sqrt(pi/2) sigma sqrt(2 F / size)`
/// (the median's asymptotic variance, normal residuals); F is the dependence of the residuals around a Theil-Sen line,
/// because around a constant the warm-up itself would count as correlation and hide, and sigma their 75th percentile of
/// absolute size, which neither spikes nor a clock's ticks decide. `false` under 16 samples. It cannot prove steadiness:
/// a slope too small for two quarters of the series to show passes, and [`crate::drift`] looks for it in the whole run.
///
/// Rejected: Mood's median test of the windows, which sees only on which side of the common median a sample lies, and
/// let a third of clearly warming series of 40 samples pass.
pub fn steady(series: &[f64]) -> bool {
    if series.len() < FEWEST {
        return false;
    }
    let size = series.len() / 4;
    let tail = &series[series.len() - 2 * size..];
    let (early, late) = tail.split_at(size);
    let slope = tail_slope(tail);
    let residuals: Vec<f64> = tail.iter().zip(0..).map(|(x, t)| x - slope * f64::from(t)).collect();
    let inflation = dependence(&residuals).inflation.min(MOST_INFLATION);
    let variance_of_medians = std::f64::consts::FRAC_PI_2 * 2.0 * inflation / size as f64;
    (median(early) - median(late)).abs() <= 1.96 * spread(&residuals) * variance_of_medians.sqrt()
}

/// The standard deviation of normal residuals with the same 75th percentile of absolute deviation from the median as
/// these: `z(0.875) = 1.1503`. The median absolute deviation would be 0 where a clock gives most samples one value.
fn spread(residuals: &[f64]) -> f64 {
    let center = median(residuals);
    let away: Vec<f64> = residuals.iter().map(|x| (x - center).abs()).collect();
    quantile(&sorted(&away), 0.75) / normal_quantile(0.875)
}

/// The Theil-Sen slope per sample, of at most about 32 to 64 block medians: it is quadratic.
fn tail_slope(tail: &[f64]) -> f64 {
    let size = (tail.len() / 32).max(1);
    let medians: Vec<f64> = tail.chunks_exact(size).map(median).collect();
    theil_sen(&medians) / size as f64
}
