//! Analyses of timelines with known answers.

mod bad_input;
mod counterfactual;
mod exact;
mod figures;
mod limits;
mod pauses;
mod rates;
mod scaling;
mod simulation;
mod without;

use diagnose::profile::{Analysis, Phase, Settings, analyse};
use simulation::{Fault, STEP_NS, Scenario, Target};

/// Seconds of a simulated step without delays.
const STEP_S: f64 = STEP_NS * 1e-9;

fn delay(rank: usize, phase: Phase, delay: f64) -> Fault {
    Fault { target: Target::Rank(rank), phase, delay, every: 1 }
}

/// Four equal ranks without noise, and these delays.
fn planted(faults: Vec<Fault>) -> Scenario {
    Scenario { faults, ..Scenario::equal(4, 40, 0.0) }
}

fn analysed(scenario: &Scenario) -> Analysis {
    analyse(&scenario.timeline(1), &Settings::default())
}

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 2e-8, "{got} is not {want}");
}
