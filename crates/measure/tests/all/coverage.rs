//! 95% intervals hold the true median in 93 to 97% of 2,000 runs of the whole sampling path: calibration, warm-up until
//! steady, the stop rule, the case line. (`stats` tests the interval and the rule alone, over many more situations.)

use serde_json::json;
use stats::coverage::{Marginal, Series, Situation};

use crate::scripted::{Scripted, case, line};

const RUNS: u64 = 2_000;

/// The true median of a call.
const MEDIAN_NS: f64 = 1e6;

/// One run; whether its interval holds the true median, and its samples.
fn run(situation: Situation, seed: u64) -> (bool, u64) {
    let mut series = Series::new(situation, seed);
    let times = move |rank: usize, sample: u64, calls: u32| {
        let missing = (sample as usize + 1).saturating_sub(series.samples.len());
        series.extend(missing);
        // Rank 1 is always the faster: the slowest rank's median is known.
        let share = if rank == 0 { 1.0 } else { 0.7 };
        (MEDIAN_NS * series.samples[sample as usize] * share * f64::from(calls)).round() as u64
    };
    let case = case(2, json!({"max_seconds": 1e5}));
    let launch = Scripted::new(2, times).launch(&case);
    let line = line(&case, &[launch]);
    assert!(line.caveats.is_empty(), "{:?}", line.caveats);
    let [low, high] = line.time_s.expect("times").ci95;
    (low <= MEDIAN_NS / 1e9 && MEDIAN_NS / 1e9 <= high, line.samples.unwrap_or(0))
}

#[test]
fn intervals_cover_the_true_median_through_the_whole_path() {
    let mut table = String::new();
    let mut failed = 0;
    for (phi, noise) in [(0.0, 0.07), (0.5, 0.07), (0.8, 0.07), (0.8, 0.02)] {
        let situation = Situation { phi, marginal: Marginal::Lognormal, noise };
        let runs: Vec<(bool, u64)> = (0..RUNS).map(|seed| run(situation, 7_000_000 + seed)).collect();
        let coverage = runs.iter().filter(|(covered, _)| *covered).count() as f64 / RUNS as f64;
        let samples = runs.iter().map(|(_, samples)| samples).sum::<u64>() as f64 / RUNS as f64;
        failed += usize::from(!(0.93..=0.97).contains(&coverage));
        table += &format!("phi {phi}, noise {noise}: {:.2}% covered, {samples:.0} samples\n", 100.0 * coverage);
    }
    assert!(failed == 0, "{failed} situations outside 93 to 97%:\n{table}");
}
