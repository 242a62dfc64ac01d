//! Several launches of a case: each counts once, and the interval is of launches.

use measure::Launch;
use serde_json::json;
use stats::coverage::{Marginal, Series, Situation};

use crate::scripted::{Scripted, case, line};

/// A launch whose calls take `call_ns`, with noise of 1%.
fn launch(call_ns: f64, seed: u64, samples: usize) -> Launch {
    let mut series = Series::new(Situation { phi: 0.5, marginal: Marginal::Lognormal, noise: 0.01 }, seed);
    // Calibration takes some.
    series.extend(samples + 20);
    let values = series.samples;
    let times = move |_: usize, sample: u64, calls: u32| (call_ns * values[sample as usize] * f64::from(calls)) as u64;
    Scripted::new(2, times).launch(&case(2, json!({"warmup": 0, "iters": samples})))
}

#[test]
fn the_headline_is_the_median_of_launch_medians() {
    let case = case(2, json!({"launches": 5}));
    // The slowest launch has most of the samples, and counts once.
    let launches: Vec<Launch> = [(1e5, 50), (1.1e5, 50), (1.2e5, 50), (1.3e5, 50), (1.4e5, 5_000)]
        .iter()
        .zip(0..)
        .map(|((ns, n), seed)| launch(*ns, seed, *n))
        .collect();
    let medians: Vec<f64> = launches.iter().map(|launch| stats::median(&launch.series())).collect();
    let line = line(&case, &launches);
    let time = line.time_s.unwrap();
    assert_eq!((line.launches, line.samples, time.median), (Some(5), Some(5_200), medians[2]));
    assert!(time.p50 > 1.3e-4, "percentiles are of all samples");
    // Within a launch the median is known to a permille; launches differ by a tenth.
    assert!(time.ci95[0] < 1.1e-4 && time.ci95[1] > 1.3e-4, "{:?}", time.ci95);
    let series: Vec<Vec<f64>> = launches.iter().map(Launch::series).collect();
    let expected = stats::hierarchical_interval(&series, 1).unwrap();
    assert_eq!(time.ci95, [expected.low, expected.high]);
}

#[test]
fn one_launch_has_the_interval_of_its_own_series() {
    let one = launch(1e5, 3, 400);
    let expected = stats::median_interval(&one.series()).unwrap();
    let line = line(&case(2, json!({})), &[one]);
    assert!(line.per_launch_median_s.is_empty());
    let time = line.time_s.unwrap();
    assert_eq!(time.ci95, [expected.low, expected.high]);
    assert!(expected.contains(time.median) && expected.contains(1e-4));
}

#[test]
fn samples_of_other_numbers_of_calls_are_divided_by_their_own() {
    // 10 us a call in both: 3 calls a sample in one launch, 30 in the other.
    let fast = launch(1e4, 1, 100);
    let mut slow = fast.clone();
    slow.calls *= 10;
    slow.samples.iter_mut().flatten().for_each(|ns| *ns *= 10);
    let line = line(&case(2, json!({})), &[fast, slow]);
    let ranks = line.per_rank_median_s.unwrap();
    assert!((ranks[0] / 1e-5 - 1.0).abs() < 0.01 && ranks.len() == 2, "{ranks:?}");
    assert!((line.time_s.unwrap().median / 1e-5 - 1.0).abs() < 0.01);
    let launches = line.per_launch_median_s;
    assert!(launches.len() == 2 && launches.iter().all(|median| (median / 1e-5 - 1.0).abs() < 0.01), "{launches:?}");
}
