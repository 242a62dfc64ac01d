//! States of the machine: found from what canaries showed over all trials of a run, and given to each case.

use measure::{Canary, CaseRun, HostLevels, MachineStates, Settings, StatesAsked, StopReason, Trial, WrongReport};
use record::{CanaryKind, Caveat};
use serde_json::json;

use crate::scripted::{REAL, case};

/// Canaries of neighbouring ranks on near or far cores, with some noise.
fn canary(far: bool, at: u64) -> Canary {
    let noise = 1.0 + 0.01 * ((at * 7 % 11) as f64 - 5.0) / 5.0;
    let round_trip_ns = Some(if far { 290.0 } else { 60.0 } * noise);
    let units_shared = Some(if far { 1.3 } else { 2.4 } * noise);
    of_hosts(vec![HostLevels { round_trip_ns, units_shared, clock_ns: Some(5_000.0 * noise) }])
}

fn of_hosts(hosts: Vec<HostLevels>) -> Canary {
    Canary { barrier_ns: 200.0, hosts, ..Canary::default() }
}

/// The canary with other levels.
fn with(mut canary: Canary, change: impl Fn(&mut HostLevels)) -> Canary {
    canary.hosts.iter_mut().for_each(change);
    canary
}

fn trial(round: u32, ns: u64, canaries: (Canary, Canary)) -> Trial {
    let wrong = vec![WrongReport { compared: 1, ..Default::default() }];
    let samples = vec![vec![ns - 1, ns, ns + 1]; 2].into();
    let span_s = 2.0 * f64::from(round) + 0.1;
    Trial { round, samples, calls: 1, fresh: true, span_s, wrong, canaries: Some(canaries), ..Trial::default() }
}

/// Cases of a run that visits each in every round; `far` says in which rounds cores are far.
fn rounds(cases: usize, rounds: u32, far: impl Fn(u32) -> bool) -> (MachineStates, Vec<CaseRun>) {
    let mut states = MachineStates::default();
    let mut runs: Vec<CaseRun> = (0..cases)
        .map(|at| {
            let mut case = case(2, json!({}));
            case.id = format!("{at:012}");
            CaseRun::new(&case, Settings::from_case(&case), false)
        })
        .collect();
    for round in 0..rounds {
        for (at, run) in runs.iter_mut().enumerate() {
            let noise = u64::from(round) * 13 % 7;
            let ns = if far(round) { 580_000 } else { 130_000 } + 1_000 * noise;
            let moment = u64::from(round) * cases as u64 + at as u64;
            run.trials.push(trial(round, ns, (canary(far(round), 2 * moment), canary(far(round), 2 * moment + 1))));
            states.note(run);
        }
    }
    (states, runs)
}

#[test]
fn times_are_those_of_the_state_that_most_trials_had() {
    let (states, mut runs) = rounds(3, 19, |round| (7..17).contains(&round));
    let names: Vec<(Option<&str>, u32)> =
        states.states().iter().map(|state| (state.name.as_deref(), state.trials)).collect();
    assert_eq!(names, [(Some("near cores"), 27), (Some("far cores"), 30)]);
    let run = runs.last_mut().unwrap();
    let line = measure::case_line(run, REAL);
    assert_eq!((line.state.as_deref(), line.trials, line.trial_median_s.len()), (Some("far cores"), Some(19), 10));
    let time = line.time_s.clone().unwrap();
    assert!((time.median - 583e-6).abs() < 1e-6 && time.ci95.unwrap()[0] >= 580e-6, "{time:?}");
    let states: Vec<(&str, u32)> = line.states.iter().map(|state| (state.name.as_str(), state.trials)).collect();
    assert_eq!(states, [("near cores", 9), ("far cores", 10)]);
    assert!((line.states[0].median_s - 133e-6).abs() < 1e-6);
    assert!((line.states[0].share - 9.0 / 19.0).abs() < 1e-12);
    // Explained, so it is not a caveat.
    assert!(!line.caveats.contains(&Caveat::TwoLevels) && !line.metrics.contains_key("levels"), "{:?}", line.caveats);
    // Each state is precise, and both together never are.
    run.settings.max_seconds = 1e9;
    assert_eq!(run.stop(), Some(StopReason::Precise));
    run.labels = None;
    assert_eq!(run.stop(), None);
}

#[test]
fn what_is_wrong_in_another_state_is_wrong() {
    let (_, mut runs) = rounds(2, 13, |round| round >= 5);
    runs[0].trials[1].wrong[0].count = 3;
    let line = measure::case_line(&runs[0], REAL);
    assert_eq!((line.state.as_deref(), line.wrong), (Some("far cores"), Some(3)));
}

#[test]
fn a_trial_within_which_the_state_changed_counts_to_none() {
    let (mut states, mut runs) = rounds(1, 14, |round| round >= 6);
    let run = &mut runs[0];
    run.trials.push(trial(14, 300_000, (canary(true, 90), canary(false, 91))));
    states.note(run);
    let labels = run.labels.clone().unwrap();
    assert_eq!(labels.of[14], None);
    let line = measure::case_line(run, REAL);
    assert_eq!((line.trials, line.trial_median_s.len()), (Some(15), 8));
    assert_eq!(line.states.iter().map(|state| state.trials).sum::<u32>(), 14);
}

#[test]
fn one_state_changes_nothing_but_what_the_record_says_of_the_machine() {
    let (states, runs) = rounds(2, 13, |_| false);
    assert_eq!(runs[0].labels, None);
    let line = measure::case_line(&runs[0], REAL);
    assert_eq!((&line.state, line.states.len(), line.trial_median_s.len()), (&None, 0, 13));
    let [only] = states.states() else { panic!("{:?}", states.states()) };
    assert_eq!((&only.name, only.trials), (&None, 26));
    let trip = only.canaries.iter().find(|level| level.canary == CanaryKind::RoundTripNs).unwrap();
    assert!(trip.ranks == 2 && (trip.median - 60.0).abs() < 1.0);
}

/// A case that ended while the machine had one state gets that state's name, once another is seen.
#[test]
fn a_case_that_ended_early_learns_the_name_of_its_state() {
    let (mut states, mut runs) = rounds(2, 8, |_| false);
    let mut early = measure::case_line(&runs[0], REAL);
    assert_eq!(early.state, None);
    for round in 8..20 {
        let far = (canary(true, u64::from(2 * round)), canary(true, u64::from(2 * round + 1)));
        runs[1].trials.push(trial(round, 580_000, far));
        states.note(&mut runs[1]);
    }
    states.conclude(&mut early);
    assert_eq!(early.state.as_deref(), Some("near cores"));
    assert_eq!((early.states.len(), early.states[0].trials), (1, 8));
    assert_eq!(early.states[0].ci95_s, early.time_s.unwrap().ci95);
}

/// Ranks that cannot look (Python's), one rank, and what is computed: nobody says anything of states.
#[test]
fn canaries_that_tell_nothing_are_no_state() {
    let mut states = MachineStates::default();
    let mut run = CaseRun::new(&case(2, json!({})), Settings::from_case(&case(2, json!({}))), false);
    for round in 0..12 {
        let blind = Canary { barrier_ns: 40_000.0, ..Canary::default() };
        run.trials.push(trial(round, 100_000, (blind.clone(), blind)));
        states.note(&mut run);
    }
    assert_eq!(run.labels, None);
    let mut computed = CaseRun::new(&case(2, json!({})), Settings::from_case(&case(2, json!({}))), true);
    computed.trials.push(trial(0, 100_000, (canary(false, 0), canary(true, 1))));
    let before = states.states().to_vec();
    states.note(&mut computed);
    assert_eq!(states.states(), before);
}

/// What a machine of one state shows is one state, whatever the tails of its noise.
#[test]
fn noise_is_no_state() {
    let mut random = 42_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) as f64 / f64::from(u32::MAX >> 1)).clamp(1e-9, 1.0)
    };
    let mut several = 0;
    for _ in 0..200 {
        let mut states = MachineStates::default();
        let mut run = CaseRun::new(&case(2, json!({})), Settings::from_case(&case(2, json!({}))), false);
        for round in 0..20 {
            let mut look = || {
                // Pareto tails: one look in a hundred is twice as long.
                let mut tail = || next().powf(-0.15);
                let [trip, shared, clock] = [60.0 * tail(), 1.3 * tail(), 5_000.0 * tail()].map(Some);
                of_hosts(vec![HostLevels { round_trip_ns: trip, units_shared: shared, clock_ns: clock }])
            };
            run.trials.push(trial(round, 100_000, (look(), look())));
            states.note(&mut run);
        }
        several += usize::from(states.states().len() > 1);
    }
    assert!(several <= 4, "{several} of 200");
}

/// A neighbour on the same physical core for a moment makes one look longer: that is not a state, and no change of one.
#[test]
fn what_disturbs_single_looks_is_no_state() {
    let mut states = MachineStates::default();
    let mut run = CaseRun::new(&case(2, json!({})), Settings::from_case(&case(2, json!({}))), false);
    for round in 0..40 {
        let look = |at: u32| {
            let disturbed = if at % 5 == 2 { 1.35 } else { 1.0 };
            with(canary(true, u64::from(at)), |host| {
                host.units_shared = host.units_shared.map(|units| units * disturbed)
            })
        };
        run.trials.push(trial(round, 100_000, (look(2 * round), look(2 * round + 1))));
        states.note(&mut run);
    }
    assert_eq!((states.states().len(), &run.labels), (1, &None), "{:?}", states.states());
    // Nor is what disturbs every first look of a trial for a while.
    let (states, _) = run_of(StatesAsked::default(), 40, |at| {
        let disturbed = if at % 2 == 0 && (20..50).contains(&at) { 1.8 } else { 1.0 };
        with(canary(true, u64::from(at)), |host| host.units_shared = host.units_shared.map(|units| units * disturbed))
    });
    let trials: Vec<u32> = states.states().iter().map(|state| state.trials).collect();
    assert_eq!(trials, [40], "{:?}", states.states());
}

/// Levels of a canary that lie too close for what it looks for are not states: half-shared units are disturbed ones.
#[test]
fn levels_too_close_for_their_kind_are_no_states() {
    let lasting = |units: f64, trip: f64| {
        let mut states = MachineStates::default();
        let mut run = CaseRun::new(&case(2, json!({})), Settings::from_case(&case(2, json!({}))), false);
        for round in 0..40 {
            let look = |at: u32| {
                let factor = |by: f64| if round >= 25 { by } else { 1.0 };
                with(canary(true, u64::from(at)), |host| {
                    host.units_shared = host.units_shared.map(|value| value * factor(units));
                    host.round_trip_ns = host.round_trip_ns.map(|value| value * factor(trip));
                })
            };
            run.trials.push(trial(round, 100_000, (look(2 * round), look(2 * round + 1))));
            states.note(&mut run);
        }
        states.states().iter().filter_map(|state| state.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lasting(1.15, 1.0), Vec::<String>::new());
    assert_eq!(lasting(1.8, 1.0), ["own cores", "shared cores"]);
    // The others are asked without it.
    assert_eq!(lasting(1.15, 3.0), ["near cores", "far cores"]);
}

/// A run of one case over these rounds; `seen` says what ranks show at each look.
fn run_of(asked: StatesAsked, rounds: u32, seen: impl Fn(u32) -> Canary) -> (MachineStates, CaseRun) {
    let mut states = MachineStates::new(asked);
    let case = case(2, json!({}));
    let mut run = CaseRun::new(&case, Settings::from_case(&case), false);
    for round in 0..rounds {
        run.trials.push(trial(round, 100_000 + u64::from(round % 3), (seen(2 * round), seen(2 * round + 1))));
        states.note(&mut run);
    }
    (states, run)
}

fn names(states: &MachineStates) -> Vec<&str> {
    states.states().iter().filter_map(|state| state.name.as_deref()).collect()
}

fn hosts(of: &[bool], at: u32) -> Canary {
    of_hosts(of.iter().flat_map(|far| canary(*far, u64::from(at)).hosts).collect())
}

#[test]
fn states_of_several_hosts_are_named_by_their_host() {
    let asked = || StatesAsked { hosts: vec!["node-a".to_owned(), "node-b".to_owned()], ..StatesAsked::default() };
    // One of them changes.
    let (states, _) = run_of(asked(), 20, |at| hosts(&[false, (14..30).contains(&at)], at));
    assert_eq!(names(&states), ["near cores on node-b", "far cores on node-b"]);
    let level = |state: usize, host: u32| {
        let levels = &states.states()[state].canaries;
        levels.iter().find(|level| (level.canary, level.host) == (CanaryKind::RoundTripNs, Some(host))).unwrap().median
    };
    assert!(level(1, 0) < 70.0 && level(1, 1) > 250.0);
    // Both do, at times of their own.
    let (states, run) = run_of(asked(), 30, |at| hosts(&[at >= 40, (20..44).contains(&at)], at));
    let both = |a: &str, b: &str| format!("{a} cores on node-a, {b} cores on node-b");
    assert_eq!(names(&states), [both("near", "near"), both("near", "far"), both("far", "near")]);
    // Both were far in two trials: that is not a state, and they count to none.
    assert_eq!(run.labels.unwrap().of.iter().filter(|of| of.is_none()).count(), 2);
    let (states, _) = run_of(asked(), 30, |at| hosts(&[at >= 30, at >= 28], at));
    assert_eq!(names(&states), [both("near", "near"), both("far", "far")]);
}

fn known() -> Vec<record::MachineState> {
    let (states, _) = run_of(StatesAsked::default(), 20, |at| canary((14..30).contains(&at), u64::from(at)));
    states.states().to_vec()
}

/// A run that saw one state names it, and what it did not see, from earlier runs.
#[test]
fn earlier_runs_name_what_a_run_saw_and_what_it_did_not() {
    let asked = || StatesAsked { known: known(), ..StatesAsked::default() };
    let (states, run) = run_of(asked(), 9, |at| canary(true, u64::from(at)));
    assert_eq!((names(&states), run.labels), (vec!["far cores"], None));
    assert_eq!(states.unseen().iter().filter_map(|state| state.name.as_deref()).collect::<Vec<_>>(), ["near cores"]);
    // What no earlier run saw has no name.
    let elsewhere = |at: u32| with(canary(true, u64::from(at)), |host| host.round_trip_ns = Some(900.0));
    let (states, _) = run_of(asked(), 9, elsewhere);
    assert_eq!((names(&states), states.unseen().len()), (vec![], 0));
}

/// With a state asked for, trials in others count for nothing: not for the line, not for its end.
#[test]
fn a_state_that_is_asked_for_is_the_only_one_that_counts() {
    let near = || StatesAsked { wanted: Some("near cores".to_owned()), ..StatesAsked::default() };
    // Nobody knows yet what near is.
    let (states, run) = run_of(near(), 40, |at| canary(true, u64::from(at)));
    assert!(run.labels.as_ref().unwrap().lacks_state() && run.stop().is_none());
    assert_eq!(states.is_wanted(&canary(false, 0), 2), None);
    // Two trials of it are too few, although 42 were made.
    let (states, run) = run_of(near(), 42, |at| canary(at < 60, u64::from(at)));
    let labels = run.labels.clone().unwrap();
    assert_eq!((labels.shown(), labels.trials(0).len(), run.stop()), (Some(0), 12, None));
    assert_eq!(measure::case_line(&run, REAL).state.as_deref(), Some("near cores"));
    assert_eq!(
        (states.is_wanted(&canary(false, 0), 2), states.is_wanted(&canary(true, 0), 2)),
        (Some(true), Some(false))
    );
    // Others rank counts see other levels.
    assert_eq!(states.is_wanted(&canary(true, 0), 4), None);
    // Earlier runs know it, so the first look tells.
    let (states, run) = run_of(StatesAsked { known: known(), ..near() }, 7, |at| canary(true, u64::from(at)));
    assert!(run.labels.unwrap().lacks_state());
    assert_eq!(states.is_wanted(&canary(true, 0), 2), Some(false));
    let (_, run) = run_of(StatesAsked { known: known(), ..near() }, 7, |at| canary(false, u64::from(at)));
    assert_eq!(run.labels, None, "all of its trials count");
    // Ranks that see nothing can wait for ever.
    let (_, run) = run_of(near(), 1, |_| of_hosts(vec![HostLevels::default()]));
    assert_eq!(run.stop(), Some(StopReason::Blind));
}

/// Cases with one sample in each trial look at the machine once: one trial of 40 must not be all that counts.
#[test]
fn a_case_of_which_few_trials_looked_keeps_all_of_its_trials() {
    let (mut states, mut runs) = rounds(2, 40, |round| round % 3 == 0);
    let seen = runs[1].trials.clone();
    let mut of_few = |looks: usize| {
        let mut case = case(2, json!({}));
        case.id = format!("{looks:012}f");
        let mut few = CaseRun::new(&case, Settings::from_case(&case), false);
        for (at, trial) in seen.iter().enumerate() {
            let canaries = trial.canaries.clone().filter(|_| at < looks);
            few.trials.push(Trial { canaries, ..trial.clone() });
            states.note(&mut few);
        }
        few
    };
    assert!(runs.remove(1).labels.is_some(), "the run has two states");
    let few = of_few(1);
    assert_eq!(few.labels, None);
    assert_eq!(measure::case_line(&few, REAL).trial_round.len(), 40);
    assert!(of_few(25).labels.is_some(), "most of its trials have a state");
}
