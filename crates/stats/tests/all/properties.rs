//! What holds for every series of positive timings.

use proptest::prelude::*;
use stats::{Decision, StopReason, StopRule};
use stats::{drift, hierarchical_interval, median, median_interval, quantile, ratio_interval, steady, summary};

fn timings() -> impl Strategy<Value = Vec<f64>> {
    let spiky = prop_oneof![8 => 1e-6..2e-6, 1 => 1e-6..1e-3];
    let quantised = (1u32..6).prop_map(|ticks| f64::from(ticks) * 1e-7);
    prop_oneof![prop::collection::vec(spiky, 1..300), prop::collection::vec(quantised, 1..300)]
}

proptest! {
    #[test]
    fn intervals_hold_the_sample_median(series in timings()) {
        if let Some(interval) = median_interval(&series) {
            prop_assert!(interval.contains(median(&series)), "{interval:?}");
            prop_assert!(interval.effective_samples > 0.0 && interval.effective_samples.is_finite());
        }
    }

    #[test]
    fn intervals_scale_with_the_unit(series in timings(), exponent in -20i32..20) {
        // By a power of two, so that not even rounding differs.
        let scale = 2f64.powi(exponent);
        let scaled: Vec<f64> = series.iter().map(|x| x * scale).collect();
        let (plain, scaled) = (median_interval(&series), median_interval(&scaled));
        prop_assert_eq!(plain.map(|i| (i.low * scale, i.high * scale)), scaled.map(|i| (i.low, i.high)));
    }

    #[test]
    fn nothing_is_ever_nan(a in timings(), b in timings(), seed in any::<u64>()) {
        let mut numbers = Vec::new();
        let interval = |i: stats::Interval| [i.low, i.high, i.effective_samples];
        numbers.extend(median_interval(&a).map(interval).into_iter().flatten());
        numbers.extend(hierarchical_interval(&[a.clone(), b.clone()], seed).map(interval).into_iter().flatten());
        if let Some(got) = ratio_interval(&a, &b, seed) {
            prop_assert!(got.interval.contains(got.ratio));
            numbers.extend(interval(got.interval));
        }
        numbers.extend(drift(&a).into_iter().flat_map(|d| [d.change, d.tau, d.p_value]));
        numbers.extend(summary(&a).into_iter().flat_map(|s| [s.median, s.p05, s.p99, s.min, s.max, s.mean, s.sd]));
        prop_assert!(numbers.iter().all(|x| x.is_finite()), "{numbers:?}");
        steady(&a);
        prop_assert!(stats::warm_up_end(&a) <= a.len());
    }

    #[test]
    fn the_stop_rule_ends_and_keeps_its_promises(series in timings(), elapsed in 0.0..2.0) {
        let rule = StopRule { max_samples: 250, ..StopRule::default() };
        match rule.look(&series, elapsed, 1.0) {
            (Decision::Continue { more }, _) => {
                prop_assert!(more >= 1 && series.len() + more <= 250 && elapsed < 1.0);
            }
            (Decision::Stop(StopReason::Precise), interval) => {
                let interval = interval.expect("precise without an interval");
                prop_assert!(interval.relative_half_width(median(&series)) <= rule.target);
                prop_assert_eq!(Some(interval), median_interval(&series));
            }
            (Decision::Stop(StopReason::Budget), _) => prop_assert!(elapsed >= 1.0),
            (Decision::Stop(StopReason::MaxSamples), _) => prop_assert!(series.len() >= 250),
        }
    }
}

#[test]
fn few_samples_have_no_interval() {
    assert!(summary(&[]).is_none() && median_interval(&[]).is_none());
    for n in 1..6 {
        let series: Vec<f64> = (0..n).map(|i| 1.0 + f64::from(i)).collect();
        assert_eq!(median_interval(&series), None, "{n} samples cannot bound a median at 95%");
    }
    assert!(ratio_interval(&[1.0, 2.0], &[1.0, 2.0], 1).is_none());
}

#[test]
fn a_constant_series_has_a_point() {
    let interval = median_interval(&[3.0; 100]).expect("100 samples suffice");
    assert_eq!((interval.low, interval.high), (3.0, 3.0));
    assert_eq!(StopRule::default().decide(&[3.0; 100], 0.1, 1.0), Decision::Stop(StopReason::Precise));
}

#[test]
fn quantiles_are_of_type_7() {
    // R: quantile(c(1, 2, 3, 4, 10), c(.05, .25, .5, .9), type = 7).
    let series = [1.0, 2.0, 3.0, 4.0, 10.0];
    for (p, want) in [(0.05, 1.2), (0.25, 2.0), (0.5, 3.0), (0.9, 7.6), (0.0, 1.0), (1.0, 10.0)] {
        assert!((quantile(&series, p) - want).abs() < 1e-12);
    }
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
}
