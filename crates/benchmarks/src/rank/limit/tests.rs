//! Limits are limits: their loops do what the operation does, and such a loop as the operation takes as long as its limit.

use std::sync::Arc;

use comm::{Abort, Bootstrap, Communicator};
use contract::{Prepared, Work};
use engine::cores::run_on;
use measure::{Command, Failure, Probe, RankSide, Reply, SampleRequest, WorldSpec, WrongReport};
use record::Case;
use terms::{Bytes, Collective, Mode, Named};
use trace::OwnSlot;

use super::super::{Current, RankWork, Timed, open_rank};
use crate::skip;

/// Runs `body` on every rank of a world in threads; with a core each, unless they share.
fn ranks<T: Send>(ranks: u32, shared: bool, body: impl Fn(&mut RankWork) -> T + Sync) -> Vec<T> {
    let spec = WorldSpec { ranks, fields: [("backend".to_owned(), "shm".into())].into_iter().collect() };
    let (body, spec) = (&body, &spec);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for mut bootstrap in comm::threads(ranks, &Abort::default()) {
            threads.push(scope.spawn(move || {
                let cores = measure::machine::allowed_cpus();
                if !shared {
                    run_on(&[cores[bootstrap.place().rank as usize % cores.len()]]);
                }
                let slot = Arc::new(OwnSlot::default());
                let (mut work, _) = open_rank(spec, &mut bootstrap, slot, shared, cores).unwrap();
                body(&mut work)
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn case(fields: &[(&str, &str)]) -> Option<Case> {
    let plan = record::plan::from_flags(crate::abouts()[0], fields, &[]).ok()?;
    plan.cases.into_iter().find(|case| case.skip.is_none())
}

fn numbers(work: &mut RankWork, variant: u32, rounds: u32) -> Vec<f64> {
    match work.obey(&Command::Probe(Probe::Limit { variant, rounds })) {
        Reply::Numbers(numbers) => numbers,
        other => panic!("{other:?}"),
    }
}

/// Operations that move data.
fn ops() -> impl Iterator<Item = &'static str> {
    Collective::ALL.iter().filter(|op| **op != Collective::Barrier).map(|op| op.name())
}

/// Runs every variant once on all ranks instead of the operation: its result is then the operation's, so that the loop
/// reads and writes what the operation does, all of it, in all copies.
#[test]
fn a_loop_over_the_buffers_of_peers_is_the_operation() {
    for ranks_of in [2, 3] {
        let mut variants = 0;
        for (op, in_place) in ops().flat_map(|op| [(op, "false"), (op, "true")]) {
            for more in [("cache", "warm"), ("direction", "both_ways"), ("cold_bytes", "200KiB")] {
                let count = ranks_of.to_string();
                let mut fields = vec![("op", op), ("ranks", &*count), ("in-place", in_place), ("dtype", "i32")];
                fields.extend([("bytes", "24000"), more]);
                fields.extend((more.0 == "cold_bytes").then_some(("cache", "cold")));
                let Some(case) = case(&fields) else { continue };
                let found = ranks(ranks_of, true, |work| results(work, &case));
                for (variant, _) in found[0].iter().enumerate() {
                    for (rank, all) in found.iter().enumerate() {
                        let (name, report) = &all[variant];
                        let what = format!("{op} in place {in_place} {more:?}, rank {rank}: `{name}` {report:?}");
                        assert!(report.count == 0 && name.ends_with("(peers' buffers)"), "{what}");
                    }
                    let compared: u64 = found.iter().map(|all| all[variant].1.compared).sum();
                    assert!(compared >= 6000 && found[0].len() == found[1].len(), "{op}: {compared} compared");
                    variants += 1;
                }
            }
        }
        assert!(variants > 100, "{variants} variants");
    }
}

/// What each variant leaves, run as one call in each copy of the buffers.
fn results(work: &mut RankWork, case: &Case) -> Vec<(String, WrongReport)> {
    let ready = work.prepare(case, true).unwrap();
    let mut running = work.running().unwrap();
    let copies = running.current.copies;
    let one_at_a_time = case.text("op") == Some("ping_pong");
    let mut run = |variant: usize| {
        running.refill();
        running.synchronise().unwrap();
        for round in 0..=u32::from(one_at_a_time) {
            for _ in 0..copies {
                running.current.prepared.limit(variant, round);
            }
        }
        running.current.calls = copies;
        running.synchronise().unwrap();
        let report = running.compare().unwrap();
        running.synchronise().unwrap();
        report
    };
    ready.limits.into_iter().enumerate().map(|(variant, name)| (name, run(variant))).collect()
}

#[test]
fn what_moves_nothing_has_no_limit() {
    for fields in [
        vec![("op", "barrier"), ("ranks", "2")],
        vec![("op", "all_reduce"), ("ranks", "1")],
        vec![("op", "broadcast"), ("ranks", "1")],
    ] {
        let case = case(&fields).unwrap();
        let count = case.ranks();
        let found = ranks(count, true, |work| {
            let limits = work.prepare(&case, true).unwrap().limits;
            (limits, work.obey(&Command::Probe(Probe::Limit { variant: 0, rounds: 1 })))
        });
        for (limits, reply) in found {
            let refused = |failure: &Failure| failure.error.what.contains("no limit variant 0");
            assert!(limits.is_empty() && matches!(&reply, Reply::Failed(failure) if refused(failure)), "{reply:?}");
        }
    }
}

/// Ranks that take no part still meet as often, and say so by zeros; of a ping_pong one moves data in each round.
#[test]
fn only_ranks_that_move_data_tell_times() {
    let case = case(&[("op", "ping_pong"), ("ranks", "3"), ("peer", "2"), ("bytes", "64KiB")]).unwrap();
    let times_of_ranks = ranks(3, true, |work| {
        work.prepare(&case, true).unwrap();
        // As many rounds as there are before these, calibration and warm-up, differ from machine to machine.
        (numbers(work, 0, 4), numbers(work, 0, 4)).0
    });
    for (first, last) in times_of_ranks[0].iter().zip(&times_of_ranks[2]) {
        assert!((*first > 0.0) != (*last > 0.0), "{times_of_ranks:?}");
    }
    assert_eq!(times_of_ranks[1], [0.0; 4]);
    assert!(times_of_ranks[0].windows(2).all(|pair| (pair[0] > 0.0) != (pair[1] > 0.0)), "{times_of_ranks:?}");
}

#[test]
fn private_buffers_are_held_against_loops_over_the_rank_s_own() {
    for op in ops() {
        for in_place in ["false", "true"] {
            let fields = [("op", op), ("in-place", in_place), ("buffers", "private"), ("bytes", "96KiB")];
            let Some(case) = case(&fields) else { continue };
            let limits_of_ranks = ranks(2, true, |work| {
                let limits = work.prepare(&case, true).unwrap().limits;
                let times = (0..limits.len()).map(|variant| numbers(work, variant as u32, 2)).collect::<Vec<_>>();
                (limits, times)
            });
            assert_eq!(limits_of_ranks[0].0, limits_of_ranks[1].0);
            assert!(
                limits_of_ranks[0].0.iter().all(|name| name.ends_with("(own buffers)")),
                "{:?}",
                limits_of_ranks[0].0
            );
            for (variant, name) in limits_of_ranks[0].0.iter().enumerate() {
                // In each round some rank moves data.
                let moves = |round: usize| limits_of_ranks.iter().any(|(_, times)| times[variant][round] > 0.0);
                assert!(moves(0) && moves(1), "{op} in place {in_place}: {name}");
            }
        }
    }
}

/// A prepared case with another call and another comparison in the place of its own.
struct Replaced<R, C> {
    inner: Box<dyn Prepared>,
    run: R,
    check: C,
}

impl<R, C> Prepared for Replaced<R, C>
where
    R: FnMut(&mut dyn Prepared, &mut dyn Communicator) -> Result<(), Failure>,
    C: FnMut() -> Result<WrongReport, Failure>,
{
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        (self.run)(&mut *self.inner, comm)
    }
    fn refill(&mut self) {
        self.inner.refill();
    }
    fn check(&mut self, _comm: &mut dyn Communicator, _calls: u64) -> Result<WrongReport, Failure> {
        (self.check)()
    }
    fn work(&self) -> Work {
        self.inner.work()
    }
    fn path(&self, _comm: &dyn Communicator) -> String {
        String::new()
    }
    fn limits(&self) -> Vec<String> {
        self.inner.limits()
    }
    fn limit(&mut self, variant: usize, round: u32) -> Option<u64> {
        self.inner.limit(variant, round)
    }
}

/// ns of a call and of the limit, taken one after the other so often.
fn held_against(work: &mut RankWork, variant: u32, calls: u32, times: u32) -> Vec<(f64, f64)> {
    let request = SampleRequest { mode: Mode::Streaming, samples: 1, calls };
    let sample = |work: &mut RankWork| match work.obey(&Command::Sample(request)) {
        Reply::Samples(ns) => ns[0] as f64 / f64::from(calls),
        other => panic!("{other:?}"),
    };
    let call = |work: &mut RankWork| {
        // The probe has left fresh inputs: the first calls find other things in the caches.
        sample(work);
        sample(work)
    };
    let pair = |i: u32| {
        if i.is_multiple_of(2) {
            let limit = numbers(work, variant, 1)[0];
            (call(work), limit)
        } else {
            (call(work), numbers(work, variant, 1)[0])
        }
    };
    (0..times).map(pair).collect()
}

/// Prepares the case, with a loop in the operation's place.
fn prepare_looped(work: &mut RankWork, case: &Case, variant: usize, calls: u32) {
    work.prepare(case, true).unwrap();
    let barrier = work.barrier.clone();
    let current = work.current.take().unwrap();
    let mut done = 0_u32;
    // After so many calls ranks meet: an operation ends when all are done.
    let run = move |inner: &mut dyn Prepared, comm: &mut dyn Communicator| {
        inner.limit(variant, 0);
        done += 1;
        if done.is_multiple_of(calls) { comm.run(&barrier).map_err(contract::failure) } else { Ok(()) }
    };
    let prepared = Box::new(Replaced { inner: current.prepared, run, check: || Ok(WrongReport::default()) });
    // It waits for nobody before its last call: a refill before that would disturb a peer that is not done.
    work.current = Some(Current { prepared, max_calls: u64::MAX, ..current });
}

/// Shares of the limit, by variant, that its own loop reaches as the operation, or the operation itself: one of each pair.
fn shares(fields: &[(&str, &str)], calls: u32, times: u32, itself: bool) -> Vec<(String, Vec<f64>)> {
    let case = case(fields).unwrap();
    let taken = ranks(2, false, |work| {
        let limits = work.prepare(&case, true).unwrap().limits;
        let mut held = |variant: usize| {
            if !itself {
                prepare_looped(work, &case, variant, calls);
            }
            held_against(work, variant as u32, calls, times)
        };
        let times: Vec<_> = (0..limits.len()).map(&mut held).collect();
        (limits, times)
    });
    let share = |variant: usize| {
        // The slowest rank counts.
        let slowest = |pair: usize, side: fn(&(f64, f64)) -> f64| {
            taken.iter().map(|(_, all)| side(&all[variant][pair])).fold(0.0, f64::max)
        };
        let mut all: Vec<f64> =
            (0..times as usize).map(|pair| slowest(pair, |it| it.1) / slowest(pair, |it| it.0)).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    taken[0].0.iter().enumerate().map(|(variant, name)| (name.clone(), share(variant))).collect()
}

/// The sign interval of the median of sorted values, at 99.9%.
fn interval(sorted: &[f64]) -> [f64; 2] {
    // 3.29 standard deviations of the number of values below the median.
    let reach = 3.29 * (sorted.len() as f64).sqrt() / 2.0;
    let low = (sorted.len() as f64 / 2.0 - reach).floor().max(0.0) as usize;
    [sorted[low], sorted[sorted.len() - 1 - low]]
}

/// Asserts that a loop reaches its limit in one of three tries: a virtual machine whose cores move during a try changes one side
/// of its pairs, and a loop that falls short of its limit does so in each.
fn reaches_its_limit(bytes: u64, calls: u32, times: u32, most: f64) {
    for in_place in ["true", "false"] {
        let tries: Vec<String> =
            (0..3).map_while(|_| misses_its_limit((bytes, in_place), calls, times, most)).collect();
        assert!(tries.len() < 3, "{tries:?}");
    }
}

#[allow(clippy::print_stdout, reason = "the shares are what somebody who runs this by hand wants to see")]
/// What misses the limit, if anything. A busy machine makes both sides of a pair slow: the interval of their ratio widens and does
/// not move.
fn misses_its_limit((bytes, in_place): (u64, &str), calls: u32, times: u32, most: f64) -> Option<String> {
    let bytes = bytes.to_string();
    let fields = [("op", "all_reduce"), ("bytes", &*bytes), ("in-place", in_place), ("dtype", "f32")];
    let size = Bytes(fields[1].1.parse().unwrap());
    let medians = |of: &[(String, Vec<f64>)]| -> Vec<(String, f64)> {
        of.iter().map(|(name, shares)| (name.clone(), stats::quantile(shares, 0.5))).collect()
    };
    let found = shares(&fields, calls, times, false);
    let itself = medians(&shares(&fields, calls, times, true));
    println!("{size} in place {in_place}: loops {:.3?}, all_reduce itself {itself:.3?}", medians(&found));
    found.iter().find_map(|(name, shares)| {
        let [low, high] = interval(shares);
        let is_reached = low <= 1.0 + most && high >= 1.0 / (1.0 + most);
        (!is_reached).then(|| format!("{size} in place {in_place}, {name}: {low:.3} to {high:.3}"))
    })
}

#[test]
fn a_bare_loop_as_the_operation_reaches_its_limit() {
    let cores = measure::machine::allowed_cpus().len();
    if cores < 2 {
        return skip::skip("a bare loop as the operation", "two ranks need a core each");
    }
    if !skip::heavy("a bare loop as the operation gets its limit at 64 KiB to 64 MiB") {
        return reaches_its_limit(64 << 10, 100, 31, 0.2);
    }
    // A machine shared with others cannot promise the 3% that the printed shares show on a quiet one.
    for (bytes, calls, times) in [(64 << 10, 200, 31), (1 << 20, 20, 31), (16 << 20, 2, 21), (64 << 20, 1, 11)] {
        reaches_its_limit(bytes, calls, times, 0.1);
    }
}

/// What two ranks answer to a probe, and how often each compared results in it.
fn probed(probe: Probe, fails: bool) -> Vec<(Reply, u32)> {
    let case = case(&[("op", "all_reduce"), ("bytes", "64KiB"), ("in-place", "true")]).unwrap();
    ranks(2, true, |work| {
        work.prepare(&case, false).unwrap();
        let current = work.current.take().unwrap();
        let comparisons = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = comparisons.clone();
        let check = move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if fails { Err(Failure::new("it cannot be compared")) } else { Ok(WrongReport::default()) }
        };
        let run = |inner: &mut dyn Prepared, comm: &mut dyn Communicator| inner.run(comm);
        let prepared = Box::new(Replaced { inner: current.prepared, run, check });
        work.current = Some(Current { prepared, max_calls: 2, ..current });
        let reply = work.obey(&Command::Probe(probe));
        (reply, comparisons.load(std::sync::atomic::Ordering::Relaxed))
    })
}

/// Loops of bare traffic are not the operation: what they leave is compared with nothing.
#[test]
fn passes_of_a_limit_are_not_compared() {
    for (reply, comparisons) in probed(Probe::Limit { variant: 0, rounds: 2 }, true) {
        assert!(matches!(reply, Reply::Numbers(_)) && comparisons == 0, "{reply:?}, {comparisons} comparisons");
    }
}

#[test]
fn a_comparison_that_fails_during_a_probe_is_reported() {
    let arrivals = Probe::Arrivals { operations: 8, stagger_ns: 0 };
    for (reply, comparisons) in probed(arrivals, false) {
        assert!(matches!(reply, Reply::Numbers(_)) && comparisons > 0, "{reply:?}, {comparisons} comparisons");
    }
    for (reply, _) in probed(arrivals, true) {
        let says = |failure: &Failure| failure.error.what.contains("cannot be compared");
        assert!(matches!(&reply, Reply::Failed(failure) if says(failure)), "{reply:?}");
    }
}
