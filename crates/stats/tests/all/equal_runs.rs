//! Whether intervals of one run hold the medians of equal runs, on a real machine.

use stats::{equal_run_interval, median, sign_interval, states};

use super::states::runs;

/// The trials of each run in one state of the machine, case by case and state by state; runs without such a trial are left out.
fn series() -> Vec<Vec<Vec<f64>>> {
    let runs = runs();
    let found = states(&runs.iter().flatten().cloned().collect::<Vec<_>>());
    let mut all = Vec::new();
    for (case, state) in (0..3).flat_map(|case| (0..found.count()).map(move |state| (case, state))) {
        let mut at = 0;
        let mut of_runs: Vec<Vec<f64>> = Vec::new();
        for run in &runs {
            let trials = run.iter().enumerate().filter(|(round, _)| found.of[at + round] == state);
            of_runs.push(trials.filter_map(|(_, moment)| moment[case]).collect());
            at += run.len();
        }
        of_runs.retain(|trials| !trials.is_empty());
        all.push(of_runs);
    }
    all
}

/// Pairs of a run and a later one, those in which the interval holds the later median, and half of each interval's width.
#[derive(Default)]
struct Held {
    pairs: usize,
    held: usize,
    half_widths: Vec<f64>,
}

fn held(interval: impl Fn(&[f64], &[f64]) -> Option<[f64; 2]>) -> Held {
    let mut found = Held::default();
    for runs in series() {
        let medians: Vec<f64> = runs.iter().map(|trials| median(trials)).collect();
        for (at, trials) in runs.iter().enumerate() {
            let Some([low, high]) = interval(&medians[..at], trials) else { continue };
            found.half_widths.push((high - low) / 2.0 / medians[at]);
            found.pairs += medians.len() - at - 1;
            found.held += medians[at + 1..].iter().filter(|later| low <= **later && **later <= high).count();
        }
    }
    found
}

#[test]
fn the_interval_from_earlier_runs_holds_the_median_of_another_run() {
    let learned = held(|earlier, trials| equal_run_interval(median(trials), earlier));
    let own = held(|earlier, trials| sign_interval(trials).filter(|_| earlier.len() >= stats::FEWEST_EARLIER));
    assert!(learned.pairs > 100, "{}", learned.pairs);
    assert!(10 * learned.held >= 9 * learned.pairs, "{} of {}", learned.held, learned.pairs);
    assert!(10 * own.held < 7 * own.pairs, "the run's own interval does not: {} of {}", own.held, own.pairs);
    let width = median(&learned.half_widths);
    assert!(width < 0.2, "and it still says something: {width}");
}
