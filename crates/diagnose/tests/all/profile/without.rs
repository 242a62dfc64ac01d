//! Steps without a fault, by replay, against the same job simulated without it.

use diagnose::profile::{FindingKind, ProfileFinding, Typical};

use super::STEP_S;
use super::counterfactual::{Fault, Job, Op, analysed, blocking, claim, overlapped, pairs};
use super::simulation::Law;

/// Places in the programs of `counterfactual`.
const FORWARD: usize = 1;
const OPTIMIZER: usize = 4;
const SECOND_BACKWARD: usize = 3;
const PAIRS: usize = 1;

fn quiet(program: Vec<Op>, faults: Vec<Fault>) -> Job {
    Job { steps: 30, ..Job::new(program, 0.0, faults) }
}

#[track_caller]
fn near(got: f64, want: f64) {
    assert!((got - want).abs() < 0.006 * STEP_S, "{got} is not {want}");
}

#[test]
fn recorded_times_give_the_recorded_steps_back() {
    for program in [blocking(), overlapped(), pairs()] {
        for aligned in [true, false] {
            for law in [Law::Normal, Law::Spikes] {
                let job = Job { law, steps: 40, aligned, ..Job::new(program.clone(), 0.05, Vec::new()) };
                let analysis = analysed(&job, 3);
                let replay = analysis.replay.unwrap_or_else(|| panic!("{:?}", analysis.replay_abstains));
                assert!(replay.error_share < 0.002, "{aligned} {replay:?}");
                assert_eq!((replay.steps, replay.fixed_waits_share), (39, 0.0));
            }
        }
    }
}

#[test]
fn a_step_without_the_slow_rank_has_its_time_without_the_delay() {
    for place in [FORWARD, OPTIMIZER] {
        for aligned in [true, false] {
            let job = Job { aligned, ..quiet(blocking(), vec![Fault::Rank(2, place, 0.2, 1)]) };
            let analysis = analysed(&job, 1);
            let finding = analysis.findings.iter().find(|one| one.kind == FindingKind::Straggler).unwrap();
            let without = finding.without.unwrap();
            near(without.step_s, STEP_S);
            near(without.recorded_s, 1.2 * STEP_S);
            near(without.saves_s, 0.2 * STEP_S);
            assert!(without.ci95[0] <= without.step_s && without.step_s <= without.ci95[1]);
            let words = "Without it a median step would take 100 ms instead of 120 ms";
            assert!(finding.what.contains(words), "{}", finding.what);
        }
    }
}

#[test]
fn without_one_of_two_slow_ranks_the_other_still_counts() {
    let faults = vec![Fault::Rank(1, FORWARD, 0.3, 1), Fault::Rank(3, FORWARD + 1, 0.1, 1)];
    let analysis = analysed(&quiet(blocking(), faults), 1);
    let of = |rank: u32| {
        let is_of = |one: &&ProfileFinding| one.kind == FindingKind::Straggler && one.evidence.rank == Some(rank);
        let finding = analysis.findings.iter().find(is_of).unwrap();
        finding.without.unwrap().step_s
    };
    near(of(1), 1.1 * STEP_S);
    near(of(3), 1.3 * STEP_S);
    near(analysis.without_slow_ranks.unwrap().step_s, STEP_S);
}

#[test]
fn overlap_hides_half_of_a_delay() {
    // The first bucket moves for 5% longer than the others compute, so half of a delay of 10% costs nothing.
    let job = quiet(overlapped(), vec![Fault::Rank(1, SECOND_BACKWARD, 0.1, 1)]);
    let analysis = analysed(&job, 1);
    let slow = analysis.straggler.as_ref().unwrap();
    near(slow.lost_s_per_step, 0.1 * STEP_S);
    let without = analysis.without_slow_ranks.unwrap();
    near(without.saves_s, 0.05 * STEP_S);
    near(without.step_s, analysed(&job.without(|_| true), 1).steps.step.median.unwrap());
}

#[test]
fn a_delay_in_some_steps_is_of_the_mean_step() {
    let job = Job { steps: 200, ..quiet(blocking(), vec![Fault::Rank(1, FORWARD, 0.5, 5)]) };
    let without = analysed(&job, 1).without_slow_ranks.unwrap();
    assert_eq!(without.of, Typical::Mean);
    near(without.step_s, STEP_S);
    near(without.recorded_s, 1.1 * STEP_S);
}

#[test]
fn a_slow_communicator_is_named_and_a_hidden_one_is_not() {
    let analysis = analysed(&quiet(pairs(), vec![Fault::Link(PAIRS, 0.2)]), 1);
    let finding = analysis.findings.iter().find(|one| one.kind == FindingKind::SlowExchange).unwrap();
    assert!(finding.what.contains("Communicator group 1.1 (ranks 2, 3)"), "{}", finding.what);
    let without = finding.without.unwrap();
    near(without.step_s, STEP_S);
    near(without.recorded_s, 1.2 * STEP_S);
    // The other pair computes so much longer that nobody waits for the slow link.
    let busy = [0, 1].map(|rank| Fault::Rank(rank, 0, 0.5, 1));
    let hidden = analysed(&quiet(pairs(), vec![Fault::Link(PAIRS, 0.2), busy[0], busy[1]]), 1);
    assert!(hidden.findings.iter().all(|one| one.kind != FindingKind::SlowExchange), "{:?}", hidden.findings);
}

#[test]
fn waits_that_no_collective_explains_abstain() {
    let job = quiet(blocking(), vec![Fault::Rank(2, FORWARD, 0.2, 1)]);
    let mut timeline = job.timeline(1);
    timeline.ranks.iter_mut().flat_map(|rank| &mut rank.collectives).for_each(|call| call.synchronises = false);
    let analysis = diagnose::profile::analyse(&timeline, &diagnose::profile::Settings::default());
    assert!(analysis.straggler.is_some());
    assert_eq!((analysis.replay, analysis.without_slow_ranks), (None, None));
    let notes = analysis.notes.join("\n");
    assert!(
        notes.contains("how long a step would take without the slow rank cannot be told, because the trace has no"),
        "{notes}"
    );
}

#[test]
fn missing_ranks_abstain() {
    let mut timeline = quiet(blocking(), vec![Fault::Rank(2, FORWARD, 0.2, 1)]).timeline(1);
    timeline.ranks.pop();
    let analysis = diagnose::profile::analyse(&timeline, &diagnose::profile::Settings::default());
    assert_eq!(analysis.replay_abstains.as_deref(), Some("only 3 of 4 ranks are in the trace"));
}

#[test]
fn intervals_hold_the_step_without_the_fault() {
    let jobs = [
        Job::new(blocking(), 0.05, vec![Fault::Rank(1, FORWARD, 0.1, 1)]),
        Job::new(overlapped(), 0.02, vec![Fault::Rank(1, SECOND_BACKWARD, 0.1, 1)]),
        Job::new(pairs(), 0.02, vec![Fault::Link(PAIRS, 0.1)]),
    ];
    for job in jobs {
        let claims: Vec<_> = (0..20).filter_map(|seed| claim(&job, 100 + seed)).collect();
        let covered = claims.iter().filter(|claim| claim.is_covered()).count();
        // Of 20 intervals that hold the truth in 95%, fewer than 16 do in one of four hundred.
        assert!(claims.len() >= 18 && covered + 4 >= claims.len(), "{covered} of {}: {:?}", claims.len(), claims[0]);
    }
}

#[test]
fn healthy_jobs_have_no_claim() {
    for program in [blocking(), overlapped(), pairs()] {
        let job = Job::new(program, 0.05, Vec::new());
        let claims = (0..20).filter(|seed| claim(&job, 500 + seed).is_some()).count();
        assert!(claims <= 1, "{claims}");
    }
}
