//! Interference on real communicators: both activities run, both are right, and one that is wrong is caught.

use std::sync::atomic::Ordering;

use record::Case;
use terms::Status;

use crate::watched::{Watch, world};
use crate::worlds::Wrapped;

/// Small and short; storage is left out where it is not asked for.
fn cases(flags: &[(&str, &str)]) -> Vec<Case> {
    let small = [
        ("iters", "2"),
        ("warmup", "1"),
        ("product_size", "48"),
        ("collective_bytes", "16KiB"),
        ("second_bytes", "4KiB"),
        ("copy_bytes", "64KiB"),
        ("read_bytes", "64KiB"),
    ];
    let flags = [&small[..], flags].concat();
    let about = benchmarks::benchmark("interference").unwrap().about();
    let mut plan = record::plan::from_flags(about, &flags, &[]).unwrap();
    benchmarks::complete(&mut plan);
    plan.cases
}

/// The pair of these two.
fn pair(activity: &str, beside: &str) -> Case {
    let mut found = cases(&[("activity", activity), ("beside", beside)]);
    found.pop().unwrap()
}

#[test]
fn both_activities_of_a_pair_run_and_are_right() {
    let mut world = Wrapped::shared("shm", 2);
    // Each activity is timed once, and runs beside another once.
    for (activity, beside) in [
        ("product", "none"),
        ("product", "collective"),
        ("collective", "second"),
        ("second", "host_copy"),
        ("host_copy", "product"),
    ] {
        let case = pair(activity, beside);
        let (trial, line) = world.trial(&case);
        assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{:?}: {line:?}", case.parameters);
        for rank in &trial.details {
            let units = rank.get("units").and_then(|units| units.as_u64());
            assert_eq!(units.is_some_and(|units| units > 0), beside != "none", "{rank:?}");
        }
        let compared = |wrong: &measure::WrongReport| wrong.compared;
        assert!(trial.wrong.iter().map(compared).sum::<u64>() > 0, "{:?}", case.parameters);
    }
}

#[test]
fn a_wrong_collective_is_caught_on_either_side() {
    for (activity, beside, watch) in [
        ("collective", "product", Watch { breaks_world: true, ..Watch::default() }),
        ("product", "collective", Watch { breaks_split: true, ..Watch::default() }),
    ] {
        let (mut world, _) = world(watch);
        let (_, line) = world.trial(&pair(activity, beside));
        assert_eq!(line.status, Status::Failed, "{activity} beside {beside}: {line:?}");
        let places: Vec<_> = line.wrong_elements.iter().map(|wrong| (wrong.rank, wrong.index)).collect();
        assert!(!places.is_empty() && places.iter().all(|place| *place == (1, 1)), "{activity}: {places:?}");
    }
}

/// What runs beside calls begins before the first call that is timed, and has ended when the trial is over;
/// ranks make equally many units.
#[test]
fn what_runs_beside_a_call_runs_from_before_it_until_after_it() {
    let (mut world, watches) = world(Watch::default());
    let (trial, line) = world.trial(&pair("collective", "second"));
    assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{line:?}");
    let counts =
        |watch: &Watch| [&watch.world, &watch.split, &watch.alone].map(|number| number.load(Ordering::Relaxed));
    let [first, second] = [0, 1].map(|rank| counts(&watches[rank]));
    assert_eq!(first, second, "ranks differ in their operations");
    assert!(first[0] > 0 && first[1] > 0, "{first:?}");
    // Calls of the world before anything ran beside them.
    assert_eq!(first[2], 0, "{first:?}");
    let units = |rank: usize| trial.details[rank]["units"].as_u64().unwrap();
    assert_eq!((units(0), units(1)), (first[1], second[1]), "units are those that the communicator saw");
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(counts(&watches[0]), first, "it still runs");
}

#[test]
fn reads_run_beside_others_where_there_is_storage() {
    let flags = [("activity", "product"), ("beside", "storage_read"), ("path", env!("CARGO_TARGET_TMPDIR"))];
    let case = cases(&flags).pop().unwrap();
    let mut world = Wrapped::shared("shm", 2);
    let limit = std::time::Duration::from_secs(60);
    if let Err(verdict) = measure::World::prepare(&mut world, &case, true, limit) {
        let why = verdict.to_string();
        assert!(why.contains("in memory"), "{why}");
        return crate::skip::skip("reads beside others", &why);
    }
    let (trial, line) = world.trial(&case);
    assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{line:?}");
    assert!(trial.details.iter().all(|rank| rank["units"].as_u64() > Some(0)), "{:?}", trial.details);
}
