//! Intervals over launches, and ratios: coverage and determinism.

use stats::coverage::{Marginal, Series, Situation};
use stats::{hierarchical_interval, hierarchical_ratio_interval, median_interval, ratio_interval};

const WITHIN: Situation = Situation { phi: 0.5, marginal: Marginal::Lognormal, noise: 0.1 };

/// `count` launches of 100 samples, their true medians lognormal around 1 with standard deviation `between`.
fn launches(count: usize, between: f64, seed: u64) -> Vec<Vec<f64>> {
    let mut placement = Series::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise: between }, seed);
    placement.extend(count);
    let launch = |(index, level): (usize, &f64)| {
        let mut series = Series::new(WITHIN, seed.wrapping_mul(7919).wrapping_add(index as u64 + 1));
        series.extend(100);
        series.samples.iter().map(|x| x * level).collect()
    };
    placement.samples.iter().enumerate().map(launch).collect()
}

fn share(runs: u64, hit: impl Fn(u64) -> bool) -> f64 {
    (0..runs).filter(|run| hit(*run)).count() as f64 / runs as f64
}

/// Standard error at 500 runs: 1%.
const RUNS: u64 = 500;
const BOUNDS: std::ops::RangeInclusive<f64> = 0.92..=0.98;

#[test]
fn launch_intervals_cover_whether_launches_differ_or_not() {
    for (between, count) in [(0.0, 5), (0.01, 2), (0.01, 3), (0.01, 5), (0.01, 20), (0.1, 5)] {
        let coverage = share(RUNS, |run| {
            hierarchical_interval(&launches(count, between, run), run).is_some_and(|i| i.contains(1.0))
        });
        assert!(BOUNDS.contains(&coverage), "{count} launches, between {between}: {coverage}");
    }
}

#[test]
fn ratio_intervals_cover() {
    let within = share(RUNS, |run| {
        let (a, b) = (&launches(1, 0.0, 2 * run)[0], &launches(1, 0.0, 2 * run + 1)[0]);
        ratio_interval(a, b, run).is_some_and(|r| r.interval.contains(1.0))
    });
    let over = share(RUNS, |run| {
        let (a, b) = (launches(5, 0.05, 2 * run), launches(5, 0.05, 2 * run + 1));
        hierarchical_ratio_interval(&a, &b, run).is_some_and(|r| r.interval.contains(1.0))
    });
    assert!(BOUNDS.contains(&within), "within a launch: {within}");
    assert!(BOUNDS.contains(&over), "over launches: {over}");
}

#[test]
fn pooled_samples_of_several_launches_would_not_cover() {
    // Why launches are the unit: their pooled samples know nothing about the next launch.
    let pooled = share(200, |run| median_interval(&launches(5, 0.1, run).concat()).is_some_and(|i| i.contains(1.0)));
    assert!(pooled < 0.9, "{pooled}");
}

#[test]
fn one_launch_is_labelled_as_such_and_seeds_decide() {
    let one = launches(1, 0.1, 3);
    assert_eq!(hierarchical_interval(&one, 1), median_interval(&one[0]));
    let five = launches(5, 0.1, 3);
    assert_eq!(hierarchical_interval(&five, 1), hierarchical_interval(&five, 1));
    assert_ne!(hierarchical_interval(&five, 1), hierarchical_interval(&five, 2));
    assert_eq!(hierarchical_interval(&[], 1), None);
    assert!(hierarchical_ratio_interval(&five, &one, 1).is_none());
    let same = hierarchical_ratio_interval(&vec![vec![2.0; 9]; 3], &vec![vec![1.0; 9]; 3], 1);
    assert!(same.is_some_and(|r| (r.ratio - 2.0).abs() < 1e-12 && r.interval.high - r.interval.low < 1e-12));
}
