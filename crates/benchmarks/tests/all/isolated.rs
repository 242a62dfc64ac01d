//! Isolated mode: one call from an agreed instant.

use std::sync::Arc;
use std::time::Duration;

use measure::{ClockFit, Clocks, HostClock};
use record::Caveat;
use terms::{Collective, Status};
use trace::Clock;

use crate::plans::{self, plan, run};
use crate::worlds::{Instead, Wrap, Wrapped};

fn case(backend: &str) -> record::Case {
    let flags = [("op", "all_reduce"), ("backend", backend), ("mode", "isolated"), ("bytes", "4KiB"), ("iters", "20")];
    plans::case(&flags.into_iter().chain([("warmup", "0")]).collect::<Vec<_>>()).expect("a case")
}

fn be_late(clock: &Clock, late: Duration) {
    clock.advance(late.as_nanos() as u64);
    if !clock.is_fake() {
        std::thread::sleep(late);
    }
}

/// Runs a case in which rank 1 learns of the agreed start only this much later, but not of the first ones.
fn late(backend: &'static str, late: Duration, in_time: u32) -> (measure::Trial, record::CaseLine) {
    let wrap: Wrap = Arc::new(move |rank, inner| {
        if rank != 1 {
            return inner;
        }
        let mut in_time = in_time;
        Instead::boxed(inner, move |inner, call| {
            inner.run(call)?;
            // The only broadcasts of an all_reduce's case are those of the measuring code.
            if call.op == Collective::Broadcast && in_time > 0 {
                in_time -= 1;
            } else if call.op == Collective::Broadcast {
                be_late(&inner.clock(), late);
            }
            Ok(())
        })
    });
    Wrapped::start(backend, 2, wrap).trial(&case(backend))
}

#[test]
fn a_rank_that_misses_the_start_is_told() {
    // Nine tellings are timed before the first start: then comes the lateness.
    let (trial, line) = late("sim", Duration::from_millis(2), 9);
    assert_eq!((trial.missed_starts, line.caveats.contains(&Caveat::MissedStart)), (20, true));
    let (trial, line) = late("sim", Duration::from_millis(2), 9 + 19);
    assert_eq!((trial.missed_starts, line.caveats.contains(&Caveat::MissedStart)), (1, true));
    let (trial, line) = late("sim", Duration::from_micros(10), 9);
    assert_eq!((trial.missed_starts, line.caveats.contains(&Caveat::MissedStart)), (0, false));
    let (trial, line) = late("shm", Duration::from_millis(100), 9 + 17);
    assert!(trial.missed_starts >= 3 && line.caveats.contains(&Caveat::MissedStart), "{line:?}");
}

#[test]
fn ranks_that_always_learn_late_are_given_the_time() {
    let (trial, line) = late("sim", Duration::from_millis(2), 0);
    assert_eq!((trial.missed_starts, line.caveats.contains(&Caveat::MissedStart)), (0, false));
}

#[test]
fn starts_are_agreed_on_in_shared_memory() {
    let line =
        &run(&plan("op: [all_reduce, barrier], backend: shm, ranks: 2, mode: isolated, iters: 50, warmup: 5")).lines[0];
    assert_eq!((line.status, line.samples, line.calls_per_sample), (Status::Ok, Some(50), Some(1)));
    // One call of a megabyte or of nothing: far below the time between two starts, well above a clock reading.
    let time = line.time_s.as_ref().expect("times");
    assert!(time.min.is_some_and(|min| min > 100e-9) && time.median < 0.1, "{time:?}");
}

#[test]
fn each_rank_starts_by_its_own_clock() {
    const AHEAD_NS: i64 = 5_000_000;
    let fit = ClockFit {
        from_ns: 0,
        until_ns: u64::MAX,
        offset_ns: AHEAD_NS,
        slope: 0.0,
        residual_ns: 10_000.0,
        growth: 0.0,
    };
    let mut world = Wrapped::shared("shm", 2);
    // Both have one clock. A coordinator that believes rank 1's to be ahead has it start as much later, and rank 0 wait for it.
    world.clocks =
        Some(Clocks { hosts: vec![HostClock { host: "b".to_owned(), fit: Ok(fit) }], of: vec![None, Some(0)] });
    let (trial, line) = world.trial(&case("shm"));
    let least = trial.samples[0].iter().min().expect("samples");
    assert!(*least >= AHEAD_NS as u64, "rank 0 had its result {least} ns after its start");
    assert_eq!(line.starts_apart_s, Some(1e-5));
    assert!(!line.caveats.contains(&Caveat::StartsApart), "{line:?}");
}

#[test]
fn more_ranks_than_cores_cannot_start_together() {
    let lines =
        run(&plan("op: all_reduce, backend: [shm, sim], ranks: [2, 3], mode: isolated, bytes: 4KiB, iters: 6")).lines;
    for line in &lines {
        let refused = line.backend == "shm" && line.ranks == 3;
        assert_eq!(line.status == Status::Skipped, refused, "{line:?}");
        let reason = "isolated mode needs a core for each rank: 3 ranks, 2 cores";
        assert_eq!(line.reason.as_deref(), refused.then_some(reason));
    }
}
