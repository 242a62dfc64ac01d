//! Like state with like: what is said of two runs of a machine that is now at one speed and now at another.

use crate::simulation::record_of;
use diagnose::Verdict;
use diagnose::compare::{Compared, Comparison, Reason, Settings, Source, compare, in_common_states};
use diagnose::history::{Run, StateOfSeries, histories};
use record::{CanaryKind, CanaryLevel, CaseState, MachineState, Record};
use stats::{median, sign_interval};

const NEAR_NS: f64 = 60.0;
const FAR_NS: f64 = 290.0;

fn trials(time: f64) -> Vec<f64> {
    (0..13).map(|i| time * (1.0 + f64::from(i * 5 % 13) / 1e3)).collect()
}

fn machine_state(name: Option<&str>, trip: f64) -> MachineState {
    let canaries = [(CanaryKind::RoundTripNs, trip), (CanaryKind::ClockNs, 5_000.0)]
        .map(|(canary, median)| CanaryLevel { canary, ranks: 2, host: None, median });
    MachineState { name: name.map(str::to_owned), share: 0.5, trials: 13, canaries: canaries.to_vec() }
}

/// A run that saw one state, in which its case took this long.
fn one(time: f64, trip: f64) -> Record {
    let mut record = record_of(&[trials(time)], 0);
    record.file.states = vec![machine_state(None, trip)];
    record
}

/// A run that saw both states, with the times of the case in each; it shows those of the first name.
fn both(shown: &str, near: f64, far: f64) -> Record {
    let mut record = one(if shown == "near cores" { near } else { far }, NEAR_NS);
    record.file.states = vec![machine_state(Some("near cores"), NEAR_NS), machine_state(Some("far cores"), FAR_NS)];
    let state = |name: &str, time: f64| {
        let medians = trials(time);
        let (median_s, ci95_s) = (median(&medians), sign_interval(&medians));
        CaseState { name: name.to_owned(), share: 0.5, trials: 13, median_s, ci95_s, trial_median_s: medians }
    };
    record.cases[0].states = vec![state("near cores", near), state("far cores", far)];
    record.cases[0].state = Some(shown.to_owned());
    record
}

/// A run of this day, in which near takes `near` and far ten times as long; the letters say what it saw, and shows first.
fn of_day(day: usize, seen: &str, near: f64) -> Record {
    let mut record = match seen {
        "near" => one(near, NEAR_NS),
        "far" => one(10.0 * near, FAR_NS),
        "near, far" => both("near cores", near, 10.0 * near),
        _ => both("far cores", near, 10.0 * near),
    };
    record.file.started = format!("2026-01-{:02}T00:00:00Z", 1 + day);
    record
}

const SEEN: [&str; 8] = ["near", "far", "near, far", "far", "far, near", "near", "far, near", "near"];

/// Equal runs that saw one state or the other tell their noise state by state, and not that of the machine's changes.
#[test]
fn the_noise_of_equal_runs_is_that_of_one_state() {
    let noise = |day: usize| 1.0 + (day as f64 * 5.0 % 8.0) / 1e3;
    let equal: Vec<Record> = (0..8).map(|day| of_day(day, SEEN[day], noise(day))).collect();
    let judged = |shown: &str, slower: f64, look: &dyn Fn(&Compared)| {
        let (mut base, mut new) = (equal.clone(), of_day(20, shown, slower));
        in_common_states(base.last_mut().unwrap(), &mut new, true);
        let records: Vec<&Record> = base.iter().collect();
        look(&compare(&records, &new, &Settings { threshold: 0.03, history: Vec::new() }).cases[0]);
    };
    for (shown, slower, verdict) in [
        ("near", 1.0, Verdict::Same),
        ("near", 1.2, Verdict::Worse),
        ("far, near", 1.0, Verdict::Same),
        ("far, near", 1.2, Verdict::Worse),
    ] {
        judged(shown, slower, &|case| {
            assert_eq!((case.verdict, case.source), (Some(verdict), Source::Runs(6)), "{shown} {slower}");
            assert!((case.ratio.unwrap() / slower - 1.0).abs() < 0.01, "{shown} {slower}: {:?}", case.ratio);
        });
    }
    // The last run of the base saw near cores only: far ones are like nothing that it has.
    judged("far", 1.2, &|case| assert!(matches!(case.reason, Reason::OtherState(_)), "{:?}", case.reason));
}

/// Each state of a case is a series of its own, so that a change of state is not a change of the case.
#[test]
fn a_history_has_a_series_for_each_state() {
    let history = |records: &[Record]| {
        let runs = records.iter().map(|record| Run::of(&record.file.started, record, false).unwrap());
        histories(runs.collect()).remove(0)
    };
    let equal: Vec<Record> = (0..24).map(|day| of_day(day, SEEN[day % 8], 1.0 + (day * 5 % 8) as f64 / 1e3)).collect();
    let found = history(&equal);
    let states: Vec<(Option<String>, usize)> = found
        .series
        .iter()
        .map(|series| (series.state.as_ref().map(ToString::to_string), series.points.len()))
        .collect();
    let expected = [(Some("near cores".to_owned()), 18), (Some("far cores".to_owned()), 15)];
    assert_eq!((states.as_slice(), found.changes.len()), (expected.as_slice(), 0));
    // What is slower in both is found in both.
    let slower: Vec<Record> = (0..24)
        .map(|day| of_day(day, SEEN[day % 8], if day >= 12 { 1.3 } else { 1.0 } + (day * 5 % 8) as f64 / 1e3))
        .collect();
    let found = history(&slower);
    assert!(found.series.iter().all(|series| series.changes.len() == 1), "{:?}", found.changes);
    // A record of an earlier version does not say in which state it was.
    let mut old = equal.clone();
    old[3].file.states.clear();
    let found = history(&old);
    assert!(found.series.iter().any(|series| series.state == Some(StateOfSeries::Unknown) && series.points.len() == 1));
    // Of a machine with one state nothing is said.
    let one: Vec<Record> = (0..6).map(|day| of_day(day, "near", 1.0)).collect();
    assert_eq!(history(&one).series[0].state, None);
}

fn with_comparison(mut base: Record, mut new: Record, look: impl FnOnce(&Comparison)) {
    in_common_states(&mut base, &mut new, true);
    look(&compare(&[&base], &new, &Settings { threshold: 0.03, history: Vec::new() }));
}

fn ratio(comparison: &Comparison) -> f64 {
    comparison.cases[0].ratio.expect("both have a time")
}

#[test]
fn runs_in_different_states_cannot_be_told_and_say_what_they_saw() {
    with_comparison(one(1.0, NEAR_NS), one(4.0, FAR_NS), |comparison| {
        let case = &comparison.cases[0];
        assert_eq!(case.verdict, Some(Verdict::CannotTell));
        let Reason::OtherState([base, new]) = &case.reason else { panic!("{:?}", case.reason) };
        assert_eq!((base.round_trip_ns, new.round_trip_ns), (Some(NEAR_NS), Some(FAR_NS)));
    });
    // The same states: what is slow is slow.
    with_comparison(one(1.0, NEAR_NS), one(4.0, 1.1 * NEAR_NS), |comparison| {
        assert_eq!((ratio(comparison).round(), comparison.cases[0].verdict), (4.0, Some(Verdict::Worse)));
    });
    // What no state explains is said first.
    let mut emulated = one(4.0, FAR_NS);
    emulated.cases[0].caveats.push(record::Caveat::Emulated);
    with_comparison(one(1.0, NEAR_NS), emulated, |comparison| {
        assert!(matches!(comparison.cases[0].reason, Reason::Emulated), "{:?}", comparison.cases[0].reason);
    });
    // An old record says nothing of states.
    let mut old = one(4.0, FAR_NS);
    old.file.states.clear();
    with_comparison(one(1.0, NEAR_NS), old, |comparison| assert_eq!(comparison.cases[0].verdict, Some(Verdict::Worse)));
}

#[test]
fn a_state_that_both_saw_is_compared() {
    let near = |comparison: &Comparison| assert!((ratio(comparison) - 2.0).abs() < 1e-9, "{}", ratio(comparison));
    // The base shows near cores; the new run, twice as slow there, shows far ones.
    with_comparison(both("near cores", 1.0, 10.0), both("far cores", 2.0, 10.0), |comparison| {
        assert_eq!(comparison.cases[0].verdict, Some(Verdict::Worse));
        near(comparison);
    });
    // One of them saw one state only.
    with_comparison(one(1.0, NEAR_NS), both("far cores", 2.0, 10.0), near);
    with_comparison(both("far cores", 1.0, 10.0), one(2.0, NEAR_NS), near);
    // Without a change of the base, its far cores find their like in nothing that the new run saw.
    let (mut base, mut new) = (both("far cores", 1.0, 10.0), one(2.0, NEAR_NS));
    in_common_states(&mut base, &mut new, false);
    let comparison = compare(&[&base], &new, &Settings { threshold: 0.03, history: Vec::new() });
    assert!(matches!(comparison.cases[0].reason, Reason::OtherState(_)));
}

#[test]
fn another_machine_is_compared_as_it_is() {
    let (base, mut new) = (one(1.0, NEAR_NS), one(4.0, FAR_NS));
    new.file.machine.cores = Some(96);
    with_comparison(base, new, |comparison| assert_eq!(comparison.cases[0].verdict, Some(Verdict::Worse)));
}

/// A clock that was slower explains what is slower by about as much, and no more.
#[test]
fn what_the_clock_explains_cannot_be_told() {
    let slow = |time: f64, clock: f64| {
        let mut record = one(time, NEAR_NS);
        let levels = record.file.states[0].canaries.iter_mut().filter(|level| level.canary == CanaryKind::ClockNs);
        levels.for_each(|level| level.median *= clock);
        record
    };
    with_comparison(one(1.0, NEAR_NS), slow(1.3, 1.15), |comparison| {
        let case = &comparison.cases[0];
        assert_eq!(case.verdict, Some(Verdict::CannotTell));
        assert!(matches!(case.reason, Reason::OtherClock(slower) if (slower - 1.15).abs() < 1e-9), "{:?}", case.reason);
    });
    // Of two hosts one is slower, and the others wait for it.
    let on_hosts = |time: f64, clocks: [f64; 2]| {
        let mut record = one(time, NEAR_NS);
        let clock = |(host, clock): (u32, f64)| CanaryLevel {
            canary: CanaryKind::ClockNs,
            ranks: 2,
            host: Some(host),
            median: 5_000.0 * clock,
        };
        record.file.states[0].canaries = (0..).zip(clocks).map(clock).collect();
        record
    };
    with_comparison(on_hosts(1.0, [1.0, 1.0]), on_hosts(1.3, [1.0, 1.15]), |comparison| {
        let reason = &comparison.cases[0].reason;
        assert!(matches!(reason, Reason::OtherClock(slower) if (slower - 1.15).abs() < 1e-9), "{reason:?}");
    });
    for (time, clock) in [(2.0, 1.15), (1.3, 1.0), (1.3, 0.87)] {
        with_comparison(one(1.0, NEAR_NS), slow(time, clock), |comparison| {
            assert_eq!(comparison.cases[0].verdict, Some(Verdict::Worse), "{time} {clock}");
        });
    }
}
