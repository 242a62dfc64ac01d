//! Warm-up, drift and dependence: each both finds what is there and is silent where nothing is.

use stats::samples::{Marginal, Situation, StationarySeries};
use stats::{Method, dependence, drift, effective_samples, kendall, median_interval, steady, theil_sen, trend};

fn series(phi: f64, noise: f64, samples: usize, seed: u64) -> Vec<f64> {
    let mut series = StationarySeries::new(Situation { phi, marginal: Marginal::Lognormal, noise }, seed);
    series.extend(samples);
    series.samples
}

fn share(runs: u64, hit: impl Fn(u64) -> bool) -> f64 {
    (0..runs).filter(|run| hit(*run)).count() as f64 / runs as f64
}

/// A series that starts 50% slower and settles with a time constant of `decay` samples.
fn warming(samples: usize, decay: f64, seed: u64) -> Vec<f64> {
    let warm = |(x, t): (f64, u32)| x * (1.0 + 0.5 * (-f64::from(t) / decay).exp());
    series(0.3, 0.02, samples, seed).into_iter().zip(0..).map(warm).collect()
}

#[test]
fn dependence_is_unbiased_for_an_autoregression() {
    // 1 + 2 sum (2/pi) asin(phi^k): 1, 2.31 for phi = 0.5, 6.49 for phi = 0.8.
    for (phi, want) in [(0.0, 1.0), (0.5, 2.31), (0.8, 6.49)] {
        let mean = (0..200).map(|seed| dependence(&series(phi, 0.3, 1_000, seed)).inflation).sum::<f64>() / 200.0;
        assert!((mean / want - 1.0).abs() < 0.06, "phi {phi}: {mean}, not {want}");
    }
    assert!(effective_samples(&series(0.8, 0.3, 1_000, 1)) < 300.0);
}

#[test]
fn regimes_that_no_autoregression_explains_fall_back_to_batches() {
    // A level that changes by half a standard deviation every 400 samples: too weak for the order's criterion.
    let level = |t: u32| if (t / 400).is_multiple_of(2) { 1.0 } else { 1.05 };
    let regimes =
        |run| -> Vec<f64> { series(0.0, 0.1, 3_200, run).iter().zip(0..).map(|(x, t)| x * level(t)).collect() };
    let noticed = share(200, |run| median_interval(&regimes(run)).is_none_or(|i| i.method == Method::BatchMeans));
    assert!(noticed > 0.9, "regimes noticed in {noticed}");
    let shifted: Vec<f64> = series(0.0, 0.05, 800, 5).iter().zip(0..).map(|(x, t)| x + f64::from(t / 400)).collect();
    let wide = median_interval(&shifted).is_none_or(|i| i.high - i.low > 0.5);
    assert!(wide, "two levels are known only as two: {:?}", median_interval(&shifted));
    let false_alarms =
        share(500, |run| median_interval(&series(0.5, 0.3, 400, run)).is_none_or(|i| i.method == Method::BatchMeans));
    assert!(false_alarms < 0.02, "{false_alarms}");
}

#[test]
fn warm_up_is_seen_and_steady_series_pass() {
    for phi in [0.0, 0.5, 0.8] {
        let passed = share(500, |run| steady(&series(phi, 0.1, 100, run)));
        assert!(passed > 0.85, "phi {phi}: steady series pass in {passed}");
    }
    let (during, after) = (|run| steady(&warming(40, 15.0, run)), |run| steady(&warming(400, 15.0, run)));
    assert!(share(200, during) < 0.1, "40 samples of a warm-up that lasts as long: {}", share(200, during));
    assert!(share(200, after) > 0.85, "long after it: {}", share(200, after));
    assert!(!steady(&[1.0; 15]) && steady(&[1.0; 16]));
}

#[test]
fn drift_is_found_and_rarely_imagined() {
    for phi in [0.0, 0.5, 0.8] {
        // None of 500: the rate is 0.01%; 1% of these have p < 1%, as a test should.
        assert_eq!(share(500, |run| drift(&series(phi, 0.1, 1_000, run)).is_some()), 0.0, "phi {phi}");
        let suspected = share(2_000, |run| trend(&series(phi, 0.1, 1_000, run)).is_some_and(|t| t.p_value < 0.01));
        assert!((0.001..0.02).contains(&suspected), "phi {phi}: {suspected}");
    }
    let rising = |run| -> Vec<f64> {
        series(0.5, 0.1, 1_000, run).iter().zip(0..).map(|(x, t)| x * (1.0 + 0.2 * f64::from(t) / 999.0)).collect()
    };
    let found = share(200, |run| drift(&rising(run)).is_some_and(|d| (0.1..0.3).contains(&d.change)));
    assert!(found > 0.8, "20% over the run, found in {found}");
    assert!(trend(&[1.0; 99]).is_none(), "too few to tell");
    assert_eq!(drift(&[1.0; 1_000]), None);
}

#[test]
fn kendall_and_theil_sen_match_hand_counts() {
    // 1 2 4 3: five pairs rise, one falls.
    let got = kendall(&[1.0, 2.0, 4.0, 3.0]);
    assert!((got.tau - 4.0 / 6.0).abs() < 1e-12);
    // Slopes 1, 1.5, 2/3, 2, 0.5, -1: median (2/3 + 1) / 2.
    assert!((theil_sen(&[1.0, 2.0, 4.0, 3.0]) - 5.0 / 6.0).abs() < 1e-12);
    assert_eq!(kendall(&[1.0, 1.0]).p_value, 1.0);
}

#[test]
fn drift_over_trials_is_found_and_rarely_imagined() {
    let trials = |phi: f64, seed: u64, count: usize, change: f64| -> Vec<f64> {
        let values = series(phi, 0.03, count, seed);
        values.iter().enumerate().map(|(i, x)| x * (1.0 + change * i as f64 / count as f64)).collect()
    };
    for phi in [0.0, 0.5] {
        let raised = (0..1_000).filter(|seed| stats::trial_drift(&trials(phi, *seed, 28, 0.0)).is_some()).count();
        assert!(raised <= 2, "phi {phi}: {raised} of 1,000");
    }
    let found = (0..100).filter(|seed| stats::trial_drift(&trials(0.0, *seed, 28, 0.3)).is_some()).count();
    assert!(found >= 95, "{found} of 100");
    assert_eq!(stats::trial_drift(&trials(0.0, 1, 12, 3.0)), None, "12 trials are too few");
}
