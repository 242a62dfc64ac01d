//! Quantiles and the summary of a sample. Intervals are elsewhere.

/// A copy of `series` in ascending order.
pub fn sorted(series: &[f64]) -> Vec<f64> {
    debug_assert!(series.iter().all(|x| x.is_finite()), "samples must be finite");
    let mut copy = series.to_vec();
    copy.sort_unstable_by(f64::total_cmp);
    copy
}

/// The value at a fractional rank of an ascending series, `1.0` being the smallest; ranks outside are clamped.
pub(crate) fn at_rank(sorted: &[f64], rank: f64) -> f64 {
    let rank = rank.clamp(1.0, sorted.len() as f64);
    let below = rank.floor();
    let low = sorted[below as usize - 1];
    let high = sorted[(below as usize).min(sorted.len() - 1)];
    low + (rank - below) * (high - low)
}

/// The quantile of an ascending, non-empty series at `p` in 0 to 1: type 7 of Hyndman and Fan (The American
/// Statistician 50, 1996), linear between order statistics at rank `1 + (n-1) p`. It is the default of R, NumPy and
/// spreadsheets, so that a reader who recomputes a percentile gets ours.
///
/// # Panics
/// If the series is empty.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    assert!(!sorted.is_empty(), "a quantile needs at least one sample");
    debug_assert!((0.0..=1.0).contains(&p), "a quantile's probability lies in 0 to 1");
    debug_assert!(sorted.is_sorted(), "a quantile needs an ascending series");
    at_rank(sorted, 1.0 + (sorted.len() - 1) as f64 * p)
}

/// The standard deviation of a sample, over n - 1. None below two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The median of a series in any order; with an even number of samples, the mean of the two in the middle.
///
/// # Panics
/// If the series is empty.
pub fn median(series: &[f64]) -> f64 {
    assert!(!series.is_empty(), "a median needs at least one sample");
    let mut copy = series.to_vec();
    let middle = copy.len() / 2;
    let even = copy.len().is_multiple_of(2);
    let (below, &mut high, _) = copy.select_nth_unstable_by(middle, f64::total_cmp);
    if !even {
        return high;
    }
    // Halving the difference, not the sum: the sum of two large samples could overflow.
    let low = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    low + 0.5 * (high - low)
}
