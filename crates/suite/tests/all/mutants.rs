//! Communicators that do something wrong, each in one way: every one is caught by the check, with the rank and the
//! element at fault. What is proven is the check, on a backend that is right.

use std::sync::Arc;

use comm::{Call, Communicator, Result, Shape, Ticket, Wait};
use device::{Queue, Region, Slice};
use measure::{Settings, World, WrongReport};
use terms::{Collective, Space};
use trace::Clock;

use crate::plans;
use crate::worlds::{Wrap, Wrapped};

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
    inner: Box<dyn Communicator>,
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
    fn run_wrong(&mut self, call: &Call) -> Result<()> {
        self.calls += 1;
        if matches!(self.fault, Fault::Skip(every) if self.calls.is_multiple_of(every)) {
            return Ok(());
        }
        let untouched = bytes(&call.output);
        self.inner.run(call)?;
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

impl Communicator for Mutant {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }
    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }
    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        self.inner.start(group, after)
    }
    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        self.inner.finish(ticket, how)
    }
    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        self.inner.split(color, key)
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    fn run(&mut self, call: &Call) -> Result<()> {
        // The harness's own barriers and words are left alone.
        let harness = call.op == Collective::Barrier || (call.op == Collective::Broadcast && call.output.len() == 8);
        if harness { self.inner.run(call) } else { self.run_wrong(call) }
    }
}

/// A world in which `rank` does `fault`.
fn mutant(ranks: u32, rank: u32, fault: Fault) -> Wrapped {
    let wrap: Wrap =
        Arc::new(move |own, inner| Box::new(Mutant { inner, fault, here: own == rank, calls: 0, before: Vec::new() }));
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

const OPS: [&str; 11] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "all_to_allv",
    "gather",
    "scatter",
    "send_recv",
    "ping_pong",
];

/// What the check before the first sample finds on each rank.
fn first_check(world: &mut Wrapped, case: &record::Case) -> Vec<WrongReport> {
    let limit = Settings::of(case).deadline();
    let found = world.prepare(case, limit).expect("no verdict").into_iter().map(|ready| ready.wrong).collect();
    world.finish(limit).expect("no verdict");
    found
}

/// Every operation, some types, both forms: `judge` gets the rank's own report and the number of its elements.
fn everywhere(fault: Fault, judge: impl Fn(&WrongReport, u64) -> bool) {
    for rank in [0, 1] {
        let mut world = mutant(3, rank, fault);
        let mut tried = 0;
        for op in OPS {
            for dtype in ["f32", "bf16", "u8", "i64"] {
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
    everywhere(Fault::DropLast, |report, _| {
        // One element, always the same, in one or both of two checks: what was there before may be right by chance.
        let indices: Vec<u64> = report.first.iter().map(|wrong| wrong.index).collect();
        (1..=2).contains(&report.count) && indices.iter().all(|index| *index == indices[0] && *index > 1_000)
    });
}

#[test]
fn exchanged_halves_are_caught() {
    everywhere(Fault::SwapHalves, |report, compared| report.count > compared / 8 && report.first.len() >= 8);
}

#[test]
fn displacements_by_powers_of_two_are_caught() {
    for log in [0, 3, 10] {
        everywhere(Fault::Shift(1 << log), |report, compared| report.count > compared / 8);
    }
}

#[test]
fn one_wrong_bit_is_caught_and_its_element_named() {
    everywhere(Fault::FlipBit(777), |report, _| {
        // Both checks: the same element, and nothing else.
        report.count == 2 && report.first.iter().all(|wrong| wrong.index == 777 && wrong.expected != wrong.got)
    });
}

#[test]
fn stale_data_are_caught() {
    everywhere(Fault::Stale, |report, compared| report.count > compared / 16);
}

#[test]
fn calls_that_do_nothing_are_caught() {
    // Every call, every second call, whichever of the two.
    for every in [1, 2] {
        for before in [0, 1] {
            let mut world = mutant(3, 0, Fault::Skip(every));
            for op in OPS {
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

#[test]
fn a_skipped_call_among_the_timed_ones_is_caught_where_values_grow() {
    // The checks' own calls are the 1st and 2nd, and then the last two of the case.
    let mut world = mutant(3, 0, Fault::Skip(7));
    let (_, line) = world.launch(&case("all_reduce", "f32", true, &[]).expect("a case"));
    assert!(line.wrong.is_some_and(|wrong| wrong > 10_000), "{line:?}");
    assert_eq!(line.status, terms::Status::Failed);
    assert!(line.reason.expect("why").contains("wrong elements on ranks 0, 1, 2: element 0 "));
}

#[test]
fn a_fault_in_the_timed_calls_alone_reaches_the_line() {
    // From the third call on: the checks before the first sample are right.
    struct Late(Mutant);
    impl Communicator for Late {
        fn shape(&self) -> &Shape {
            self.0.shape()
        }
        fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
            self.0.alloc(bytes, space)
        }
        fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
            self.0.start(group, after)
        }
        fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
            self.0.finish(ticket, how)
        }
        fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
            self.0.split(color, key)
        }
        fn clock(&self) -> Clock {
            self.0.clock()
        }
        fn run(&mut self, call: &Call) -> Result<()> {
            let here = self.0.here;
            self.0.here = here && self.0.calls >= 2;
            let result = self.0.run(call);
            self.0.here = here;
            result
        }
    }
    let wrap: Wrap = Arc::new(|rank, inner| {
        let fault = Fault::FlipBit(4242);
        Box::new(Late(Mutant { inner, fault, here: rank == 2, calls: 0, before: Vec::new() }))
    });
    let mut world = Wrapped::start("sim", 3, wrap);
    let (launch, line) = world.launch(&case("all_gather", "i32", false, &[]).expect("a case"));
    assert!(launch.wrong[..3].iter().all(|report| report.count == 0));
    // After the timed calls, and in two fresh checks.
    assert_eq!(line.wrong, Some(3));
    assert!(line.wrong_elements.iter().all(|wrong| (wrong.rank, wrong.index) == (2, 4242)));
    let reason = line.reason.expect("why");
    assert!(reason.starts_with("3 wrong elements on rank 2: element 4242 should be "), "{reason}");
}
