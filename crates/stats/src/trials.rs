//! Intervals over trials: what a run's trial medians say of the run's own span, of an equal run soon after, and of the
//! ratio of two cases.
//!
//! A trial is one visit to a case and gives one observation, its median. Trials lie evenly over the span of a run, so
//! their order statistics bracket the median over that span whatever the correlation between them (the *sign interval*;
//! David and Nagaraja, Order Statistics, section 7.1). What an equal run would show is less certain: there the lag-1 rank
//! correlation counts. `examples/coverage` simulates both claims.

use crate::distribution::normal_quantile;
use crate::quantile::{median, sorted};

/// Numbers of trials at which a run looks at an interval to decide whether it may stop. Few, because each further look
/// selects intervals that happen to be narrow.
pub const LOOKS: [usize; 6] = [6, 9, 13, 19, 28, 42];

/// The most trials of a case: the last look.
pub const MOST_TRIALS: usize = LOOKS[LOOKS.len() - 1];

/// The fewest trials that have an interval: the smallest and the largest of six hold the median with 1 - 2^-5 = 96.9%.
pub const FEWEST_TRIALS: usize = LOOKS[0];

/// The largest lag-1 correlation that is believed; beyond, no number of trials in question would have an interval.
pub(crate) const MOST_CORRELATION: f64 = 0.9;

/// Cases of one run share the machine's moods: more than so many do not make their pooled correlation better known.
const INDEPENDENT_CASES: usize = 6;

/// What an interval of 95% leaves out.
const LEVEL: f64 = 0.05;

/// The largest k so that the k-th smallest and the k-th largest of `n` observations hold the median with `1 - level`.
pub(crate) fn sign_rank(n: usize, level: f64) -> Option<usize> {
    // Beyond, the first term is too small for a number, and the binomial is normal.
    const EXACT: usize = 1_000;
    if n > EXACT {
        let reach = normal_quantile(1.0 - level / 2.0) * (n as f64 / 4.0).sqrt();
        return Some(((n as f64 + 1.0) / 2.0 - reach).floor() as usize);
    }
    let (mut below, mut term) = (0.0, 0.5f64.powi(n as i32));
    let mut rank = 0;
    // `below` is P(X < k + 1) of a binomial with probability 1/2.
    for k in 0..n / 2 {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        if 2.0 * below > level {
            break;
        }
        rank = k + 1;
    }
    (rank > 0).then_some(rank)
}

fn order_statistics(values: &[f64], rank: usize) -> [f64; 2] {
    let ordered = sorted(values);
    [ordered[rank - 1], ordered[ordered.len() - rank]]
}

/// The 95% interval of the median over the span that these trials lie in evenly. None below [`FEWEST_TRIALS`].
pub fn sign_interval(trials: &[f64]) -> Option<[f64; 2]> {
    sign_rank(trials.len(), LEVEL).map(|rank| order_statistics(trials, rank))
}

/// The 95% interval of what an equal run soon after shows, where `correlation` is what [`pooled_correlation`] gives: the
/// sign interval with ranks widened as far as the variance of the median grows. None where these ranks leave the trials.
pub fn again_interval(trials: &[f64], correlation: f64) -> Option<[f64; 2]> {
    let n = trials.len() as f64;
    let q = correlation.clamp(0.0, MOST_CORRELATION);
    let reach = 1.96 * (n / 4.0 * (1.0 + q) / (1.0 - q)).sqrt();
    let rank = ((n + 1.0) / 2.0 - reach).floor();
    let rank = sign_rank(trials.len(), LEVEL)?.min(if rank >= 1.0 { rank as usize } else { 0 });
    (rank > 0).then(|| order_statistics(trials, rank))
}

/// Ranks of the values around their mean; equal values share theirs.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let count = |value: f64, below: fn(f64, f64) -> bool| values.iter().filter(|other| below(**other, value)).count();
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let rank = |value: &f64| {
        let (less, equal) = (count(*value, |a, b| a < b), count(*value, |a, b| a == b));
        less as f64 + (equal as f64 - 1.0) / 2.0 - middle
    };
    values.iter().map(rank).collect()
}

/// Correlation of the ranks of neighbouring trials, its bias of -1/n taken back. None for a constant series and below
/// four trials.
pub(crate) fn lag_one(trials: &[f64]) -> Option<f64> {
    let ranks = centred_ranks(trials);
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let products: f64 = ranks.windows(2).map(|pair| pair[0] * pair[1]).sum();
    (trials.len() >= 4 && squares > 0.0).then(|| products / squares + 1.0 / trials.len() as f64)
}

/// The lag-1 rank correlation of trials, pooled over the cases of a run (each by its number of trials), plus half its
/// standard error: what [`again_interval`] takes. One run's correlation is known badly, and too small a one makes
/// intervals that do not hold. None where no case has four trials that differ.
pub fn pooled_correlation<'t>(cases: impl IntoIterator<Item = &'t [f64]>) -> Option<f64> {
    let (mut sum, mut weight, mut count) = (0.0, 0.0, 0usize);
    for trials in cases {
        let Some(correlation) = lag_one(trials) else { continue };
        sum += correlation * trials.len() as f64;
        weight += trials.len() as f64;
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let each = weight / count as f64;
    let error = 1.0 / (each * count.min(INDEPENDENT_CASES) as f64).sqrt();
    Some((sum / weight + 0.5 * error).clamp(0.0, MOST_CORRELATION))
}

/// A ratio with its 95% interval, where there are enough trials for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the ratios, or the ratio of the medians of two runs.
    pub mid: f64,
    /// Low and high end.
    pub ends: Option<[f64; 2]>,
}

/// The ratio of two cases of one run: the median of the ratios of trials of the same round, and their sign interval.
/// `a` and `b` hold the medians of the same rounds in the same order. None without a round or with a time of zero.
///
/// Rejected: the quotient of the two medians, which sees the machine's changes between rounds as a difference of cases.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    let rounds = a.len().min(b.len());
    let (a, b) = (&a[..rounds], &b[..rounds]);
    if rounds == 0 || !a.iter().chain(b).all(usable) {
        return None;
    }
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    Some(Ratio { mid: median(&ratios), ends: sign_interval(&ratios) })
}

/// The median of one run's case and the interval in which an equal run's lies ([`again_interval`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunMedian {
    /// The median of its trials.
    pub median: f64,
    /// See [`again_interval`].
    pub again: Option<[f64; 2]>,
}

/// The ratio of the same case in two runs made at different times. The distances of both medians to the ends of their
/// intervals add in quadrature on logarithms (Zou and Donner, Statistics in Medicine 27, 2008).
pub fn run_ratio(a: RunMedian, b: RunMedian) -> Option<Ratio> {
    let positive = |run: &RunMedian| run.median > 0.0 && run.again.is_none_or(|[low, _]| low > 0.0);
    if !positive(&a) || !positive(&b) {
        return None;
    }
    let mid = a.median / b.median;
    let ends = a.again.zip(b.again).map(|(of_a, of_b)| {
        let away = |run: RunMedian, [low, high]: [f64; 2]| [(run.median / low).ln(), (high / run.median).ln()];
        let ([a_low, a_high], [b_low, b_high]) = (away(a, of_a), away(b, of_b));
        [mid * (-a_low.hypot(b_high)).exp(), mid * a_high.hypot(b_low).exp()]
    });
    Some(Ratio { mid, ends })
}

/// Half the width of an interval relative to its center: 0.02 reads "within 2%".
pub fn relative_half_width([low, high]: [f64; 2], center: f64) -> f64 {
    if high > low { 0.5 * (high - low) / center.abs() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        // Order Statistics, table of the sign interval; 5 observations have none.
        let ranks = [6, 9, 13, 19, 28, 42].map(|trials| sign_rank(trials, LEVEL));
        assert_eq!(ranks, [Some(1), Some(2), Some(3), Some(5), Some(9), Some(15)]);
        assert_eq!((sign_rank(5, LEVEL), sign_rank(0, LEVEL)), (None, None));
        assert_eq!(sign_interval(&[3.0, 1.0, 2.0, 6.0, 5.0, 4.0]), Some([1.0, 6.0]));
        assert_eq!(sign_interval(&[1.0; 5]), None);
    }

    /// Records of other tools may have thousands of runs of a case.
    #[test]
    fn many_observations_have_an_interval_and_not_a_point() {
        let interval = |count: u32| sign_interval(&(0..count).map(f64::from).collect::<Vec<f64>>());
        // Half a rank and 1.96 deviations of sqrt(n) / 2 from the middle.
        assert_eq!(interval(2_000), Some([955.0, 1_044.0]));
        let widths = [999, 1_000, 1_001, 1_002].map(|count| interval(count).map(|[low, high]| high - low).unwrap());
        assert!(widths.iter().all(|width| (60.0..=66.0).contains(width)), "{widths:?}");
    }

    #[test]
    fn correlation_widens_and_in_the_end_forbids() {
        let trials: Vec<f64> = (0..28).map(|i| f64::from((i * 11) % 28)).collect();
        let width = |q: f64| again_interval(&trials, q).map(|[low, high]| high - low);
        assert_eq!(again_interval(&trials, 0.0), sign_interval(&trials));
        assert!(width(0.0) < width(0.3) && width(0.3) < width(0.6), "{:?}", [0.0, 0.3, 0.6].map(width));
        assert_eq!(again_interval(&trials[..6], 0.3), None);
    }

    #[test]
    fn correlation_is_that_of_ranks() {
        let rising: Vec<f64> = (0..20).map(|i| f64::from(i).exp()).collect();
        assert!(lag_one(&rising).unwrap() > 0.8);
        let alternating: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        assert!(lag_one(&alternating).unwrap() < -0.8);
        assert_eq!(lag_one(&[1.0; 20]), None);
        assert_eq!(pooled_correlation([[1.0; 20].as_slice()]), None);
        assert_eq!(pooled_correlation([alternating.as_slice()]), Some(0.0), "never below none");
        let pooled = pooled_correlation([rising.as_slice(), alternating.as_slice()]).unwrap();
        assert!((0.0..0.5).contains(&pooled), "{pooled}");
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        // The machine's speed changes tenfold between rounds; b always takes twice as long.
        let a = [1.0, 10.0, 1.0, 10.0, 1.0, 10.0, 1.0];
        let b = a.map(|a| 2.0 * a);
        assert_eq!(paired_ratio(&b, &a), Some(Ratio { mid: 2.0, ends: Some([2.0, 2.0]) }));
        assert_eq!(paired_ratio(&b[..3], &a), Some(Ratio { mid: 2.0, ends: None }));
        // Not the quotient of the medians, 3 over 2: in most rounds the first is the quicker one.
        let mid = paired_ratio(&[1.0, 10.0, 3.0], &[2.0, 1.0, 9.0]).map(|ratio| ratio.mid);
        assert_eq!(mid, Some(0.5));
        assert_eq!(paired_ratio(&[], &a), None);
        assert_eq!(paired_ratio(&[0.0], &a), None);
    }

    #[test]
    fn ratios_of_runs_hold_what_both_sides_do_not_know() {
        let run = |median: f64, share: f64| RunMedian { median, again: Some([median / share, median * share]) };
        let [low, high] = run_ratio(run(2.0, 1.1), run(1.0, 1.1)).unwrap().ends.unwrap();
        let expected = (2f64.sqrt() * 1.1f64.ln()).exp();
        assert!((high / 2.0 - expected).abs() < 1e-12 && (2.0 / low - expected).abs() < 1e-12);
        assert_eq!(run_ratio(run(2.0, 1.1), RunMedian { median: 1.0, again: None }).unwrap().ends, None);
    }
}
