//! Warm-up: where it ends in a series, and whether the tail is steady.

use crate::dependence::dependence;
use crate::drift::theil_sen;
use crate::quantile::median;

/// Fewest samples that [`steady`] judges: two windows of four can still differ significantly.
const FEWEST: usize = 16;

/// Whether the tail of a warm-up series is steady: the last two quarters do not differ.
///
/// Mood's median test (1954) of the two windows at the two-sided 5% level: the share of samples above the common median,
/// its variance inflated by the dependence of the samples around a Theil-Sen line (around a constant, the warm-up itself
/// would count as correlation and hide). `false` under 16 samples. It cannot prove steadiness: a slope
/// too small for two quarters of the series to show passes, and [`crate::drift`] looks for it in the whole run.
pub fn steady(series: &[f64]) -> bool {
    if series.len() < FEWEST {
        return false;
    }
    let size = series.len() / 4;
    let tail = &series[series.len() - 2 * size..];
    let (early, late) = tail.split_at(size);
    let common = median(tail);
    let above = |window: &[f64]| {
        let weight = |x: &f64| if *x > common { 1.0 } else { 0.5 * f64::from(u8::from(*x == common)) };
        window.iter().map(weight).sum::<f64>() / size as f64
    };
    let slope = tail_slope(tail);
    let around_line: Vec<f64> = tail.iter().zip(0..).map(|(x, t)| x - slope * f64::from(t)).collect();
    // Two windows, each a share of variance F / (4 size).
    let sd = (0.5 * dependence(&around_line).inflation / size as f64).sqrt();
    (above(early) - above(late)).abs() < 1.96 * sd
}

/// The Theil-Sen slope per sample, of at most about 32 to 64 block medians: it is quadratic.
fn tail_slope(tail: &[f64]) -> f64 {
    let size = (tail.len() / 32).max(1);
    let medians: Vec<f64> = tail.chunks_exact(size).map(median).collect();
    theil_sen(&medians) / size as f64
}

/// The number of samples to leave out at the start: MSER-5 (White, Cobb and Spratt, Winter Simulation Conference 2000),
/// the truncation that minimises the squared standard error of what remains, in batches of five, within the first half.
/// Batches are represented by their medians, not their means: one spike near the end would else forbid any truncation.
pub fn warm_up_end(series: &[f64]) -> usize {
    const BATCH: usize = 5;
    let batches: Vec<f64> = series.chunks_exact(BATCH).map(median).collect();
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut best, mut best_start) = (f64::INFINITY, 0);
    // Around the last value, so that the squares do not cancel.
    let origin = batches.last().copied().unwrap_or(0.0);
    for (start, batch) in batches.iter().enumerate().rev() {
        let x = batch - origin;
        sum += x;
        squares += x * x;
        let count = (batches.len() - start) as f64;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        // On equal errors the earlier start: a constant series has no warm-up.
        if start <= batches.len() / 2 && error <= best {
            (best, best_start) = (error, start);
        }
    }
    best_start * BATCH
}
