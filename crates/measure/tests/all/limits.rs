//! The share of a limit under what other programs do to a run: the truth is known, and the interval must hold it.

use measure::{LimitTime, Trial};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::scripted::REAL;
use crate::trials::run;

/// Seconds of the undisturbed ceiling and of the undisturbed call.
const CEILING_S: f64 = 60e-6;
const CALL_S: f64 = 100e-6;
const RUNS: u64 = 1_000;

/// What happens to trial `at` of `of`: the factors of its probe and of its call, and seconds that are added to the call.
type Disturbance = fn(&mut StdRng, usize, usize) -> (f64, f64, f64);

/// Disturbances, each with the call's true time by the median over trials, as a factor of the undisturbed
/// one, and seconds beyond it.
const DISTURBANCES: [(&str, Disturbance, f64, f64); 8] = [
    ("quiet", |_, _, _| (1.0, 1.0, 0.0), 1.0, 0.0),
    ("one slow pair", |_, at, _| if at == 2 { (200.0, 1.1, 0.0) } else { (1.0, 1.0, 0.0) }, 1.0, 0.0),
    ("all calls slow", |_, _, _| (1.0, 3.0, 0.0), 3.0, 0.0),
    ("one fast", |_, at, _| if at == 4 { (0.2, 1.0, 0.0) } else { (1.0, 1.0, 0.0) }, 1.0, 0.0),
    // A fifth of the trials in the fast state: the call's median is slow, the ceiling is not.
    ("states", |_, at, of| if 5 * at < of { (1.0, 1.0, 0.0) } else { (1.6, 1.6, 0.0) }, 1.6, 0.0),
    (
        "neighbours",
        |random, _, _| {
            let slow = |random: &mut StdRng| if random.random_bool(0.4) { random.random_range(1.5..4.0) } else { 1.0 };
            (slow(random), 1.0, 0.0)
        },
        1.0,
        0.0,
    ),
    // All of it becomes slower by a fifth: the median is that of the middle, the ceiling that of the begin.
    (
        "drift",
        |_, at, of| {
            let slower = 1.0 + 0.2 * at as f64 / (of - 1) as f64;
            (slower, slower, 0.0)
        },
        1.1,
        0.0,
    ),
    ("injected delay", |_, _, _| (1.0, 1.0, 2e-3), 1.0, 2e-3),
];

/// A run of 13 trials with noise of 2%, disturbed so.
fn line(disturb: Disturbance, seed: u64) -> record::CaseLine {
    let mut random = StdRng::seed_from_u64(seed);
    let trials = 13;
    let noise = |random: &mut StdRng| 1.0 + 0.02 * random.random_range(-1.7..1.7);
    let factors: Vec<(f64, f64, f64)> = (0..trials).map(|at| disturb(&mut random, at, trials)).collect();
    let calls: Vec<u64> = factors
        .iter()
        .map(|(_, call, extra)| (1e9 * (CALL_S * call * noise(&mut random) + extra)).round() as u64)
        .collect();
    let mut run = run(&calls);
    for (trial, (probe, ..)) in run.trials.iter_mut().zip(&factors) {
        let rounds: Vec<f64> = (0..3).map(|_| CEILING_S * probe * noise(&mut random)).collect();
        trial.limits = vec![LimitTime { variant: "plain".to_owned(), seconds: stats::median(&rounds), rounds }];
    }
    measure::case_line(&run, REAL)
}

#[test]
fn the_interval_of_a_share_holds_the_truth_whatever_disturbs() {
    for (name, disturb, factor, extra) in DISTURBANCES {
        let truth = CEILING_S / (CALL_S * factor + extra);
        let limits: Vec<record::Limit> = (0..RUNS).filter_map(|seed| Some(*line(disturb, seed).limit?)).collect();
        assert_eq!(limits.len() as u64, RUNS, "{name}: a limit is missing");
        let errors: Vec<f64> = limits.iter().map(|limit| (limit.share / truth - 1.0).abs()).collect();
        assert!(stats::median(&errors) < 0.05, "{name}: {}", stats::median(&errors));
        let holds = |limit: &&record::Limit| limit.share_ci95.is_some_and(|[low, high]| low <= truth && truth <= high);
        let held = limits.iter().filter(holds).count() as u64;
        assert!(100 * held >= 95 * RUNS, "{name}: {held} of {RUNS} hold {truth:.3}");
    }
}

/// What the machine cannot do is refused outside; then no share is shown, whatever the probes said.
#[test]
fn a_limit_that_is_impossible_has_no_share() {
    let limit = *line(DISTURBANCES[0].1, 1).limit.unwrap();
    assert!(measure::limit_share(Some(&limit)).is_some_and(|share| (share - 0.6).abs() < 0.05), "{limit:?}");
    let refused = record::Limit { why_not: Some("too fast".to_owned()), ..limit };
    assert_eq!(measure::limit_share(Some(&refused)), None);
}

#[test]
fn a_limit_of_one_trial_is_none() {
    let mut run = run(&[100_000; 6]);
    let probe = LimitTime { variant: "plain".to_owned(), seconds: 80e-6, rounds: vec![80e-6; 3] };
    run.trials[0].limits = vec![probe.clone()];
    let alone = measure::case_line(&run, REAL);
    assert_eq!((alone.limit, alone.caveats), (None, vec![record::Caveat::LimitNotFound]));
    run.trials[3].limits = vec![probe];
    let both = measure::case_line(&run, REAL);
    assert_eq!((both.limit.is_some(), both.caveats), (true, vec![]), "six rounds in two trials");
    let none: Vec<Trial> = Vec::new();
    run.trials = none;
    assert_eq!(measure::case_line(&run, REAL).limit, None);
}
