//! Times of a call by the clock of a device: of one rank's samples, of ranks, of trials.

use record::found::DeviceTimes;

/// Times of a call from samples in seconds; None of none.
pub fn of_samples(seconds: &[f64]) -> Option<DeviceTimes> {
    let sorted = stats::sorted(seconds);
    let max = sorted.last().copied()?;
    let at = |share| stats::quantile(&sorted, share);
    Some(DeviceTimes { p50: at(0.5), p90: at(0.9), p99: at(0.99), max })
}

/// The times with the longest median.
pub(crate) fn longest(of: impl Iterator<Item = DeviceTimes>) -> Option<DeviceTimes> {
    of.max_by(|a, b| a.p50.total_cmp(&b.p50))
}

/// The median of each, and the longest of all.
pub(crate) fn median(of: &[DeviceTimes]) -> Option<DeviceTimes> {
    let max = of.iter().map(|times| times.max).reduce(f64::max)?;
    let member = |get: fn(&DeviceTimes) -> f64| stats::median(&of.iter().map(get).collect::<Vec<_>>());
    Some(DeviceTimes { p50: member(|of| of.p50), p90: member(|of| of.p90), p99: member(|of| of.p99), max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_counts_and_the_longest_of_all_trials() {
        let samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let one = of_samples(&samples).unwrap();
        assert_eq!([one.p50, one.p90, one.p99, one.max], [50.0, 90.0, 99.0, 100.0]);
        assert_eq!(of_samples(&[]), None);
        let other = DeviceTimes { p50: 60.0, p90: 61.0, p99: 62.0, max: 63.0 };
        assert_eq!(longest([one, other].into_iter()), Some(other));
        let third = DeviceTimes { p50: 70.0, ..one };
        let all = median(&[one, other, third]).unwrap();
        assert_eq!([all.p50, all.p90, all.max], [60.0, 90.0, 100.0]);
        assert_eq!(median(&[]), None);
    }
}
