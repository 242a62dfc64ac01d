//! Ranks that move, wait, work or do nothing, by the looks of a watch.

use terms::{Bytes, Collective};

use super::notice::sentence;
use super::*;
use crate::verdict::{Outcome, Phase, RankState};

/// Outside of every operation, having left this one.
fn after(number: u64) -> RankProgress {
    let operation = OperationState { number, operation: Collective::AllReduce, inside: false };
    RankProgress { operation: Some(operation), exchanging: false, answered: false }
}

/// Inside of this operation.
fn inside(number: u64) -> RankProgress {
    let operation = OperationState { number, operation: Collective::AllReduce, inside: true };
    RankProgress { operation: Some(operation), ..after(number) }
}

const ANSWERED: RankProgress = RankProgress { operation: None, exchanging: false, answered: true };
const EXCHANGING: RankProgress = RankProgress { operation: None, exchanging: true, answered: false };
const BEGUN: RankProgress = RankProgress { operation: None, exchanging: false, answered: false };

/// What ranks use of a processor.
const IDLE: u64 = 0;
const BUSY: u64 = 100;

/// Looks twice a second for so long. Returns when the stall is reported, in seconds, and what each rank does then.
/// `seen` and the percentage of a processor that each rank uses are functions of the time in seconds.
fn watched(
    seconds: u64,
    seen: impl Fn(f64) -> Vec<RankProgress>,
    percent: impl Fn(usize, f64) -> u64,
) -> Option<(f64, Vec<Doing>)> {
    watched_beside(seconds, seen, percent, false)
}

/// What a watch reports, and when; `crowded`: ranks wait for a core whenever they do not compute.
fn watched_beside(
    seconds: u64,
    seen: impl Fn(f64) -> Vec<RankProgress>,
    percent: impl Fn(usize, f64) -> u64,
    crowded: bool,
) -> Option<(f64, Vec<Doing>)> {
    let begin = Instant::now();
    let mut watch = StallWatch::new(begin, &OnStall::new(Vec::new(), |_| {}), Duration::ZERO);
    let mut used = vec![Duration::ZERO; seen(0.0).len()];
    let mut reported = None;
    for look in 1..=2 * seconds {
        let at = look as f64 / 2.0;
        for (rank, used) in used.iter_mut().enumerate() {
            *used += Duration::from_millis(5) * percent(rank, at) as u32;
        }
        let waited = Duration::from_secs_f64(if crowded { at } else { 0.0 });
        let activity = |rank: usize| {
            let (computed, queued) = (used[rank], waited.saturating_sub(used[rank]));
            Some(Activity { computed, queued, ..Activity::default() })
        };
        if let Some(doing) = watch.look(begin + Duration::from_secs_f64(at), || seen(at), activity) {
            assert!(reported.is_none(), "told twice");
            reported = Some((at, doing));
        }
    }
    reported
}

#[test]
fn a_rank_that_others_wait_for_is_told_of_once_within_15_s() {
    for percent in [IDLE, BUSY] {
        let reported =
            watched(60, |_| vec![inside(17), inside(17), after(16)], |rank, _| if rank < 2 { BUSY } else { percent });
        let (at, doing) = reported.unwrap();
        assert!((10.0..=11.0).contains(&at), "{at}");
        let does = if percent == IDLE { Doing::Nothing } else { Doing::Computes };
        assert_eq!(doing, [Doing::Computes, Doing::Computes, does]);
    }
    let exchange = watched(60, |_| vec![EXCHANGING, BEGUN], |_, _| IDLE);
    assert_eq!(exchange.unwrap().1, [Doing::Nothing; 2]);
    // Since the last movement, and not since the command began.
    let late =
        |at: f64| if at < 20.0 { vec![inside(at as u64), after(at as u64)] } else { vec![inside(20), after(19)] };
    assert!((30.0..=31.0).contains(&watched(60, late, |_, _| IDLE).unwrap().0));
    // An operation that all are in, and none leaves.
    assert!(watched(60, |_| vec![inside(3); 4], |_, _| BUSY).is_some());
}

#[test]
fn a_rank_that_moves_or_computes_has_not_stalled() {
    assert_eq!(watched(60, |at| vec![inside(at as u64), after(at as u64)], |_, _| IDLE), None);
    // A long computation, for which nobody waits: filling a buffer, a step of a large model.
    assert_eq!(watched(60, |_| vec![BEGUN, after(3), ANSWERED], |_, _| BUSY), None);
    assert_eq!(watched(60, |_| vec![BEGUN, BEGUN], |rank, _| if rank == 0 { BUSY } else { IDLE }), None);
    // Heartbeats are not work.
    let sleeps = watched(60, |_| vec![BEGUN, ANSWERED], |_, at| u64::from(at.fract() > 0.0 && at % 3.0 < 0.6));
    assert_eq!(sleeps.unwrap().1, [Doing::Nothing, Doing::Unknown]);
    // One that computed first, and then hangs.
    let hangs = watched(60, |_| vec![BEGUN], |_, at| if at < 20.0 { BUSY } else { IDLE });
    assert!((20.0..32.0).contains(&hangs.unwrap().0));
}

/// The kernel counts the time in its queue when the rank has a core again: until then, that it could run tells.
#[test]
fn a_rank_that_has_had_no_core_since_waits_for_one() {
    let between = |runnable: [bool; 2]| {
        let [before, after] = runnable.map(|runnable| Some(Activity { runnable, ..Activity::default() }));
        Doing::between(before, after, Duration::from_secs(1))
    };
    assert_eq!(between([true; 2]), Doing::Queues);
    assert_eq!([between([false, true]), between([true, false]), between([false; 2])], [Doing::Nothing; 3]);
}

/// On a machine that others keep busy, a rank may get no core for long.
#[test]
fn a_rank_that_waits_for_a_core_has_not_stalled() {
    assert_eq!(watched_beside(60, |_| vec![BEGUN, ANSWERED], |_, _| IDLE, true), None);
    // Others wait for it: that is reported, with the reason.
    let reported = watched_beside(60, |_| vec![inside(17), after(16)], |_, _| IDLE, true).unwrap();
    assert_eq!(reported.1, [Doing::Queues; 2]);
    says(
        &[inside(17), after(16)],
        &reported.1,
        "rank 0 waits in all_reduce #17, 1KiB; rank 1 (pid 4701, this host) is after all_reduce #16, 1KiB, before #17, \
         waiting for a core that other processes use",
    );
}

#[test]
fn time_that_this_process_slept_through_does_not_count() {
    let begin = Instant::now();
    let mut watch = StallWatch::new(begin, &OnStall::new(Vec::new(), |_| {}), Duration::ZERO);
    let seen = || vec![inside(1), after(0)];
    for at in [0.5, 1.0, 100.0, 100.5] {
        assert_eq!(watch.look(begin + Duration::from_secs_f64(at), seen, |_| None), None, "{at}");
    }
}

#[test]
fn a_step_that_takes_long_is_waited_for() {
    let begin = Instant::now();
    let told = |patience: f64| {
        let mut watch = StallWatch::new(begin, &OnStall::new(Vec::new(), |_| {}), Duration::from_secs_f64(patience));
        let seen = || vec![inside(1), after(0)];
        (1..=240)
            .find(|look| watch.look(begin + Duration::from_secs_f64(f64::from(*look) / 2.0), seen, |_| None).is_some())
    };
    assert!(told(0.0).is_some_and(|look| (20..=22).contains(&look)), "{:?}", told(0.0));
    assert!(told(60.0).is_some_and(|look| (120..=124).contains(&look)), "{:?}", told(60.0));
}

fn state(rank: u32, seen: RankProgress) -> RankState {
    let outcome = Outcome::Pending { silent: None, exchanging: seen.exchanging };
    let outcome = if seen.answered { Outcome::Answered } else { outcome };
    let (pid, operation) = (4700 + rank, seen.operation);
    RankState { rank, pid, host: None, outcome, operation, last_words: Vec::new() }
}

#[track_caller]
fn says(seen: &[RankProgress], doing: &[Doing], expected: &str) {
    let states: Vec<RankState> = (0..).zip(seen).map(|(rank, seen)| state(rank, *seen)).collect();
    let said = sentence(Duration::from_secs(10), (Phase::Command("sample"), Some(Bytes(1024))), &states, doing);
    assert_eq!(said, format!("no progress for 10 s in `sample`: {expected}"));
}

#[test]
fn the_sentence_names_who_waits_and_who_is_not_there() {
    let nothing = [Doing::Nothing; 4];
    says(
        &[inside(17), inside(17), inside(17), after(16)],
        &nothing,
        "ranks 0-2 wait in all_reduce #17, 1KiB; rank 3 (pid 4703, this host) is after all_reduce #16, 1KiB, before #17, \
         using no processor time",
    );
    says(
        &[inside(0), BEGUN],
        &[Doing::Computes; 2],
        "rank 0 waits in all_reduce #0, 1KiB; rank 1 (pid 4701, this host) is in `sample`, before its first operation, \
         computing",
    );
    says(
        &[EXCHANGING, ANSWERED, BEGUN],
        &[Doing::Unknown; 3],
        "rank 0 waits in an exchange with the other ranks; rank 2 (pid 4702, this host) is in `sample`, before its first \
         operation",
    );
    says(
        &[inside(4), inside(4)],
        &nothing,
        "rank 0 (pid 4700, this host) is in all_reduce #4, 1KiB, using no processor time; rank 1 (pid 4701, this host) is \
         in all_reduce #4, 1KiB, using no processor time",
    );
}
