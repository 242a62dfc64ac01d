//! Several launches: in an order of their own, each on disk, one line that is written anew.

use record::Caveat;
use terms::Status;

use crate::plans::{plan, run};

#[test]
fn every_launch_is_kept_and_lines_are_written_anew() {
    let plan = plan("op: all_reduce, backend: sim, ranks: [2, 3], bytes: [1KB, 2KB, 3KB, 4KB], launches: 4, iters: 8");
    let outcome = run(&plan);
    let cases = plan.cases.len();
    assert_eq!((cases, outcome.lines.len(), outcome.written.len()), (8, 8, 32));
    for case in &plan.cases {
        let launches: Vec<Option<u32>> =
            outcome.written.iter().filter(|line| line.id == case.id).map(|line| line.launches).collect();
        assert_eq!(launches, [Some(1), Some(2), Some(3), Some(4)]);
        let kept: Vec<_> = outcome.samples.iter().filter(|samples| samples.id == case.id).collect();
        assert_eq!(kept.iter().map(|samples| samples.launch).collect::<Vec<_>>(), [0, 1, 2, 3]);
        for samples in kept {
            assert_eq!(samples.ns.len(), case.ranks() as usize);
            assert!(samples.ns.iter().all(|rank| rank.len() == 8 && rank.iter().all(|ns| *ns > 0)));
        }
        let last = outcome.lines.iter().find(|line| line.id == case.id).unwrap();
        assert_eq!(
            (last.samples, last.launches, last.caveats.as_slice()),
            (Some(32), Some(4), &[Caveat::Simulated][..])
        );
    }
}

#[test]
fn launches_come_in_an_order_of_their_own_world_by_world() {
    let plan = plan("op: all_reduce, backend: sim, ranks: [2, 3], bytes: [1KB, 2KB, 3KB, 4KB], launches: 6, iters: 6");
    let order = run(&plan).order;
    let of = |launch: u32| -> Vec<&String> { order.iter().filter(|(_, l)| *l == launch).map(|(id, _)| id).collect() };
    let orders: Vec<Vec<&String>> = (0..6).map(of).collect();
    assert!(order.is_sorted_by_key(|(_, launch)| *launch), "one launch after the other");
    let distinct: std::collections::HashSet<_> = orders.iter().collect();
    assert!(distinct.len() >= 5, "{} orders in six launches", distinct.len());
    let ranks = |id: &String| plan.cases.iter().find(|case| case.id == *id).unwrap().ranks();
    for order in orders {
        let changes = order.windows(2).filter(|pair| ranks(pair[0]) != ranks(pair[1])).count();
        assert_eq!(changes, 1, "cases of one world stay together");
    }
}

#[test]
fn one_launch_keeps_the_order_of_the_plan() {
    let plan = plan("op: all_reduce, backend: sim, ranks: [3, 2], bytes: [4KB, 1KB, 2KB], iters: 6");
    let order: Vec<String> = run(&plan).order.into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, plan.cases.iter().map(|case| case.id.clone()).collect::<Vec<_>>());
}

#[test]
fn a_case_that_fails_is_not_launched_again() {
    let plan = plan(
        "op: all_reduce, backend: sim, ranks: 2, bytes: [8, 1KB], launches: 3, iters: 6, inject: [\"wrong:rank=0\"]",
    );
    let outcome = run(&plan);
    assert_eq!((outcome.written.len(), outcome.order.len()), (2, 2));
    assert!(outcome.lines.iter().all(|line| line.status == Status::Failed));
}
