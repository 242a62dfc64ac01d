//! Rounds: each visits every open case once, in an order of its own, and every trial is on disk.

use record::{CaseLine, Caveat, WorldUse};
use terms::Status;

use crate::plans::{HOST, Threads, plan, run, run_seeded};

#[test]
fn every_trial_is_kept_and_lines_improve() {
    let plan = plan("op: all_reduce, backend: sim, ranks: [2, 3], bytes: [1KB, 2KB, 3KB, 4KB], trials: 4, iters: 8");
    let outcome = run(&plan);
    let cases = plan.cases.len();
    assert_eq!((cases, outcome.lines.len(), outcome.written.len()), (8, 8, 32));
    let mut after = None;
    for sample in &outcome.samples {
        assert_eq!(sample.after, after, "each trial names the case that was visited before");
        after = Some(sample.id.clone());
    }
    for case in &plan.cases {
        let trials: Vec<Option<u32>> =
            outcome.written.iter().filter(|line| line.id == case.id).map(|line| line.trials).collect();
        assert_eq!(trials, [Some(1), Some(2), Some(3), Some(4)]);
        let kept: Vec<_> = outcome.samples.iter().filter(|samples| samples.id == case.id).collect();
        assert_eq!(
            kept.iter().map(|samples| (samples.trial, samples.round)).collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 2), (3, 3)]
        );
        for samples in kept {
            assert!(samples.begun_s > 1.7e9 && samples.fresh);
            assert_eq!(
                (samples.ns.len(), samples.rows.as_slice()),
                (1, &[[0, case.ranks()]][..]),
                "all ranks have equal ones"
            );
            assert!(samples.ns.iter().all(|rank| rank.len() == 8 && rank.iter().all(|ns| *ns > 0)));
        }
        let last = outcome.lines.iter().find(|line| line.id == case.id).unwrap();
        assert_eq!(
            (last.samples, last.trials, last.worlds, last.caveats.as_slice()),
            (Some(32), Some(4), Some(WorldUse::Fresh), &[Caveat::Simulated][..])
        );
        assert_eq!((last.trial_median_s.len(), last.trial_round.as_slice()), (4, &[0, 1, 2, 3][..]));
    }
}

#[test]
fn rounds_come_in_an_order_of_their_own_world_by_world() {
    let plan = plan("op: all_reduce, backend: sim, ranks: [2, 3], bytes: [1KB, 2KB, 3KB, 4KB], launches: 6, iters: 6");
    let order = run(&plan).order;
    let cases_in =
        |round: u32| -> Vec<&String> { order.iter().filter(|(_, r)| *r == round).map(|(id, _)| id).collect() };
    let orders: Vec<Vec<&String>> = (0..6).map(cases_in).collect();
    assert!(order.is_sorted_by_key(|(_, round)| *round), "one round after the other");
    let distinct: std::collections::HashSet<_> = orders.iter().collect();
    assert!(distinct.len() >= 5, "{} orders in six rounds", distinct.len());
    let ranks = |id: &String| plan.cases.iter().find(|case| case.id == *id).unwrap().ranks();
    for order in orders {
        assert_eq!(order.len(), 8);
        let changes = order.windows(2).filter(|pair| ranks(pair[0]) != ranks(pair[1])).count();
        assert_eq!(changes, 1, "cases of one world share it");
    }
}

#[test]
fn the_recorded_seed_is_that_of_the_order() {
    let plan = plan("op: all_reduce, backend: sim, ranks: 2, bytes: [1KB, 2KB, 3KB, 4KB], trials: 3, iters: 6");
    let run_with_seed = |seed| run_seeded(&plan, &mut Threads, HOST, seed);
    let (first, again, other) = (run_with_seed(5), run_with_seed(5), run_with_seed(6));
    assert_eq!((first.seed, other.seed), (Some(5), Some(6)));
    assert_eq!(first.order, again.order, "a seed gives one order");
    assert_ne!(first.order, other.order, "another seed gives another one");
}

/// Gates and relations to other cases: of a part of its trials a case says neither.
#[test]
fn cases_are_judged_once_at_the_end() {
    let text = "experiment: test\ncases:\n  - {benchmark: training, model: mlp, layers: 1, width: 8, features: 4, \
                classes: 2, ranks: [1, 2], batch: 2, steps: 2, optimizer: sgd, trials: 3, spacing: 0s, \
                expect: [\"time_s<0\"]}\n";
    let plan = record::plan::read(text, "test.yaml", &benchmarks::abouts(), &[]).unwrap();
    let outcome = run(&plan);
    let judged = |line: &CaseLine| (!line.gates_missed.is_empty(), line.metrics.contains_key("efficiency"));
    for case in &plan.cases {
        let lines: Vec<_> = outcome.written.iter().filter(|line| line.id == case.id).map(judged).collect();
        let last = (true, case.ranks() == 2);
        assert_eq!(lines, [(false, false), (false, false), (false, false), last], "{} ranks", case.ranks());
    }
}

#[test]
fn precise_cases_leave_and_others_go_on() {
    let plan =
        plan("op: all_reduce, backend: sim, ranks: 2, bytes: [1KB, 4KB], noise: [0.1%, 30%], noise_seed: 3, iters: 6");
    let outcome = run(&plan);
    for line in &outcome.lines {
        let quiet = line.parameters["noise"].as_f64().unwrap() < 0.01;
        let trials = line.trials.unwrap();
        assert!(if quiet { trials == 6 } else { trials > 6 }, "{trials} trials at {:?}", line.parameters["noise"]);
        assert!(line.time_s.as_ref().unwrap().ci95.is_some());
    }
}

/// One correlation for all cases of a run: that of a single one is known badly.
#[test]
fn intervals_for_comparisons_take_the_correlation_of_the_whole_run() {
    let noise = "noise: 5%, noise_correlation: 20%, noise_seed: [1, 2, 3, 4, 5, 6, 7, 8]";
    let outcome =
        run(&plan(&format!("op: all_reduce, backend: sim, ranks: 2, bytes: 4KB, {noise}, trials: 28, iters: 6")));
    let trials = || outcome.lines.iter().map(|line| line.trial_median_s.as_slice());
    let interval = |of: &[f64], correlation: Option<f64>| stats::again_interval(of, correlation.unwrap_or(0.0));
    let of_run = stats::pooled_correlation(trials());
    assert!(of_run.is_some() && outcome.correlation == of_run, "{:?}, not {of_run:?}", outcome.correlation);
    for line in &outcome.lines {
        let again = line.time_s.as_ref().unwrap().ci95_again;
        assert_eq!(again, interval(&line.trial_median_s, of_run));
    }
    let differs = |of: &[f64]| interval(of, stats::pooled_correlation([of])) != interval(of, of_run);
    assert!(trials().any(differs), "with correlations of their own cases would have the same intervals");
}

#[test]
fn a_case_that_fails_is_not_visited_again() {
    let plan = plan(
        "op: all_reduce, backend: sim, ranks: 2, bytes: [8, 1KB], trials: 3, iters: 6, inject: [\"wrong:rank=0\"]",
    );
    let outcome = run(&plan);
    assert_eq!((outcome.written.len(), outcome.order.len()), (2, 2));
    assert!(outcome.lines.iter().all(|line| line.status == Status::Failed));
}
