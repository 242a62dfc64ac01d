//! Ranks that live and do nothing useful: the report says which one, in which operation, and where it stands.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use launch::{LocalStarter, OnStall, ProcessWorld, Stall};
use measure::{Verdict, VerdictKind};
use serde_json::{Value, json};
use terms::Rank;

use crate::play::{Test, act, act_within, signal, spec};
use crate::skip;

pub(crate) const TESTS: &[Test] = &[
    ("stalls::a_rank_asleep_is_told_of_with_its_stack", a_rank_asleep_is_told_of_with_its_stack),
    ("stalls::a_rank_that_computes_is_not_said_to_sleep", a_rank_that_computes_is_not_said_to_sleep),
    ("stalls::who_computes_alone_is_not_told_of", a_rank_that_computes_alone_is_not_reported),
    ("stalls::one_that_never_comes_to_an_exchange", one_that_never_comes_to_an_exchange),
    ("stalls::a_stopped_rank_has_a_stack_in_its_report", a_stopped_rank_has_a_stack_in_its_report),
    ("stalls::found_each_time", found_each_time),
];

/// Instead of ten seconds.
const SOON: Duration = Duration::from_secs(1);

/// Reported stalls, each with its time.
#[derive(Clone, Default)]
struct Stalls(Arc<Mutex<Vec<(Instant, Stall)>>>);

impl Stalls {
    /// Starts a world that tells of stalls here.
    fn start(&self, ranks: u32) -> ProcessWorld {
        let stalls = self.0.clone();
        let tell = move |stall: &Stall| stalls.lock().unwrap().push((Instant::now(), stall.clone()));
        let on_stall = OnStall::new(Vec::new(), tell).after(SOON);
        LocalStarter::new().on_stall(on_stall).start_processes(&spec(ranks, json!({}))).unwrap()
    }

    fn all(&self) -> Vec<(Instant, Stall)> {
        self.0.lock().unwrap().clone()
    }

    /// The only one.
    #[track_caller]
    fn one(&self) -> (Instant, Stall) {
        let all = self.all();
        assert_eq!(all.len(), 1, "{all:#?}");
        all[0].clone()
    }
}

/// Lets ranks do this past their deadline. Returns the only reported stall, its delay, and the failure report.
#[track_caller]
fn hung(what: &str, parameters: Value, ranks: u32) -> (Stall, Duration, Verdict, Vec<u32>) {
    let stalls = Stalls::default();
    let mut world = stalls.start(ranks);
    let (pids, begin) = (world.pids(), Instant::now());
    let verdict = act_within(&mut world, what, parameters, 3 * SOON).unwrap_err();
    assert_eq!(verdict.kind, VerdictKind::Hung, "{verdict}");
    let (at, stall) = stalls.one();
    (stall, at - begin, verdict, pids)
}

fn a_rank_asleep_is_told_of_with_its_stack() {
    let (stall, soon, verdict, pids) = hung("hang", json!({"rank": 2, "bytes": 4096}), 3);
    let expected = format!(
        "no progress for 1 s in `prepare`: ranks 0, 1 wait in all_reduce #2, 4KiB; rank 2 (pid {}, this host) is after \
         all_reduce #1, 4KiB, before #2, using no processor time",
        pids[2]
    );
    assert_eq!(stall.sentence, expected);
    let at = |part: &str| stall.details.iter().position(|line| line.contains(part));
    assert!(at("sleeps") == Some(0) && at("nanosleep (libc") == Some(1), "{stall}");
    assert!(at("side::Side") > Some(1), "the function that sleeps: {stall}");
    assert!(at("the run goes on; this command ends 3.00 s after it began").is_some(), "{stall}");
    assert!(soon < 3 * SOON, "{soon:?}");
    // The report of the case keeps it.
    assert_eq!(verdict.ranks, [Rank(2)]);
    let stack = verdict.error.what.split_once("; stack of rank 2: ").map(|(_, stack)| stack);
    assert!(stack.is_some_and(|stack| stack.contains("nanosleep <- ")), "{verdict}");
    assert!(!verdict.error.what.contains('\n'), "one line: {verdict}");
}

fn a_rank_that_computes_is_not_said_to_sleep() {
    let (stall, ..) = hung("compute_while_peers_wait", json!({"rank": 1}), 2);
    assert!(stall.sentence.contains("rank 0 waits in all_reduce #1; rank 1 (pid "), "{stall}");
    assert!(stall.sentence.ends_with("is after all_reduce #0, before #1, computing"), "{stall}");
    assert!(stall.details[0].contains("runs"), "{stall}");
    assert!(stall.details.iter().any(|line| line.contains("side::")), "{stall}");
}

fn a_rank_that_computes_alone_is_not_reported() {
    let stalls = Stalls::default();
    let mut world = stalls.start(2);
    act(&mut world, "compute", json!({"rank": 1, "milliseconds": 3500})).unwrap();
    act(&mut world, "echo", json!({})).unwrap();
    assert_eq!(stalls.all(), []);
}

fn one_that_never_comes_to_an_exchange() {
    let (stall, _, verdict, _) = hung("sleep_while_peers_exchange", json!({"rank": 0}), 3);
    assert!(stall.sentence.contains("ranks 1, 2 wait in an exchange with the other ranks; rank 0 (pid "), "{stall}");
    assert!(
        stall.sentence.ends_with("is in `prepare`, before its first operation, using no processor time"),
        "{stall}"
    );
    assert!(stall.details.iter().any(|line| line.contains("nanosleep")), "{stall}");
    assert_eq!(verdict.ranks, [Rank(0)], "{verdict}");
}

fn a_stopped_rank_has_a_stack_in_its_report() {
    let mut world = Stalls::default().start(3);
    let pid = world.pids()[1];
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        signal(pid, libc::SIGSTOP);
    });
    let begin = Instant::now();
    let verdict = act(&mut world, "stuck", json!({})).unwrap_err();
    stopper.join().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    assert_eq!((verdict.kind, verdict.ranks.as_slice()), (VerdictKind::Hung, &[Rank(1)][..]), "{verdict}");
    let what = &verdict.error.what;
    assert!(what.contains("is stopped in all_reduce #0") && what.contains("; stack of rank 1: "), "{verdict}");
    assert!(what.contains("side::Side"), "{verdict}");
}

/// Each way to hang, many times: with the right rank and a frame of the function that it hangs in. Several worlds at a time,
/// because each waits for its deadline.
fn found_each_time() {
    let rounds = if skip::heavy("finding a hung rank 100 times") { 100 } else { 2 };
    const TOGETHER: u32 = 5;
    std::thread::scope(|scope| {
        for first in 0..TOGETHER {
            scope.spawn(move || (first..rounds).step_by(TOGETHER as usize).for_each(found));
        }
    });
}

fn found(round: u32) {
    let victim = round % 3;
    let what = ["hang", "sleep_while_peers_exchange"][round as usize % 2];
    let (stall, soon, verdict, pids) = hung(what, json!({"rank": victim}), 3);
    let named = format!("rank {victim} (pid {}, this host) is ", pids[victim as usize]);
    assert!(stall.sentence.contains(&named), "round {round}: {stall}");
    assert!(stall.details.iter().any(|line| line.contains("nanosleep")), "round {round}: {stall}");
    // The limit for ten seconds is fifteen: so much may detection, and reading the stack, add.
    assert!(soon < SOON + Duration::from_secs(5), "round {round}: {soon:?}");
    assert_eq!(verdict.ranks, [Rank(victim)], "round {round}: {verdict}");
}
