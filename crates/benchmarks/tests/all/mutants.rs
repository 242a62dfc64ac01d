//! Communicators that do something wrong, each in one way: every one is caught by the check, with the rank and the
//! element at fault. What is proven is the check, on a backend that is right.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use comm::{Call, Communicator, Result};
use device::Slice;
use measure::{Settings, World, WrongReport};
use terms::{Collective, Dtype, DtypeKind, Named, Reduce, Status};

use crate::plans;
use crate::worlds::{Instead, Wrap, Wrapped};

/// What is done wrong after an operation, on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// The last element is not written.
    DropLast,
    /// The halves of the output are exchanged.
    SwapHalves,
    /// Everything lies this many elements, a power of two, too far on.
    Shift(usize),
    /// Every so manieth operation is not run, on all ranks.
    Skip(u64),
    /// The output is what the operation before left.
    Stale,
    /// The lowest bit of this element is another.
    FlipBit(usize),
}

struct Mutant {
    fault: Fault,
    /// Whether this rank is the one.
    here: bool,
    calls: u64,
    before: Vec<u8>,
}

fn bytes(slice: &Slice) -> Vec<u8> {
    let mut copy = vec![0; slice.len()];
    // SAFETY: the slice lies in its region; no operation is in flight on this rank's output.
    unsafe { std::ptr::copy_nonoverlapping(slice.ptr(), copy.as_mut_ptr(), copy.len()) };
    copy
}

fn write(slice: &Slice, bytes: &[u8]) {
    assert_eq!(slice.len(), bytes.len());
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), slice.ptr(), bytes.len()) };
}

impl Mutant {
    fn run(&mut self, inner: &mut dyn Communicator, call: &Call) -> Result<()> {
        // The measuring code's own barriers and words are left alone.
        if call.op == Collective::Barrier || (call.op == Collective::Broadcast && call.output.len() == 8) {
            return inner.run(call);
        }
        self.calls += 1;
        if matches!(self.fault, Fault::Skip(every) if self.calls.is_multiple_of(every)) {
            return Ok(());
        }
        let untouched = bytes(&call.output);
        inner.run(call)?;
        let right = bytes(&call.output);
        if self.here && !right.is_empty() {
            let wrong = self.wrong(&untouched, right.clone(), call.dtype.bytes() as usize);
            write(&call.output, &wrong);
        }
        self.before = right;
        Ok(())
    }

    fn wrong(&self, untouched: &[u8], right: Vec<u8>, element: usize) -> Vec<u8> {
        let mut wrong = right;
        match self.fault {
            Fault::DropLast => {
                let last = wrong.len() - element;
                wrong[last..].copy_from_slice(&untouched[last..]);
            }
            Fault::SwapHalves => {
                let half = wrong.len() / element / 2 * element;
                let (first, second) = wrong.split_at_mut(half);
                first.swap_with_slice(&mut second[..half]);
            }
            Fault::Shift(elements) => wrong.rotate_right(elements * element),
            Fault::Stale if self.before.len() == wrong.len() => wrong.copy_from_slice(&self.before),
            Fault::FlipBit(at) => wrong[at * element] ^= 1,
            Fault::Skip(_) | Fault::Stale => {}
        }
        wrong
    }
}

/// A world in which `rank` does `fault`.
fn mutant(ranks: u32, rank: u32, fault: Fault) -> Wrapped {
    let wrap: Wrap = Arc::new(move |own, inner| {
        let mut mutant = Mutant { fault, here: own == rank, calls: 0, before: Vec::new() };
        Instead::boxed(inner, move |inner, call| mutant.run(inner, call))
    });
    Wrapped::start("sim", ranks, wrap)
}

fn case(op: &str, dtype: &str, in_place: bool, more: &[(&str, &str)]) -> Option<record::Case> {
    let in_place = in_place.to_string();
    let flags = [("op", op), ("dtype", dtype), ("in-place", &*in_place), ("backend", "sim"), ("ranks", "3")];
    let flags: Vec<(&str, &str)> = flags
        .into_iter()
        .chain([("bytes", "72000"), ("warmup", "0"), ("iters", "6")])
        .chain(more.iter().copied())
        .collect();
    plans::case(&flags).ok()
}

/// Operations that move data.
fn ops() -> impl Iterator<Item = &'static str> {
    Collective::ALL.iter().filter(|op| **op != Collective::Barrier).map(|op| op.name())
}

/// What the check before the first sample finds on each rank.
fn first_check(world: &mut Wrapped, case: &record::Case) -> Vec<WrongReport> {
    let limit = Settings::from_case(case).deadline();
    let found = world.prepare(case, true, limit).expect("no verdict").into_iter().map(|ready| ready.wrong).collect();
    world.finish(limit).expect("no verdict");
    found
}

/// One type of each size, float or not, with a sign and without.
const SOME: [Dtype; 4] = [Dtype::F32, Dtype::Bf16, Dtype::U8, Dtype::I64];

/// Every operation, these types, both forms: `judge` gets the rank's own report and the number of its elements.
fn everywhere(fault: Fault, types: &[Dtype], judge: impl Fn(&WrongReport, u64) -> bool) {
    for rank in [0, 1] {
        let mut world = mutant(3, rank, fault);
        let mut tried = 0;
        for op in ops() {
            for dtype in types.iter().copied().map(Named::name) {
                for in_place in [false, true] {
                    // The rank must get something that it did not have.
                    let root = match op {
                        "broadcast" | "scatter" => "2".to_owned(),
                        "reduce" | "gather" => rank.to_string(),
                        _ => "0".to_owned(),
                    };
                    let Some(case) = case(op, dtype, in_place, &[("root", &*root)]) else { continue };
                    let what = format!("{fault:?} on rank {rank}: {op} {dtype} in place {in_place}");
                    let found = first_check(&mut world, &case);
                    let report = &found[rank as usize];
                    assert!(judge(report, report.compared), "{what}: {report:?}");
                    assert!(report.first.iter().all(|wrong| wrong.rank == rank), "{what}: {report:?}");
                    // Each check begins from fresh inputs: the others' data stay right.
                    let others = found.iter().enumerate().filter(|(other, _)| *other != rank as usize);
                    others.for_each(|(other, report)| assert_eq!(report.count, 0, "{what}: rank {other}"));
                    tried += 1;
                }
            }
        }
        assert!(tried >= 60, "{tried} cases");
    }
}

#[test]
fn a_last_element_that_is_not_written_is_caught() {
    everywhere(Fault::DropLast, &SOME, |report, _| {
        // One element, always the same, in one or both of two checks: what was there before may be right by chance.
        let indices: Vec<u64> = report.first.iter().map(|wrong| wrong.index).collect();
        (1..=2).contains(&report.count) && indices.iter().all(|index| *index == indices[0] && *index > 1_000)
    });
}

#[test]
fn exchanged_halves_are_caught() {
    everywhere(Fault::SwapHalves, &SOME, |report, compared| report.count > compared / 8 && report.first.len() >= 8);
}

#[test]
fn displacements_by_powers_of_two_are_caught() {
    for log in [0, 3, 10] {
        everywhere(Fault::Shift(1 << log), &SOME, |report, compared| report.count > compared / 8);
    }
}

#[test]
fn one_wrong_bit_is_caught_and_its_element_named() {
    everywhere(Fault::FlipBit(777), Dtype::ALL, |report, _| {
        // Both checks: the same element, and nothing else.
        report.count == 2 && report.first.iter().all(|wrong| wrong.index == 777 && wrong.expected != wrong.got)
    });
}

#[test]
fn stale_data_are_caught() {
    everywhere(Fault::Stale, &SOME, |report, compared| report.count > compared / 16);
}

#[test]
fn calls_that_do_nothing_are_caught() {
    // Every call, every second call, whichever of the two.
    for every in [1, 2] {
        for before in [0, 1] {
            let mut world = mutant(3, 0, Fault::Skip(every));
            for op in ops() {
                for in_place in [false, true] {
                    let Some(case) = case(op, "f32", in_place, &[]) else { continue };
                    if before == 1 {
                        first_check(&mut world, &case);
                    }
                    let found = first_check(&mut world, &case);
                    // Ranks that get nothing notice nothing.
                    let wrong: u64 = found.iter().map(|report| report.count).sum();
                    assert!(wrong > 1_000, "every {every}: {op} in place {in_place}: {found:?}");
                }
            }
        }
    }
}

/// Every call of cold buffers uses another copy, and every copy is looked at.
#[test]
fn a_fault_in_each_copy_of_cold_buffers_is_caught() {
    let wrap: Wrap = Arc::new(|rank, inner| {
        let fault = Fault::FlipBit(5);
        let mut mutant = Mutant { fault, here: rank == 1, calls: 0, before: Vec::new() };
        Instead::boxed(inner, move |inner, call| mutant.run(inner, call))
    });
    let mut world = Wrapped::start("reference", 2, wrap);
    // Whole lines of both ranks: 8,064 bytes in place, 12,160 where the input is separate.
    for (op, in_place, copies) in [("all_reduce", "true", 13), ("all_gather", "false", 9)] {
        let flags = [("op", op), ("in-place", in_place), ("dtype", "i32"), ("backend", "reference"), ("bytes", "4000")];
        let more = [("cache", "cold"), ("cold_bytes", "100KB"), ("warmup", "0"), ("iters", "6")];
        let case = plans::case(&[&flags[..], &more].concat()).expect("a case");
        let found = first_check(&mut world, &case);
        assert_eq!((found[0].count, found[1].count), (0, copies), "{op}: {found:?}");
        let indices: Vec<u64> = found[1].first.iter().map(|wrong| wrong.index).collect();
        assert!(indices.iter().enumerate().all(|(copy, index)| *index == 1000 * copy as u64 + 5), "{indices:?}");
    }
}

#[test]
fn a_skipped_call_among_the_timed_ones_is_caught_where_values_grow() {
    // The checks' own calls are the 1st and 2nd, and then the last two of the case.
    let mut world = mutant(3, 0, Fault::Skip(7));
    let (_, line) = world.trial(&case("all_reduce", "f32", true, &[]).expect("a case"));
    assert!(line.wrong.is_some_and(|wrong| wrong > 10_000), "{line:?}");
    assert_eq!(line.status, terms::Status::Failed);
    assert!(line.reason.expect("why").contains("wrong elements on ranks 0, 1, 2: element 0 "));
}

#[test]
fn a_fault_in_the_timed_calls_alone_reaches_the_line() {
    // From the third call on: the checks before the first sample are right.
    let wrap: Wrap = Arc::new(|rank, inner| {
        let mut mutant = Mutant { fault: Fault::FlipBit(4242), here: rank == 2, calls: 0, before: Vec::new() };
        Instead::boxed(inner, move |inner, call| {
            mutant.here = rank == 2 && mutant.calls >= 2;
            mutant.run(inner, call)
        })
    });
    let mut world = Wrapped::start("sim", 3, wrap);
    let (trial, line) = world.trial(&case("all_gather", "i32", false, &[]).expect("a case"));
    assert!(trial.wrong[..3].iter().all(|report| report.count == 0));
    // Among the timed calls and after them, and in two fresh checks.
    let wrong = line.wrong.unwrap_or(0);
    assert!(wrong > 3, "{wrong}");
    assert!(line.wrong_elements.iter().all(|wrong| (wrong.rank, wrong.index) == (2, 4242)));
    let reason = line.reason.expect("why");
    assert!(reason.starts_with(&format!("{wrong} wrong elements on rank 2: element 4242 should be ")), "{reason}");
}

/// What leaves every result of this reduction as it is, in place of an element.
fn neutral(call: &Call) -> Vec<u8> {
    let dtype = call.dtype;
    let bits = 8 * dtype.bytes();
    let whole = |value: u64| value.to_le_bytes()[..dtype.bytes() as usize].to_vec();
    let (low, high, one) = match (dtype.kind(), dtype) {
        (_, Dtype::F32) => (f32::MIN.to_le_bytes().to_vec(), f32::MAX.to_le_bytes().to_vec(), 1f32.to_bits().into()),
        (_, Dtype::F64) => (f64::MIN.to_le_bytes().to_vec(), f64::MAX.to_le_bytes().to_vec(), 1f64.to_bits()),
        // The infinities; both are 16 bits with the sign first.
        (_, Dtype::F16) => (whole(0xfc00), whole(0x7c00), 0x3c00),
        (_, Dtype::Bf16) => (whole(0xff80), whole(0x7f80), 0x3f80),
        (DtypeKind::Signed, _) => (whole(1 << (bits - 1)), whole((1 << (bits - 1)) - 1), 1),
        _ => (whole(0), whole(u64::MAX), 1),
    };
    match call.reduce {
        Reduce::Max => low,
        Reduce::Min => high,
        Reduce::Sum | Reduce::Avg => whole(0),
        Reduce::Prod => whole(one),
    }
}

/// A world that leaves the rank of this number out of its reductions; all take part while there is none of this number.
fn omitting(ranks: u32, omitted: &Arc<AtomicU64>) -> Wrapped {
    let omitted = omitted.clone();
    let wrap: Wrap = Arc::new(move |own, inner| {
        let omitted = omitted.clone();
        let run = move |inner: &mut dyn Communicator, call: &Call| {
            if !call.op.reduces() || omitted.load(Ordering::Relaxed) != u64::from(own) {
                return inner.run(call);
            }
            let input = bytes(&call.input);
            write(&call.input, &neutral(call).repeat(input.len() / call.dtype.bytes() as usize));
            let result = inner.run(call);
            if !call.is_in_place() {
                write(&call.input, &input);
            }
            result
        };
        Instead::boxed(inner, run)
    });
    Wrapped::start("sim", ranks, wrap)
}

#[test]
fn a_rank_that_is_left_out_of_a_reduction_is_caught() {
    // How patterns show it for every number of ranks is tested next to them; this is the way of a fault to the report.
    for (ranks, all) in [(2, true), (5, true), (17, false), (64, false)] {
        let omitted = Arc::new(AtomicU64::new(u64::MAX));
        let mut world = omitting(ranks, &omitted);
        let count = ranks.to_string();
        for dtype in Dtype::ALL.iter().filter(|dtype| all || [Dtype::Bf16, Dtype::U8].contains(*dtype)) {
            for reduce in Reduce::ALL.iter().filter(|reduce| all || **reduce == Reduce::Sum) {
                for in_place in if all { &[false, true][..] } else { &[true] } {
                    let (dtype, reduce, place) = (dtype.to_string(), reduce.to_string(), in_place.to_string());
                    let flags = [
                        ("op", "all_reduce"),
                        ("dtype", &*dtype),
                        ("reduce", &*reduce),
                        ("in-place", &*place),
                        ("backend", "sim"),
                        ("ranks", &*count),
                        // Few elements: where ranks took part in rotation, some would not be seen.
                        ("bytes", "64"),
                    ];
                    let Ok(case) = plans::case(&flags) else { continue };
                    let mut wrong = |rank: u64| {
                        omitted.store(rank, Ordering::Relaxed);
                        first_check(&mut world, &case).iter().map(|report| report.count).sum::<u64>()
                    };
                    let what = format!("{ranks} ranks, {dtype} {reduce}, in place {in_place}");
                    assert_eq!(wrong(u64::MAX), 0, "{what}");
                    let ranks = u64::from(ranks);
                    let out = if all { (0..ranks).collect() } else { vec![0, ranks / 2, ranks - 1] };
                    for rank in out {
                        assert!(wrong(rank) > 0, "{what}: rank {rank} was left out, unseen");
                    }
                }
            }
        }
    }
}

/// A world in threads with barriers of its own, which wait for every rank but those that are `ignored`.
fn barriers(ranks: u32, ignored: &'static [u32]) -> Wrapped {
    let entered: Arc<Vec<AtomicU64>> = Arc::new((0..ranks).map(|_| AtomicU64::new(0)).collect());
    let wrap: Wrap = Arc::new(move |own, inner| {
        let entered = entered.clone();
        let run = move |inner: &mut dyn Communicator, call: &Call| {
            // The measuring code's own barriers have another type.
            if call.op != Collective::Barrier || call.dtype == Dtype::I64 {
                return inner.run(call);
            }
            let mine = entered[own as usize].fetch_add(1, Ordering::AcqRel) + 1;
            for rank in (0..ranks).filter(|rank| !ignored.contains(rank)) {
                while entered[rank as usize].load(Ordering::Acquire) < mine {
                    std::thread::yield_now();
                }
            }
            Ok(())
        };
        Instead::boxed(inner, run)
    });
    Wrapped::start("shm", ranks, wrap)
}

#[test]
fn a_barrier_that_lets_ranks_through_early_fails() {
    let flags = [("op", "barrier"), ("backend", "shm"), ("ranks", "3"), ("warmup", "0"), ("iters", "6")];
    let case = plans::case(&flags).expect("a case");
    let (_, right) = barriers(3, &[]).trial(&case);
    assert_eq!((right.status, right.wrong), (Status::Ok, Some(0)), "{right:?}");
    for ignored in [&[0][..], &[1], &[2], &[0, 1, 2]] {
        let (_, line) = barriers(3, ignored).trial(&case);
        assert_eq!(line.status, Status::Failed, "{ignored:?} ignored: {line:?}");
        assert!(line.wrong.is_some_and(|wrong| wrong >= 8), "{ignored:?} ignored: {line:?}");
        let reason = line.reason.as_deref().unwrap_or_default();
        assert!(reason.contains("left barrier") && reason.contains("entered it"), "{reason}");
        assert!(line.wrong_elements.iter().all(|wrong| wrong.rank < 3), "{line:?}");
    }
}

#[test]
fn barriers_of_every_backend_in_threads_are_compared() {
    for backend in ["sim", "shm", "reference"] {
        let flags = [("op", "barrier"), ("backend", backend), ("ranks", "3"), ("warmup", "0"), ("iters", "6")];
        let (trial, line) = Wrapped::shared(backend, 3).trial(&plans::case(&flags).expect("a case"));
        assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{backend}: {line:?}");
        assert!(trial.exits.compared >= 3 * 6, "{backend}: {:?}", trial.exits.compared);
    }
}
