//! Worlds that work: commands and answers, exchanges, placement, refusals that leave the world alive, idle worlds.

use std::time::{Duration, Instant};

use launch::LocalStarter;
use measure::{Probe, SampleRequest, Starter, VerdictKind, World};
use serde_json::json;
use terms::{Mode, Rank};

use crate::play::{LONG, Test, act, exists, spec, start, wait_gone};

pub(crate) const TESTS: &[Test] = &[
    ("talk::every_command_is_answered_in_rank_order", every_command_is_answered_in_rank_order),
    ("talk::exchanges_work_inside_commands", exchanges_work_inside_commands),
    ("talk::environment_and_binding_reach_the_ranks", environment_and_binding_reach_the_ranks),
    ("talk::output_is_taken_and_never_holds_a_rank", output_is_taken_and_never_holds_a_rank),
    ("talk::refusals_leave_the_world_alive", refusals_leave_the_world_alive),
    ("talk::what_does_not_fit_is_refused", what_does_not_fit_is_refused),
    ("talk::drop_leaves_nothing", drop_leaves_nothing),
    ("talk::idle_worlds_use_no_processor", idle_worlds_use_no_processor),
    ("talk::impossible_worlds_are_refused_before_they_start", impossible_worlds_are_refused_before_they_start),
    ("talk::worlds_that_cannot_start_say_why", worlds_that_cannot_start_say_why),
];

fn every_command_is_answered_in_rank_order() {
    let mut world = LocalStarter::new().start(&spec(4, json!({}))).unwrap();
    let case = crate::play::case("echo", json!({}));
    let paths: Vec<_> = world.prepare(&case, true, LONG).unwrap().into_iter().map(|ready| ready.path).collect();
    assert_eq!(paths, ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]);
    let request = SampleRequest { mode: Mode::Streaming, samples: 5, calls: 1 };
    assert_eq!(world.sample(request, LONG).unwrap(), vec![vec![0, 1, 2, 3, 4]; 4].into());
    let compared: Vec<_> = world.check(LONG).unwrap().into_iter().map(|wrong| wrong.compared).collect();
    assert_eq!(compared, [0, 1, 2, 3]);
    let numbers = world.probe(Probe::Overhead, LONG).unwrap();
    assert!(numbers[3][0] == 0.1 + 0.2 && numbers[3][1] == 3.0, "floats travel unchanged: {numbers:?}");
    assert_eq!(world.finish(LONG).unwrap()[2].operations, 5);
}

fn exchanges_work_inside_commands() {
    for ranks in [1, 2, 5] {
        let mut world = start(ranks);
        let expected: Vec<String> = (0..ranks).map(|rank| format!("{rank}/49")).collect();
        let paths = act(&mut world, "gather", json!({"rounds": 50})).unwrap();
        assert_eq!(paths, vec![expected.join(" "); ranks as usize]);
    }
}

fn environment_and_binding_reach_the_ranks() {
    let fields = json!({"bind": "core", "env": ["LAUNCH_TEST_WORD=two words"]});
    let mut world = LocalStarter::new().start_processes(&spec(3, fields)).unwrap();
    let words = act(&mut world, "variable", json!({"name": "LAUNCH_TEST_WORD"})).unwrap();
    assert_eq!(words, ["two words"; 3]);
    assert_ne!(act(&mut world, "variable", json!({"name": "PATH"})).unwrap()[0], "", "inherited");
    let cores = process::allowed_cores().unwrap();
    let expected = (0..3).map(|rank| cores[rank % cores.len()]).map(|core| format!("{:?} [{core}] true", Some(core)));
    assert_eq!(act(&mut world, "place", json!({})).unwrap(), expected.collect::<Vec<_>>());
    // Bound is what is meant where nothing is said.
    let unsaid = act(&mut start(1), "place", json!({})).unwrap();
    assert_eq!(unsaid, [format!("{:?} [{}] true", Some(cores[0]), cores[0])]);
    let mut free = LocalStarter::new().start_processes(&spec(1, json!({"bind": "none"}))).unwrap();
    assert_eq!(act(&mut free, "place", json!({})).unwrap(), [format!("None {cores:?} true")]);
}

fn output_is_taken_and_never_holds_a_rank() {
    let mut world = start(2);
    act(&mut world, "print", json!({})).unwrap();
    act(&mut world, "echo", json!({})).unwrap();
}

fn refusals_leave_the_world_alive() {
    let mut world = start(4);
    let verdict = act(&mut world, "fail", json!({"rank": 2})).unwrap_err();
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Refused, &[Rank(2)][..]));
    assert_eq!(verdict.error.what, "rank 2: no memory for it");
    let verdict = act(&mut world, "lack", json!({})).unwrap_err();
    assert_eq!((verdict.kind, verdict.error.what.as_str()), (VerdictKind::Lacking, "ranks 0-3: no such device"));
    // A rank that fails late, and one that fails early while the others still work, end nothing.
    let verdict = act(&mut world, "fail_slowly", json!({"rank": 0})).unwrap_err();
    assert_eq!(verdict.error.what, "rank 0: too late");
    let verdict = act(&mut world, "work_while_peer_fails", json!({"rank": 1})).unwrap_err();
    assert_eq!((verdict.kind, verdict.error.what.as_str()), (VerdictKind::Refused, "rank 1: at once"));
    act(&mut world, "echo", json!({})).unwrap();
}

fn what_does_not_fit_is_refused() {
    let mut world = start(1);
    let verdict = act(&mut world, "large", json!({})).unwrap_err();
    assert!(verdict.kind == VerdictKind::Refused && verdict.error.what.contains("does not fit"), "{verdict}");
    let verdict = world.probe(Probe::Canary, LONG).unwrap_err();
    assert!(verdict.kind == VerdictKind::Refused && verdict.error.what.contains("finite"), "{verdict}");
    act(&mut world, "echo", json!({})).unwrap();
}

fn drop_leaves_nothing() {
    let mut world = start(4);
    act(&mut world, "gather", json!({})).unwrap();
    let pids = world.pids();
    assert!(pids.iter().all(|pid| exists(*pid)));
    let begin = Instant::now();
    drop(world);
    assert!(begin.elapsed() < Duration::from_millis(450), "ranks leave when asked: {:?}", begin.elapsed());
    assert_eq!(wait_gone(&pids, Duration::ZERO), [0; 0], "reaped");
}

fn idle_worlds_use_no_processor() {
    let mut worlds = [start(2), start(2), start(2)];
    for world in &mut worlds {
        act(world, "echo", json!({})).unwrap();
    }
    let pids: Vec<u32> = worlds.iter().flat_map(launch::ProcessWorld::pids).collect();
    // Guardians fall asleep at the beat after the last command.
    std::thread::sleep(Duration::from_millis(300));
    let before = wake_ups(&pids);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(wake_ups(&pids), before, "an idle rank wakes for nothing");
    for world in worlds.iter_mut().rev() {
        act(world, "gather", json!({})).unwrap();
    }
}

/// Voluntary context switches of all threads of these processes.
fn wake_ups(pids: &[u32]) -> u64 {
    let threads = pids.iter().flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).unwrap());
    let counts = threads.map(|thread| {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    });
    counts.sum()
}

fn impossible_worlds_are_refused_before_they_start() {
    for (ranks, fields, why) in [
        (0, json!({}), "0 ranks"),
        (10_000, json!({}), "10000 ranks"),
        (1, json!({"bind": "sokcet"}), "unknown binding `sokcet`"),
        (1, json!({"env": ["no"]}), "`no` in `env`"),
    ] {
        let verdict = LocalStarter::new().start_processes(&spec(ranks, fields)).err().unwrap();
        assert_eq!(verdict.kind, VerdictKind::NotStarted);
        assert!(verdict.error.what.contains(why), "{verdict}");
    }
}

fn worlds_that_cannot_start_say_why() {
    let start = |fields, limit| {
        let starter = LocalStarter::new().limit(limit);
        starter.start_processes(&spec(3, fields)).err().unwrap()
    };
    let verdict = start(json!({"make": "fail", "rank": 1}), LONG);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::NotStarted, &[Rank(1)][..]));
    assert!(verdict.error.what.contains("no such backend") && verdict.error.what.contains("0, 2"), "{verdict}");
    let verdict = start(json!({"make": "lack"}), LONG);
    assert_eq!((verdict.kind, verdict.error.what.as_str()), (VerdictKind::Lacking, "ranks 0-2: no such library"));
    let verdict = start(json!({"make": "exit", "rank": 2}), LONG);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::NotStarted, &[Rank(2)][..]));
    assert!(verdict.error.what.contains("exited with code 7 while starting"), "{verdict}");
    let verdict = start(json!({"make": "hang", "rank": 0}), Duration::from_secs(2));
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::NotStarted, &[Rank(0)][..]));
    assert!(verdict.error.what.contains("within 2.00 s"), "{verdict}");
}
