//! Constants that are found again from steps that they made.

use parallel::Mesh;

use super::*;
use crate::Software;
use crate::machines::machine;
use crate::tests::workload;

/// Rows of a machine that differs from the public one, with these factors of time.
fn rows(factors: &[f64]) -> (MachineProfile, Constants, Vec<Observed>) {
    let profile = machine("a100-nvlink").unwrap().profile();
    let constants = Software::Rankmark.constants(Constants::of(&profile));
    let mut truth = constants;
    truth.set(ConstantName::StepTime, 4.0 * constants.get(ConstantName::StepTime), 0.1);
    let made = factors.iter().enumerate().map(|(at, factor)| {
        let mut workload = workload(Mesh { data: 1 + at % 2, tensor: 1, pipeline: 1 });
        workload.recipe.micro_batch = 1 + 3 * (at % 5) * (at % 7);
        let step = workload.step().unwrap();
        let seconds = factor * seconds(&profile, &truth, &step);
        Observed { step, seconds, spread: 0.0 }
    });
    let made = made.collect();
    (profile, constants, made)
}

#[test]
fn constants_are_found_again_though_some_steps_are_far_off() {
    let mut factors = [1.0; 20];
    (factors[3], factors[8], factors[13]) = (1.4, 1.3, 1.25);
    let (profile, constants, made) = rows(&factors);
    let found = fit(&profile, constants, &made).unwrap();
    let ratio = found.after.get(ConstantName::StepTime) / constants.get(ConstantName::StepTime);
    assert!((1.2..4.5).contains(&ratio), "{ratio}");
    for (at, (error, factor)) in found.errors_after.iter().zip(factors).enumerate() {
        assert!(((1.0 + error) * factor - 1.0).abs() < 0.03, "row {at}: {error} {factor}");
    }
    assert!(found.after.spread(ConstantName::StepTime) < constants.spread(ConstantName::StepTime));
    assert_eq!((found.left_out.len(), found.folds), (20, 20));
}

#[test]
fn the_same_steps_twice_tell_no_more_than_once() {
    let solved = |count: usize| {
        let (profile, before, rows) = rows(&vec![1.2; count]);
        let all: Vec<usize> = (0..count).collect();
        Solver { profile: &profile, before, rows: &rows }.solve(&all, [0.0; CONSTANTS], 4)
    };
    // Workloads repeat after 70 rows.
    let (once, twice) = (solved(70), solved(140));
    for at in 0..CONSTANTS {
        assert!((once.steps[at] - twice.steps[at]).abs() < 1e-6, "{:?} {:?}", once.steps, twice.steps);
        assert!((once.covariance[at][at] / twice.covariance[at][at] - 1.0).abs() < 1e-6);
    }
}

#[test]
fn fewer_rows_than_constants_leave_most_where_they_were() {
    let (profile, constants, made) = rows(&[1.0]);
    let found = fit(&profile, constants, &made).unwrap();
    assert!(found.errors_after[0].abs() < found.errors_before[0].abs());
    assert_eq!(found.after.get(ConstantName::NetworkRate), constants.get(ConstantName::NetworkRate));
    assert!(fit(&profile, constants, &[]).is_err());
}

#[test]
fn milliseconds_for_seconds_are_refused() {
    let (profile, constants, made) = rows(&[1000.0; 5]);
    let why = fit(&profile, constants, &made).unwrap_err();
    assert!(why.cause.unwrap().contains("milliseconds"));
    // Also where nothing is fitted: a few rows of another machine do not matter.
    let off = |times: f64| 1.0 / times - 1.0;
    assert!(refuse_milliseconds(&[off(900.0), off(1.1), off(1100.0)]).is_err());
    for others in [vec![off(1.2), off(900.0), off(0.9)], vec![off(50.0)], Vec::new()] {
        refuse_milliseconds(&others).unwrap();
    }
}
