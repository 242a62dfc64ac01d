//! False alarms are rare and planted delays are found: quick versions of `examples/straggler_rates`, which has the tables.

use super::simulation::{Fault, Law, Rates, Scenario, Target, simulate};
use diagnose::profile::{Phase, Settings};

use crate::skip;

const STEPS: usize = 200;

/// What is left out unless it is asked for.
const NAME: &str = "error rates of slow ranks in every situation";

fn rates(scenario: &Scenario, runs: usize) -> Rates {
    simulate(scenario, &Settings::default(), runs, 17)
}

#[test]
fn equal_ranks_are_rarely_accused() {
    let (mut runs, mut named, mut missed) = (0, 0, Vec::new());
    let situations = [
        (2, 0.01, Law::Correlated(0.6)),
        (2, 0.15, Law::Correlated(0.6)),
        (4, 0.15, Law::Correlated(0.6)),
        (4, 0.05, Law::HeavyTailed),
        (4, 0.15, Law::Spikes),
        (8, 0.15, Law::Correlated(0.6)),
        (8, 0.15, Law::Normal),
    ];
    let situations = if skip::heavy(NAME) { &situations[..] } else { &situations[1..4] };
    for &(ranks, jitter, law) in situations {
        let found = rates(&Scenario { law, ..Scenario::equal(ranks, STEPS, jitter) }, 60);
        (runs, named) = (runs + found.runs, named + found.named);
        // Of 60, a rate of 1% exceeds 4 in fewer than one of a thousand.
        if found.named > 4 {
            missed.push((ranks, jitter, law, found));
        }
    }
    // Of 420, a rate of 1% exceeds 11 in one of five hundred, and of 180, 6 in one of three hundred.
    let most = if runs == 420 { 11 } else { 6 };
    assert!(runs >= 180 && named <= most && missed.is_empty(), "{named} of {runs}: {missed:?}");
}

#[test]
fn a_constant_difference_below_the_minimum_accuses_nobody() {
    let jitters = if skip::heavy(NAME) { &[0.002, 0.05][..] } else { &[0.002] };
    for &jitter in jitters {
        let found = rates(&Scenario { spread: 0.004, ..Scenario::equal(4, STEPS, jitter) }, 60);
        assert!(found.named <= 3, "{jitter}: {found:?}");
    }
}

#[test]
fn a_delay_of_two_percent_is_found_with_its_phase() {
    let (mut runs, mut found, mut phase) = (0, 0, 0);
    let situations = [
        (Law::Normal, Phase::Input),
        (Law::Normal, Phase::Forward),
        (Law::Correlated(0.6), Phase::Backward),
        (Law::HeavyTailed, Phase::Optimizer),
        (Law::Spikes, Phase::Host),
    ];
    let situations = if skip::heavy(NAME) { &situations[..] } else { &situations[2..4] };
    for &(law, phase_of) in situations {
        let faults = vec![Fault { target: Target::Rank(1), phase: phase_of, delay: 0.02, every: 1 }];
        let counts = rates(&Scenario { law, faults, ..Scenario::equal(4, STEPS, 0.01) }, 60);
        assert!(counts.found >= 54 && counts.accused <= 2, "{law:?}: {counts:?}");
        (runs, found, phase) = (runs + counts.runs, found + counts.found, phase + counts.phase);
    }
    assert!(runs >= 120 && found as f64 >= 0.95 * f64::from(runs as u32), "{found} of {runs}");
    assert!(phase as f64 >= 0.9 * found as f64, "{phase} of {found}");
}

#[test]
fn few_steps_accuse_nobody_and_show_what_stands_far_out() {
    let situations = [
        (24, Law::Correlated(0.6)),
        (24, Law::Correlated(0.9)),
        (24, Law::HeavyTailed),
        (50, Law::Correlated(0.6)),
        (50, Law::Correlated(0.9)),
        (10, Law::Normal),
        (10, Law::Correlated(0.9)),
        (10, Law::HeavyTailed),
        (15, Law::Correlated(0.9)),
    ];
    let is_full = skip::heavy(NAME);
    for &(steps, law) in if is_full { &situations[..] } else { &situations[..1] } {
        let equal = rates(&Scenario { law, ..Scenario::equal(2, steps, 0.15) }, 400);
        // Of 400, a rate of 1% exceeds 11 in one of a thousand.
        assert!(equal.named <= 11, "{steps} {law:?}: {equal:?}");
    }
    let found = [(24, Law::Normal), (100, Law::Correlated(0.6))];
    for &(steps, law) in if is_full { &found[..] } else { &found[..1] } {
        let faults = vec![Fault { target: Target::Rank(1), phase: Phase::Backward, delay: 0.2, every: 1 }];
        let counts = rates(&Scenario { law, faults, ..Scenario::equal(2, steps, 0.01) }, 200);
        assert!(counts.found >= 190 && counts.phase >= 190, "{steps} {law:?}: {counts:?}");
    }
}

/// A rank that waits for 8% of a step for its data, and computes faster while the other one waits for it.
fn late_input() -> Vec<Fault> {
    let fault = |phase, delay| Fault { target: Target::Rank(1), phase, delay, every: 1 };
    vec![fault(Phase::Input, 0.08), fault(Phase::Backward, -0.035)]
}

#[test]
fn a_phase_names_a_rank_whose_whole_work_varies_too_much() {
    let situations = [(10, Law::Normal, 0.03), (23, Law::Correlated(0.6), 0.03), (50, Law::Correlated(0.9), 0.02)];
    for &(steps, law, jitter) in if skip::heavy(NAME) { &situations[..] } else { &situations[1..2] } {
        let noisy = Scenario { law, quiet: Some(Phase::Input), ..Scenario::equal(2, steps, jitter) };
        let counts = rates(&Scenario { faults: late_input(), ..noisy.clone() }, 200);
        assert!(counts.found >= 180 && counts.phase == counts.found, "{steps} {law:?}: {counts:?}");
        let equal = rates(&noisy, 400);
        // Of 400, a rate of 1% exceeds 11 in one of a thousand.
        assert!(equal.named <= 11, "{steps} {law:?}: {equal:?}");
    }
}

#[test]
fn a_phase_names_nobody_for_less_than_a_finding() {
    let fault = |phase, delay| Fault { target: Target::Rank(1), phase, delay, every: 1 };
    // 0.7% of a step remain of the 1.4% that a phase shows.
    let faults = vec![fault(Phase::Input, 0.014), fault(Phase::Backward, -0.007)];
    let small = Scenario { faults, quiet: Some(Phase::Input), ..Scenario::equal(2, 80, 0.02) };
    let counts = rates(&small, 200);
    assert!(counts.named <= 40, "{counts:?}");
}

#[test]
fn a_rank_that_makes_up_for_a_late_phase_is_not_slow() {
    let mut faults = late_input();
    faults[1].delay = -0.08;
    let made_up = Scenario { faults, quiet: Some(Phase::Input), ..Scenario::equal(4, 200, 0.05) };
    let counts = rates(&made_up, 60);
    assert!(counts.named <= 3, "{counts:?}");
}

#[test]
fn nobody_is_cleared_of_a_delay_that_is_there() {
    let faults = vec![Fault { target: Target::Rank(1), phase: Phase::Forward, delay: 0.05, every: 1 }];
    let (mut runs, mut wrong) = (0, 0);
    let situations = [(Law::Normal, 50, 0.05), (Law::Normal, 200, 0.4), (Law::Correlated(0.9), 200, 0.05)];
    for &(law, steps, jitter) in if skip::heavy(NAME) { &situations[..] } else { &situations[..1] } {
        let counts = rates(&Scenario { law, faults: faults.clone(), ..Scenario::equal(4, steps, jitter) }, 60);
        (runs, wrong) = (runs + counts.runs, wrong + counts.wrongly_cleared);
    }
    // Of 180, a rate of 5% exceeds 17 in fewer than one of a hundred, and so it exceeds 8 of 60.
    assert!(runs >= 60 && wrong <= if runs == 180 { 17 } else { 8 }, "{wrong} of {runs}");
}
