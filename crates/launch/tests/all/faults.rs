//! Ranks that die, stop, panic, fail or hang in the middle of a command: the right one is named, all are gone, and
//! nothing hangs.

use std::time::{Duration, Instant};

use launch::ProcessWorld;
use measure::{Verdict, VerdictKind};
use serde_json::{Value, json};
use terms::Rank;

use crate::play::{LONG, Test, act, act_within, signal, start, wait_gone};

pub(crate) const TESTS: &[Test] = &[
    ("faults::killed_at_random_moments", killed_at_random_moments),
    ("faults::killed_inside_a_collective", killed_inside_a_collective),
    ("faults::stopped", stopped),
    ("faults::panics_with_last_words", panics_with_last_words),
    ("faults::exits", exits),
    ("faults::fails_while_peers_wait", fails_while_peers_wait),
    ("faults::fails_while_peers_exchange", fails_while_peers_exchange),
    ("faults::hangs_outside_while_peers_wait", hangs_outside_while_peers_wait),
    ("faults::hangs_everywhere", hangs_everywhere),
    ("faults::an_idle_rank_dies", an_idle_rank_dies),
    ("faults::two_ranks_die_together", two_ranks_die_together),
];

/// The failure report of a world of ranks that do this. Afterwards nothing of the world is left.
fn verdict_on(world: &mut ProcessWorld, what: &str, parameters: Value, limit: Duration) -> Verdict {
    let pids = world.pids();
    let verdict = act_within(world, what, parameters, limit).unwrap_err();
    assert!(!verdict.kind.world_lives(), "{verdict}");
    assert_eq!(wait_gone(&pids, Duration::ZERO), [0; 0], "{verdict}");
    let again = act(world, "echo", json!({})).unwrap_err();
    assert_eq!(again, verdict, "a world that ended stays ended");
    verdict
}

/// Sends a signal to a process in a while.
fn later(pid: u32, number: i32, delay: Duration) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        signal(pid, number);
    })
}

/// Different in every run, so that over many runs all moments are hit; printed when the test fails.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}

fn killed_at_random_moments() {
    let mut state = seed();
    for round in 0..30 {
        // SplitMix64 (Steele, Lea, Flood 2014): three lines instead of a dependency.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let (victim, delay) = (mixed % 4, Duration::from_micros((mixed >> 32) % 30_000));
        let mut world = start(4);
        let killer = later(world.pids()[victim as usize], libc::SIGKILL, delay);
        let begin = Instant::now();
        let verdict = verdict_on(&mut world, "spin", json!({"bytes": 1 << 20}), LONG);
        killer.join().unwrap();
        let what = format!("round {round}, victim {victim}, after {delay:?}: {verdict}");
        assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Died, &[Rank(victim as u32)][..]), "{what}");
        assert!(verdict.error.what.contains("died of signal 9 (SIGKILL)"), "{what}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{what}");
    }
}

fn killed_inside_a_collective() {
    let mut world = start(4);
    let pid = world.pids()[3];
    let killer = later(pid, libc::SIGABRT, Duration::from_millis(100));
    let verdict = verdict_on(&mut world, "stuck", json!({"bytes": 1 << 20}), LONG);
    killer.join().unwrap();
    let expected = format!(
        "rank 3 (pid {pid}, this host) died of signal 6 (SIGABRT) in all_reduce #0, 1MiB; ranks 0-2 had entered #0 \
         and waited"
    );
    assert_eq!(verdict.error.what, expected);
}

fn stopped() {
    for what in ["stuck", "spin"] {
        let mut world = start(3);
        let stopper = later(world.pids()[1], libc::SIGSTOP, Duration::from_millis(50));
        let begin = Instant::now();
        let verdict = verdict_on(&mut world, what, json!({}), LONG);
        stopper.join().unwrap();
        assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Hung, &[Rank(1)][..]), "{verdict}");
        assert!(verdict.error.what.contains("is stopped") && verdict.error.what.contains("all_reduce"), "{verdict}");
        assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    }
}

fn panics_with_last_words() {
    let verdict = verdict_on(&mut start(3), "panic", json!({"rank": 2}), LONG);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Died, &[Rank(2)][..]));
    for part in [
        "rank 2 (pid",
        "panicked in all_reduce #2",
        "ranks 0, 1 had entered #2",
        "last words",
        "the rank panicked: boom on 2",
    ] {
        assert!(verdict.error.what.contains(part), "`{part}` in: {verdict}");
    }
}

fn exits() {
    let verdict = verdict_on(&mut start(2), "exit", json!({"rank": 0}), LONG);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Died, &[Rank(0)][..]));
    assert!(verdict.error.what.contains("exited with code 7 in all_reduce #2"), "{verdict}");
}

fn fails_while_peers_wait() {
    let begin = Instant::now();
    let verdict = verdict_on(&mut start(4), "fail_in_collective", json!({"rank": 1}), LONG);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Died, &[Rank(1)][..]));
    for part in ["rank 1 (pid", "failed in all_reduce #2: ranks disagree", "ranks 0, 2, 3 had entered #2"] {
        assert!(verdict.error.what.contains(part), "`{part}` in: {verdict}");
    }
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

fn fails_while_peers_exchange() {
    let mut world = start(3);
    let killer = later(world.pids()[0], libc::SIGKILL, Duration::from_millis(1));
    let verdict = verdict_on(&mut world, "gather", json!({"rounds": 1_000_000}), LONG);
    killer.join().unwrap();
    assert_eq!(verdict.ranks, [Rank(0)], "{verdict}");
}

fn hangs_outside_while_peers_wait() {
    let limit = Duration::from_millis(700);
    let verdict = verdict_on(&mut start(3), "hang", json!({"rank": 2, "bytes": 4096}), limit);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Hung, &[Rank(2)][..]), "{verdict}");
    let part = "no answer to `prepare` within 0.70 s: rank 2 was after all_reduce #1, 4KiB, before #2";
    assert!(
        verdict.error.what.contains(part) || verdict.error.what.contains(&part.replace("0.70 s", "700 ms")),
        "{verdict}"
    );
    assert!(verdict.error.what.contains("ranks 0, 1 had entered #2 and waited"), "{verdict}");
}

fn hangs_everywhere() {
    let verdict = verdict_on(&mut start(3), "stuck", json!({}), Duration::from_millis(500));
    let all = [Rank(0), Rank(1), Rank(2)];
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Hung, &all[..]), "{verdict}");
    assert!(verdict.error.what.contains("ranks 0-2 hung in all_reduce #0"), "{verdict}");
}

fn an_idle_rank_dies() {
    let (mut idle, mut other) = (start(2), start(2));
    act(&mut idle, "echo", json!({})).unwrap();
    signal(idle.pids()[1], libc::SIGKILL);
    act(&mut other, "echo", json!({})).unwrap();
    let verdict = verdict_on(&mut idle, "echo", json!({}), LONG);
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Died, &[Rank(1)][..]), "{verdict}");
    act(&mut other, "echo", json!({})).unwrap();
}

fn two_ranks_die_together() {
    let mut world = start(4);
    let pids = world.pids();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        signal(pids[0], libc::SIGKILL);
        signal(pids[2], libc::SIGKILL);
    });
    let verdict = verdict_on(&mut world, "stuck", json!({}), LONG);
    killer.join().unwrap();
    assert_eq!(verdict.ranks, [Rank(0), Rank(2)], "{verdict}");
}
