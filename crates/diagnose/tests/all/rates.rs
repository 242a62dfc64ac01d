//! False verdicts are rare, and planted changes are found: quick versions of `examples/rates`, which has the whole table.

use crate::simulation::{Known, Rates, Situation, simulate};
use crate::skip;

/// Pairs in a situation. A rate of 2%, which is what verdicts have, exceeds 5% of so many in one of a hundred thousand.
const PAIRS: usize = 250;

/// What is left out unless it is asked for.
const NAME: &str = "error rates of comparisons in every situation";

fn at(correlation: f64, between: f64, history: Known) -> Rates {
    let situation = Situation { cases: 10, trials: 13, correlation, noise: 0.03, between, history };
    simulate(&situation, PAIRS, 3)
}

#[test]
fn equal_runs_rarely_differ_in_any_case() {
    let mut missed = Vec::new();
    let correlations = if skip::heavy(NAME) { &[0.0, 0.25, 0.5][..] } else { &[0.25] };
    for &correlation in correlations {
        for (between, known) in [(0.0, Known::Nothing), (0.02, Known::History(8)), (0.02, Known::Baseline(8))] {
            let rates = at(correlation, between, known);
            if rates.any_false > 0.05 || rates.ten_percent_same > 0.0 {
                missed.push((correlation, known, rates));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_planted_change_is_found_and_equal_runs_are_the_same() {
    let mut missed = Vec::new();
    let correlations = if skip::heavy(NAME) { &[0.0, 0.5][..] } else { &[0.5] };
    for &correlation in correlations {
        for known in [Known::History(8), Known::Baseline(8)] {
            let rates = at(correlation, 0.02, known);
            if rates.found < 0.8 || rates.same < 0.8 {
                missed.push((correlation, known, rates));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn more_runs_show_smaller_changes() {
    if !skip::heavy(NAME) {
        return;
    }
    let change = |runs| at(0.25, 0.02, Known::Baseline(runs)).smallest_change;
    assert!(change(20) < change(8) && change(8) < change(5), "{:?}", [5, 8, 20].map(change));
    // Two runs alone never say `same`: nobody knows the noise between runs.
    assert_eq!(at(0.0, 0.0, Known::Nothing).same, 0.0);
}

#[test]
fn without_the_noise_between_runs_equal_runs_would_differ() {
    // What history is for: levels of runs that scatter more than their trials tell.
    let blind = at(0.0, 0.1, Known::Nothing);
    assert!(blind.any_false > 0.2, "{blind:?}");
    let seeing = at(0.0, 0.1, Known::History(8));
    assert!(seeing.any_false <= 0.05, "{seeing:?}");
}
