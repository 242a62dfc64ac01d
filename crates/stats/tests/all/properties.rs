//! What holds for every series of positive timings.

use proptest::prelude::*;
use stats::{
    again_interval, drift, median, median_interval, paired_ratio, pooled_correlation, quantile, sign_interval, steady,
};

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
    fn nothing_is_ever_nan(a in timings(), b in timings()) {
        let mut numbers = Vec::new();
        let interval = |i: stats::Interval| [i.low, i.high, i.effective_samples];
        numbers.extend(median_interval(&a).map(interval).into_iter().flatten());
        if let Some(ratio) = paired_ratio(&a, &b) {
            let ends = ratio.ends.unwrap_or([ratio.mid; 2]);
            prop_assert!(ends[0] <= ratio.mid && ratio.mid <= ends[1]);
            numbers.extend([ratio.mid, ends[0], ends[1]]);
        }
        numbers.extend(drift(&a).into_iter().flat_map(|d| [d.change, d.tau, d.p_value]));
        prop_assert!(numbers.iter().all(|x| x.is_finite()), "{numbers:?}");
        steady(&a);
    }

    #[test]
    fn intervals_over_trials_nest(trials in timings(), correlation in 0.0..1.0) {
        let printed = sign_interval(&trials);
        prop_assert_eq!(printed.is_some(), trials.len() >= 6);
        if let Some(([low, high], [wide_low, wide_high])) = printed.zip(again_interval(&trials, correlation)) {
            let median = median(&trials);
            prop_assert!(wide_low <= low && low <= median && median <= high && high <= wide_high);
        }
        if let Some(pooled) = pooled_correlation([trials.as_slice(), trials.as_slice()]) {
            prop_assert!((0.0..=0.9).contains(&pooled));
        }
    }
}

#[test]
fn few_samples_have_no_interval() {
    assert!(median_interval(&[]).is_none());
    for n in 1..6 {
        let series: Vec<f64> = (0..n).map(|i| 1.0 + f64::from(i)).collect();
        assert_eq!(median_interval(&series), None, "{n} samples cannot bound a median at 95%");
    }
}

#[test]
fn a_constant_series_has_a_point() {
    let interval = median_interval(&[3.0; 100]).expect("100 samples suffice");
    assert_eq!((interval.low, interval.high), (3.0, 3.0));
    assert_eq!(sign_interval(&[3.0; 6]), Some([3.0, 3.0]));
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
