//! Intervals over launches, and ratios: coverage and determinism.

use stats::coverage::{Marginal, Series, Situation};
use stats::{
    hierarchical_interval, hierarchical_ratio_interval, median_interval, paired_ratio_interval, ratio_interval,
};

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

/// Placements that meet both sides alike: pairs see a difference of 10% where either side varies by a factor of two.
#[test]
fn ratios_of_pairs_cover_and_leave_out_what_both_sides_share() {
    let pairs = |seed: u64| -> [Vec<f64>; 2] {
        let placement = Series::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise: 0.7 }, seed);
        let own = |seed| Series::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise: 0.02 }, seed);
        let mut series = [placement, own(2 * seed + 5_001), own(2 * seed + 5_002)];
        series.iter_mut().for_each(|series| series.extend(5));
        let [placement, a, b] = series.map(|series| series.samples);
        let with = |factor: f64, own: Vec<f64>| own.iter().zip(&placement).map(|(x, y)| x * y * factor).collect();
        [with(1.1, a), with(1.0, b)]
    };
    let covered = share(RUNS, |run| {
        let [a, b] = pairs(run);
        paired_ratio_interval(&a, &b, run).is_some_and(|r| r.interval.contains(1.1))
    });
    assert!(BOUNDS.contains(&covered), "{covered}");
    let seen = share(RUNS, |run| {
        let [a, b] = pairs(run);
        paired_ratio_interval(&a, &b, run).is_some_and(|r| r.interval.low > 1.0)
    });
    let apart = share(200, |run| {
        let launches = pairs(run).map(|medians| medians.into_iter().map(|median| vec![median]).collect::<Vec<_>>());
        hierarchical_ratio_interval(&launches[0], &launches[1], run).is_some_and(|r| r.interval.low > 1.0)
    });
    assert!(seen > 0.9 && apart < 0.1, "{seen} {apart}");
    assert!(paired_ratio_interval(&[1.0], &[1.0], 1).is_none());
    assert!(paired_ratio_interval(&[1.0, 2.0], &[1.0, 2.0, 3.0], 1).is_none());
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
