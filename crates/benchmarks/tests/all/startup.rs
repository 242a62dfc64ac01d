//! Start-up on real communicators: each stage is right, and one that cannot communicate is caught.

use std::sync::atomic::Ordering;

use record::Case;
use terms::Status;

use crate::plans::{HOST, Threads};
use crate::watched::{Watch, world};
use crate::worlds::Wrapped;

fn cases(flags: &[(&str, &str)]) -> Vec<Case> {
    let about = benchmarks::benchmark("startup").unwrap().about();
    let mut plan = record::plan::from_flags(about, flags, &[]).unwrap();
    benchmarks::complete(&mut plan);
    plan.cases
}

/// Every stage of two ranks, warm; short.
fn warm(backend: &str) -> Vec<Case> {
    let mut warm =
        cases(&[("start", "warm"), ("backend", backend), ("iters", "3"), ("warmup", "1"), ("bytes", "4KiB")]);
    warm.retain(|case| case.whole("communicators").is_none_or(|open| open < 16));
    warm
}

#[test]
fn every_stage_is_measured_and_compared() {
    for backend in ["shm", "reference"] {
        let mut world = Wrapped::shared(backend, 2);
        for case in warm(backend) {
            let (trial, line) = world.trial(&case);
            assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{line:?}");
            assert!(line.time_s.is_some_and(|time| time.median > 0.0), "{:?}", case.parameters);
            let compared: u64 = trial.wrong.iter().map(|report| report.compared).sum();
            assert!(compared >= 2 * 512, "{compared}: {:?}", case.parameters);
        }
    }
}

#[test]
fn what_cannot_communicate_is_caught_in_every_stage() {
    // Joining again opens the backend past what the test watches.
    for case in warm("shm").into_iter().filter(|case| case.text("stage") != Some("join")) {
        let (mut world, _) = world(Watch { breaks_split: true, ..Watch::default() });
        let (_, line) = world.trial(&case);
        assert_eq!(line.status, Status::Failed, "{:?}", case.parameters);
        assert!(line.wrong_elements.iter().all(|wrong| (wrong.rank, wrong.index) == (1, 1)), "{line:?}");
    }
    for stage in ["join", "first_call"] {
        let (mut world, _) = world(Watch { breaks_world: true, ..Watch::default() });
        let (_, line) = world.trial(&cases(&[("stage", stage), ("start", "cold")])[0]);
        assert_eq!(line.status, Status::Failed, "{stage}");
        assert!(line.wrong_elements.iter().all(|wrong| wrong.rank == 1), "{line:?}");
    }
}

/// What was open before a cold sample would make it warm: of its kind, nothing was made.
#[test]
fn nothing_of_its_kind_is_made_before_a_cold_sample() {
    let cold = cases(&[("start", "cold")]);
    for case in &cold {
        let (mut world, watches) = world(Watch::default());
        world.trial(case);
        let seen =
            |watch: &Watch| [&watch.world, &watch.split, &watch.splits].map(|number| number.load(Ordering::Relaxed));
        // Calls on the world's communicator, calls on others, splits: that of the sample, and one that shows that it is right.
        let expected = match case.text("stage") {
            Some("join") => [1, 0, 0],
            Some("first_call") => [1, 0, 0],
            Some("communicator") => [0, 1, 1],
            other => panic!("{other:?}"),
        };
        for watch in &watches {
            assert_eq!(seen(watch), expected, "{:?}", case.parameters);
        }
    }
}

/// Each sample of a first call is the first on a communicator, and one more communicator is made for each sample.
#[test]
fn each_warm_sample_has_its_own_communicator() {
    let flags = [("start", "warm"), ("iters", "5"), ("warmup", "2"), ("trials", "1"), ("communicators", "3")];
    for case in cases(&flags) {
        if case.text("stage") == Some("join") {
            continue;
        }
        let (mut world, watches) = world(Watch::default());
        world.trial(&case);
        let count = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
        let (splits, calls) = (count(&watches[0].splits), count(&watches[0].split));
        match case.text("stage") {
            // Two of warm-up, five samples, and two checks from fresh inputs at least, each on its own.
            Some("first_call") => assert!(splits > calls && calls >= 9, "{splits} splits, {calls} calls"),
            Some("later_call") => assert!(splits == 2 && calls >= 10, "{splits} splits, {calls} calls"),
            // Three that stay open, and one for each sample.
            Some("communicator") => assert!(splits >= 3 + 9 && calls >= 2, "{splits} splits, {calls} calls"),
            other => panic!("{other:?}"),
        }
    }
}

/// Through the whole run: a new world for each trial of a cold case, and its joining as the time.
#[test]
fn cold_cases_have_new_ranks_in_each_trial_and_their_joining_is_timed() {
    let flags = [("start", "cold"), ("trials", "3"), ("spacing", "0s"), ("bytes", "4KiB")];
    let about = benchmarks::benchmark("startup").unwrap().about();
    let mut plan = record::plan::from_flags(about, &flags, &[]).unwrap();
    benchmarks::complete(&mut plan);
    let outcome = crate::plans::run_with(&plan, &mut Threads, HOST);
    assert_eq!(outcome.lines.len(), 3);
    for line in &outcome.lines {
        assert_eq!((line.status, line.wrong, line.trials), (Status::Ok, Some(0), Some(3)), "{line:?}");
        assert_eq!(line.samples, Some(3), "one sample in each trial");
        assert!(line.time_s.as_ref().is_some_and(|time| time.median > 0.0), "{line:?}");
        assert!(line.metrics.contains_key("wait_s") && line.metrics.contains_key("last"), "{line:?}");
    }
    assert!(outcome.samples.iter().all(|samples| samples.fresh), "ranks of an earlier trial");
    let join = outcome.lines.iter().find(|line| line.parameters.get("stage") == Some(&"join".into())).unwrap();
    let open_s = join.metrics["open_s"].as_f64().unwrap();
    assert!(open_s > 0.0 && open_s <= join.time_s.as_ref().unwrap().max.unwrap(), "{join:?}");
}
