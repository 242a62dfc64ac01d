//! What a line caveats: wrong elements, canaries, slow ranks, drifts, missed starts; and that nothing healthy is doubted.

use measure::{Circumstances, ClockCaveat, ClockFit, Clocks, Command, HostClock, VerdictKind, WrongReport};
use record::Caveat;
use serde_json::json;
use stats::samples::{Marginal, Situation, StationarySeries};
use terms::Status;

use crate::scripted::{One, REAL, Scripted, case, element, line};

fn quick() -> record::Case {
    case(3, json!({"warmup": 0, "iters": 6}))
}

#[test]
fn wrong_elements_fail_the_case_and_are_named() {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.wrong[1] = WrongReport { count: 2, compared: 10, first: vec![element(1, 9), element(1, 4)] };
    let trial = world.trial(&quick());
    let line = line(&trial);
    assert_eq!((line.status, line.wrong), (Status::Failed, Some(2)));
    assert_eq!(line.reason.as_deref(), Some("2 wrong elements on rank 1: element 9 should be 3 and is 4"));
    // The reason tells of the earliest seen, the list is in order.
    assert_eq!(line.wrong_elements, [element(1, 4), element(1, 9)]);
}

#[test]
fn every_rank_with_wrong_elements_is_named_however_many_there_are() {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    for rank in [0, 2] {
        let first: Vec<_> = (0..16).map(|index| element(rank, index)).collect();
        world.wrong[rank as usize] = WrongReport { count: 1000, compared: 1000, first };
    }
    let trial = world.trial(&quick());
    let line = line(&trial);
    let reason = line.reason.unwrap();
    assert!(reason.starts_with("2000 wrong elements on ranks 0, 2: element 0 "), "{reason}");
    assert_eq!(line.wrong_elements.len(), 16);
    assert!(line.wrong_elements.iter().any(|wrong| wrong.rank == 2), "{:?}", line.wrong_elements);
}

#[test]
fn wrong_elements_before_the_first_sample_count() {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.ready.wrong = WrongReport { count: 1, compared: 1, first: vec![element(0, 0)] };
    let trial = world.trial(&quick());
    // Every rank says the same here.
    let wrong: u64 = trial.wrong.iter().map(|report| report.count).sum();
    assert_eq!((wrong, line(&trial).status), (3, Status::Failed));
}

#[test]
fn a_check_that_compared_nothing_proves_nothing() {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.wrong = vec![WrongReport::default(); 3];
    let trial = world.trial(&quick());
    let unchecked = line(&trial);
    assert_eq!(unchecked.status, Status::Failed);
    assert_eq!(unchecked.reason.as_deref(), Some("the check compared no element: nothing is known of the data"));
    // A barrier moves nothing: there is nothing to compare.
    let mut barrier = quick();
    barrier.parameters.insert("op", json!("barrier"));
    let trial = world.trial(&barrier);
    assert_eq!(line(&trial).status, Status::Ok);
}

fn canaried(before: [f64; 3], after: [f64; 3], about: Circumstances) -> Vec<Caveat> {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.canaries = [before.to_vec(), after.to_vec()];
    let trial = world.trial_real(&quick());
    // What this very machine does while the test runs is not the test's.
    let mine = |caveat: &Caveat| {
        use Caveat::{OtherPrograms, QuotaReached, StolenTime, Throttled};
        !matches!(caveat, StolenTime | Throttled | QuotaReached | OtherPrograms)
    };
    measure::case_line(&trial.0, about).caveats.into_iter().filter(mine).collect()
}

#[test]
fn canaries_that_moved_become_caveats() {
    assert_eq!(canaried([200.0, 0.0, 0.0], [300.0, 50.0, 5.0], REAL), []);
    assert_eq!(canaried([200.0, 0.0, 0.0], [9_000.0, 0.0, 0.0], REAL), [Caveat::Noisy]);
    assert_eq!(canaried([9_000.0, 0.0, 0.0], [200.0, 0.0, 0.0], REAL), [Caveat::Noisy]);
    assert_eq!(canaried([200.0, 0.0, 0.0], [200.0, 0.0, 1e6], REAL), [Caveat::ContextSwitches]);
    // Ranks that share cores are switched, and wait in barriers: that is said by one word.
    let shared = Circumstances { oversubscribed: true, ..REAL };
    assert_eq!(canaried([200.0, 0.0, 0.0], [9_000.0, 0.0, 1e6], shared), [Caveat::Oversubscribed]);
}

/// The rate of switches is that of the whole trial, with samples that were asked for by number.
#[test]
fn switches_are_those_of_a_second_of_the_trial() {
    let is_switched = |switches: f64| {
        let mut world = Scripted::new(3, |rank, sample, _| {
            if rank == 0 && sample >= 3 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            20_000_000
        });
        world.canaries = [vec![200.0, 0.0, 0.0], vec![200.0, 0.0, switches]];
        let trial = world.trial_real(&case(3, json!({"warmup": 0, "iters": 30})));
        line(&trial).caveats.contains(&Caveat::ContextSwitches)
    };
    assert!(!is_switched(30.0), "30 in 0.6 s or more");
    assert!(is_switched(1e6));
}

/// 64 operations of 10 us with 5 us between them; rank 1 enters `late` ns later.
fn arrivals(late: f64) -> Vec<Vec<f64>> {
    let arrivals_of = |rank: usize| {
        (0..64).flat_map(move |i| {
            let begin = 15_000.0 * f64::from(i);
            [begin + if rank == 1 { late } else { 0.0 }, begin + 10_000.0 + late]
        })
    };
    (0..3).map(|rank| arrivals_of(rank).collect()).collect()
}

#[test]
fn a_slow_rank_is_named_with_what_it_costs() {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.arrivals = arrivals(4_000.0);
    let trial = world.trial(&quick());
    let slow = line(&trial);
    assert_eq!(slow.caveats, [Caveat::SlowRank]);
    assert_eq!((&slow.metrics["slow_rank"], slow.metric("slow_rank_wait_s")), (&json!(1), Some(4e-6)));
    let shared = Circumstances { oversubscribed: true, ..REAL };
    let line = measure::case_line(&trial.0, shared);
    assert_eq!(line.caveats, [Caveat::Oversubscribed], "ranks that share cores are late by turns");
    world.arrivals = arrivals(400.0);
    let trial = world.trial(&quick());
    assert_eq!(crate::scripted::line(&trial).caveats, []);
}

#[test]
fn arrivals_are_asked_for_only_where_they_mean_something() {
    for (op, asked) in [("all_reduce", true), ("barrier", true), ("broadcast", false), ("send_recv", false)] {
        let mut case = quick();
        case.parameters.insert("op", json!(op));
        let mut world = Scripted::new(2, |_, _, _| 30_000);
        world.arrivals = arrivals(4_000.0);
        let trial = world.trial(&case);
        assert_eq!(!trial.arrivals.is_empty(), asked, "{op}");
    }
    let alone = Scripted::new(1, |_, _, _| 30_000).trial(&quick());
    assert!(alone.arrivals.is_empty(), "one rank waits for nobody");
}

#[test]
fn a_missed_start_is_told() {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.missed_starts = vec![0, 2, 1];
    let trial = world.trial(&quick());
    assert_eq!((trial.missed_starts, line(&trial).caveats), (2, vec![Caveat::MissedStart]));
}

#[test]
fn caveats_of_the_plan_and_of_the_pace_are_kept() {
    let mut case = quick();
    case.caveats = vec![Caveat::SizeRounded];
    case.settings.insert("pace_bandwidth", json!(1e9));
    let trial = Scripted::new(3, |_, _, _| 30_000).trial(&case);
    let about = Circumstances { simulated: true, ..REAL };
    let line = measure::case_line(&trial.0, about);
    assert_eq!((line.caveats, line.simulated), (vec![Caveat::SizeRounded, Caveat::Simulated, Caveat::Paced], true));
}

/// A trial of `samples` samples around 100 us, with correlated noise of 5%, each changed by `change`.
fn series(phi: f64, seed: u64, samples: usize, change: fn(f64) -> f64) -> One {
    let mut series = StationarySeries::new(Situation { phi, marginal: Marginal::Lognormal, noise: 0.05 }, seed);
    series.extend(samples + 3);
    let values = series.samples;
    let times = move |_: usize, sample: u64, _: u32| {
        let at = sample as f64 / samples as f64;
        (1e5 * values[sample as usize] * change(at)) as u64
    };
    Scripted::new(2, times).trial(&case(2, json!({"warmup": 0, "iters": samples})))
}

#[test]
fn drifts_are_told_and_healthy_series_are_not_doubted() {
    for phi in [0.0, 0.5, 0.8] {
        let drifting = series(phi, 7, 2_000, |at| 1.0 + 0.2 * at);
        assert_eq!(line(&drifting).caveats, [Caveat::Drift], "phi {phi}");
        // Two percent over the case are nobody's concern, certain as they are.
        let faint = series(phi, 7, 2_000, |at| 1.0 + 0.02 * at);
        assert_eq!(line(&faint).caveats, [], "phi {phi}");
        for seed in 0..100 {
            for samples in [200, 1_000] {
                let healthy = series(phi, seed, samples, |_| 1.0);
                assert_eq!(line(&healthy).caveats, [], "phi {phi} seed {seed} samples {samples}");
            }
        }
    }
}

/// Clocks of three ranks. Rank 1 is on another host: 5 s ahead, known to `residual_ns`.
fn clocks(residual_ns: f64) -> Clocks {
    let fit =
        ClockFit { from_ns: 0, until_ns: u64::MAX, offset_ns: 5_000_000_000, slope: 0.0, residual_ns, growth: 0.0 };
    Clocks { hosts: vec![HostClock { host: "b".to_owned(), fit: Ok(fit) }], of: vec![None, Some(0), None] }
}

/// Clocks of three ranks. Rank 1 is on another host, whose clock is not known.
fn unknown() -> Clocks {
    let hosts = vec![HostClock { host: "b".to_owned(), fit: Err(ClockCaveat::Unanswered) }];
    Clocks { hosts, of: vec![None, Some(0), None] }
}

/// The line of a case over these hosts, rank 1 arriving 4 us late.
fn over_hosts(seen: Vec<Clocks>) -> record::CaseLine {
    let mut world = Scripted::new(3, |_, _, _| 30_000);
    world.arrivals = arrivals(4_000.0);
    world.arrivals[1].iter_mut().for_each(|time| *time += 5e9);
    world.clocks = seen;
    let trial = world.trial(&quick());
    line(&trial)
}

#[test]
fn a_slow_rank_of_another_host_is_named_where_clocks_are_known_well_enough() {
    let known = over_hosts(vec![clocks(390.0)]);
    assert_eq!(known.caveats, [Caveat::SlowRank]);
    assert_eq!((&known.metrics["slow_rank"], known.metric("slow_rank_wait_s")), (&json!(1), Some(4e-6)));
    assert_eq!((known.clocks[0].offset_ns, known.clocks[0].residual_ns), (Some(5_000_000_000), Some(390.0)));
    // A tenth of the wait is 400 ns.
    for vague in [vec![clocks(410.0)], vec![unknown()], vec![clocks(1.0), clocks(1.0), unknown()]] {
        let line = over_hosts(vague.clone());
        assert_eq!((line.caveats.as_slice(), line.metrics.get("slow_rank")), (&[][..], None), "{vague:?}");
        assert_eq!(line.status, Status::Ok, "nothing else depends on clocks");
    }
    // Said even where later it is known.
    let doubted = over_hosts(vec![unknown(), clocks(1.0)]);
    assert_eq!(doubted.clocks[0].why.as_deref(), Some("it was not answered"));
    assert!(over_hosts(Vec::new()).clocks.is_empty(), "one clock");
}

#[test]
fn isolated_starts_are_translated_and_doubted() {
    let case = case(3, json!({"warmup": 1, "iters": 6, "mode": "isolated"}));
    let run = |seen: Vec<Clocks>| {
        let mut world = Scripted::new(3, |_, _, _| 30_000);
        world.clocks = seen;
        let trial = world.trial_with_progress(&case, true).0;
        (trial.map(|trial| line(&trial)), world.commands)
    };
    let (known, commands) = run(vec![clocks(2_900.0)]);
    let known = known.unwrap();
    assert_eq!((known.caveats.as_slice(), known.starts_apart_s), (&[][..], Some(2.9e-6)));
    let sent: Vec<_> = commands.iter().map(|(command, _)| command).collect();
    let samples = sent.iter().filter(|command| matches!(command, Command::Sample(_))).count();
    let before_each = sent.windows(2).filter(|pair| {
        let own =
            matches!(pair[0], Command::Clocks(fits) if fits[0].is_none() && fits[1].is_some() && fits[2].is_none());
        own && matches!(pair[1], Command::Sample(_))
    });
    assert!(samples >= 2 && before_each.count() == samples, "{sent:?}");
    let (vague, _) = run(vec![clocks(3_100.0)]);
    assert_eq!(vague.unwrap().caveats, [Caveat::StartsApart]);
    let (alone, commands) = run(Vec::new());
    assert_eq!(alone.unwrap().starts_apart_s, None);
    assert!(!commands.iter().any(|(command, _)| matches!(command, Command::Clocks(_))), "one clock");
    // From the first look on, or at the last one, after the samples.
    let looks = samples + 2;
    let late: Vec<Clocks> = (1..looks).map(|_| clocks(1.0)).chain([unknown()]).collect();
    for seen in [vec![unknown()], late] {
        let verdict = run(seen).0.unwrap_err();
        assert_eq!(verdict.kind, VerdictKind::Lacking);
        let why = "`mode: isolated` needs to know how the clocks of all hosts run: the clock of b: it was not answered";
        assert_eq!(verdict.error.what, why);
    }
}
