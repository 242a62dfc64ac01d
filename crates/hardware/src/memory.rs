//! Memory bandwidth on one rank: arrays, the loop over them on all threads, and what they must hold.
//!
//! Elements are whole numbers below 2^11, so that sums and products of the loops are exact: every element is compared with
//! zero tolerance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use comm::Communicator;
use contract::{Prepared, RankContext, Work};
use device::Region;
use measure::{Failure, WrongReport};

use super::fields::Test;
use super::loops::{ArrayPart, FACTOR, run};
use super::resolve::Task;
use super::team::Team;

/// A call goes through at least this many bytes, in several passes over a small working set: what it takes to start threads
/// is then about a hundredth of its time.
const CALL_BYTES: u64 = 8 << 20;
/// What an array that is only written holds before the first call: no result of a loop is negative.
pub(super) const UNWRITTEN: f64 = -1.0;
/// Values repeat after so many elements, a prime: neither parts nor lines begin alike.
pub(super) const PERIOD: u64 = 1021;
/// Elements that a refill displaces them by.
const SHIFT: u64 = 409;
/// Bytes between two arrays: other sets of the caches, and other banks of memory, than equal distances of a power of two.
const APART: usize = 4096 + 256;

/// A loop and its arrays.
struct LoopMemory {
    test: Test,
    len: usize,
    passes: u32,
    /// First bytes of the arrays.
    arrays: [usize; 3],
    shift: u64,
    team: Team,
    _region: Arc<Region>,
}

/// Elements of each array.
pub(super) fn elements(test: Test, bytes: u64) -> u64 {
    bytes / 8 / test.arrays()
}

/// Bytes that the arrays of a rank take.
pub(super) fn held(task: &Task) -> u64 {
    task.bytes.saturating_add(3 * APART as u64)
}

/// Allocates and fills.
pub(super) fn prepare(task: &Task, context: &RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let lacking = |error: std::io::Error| Failure::lacking(error.to_string());
    let team = Team::new(task.threads, context.index as usize * task.threads, &context.cores).map_err(lacking)?;
    Ok(Box::new(LoopMemory::new(task, team).map_err(lacking)?))
}

impl LoopMemory {
    fn new(task: &Task, team: Team) -> std::io::Result<Self> {
        let (test, len) = (task.test, elements(task.test, task.bytes) as usize);
        let region = Region::host(held(task) as usize)?;
        let base = region.base() as usize;
        let array = |number: usize| base + (number * (len * 8 + APART)).next_multiple_of(64);
        let arrays = match test {
            Test::ReduceBroadcast => [array(0), array(1), 0],
            Test::Add | Test::Triad => [array(0), array(1), array(2)],
            _ => [array(0), 0, array(1)],
        };
        let passes = (CALL_BYTES / task.bytes.max(1)).max(1) as u32;
        let mut memory = Self { test, len, passes, arrays, shift: task.seed, team, _region: region };
        memory.refill();
        Ok(memory)
    }

    fn pass(&mut self) {
        let (test, arrays, len, passes, threads) = (self.test, self.arrays, self.len, self.passes, self.team.count());
        // SAFETY: parts of the region, apart from each other, and one thread each.
        self.team.run(&|thread| unsafe { run(test, part(arrays, len, thread, threads).1, passes) });
    }

    /// Compares every element with what it must be after so many calls.
    fn compare(&mut self, calls: u64) -> WrongReport {
        let (test, arrays, len, shift) = (self.test, self.arrays, self.len, self.shift);
        let threads = self.team.count();
        let (wrong, compared) = (AtomicU64::new(0), AtomicU64::new(0));
        self.team.run(&|thread| {
            let (begin, part) = part(arrays, len, thread, threads);
            let mut found = 0;
            let held = [part.a, part.b, part.c].map(|array| (!array.is_null()).then_some(array));
            for i in 0..part.len {
                let expected = expected(test, given((begin + i) as u64, shift), calls > 0);
                for (array, expected) in held.iter().zip(expected) {
                    // SAFETY: inside this thread's part.
                    found += u64::from(array.is_some_and(|array| unsafe { array.add(i).read() } != expected));
                }
            }
            wrong.fetch_add(found, Ordering::Relaxed);
            compared.fetch_add(held.iter().flatten().count() as u64 * part.len as u64, Ordering::Relaxed);
        });
        WrongReport { count: wrong.into_inner(), compared: compared.into_inner(), first: Vec::new() }
    }
}

/// The numbers of an element before any call.
pub(super) fn given(index: u64, shift: u64) -> [f64; 2] {
    let place = index + shift;
    [(place % PERIOD) as f64, ((7 * place + 3) % PERIOD) as f64]
}

/// What the arrays hold after a call.
pub(super) fn expected(test: Test, [a, b]: [f64; 2], called: bool) -> [f64; 3] {
    if !called {
        return [a, b, UNWRITTEN];
    }
    match test {
        Test::Copy => [a, b, a],
        Test::Scale => [a, b, FACTOR * a],
        Test::Add => [a, b, a + b],
        Test::Triad => [a, b, a + FACTOR * b],
        // The mean of two equal numbers is that number, so further calls change nothing.
        Test::ReduceBroadcast => [0.5 * (a + b), 0.5 * (a + b), UNWRITTEN],
        _ => [f64::NAN; 3],
    }
}

/// The part of the arrays that belongs to one thread: where it begins, and how long it is. Whole lines, but for the last.
pub(super) fn part(arrays: [usize; 3], len: usize, thread: usize, threads: usize) -> (usize, ArrayPart) {
    let each = len.div_ceil(threads).next_multiple_of(8);
    let (begin, end) = ((thread * each).min(len), ((thread + 1) * each).min(len));
    let at = |array: usize| if array == 0 { std::ptr::null_mut() } else { (array + begin * 8) as *mut f64 };
    (begin, ArrayPart { a: at(arrays[0]), b: at(arrays[1]), c: at(arrays[2]), len: end - begin })
}

impl Prepared for LoopMemory {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.pass();
        Ok(())
    }

    /// Each thread fills its own part, so that the pages lie at its NUMA node.
    fn refill(&mut self) {
        self.shift += SHIFT;
        let (arrays, len, shift, threads) = (self.arrays, self.len, self.shift, self.team.count());
        self.team.run(&|thread| {
            let (begin, part) = part(arrays, len, thread, threads);
            for i in 0..part.len {
                let [a, b] = given((begin + i) as u64, shift);
                for (array, value) in [(part.a, a), (part.b, b), (part.c, UNWRITTEN)] {
                    if !array.is_null() {
                        // SAFETY: inside this thread's part.
                        unsafe { array.add(i).write(value) };
                    }
                }
            }
        });
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        Ok(self.compare(calls))
    }

    fn work(&self) -> Work {
        let passes = u64::from(self.passes);
        Work {
            traffic_bytes: self.test.counted_bytes() * self.len as u64 * passes,
            // The time of a call is that of one pass.
            messages: self.passes,
            max_calls: u64::MAX,
            checks: 1,
            ..Work::default()
        }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "plain stores".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use terms::Named;

    use super::*;

    fn memory(test: Test, bytes: u64, threads: usize) -> LoopMemory {
        let (dtype, path) = (terms::Dtype::F64, String::new());
        let task = Task { test, ranks: 1, threads, bytes, dtype, size: 0, path, seed: 1 };
        LoopMemory::new(&task, Team::new(threads, 0, &[]).unwrap()).unwrap()
    }

    /// Every loop, alone and on several threads, with parts that end in the middle of a line and threads without a part.
    #[test]
    fn every_loop_leaves_what_its_formula_says() {
        for test in Test::ALL.iter().filter(|test| test.area() == super::super::fields::Area::Memory) {
            for (bytes, threads) in [(16 * 24, 1), (16 * 24, 5), (60_024, 1), (60_024, 3), (9 << 20, 2)] {
                let mut memory = memory(*test, bytes, threads);
                let all = memory.len as u64 * test.arrays();
                assert_eq!((memory.compare(0).count, memory.compare(0).compared), (0, all));
                memory.pass();
                assert_eq!(memory.compare(1).count, 0, "{test:?} of {bytes} bytes on {threads} threads");
                memory.pass();
                assert_eq!(memory.compare(2).count, 0, "a second call changes nothing");
                memory.refill();
                assert_eq!(memory.compare(0).count, 0);
                assert!(memory.compare(1).count >= memory.len as u64 / 2, "{test:?}: a call that did nothing is seen");
            }
        }
    }

    #[test]
    fn one_wrong_element_is_counted() {
        let mut memory = memory(Test::Triad, 24_000, 2);
        memory.pass();
        // SAFETY: the last element of c.
        unsafe { *(memory.arrays[2] as *mut f64).add(999) += 1.0 };
        assert_eq!(memory.compare(1).count, 1);
    }

    #[test]
    fn a_call_makes_passes_enough_to_hide_the_start_of_its_threads() {
        assert_eq!((memory(Test::Copy, 32 << 10, 1).passes, memory(Test::Copy, 64 << 20, 1).passes), (256, 1));
    }
}
