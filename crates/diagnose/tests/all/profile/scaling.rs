//! The waterfall of scaling on planted causes.

use super::simulation::{Fault, Scenario};
use diagnose::profile::{Analysis, Bar, Cause, Phase, Scaling, waterfall};

use super::{analysed, delay};

/// The loss of four ranks against two, with noise of 1%, at equal work per rank.
fn bar(faults: Vec<Fault>) -> Bar {
    let run = |ranks: usize, faults: Vec<Fault>| -> (u32, Analysis) {
        (ranks as u32, analysed(&Scenario { faults, ..Scenario::equal(ranks, 100, 0.01) }))
    };
    let loss = waterfall(&[run(4, faults), run(2, Vec::new())], Scaling::Weak);
    assert_eq!((loss.base_ranks, loss.bars.len()), (Some(2), 1));
    loss.bars.into_iter().next().unwrap()
}

fn share(bar: &Bar, cause: Cause) -> f64 {
    bar.terms.iter().find(|term| term.cause == cause).unwrap().share
}

/// The sum is exact, little is unexplained, these causes have their loss, and no other has more than 1.5%.
#[track_caller]
fn check(bar: &Bar, want: &[(Cause, f64)]) {
    let sum: f64 = bar.terms.iter().map(|term| term.share).sum();
    assert!((sum + bar.unexplained - bar.loss).abs() < 1e-12);
    assert!(bar.unexplained.abs() <= 0.02, "{bar:?}");
    for term in &bar.terms {
        let planted =
            want.iter().find(|(cause, _)| *cause == term.cause).map_or(0.0, |(_, delay)| delay / (bar.step_s * 10.0));
        assert!((share(bar, term.cause) - planted).abs() < 0.015, "{:?}: {planted} in {bar:?}", term.cause);
    }
}

#[test]
fn single_causes_are_found() {
    check(&bar(Vec::new()), &[]);
    check(&bar(vec![delay(1, Phase::Forward, 0.2)]), &[(Cause::ComputeSlowdown, 0.2)]);
    check(&bar(vec![delay(1, Phase::Input, 0.2)]), &[(Cause::Input, 0.2)]);
    check(&bar(vec![delay(3, Phase::Host, 0.2)]), &[(Cause::Host, 0.2)]);
    let all = (0..4).map(|rank| delay(rank, Phase::Optimizer, 0.3)).collect();
    check(&bar(all), &[(Cause::ComputeSlowdown, 0.3)]);
}

#[test]
fn double_causes_are_found() {
    let two = vec![delay(1, Phase::Input, 0.2), delay(1, Phase::Backward, 0.1)];
    check(&bar(two), &[(Cause::Input, 0.2), (Cause::ComputeSlowdown, 0.1)]);
    let all = (0..4).map(|rank| delay(rank, Phase::Host, 0.2));
    let two = all.chain([delay(2, Phase::Forward, 0.1)]).collect();
    check(&bar(two), &[(Cause::Host, 0.2), (Cause::ComputeSlowdown, 0.1)]);
}

#[test]
fn strong_scaling_expects_shorter_steps() {
    let run = |ranks: usize| (ranks as u32, analysed(&Scenario::equal(ranks, 40, 0.0)));
    let loss = waterfall(&[run(1), run(2), run(4)], Scaling::Strong);
    // Equal steps at four times the ranks: a quarter of the efficiency.
    let four = &loss.bars[1];
    assert!((four.efficiency - 0.25).abs() < 1e-9 && (four.loss - 0.75).abs() < 1e-9);
    assert!((share(four, Cause::ComputeSlowdown) - 0.75 * 0.82).abs() < 1e-6);
    assert!((share(four, Cause::ExposedTransfer) - 0.75 * 0.05).abs() < 1e-6);
    assert!(four.unexplained.abs() < 1e-9);
    assert_eq!(waterfall(&[], Scaling::Weak).base_ranks, None);
}
