//! Steps that take much longer than the others: kept apart from slow ranks, and no bound below what they cost.

use super::simulation::{Fault, Scenario, Target};
use diagnose::profile::{FindingKind, Phase, Who};

use super::{analysed, close, delay, planted};

/// A checkpoint of three steps' length in each tenth step.
fn checkpoint(target: Target) -> Fault {
    Fault { target, phase: Phase::Host, delay: 3.0, every: 10 }
}

fn quiet(faults: Vec<Fault>) -> Scenario {
    Scenario { jitter: 0.01, steps: 60, ..planted(faults) }
}

#[test]
fn a_checkpoint_of_one_rank_is_a_pause_and_bounds_nothing() {
    let checkpoints = quiet(vec![checkpoint(Target::Rank(0))]);
    let analysis = analysed(&Scenario { steps: 39, ..checkpoints.clone() });
    let pauses = analysis.pauses.as_ref().unwrap();
    assert_eq!((pauses.who, pauses.every, pauses.steps.len()), (Who::Rank(0), Some(10), 3));
    assert!((pauses.share - 0.1875).abs() < 0.02, "{}", pauses.share);
    assert_eq!(analysis.straggler_at_most, None, "a bound on the other steps is none on what the rank loses");
    let finding = &analysis.findings[0];
    assert_eq!((finding.kind, finding.evidence.rank), (FindingKind::Pauses, Some(0)));
    assert!(
        finding.what.contains("3 of 39 steps, about one in 10, take 40")
            && finding.what.contains("Rank 0 works in them")
    );
    assert_eq!(finding.confidence.word, "high");
    // More steps show that this rank costs more than the others do: then that is the verdict, and no second finding.
    let analysis = analysed(&checkpoints);
    let straggler = analysis.straggler.unwrap();
    assert_eq!((straggler.rank, straggler.persistent), (0, false));
    assert!(analysis.pauses.is_some() && analysis.findings.iter().all(|finding| finding.kind != FindingKind::Pauses));
}

#[test]
fn an_evaluation_on_all_ranks_is_a_pause_of_all() {
    let all = (0..4).map(|rank| checkpoint(Target::Rank(rank))).collect();
    let analysis = analysed(&quiet(all));
    assert_eq!(analysis.pauses.unwrap().who, Who::All);
    assert!(analysis.straggler.is_none() && analysis.rotating.is_none());
    // No rank loses anything against the others.
    assert!(analysis.straggler_at_most.is_some_and(|share| share < 0.02), "{:?}", analysis.straggler_at_most);
}

#[test]
fn a_bound_is_not_below_what_single_steps_cost() {
    // 40% of a step in each eighth step: too little for a pause, and 5% of a step on average.
    let rare = Fault { target: Target::Rank(2), phase: Phase::Forward, delay: 0.4, every: 8 };
    for steps in [30, 60, 200] {
        let analysis = analysed(&Scenario { steps, ..quiet(vec![rare]) });
        assert!(analysis.pauses.is_none());
        match &analysis.straggler {
            Some(straggler) => assert_eq!((straggler.rank, straggler.persistent), (2, false)),
            None => assert!(analysis.straggler_at_most.is_none_or(|share| share >= 0.04), "{steps}"),
        }
    }
}

#[test]
fn steps_that_vary_are_no_pauses() {
    assert_eq!(analysed(&Scenario { jitter: 0.15, ..quiet(Vec::new()) }).pauses, None);
    let slow = analysed(&quiet(vec![delay(1, Phase::Backward, 0.2)]));
    assert_eq!(slow.pauses, None);
    close(slow.parts.bubble_s, 0.0);
}
