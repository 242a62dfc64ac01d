//! Steps that take much longer than the others: kept apart from slow ranks, and no bound below what they cost.

use super::simulation::{Fault, Scenario, Target};
use diagnose::profile::{Analysis, Disturbance, FindingKind, Phase, ProfileFinding, Settings, Who, analyse};
use record::Caveat;

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

/// What others took while the steps were recorded.
fn neighbour() -> Option<Disturbance> {
    let caveats = vec![Caveat::OtherPrograms];
    Some(Disturbance { caveats, cores: 2, other_cores: Some(1.5), of_window: true, ..Disturbance::default() })
}

#[test]
fn what_a_neighbour_may_have_done_is_not_blamed_on_checkpoints() {
    let finding = |steps, disturbance| {
        let scenario = Scenario { steps, ..quiet(vec![checkpoint(Target::Rank(0))]) };
        let analysis = analyse(&scenario.timeline(1), &Settings { disturbance, ..Settings::default() });
        let pauses = |finding: &ProfileFinding| finding.kind == FindingKind::Pauses;
        analysis.findings.into_iter().find(pauses).unwrap()
    };
    let quiet = Some(Disturbance { caveats: Vec::new(), ..neighbour().unwrap() });
    for undisturbed in [None, quiet] {
        let found = finding(39, undisturbed);
        assert_eq!(found.confidence.word, "high");
        assert!(found.advice.contains("checkpoint") && !found.what.contains("Other programs"), "{found:?}");
    }
    // What comes in each tenth step is the job's own, and less certain all the same.
    let regular = finding(39, neighbour());
    assert_eq!(regular.confidence.word, "medium");
    assert!(regular.advice.contains("checkpoint"), "{regular:?}");
    // Two long steps have no period: another program may have made them.
    let irregular = finding(29, neighbour());
    assert!(!irregular.advice.contains("checkpoint") && irregular.advice.contains("profile again"), "{irregular:?}");
    assert!(irregular.what.contains("Other programs disturbed the machine meanwhile"), "{irregular:?}");
    assert!(finding(29, None).advice.contains("checkpoint"));
}

#[test]
fn findings_of_a_disturbed_machine_are_less_certain() {
    let slow = planted(vec![delay(1, Phase::Forward, 0.2)]);
    let analysis = analyse(&slow.timeline(1), &Settings { disturbance: neighbour(), ..Settings::default() });
    let calm = analysed(&slow);
    let words = |analysis: &Analysis| -> Vec<&str> {
        let of = |finding: &ProfileFinding| (finding.kind == FindingKind::Straggler).then_some(finding.confidence.word);
        analysis.findings.iter().filter_map(of).collect()
    };
    assert_eq!((words(&calm), words(&analysis)), (vec!["high"], vec!["medium"]));
    assert_eq!((calm.disturbance, analysis.disturbance), (None, neighbour()));
}

/// Other programs use caches and memory: a rank on the core next to them computes more slowly, and is not to blame. Its data come no
/// later for that.
#[test]
fn a_rank_that_computes_a_little_more_slowly_beside_other_programs_is_not_named() {
    let named = |phase, share, disturbance| {
        let scenario = planted(vec![delay(1, phase, share)]);
        analyse(&scenario.timeline(1), &Settings { disturbance, ..Settings::default() }).stragglers.len()
    };
    assert_eq!(named(Phase::Backward, 0.06, None), 1);
    assert_eq!(named(Phase::Backward, 0.06, neighbour()), 0);
    assert_eq!(named(Phase::Backward, 0.14, neighbour()), 1);
    assert_eq!(named(Phase::Input, 0.06, neighbour()), 1);
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
