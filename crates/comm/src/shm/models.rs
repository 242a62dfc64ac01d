//! The protocols under loom: every interleaving (within a bound on preemptions) of the very code that runs over shared
//! memory, on heap words and threads. A lost wake-up is a deadlock here, a missing order a wrong value.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p rankmark-comm --release --lib models`

use std::sync::Arc as Plain;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::flag::{Flag, Looks, Park, SpinPolicy, Word};
use super::rounds::{RING, Rounds};
use crate::Abort;

/// Straight to sleep: loom needs no spin_policy, and every spin is one more branch.
const NONE: SpinPolicy = SpinPolicy { looks: 0, pauses: 0, yields: 0 };

/// A futex: sleeping looks at the word under a lock that waking takes.
#[derive(Clone)]
struct ModelFutex(Arc<(Mutex<()>, Condvar)>);

impl ModelFutex {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(()), Condvar::new())))
    }
}

impl Park for ModelFutex {
    fn sleep(&self, word: Word, current: u32) {
        let guard = self.0.0.lock().unwrap();
        if word.get().load(loom::sync::atomic::Ordering::SeqCst) == current {
            drop(self.0.1.wait(guard).unwrap());
        }
    }

    fn wake(&self, _word: Word) {
        drop(self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Words on the heap, kept until the model's end by the holder of this.
struct HeapWords(Vec<AtomicU32>);

impl HeapWords {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self((0..count).map(|_| AtomicU32::new(0)).collect()))
    }

    fn word(&self, index: usize) -> Word {
        // SAFETY: every thread of the model holds the Arc while it uses the word.
        unsafe { Word::new(&raw const self.0[index]) }
    }

    fn flag(&self, index: usize) -> Flag {
        Flag::new(self.word(index), self.word(index + 1))
    }
}

#[test]
fn a_flag_publishes_and_wakes() {
    model(|| {
        let (words, park) = (HeapWords::new(2), ModelFutex::new());
        let data = Plain::new(UnsafeCell::new(0));
        let raiser = {
            let (words, park, data) = (words.clone(), park.clone(), data.clone());
            thread::spawn(move || {
                // SAFETY: the reader looks only after the flag.
                data.with_mut(|data| unsafe { *data = 7 });
                words.flag(0).raise(1, &park);
            })
        };
        words.flag(0).wait(1, NONE, &Abort::default(), &park).unwrap();
        // SAFETY: published by the flag.
        assert_eq!(data.with(|data| unsafe { *data }), 7);
        raiser.join().unwrap();
    });
}

/// One waiter after the other on the same flag, as messages have it: counts 1 and 2.
#[test]
fn no_wake_up_is_lost_between_counts() {
    model(|| {
        let (words, park) = (HeapWords::new(2), ModelFutex::new());
        let raiser = {
            let (words, park) = (words.clone(), park.clone());
            thread::spawn(move || (1..=2).for_each(|count| words.flag(0).raise(count, &park)))
        };
        for count in 1..=2 {
            words.flag(0).wait(count, NONE, &Abort::default(), &park).unwrap();
        }
        raiser.join().unwrap();
    });
}

/// Who gives in a round.
#[derive(Clone, Copy)]
enum RoundStep {
    /// One rank, through its small slot: it does not wait, and its peer waits for it alone.
    From(usize),
    /// All, through large slots, and all wait for all.
    All,
    /// All, through small slots, and all wait for all.
    Ring,
}

/// Cells of a rank, in the manner of its area: loom checks that nobody reads one while it is written.
#[derive(Default)]
struct AreaCells {
    headers: [UnsafeCell<u32>; RING],
    small: [UnsafeCell<u32>; RING],
    large: [UnsafeCell<u32>; 2],
}

fn write(cell: &UnsafeCell<u32>, value: u32) {
    // SAFETY: loom checks that nobody reads meanwhile; that is what is being tested.
    cell.with_mut(|cell| unsafe { *cell = value });
}

fn read(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: as in `write`.
    cell.with(|cell| unsafe { *cell })
}

/// What a group does in a round, step by step, with cells for memory: see `endpoint.rs` and `eager.rs`.
struct End {
    rank: usize,
    rounds: Rounds<ModelFutex>,
    cells: Plain<[AreaCells; 2]>,
    /// Rounds, as counted here.
    opened: u32,
    settled: u32,
}

impl End {
    fn settle_next(&mut self) {
        let place = self.rounds.settle_next(Looks::Tight).unwrap();
        self.settled += 1;
        assert_eq!(read(&self.cells[1 - self.rank].headers[place]), self.settled);
    }

    fn step(&mut self, step: RoundStep) {
        let (rank, peer) = (self.rank, 1 - self.rank);
        let gives =
            matches!(step, RoundStep::All | RoundStep::Ring) || matches!(step, RoundStep::From(root) if root == rank);
        while !self.rounds.has_room() {
            self.settle_next();
        }
        if matches!(step, RoundStep::All) {
            while self.rounds.unsettled() > 0 {
                self.settle_next();
            }
        }
        self.opened += 1;
        let (place, cells) = (self.rounds.next_place(), self.cells.clone());
        let slot = |of: usize| match step {
            RoundStep::From(_) | RoundStep::Ring => &cells[of].small[place],
            RoundStep::All => &cells[of].large[place & 1],
        };
        if gives {
            write(slot(rank), self.opened * 10 + rank as u32);
        }
        write(&cells[rank].headers[place], self.opened);
        self.rounds.arrive();
        match step {
            RoundStep::From(root) if root == rank => return,
            RoundStep::From(_) => {
                self.rounds.wait_for(peer).unwrap();
                assert_eq!(read(&cells[peer].headers[place]), self.opened);
            }
            RoundStep::All | RoundStep::Ring => (0..self.rounds.unsettled()).for_each(|_| self.settle_next()),
        }
        assert_eq!(read(slot(peer)), self.opened * 10 + peer as u32);
    }
}

/// Slots and headers are written again with no waiting but what rounds ask for, and nobody reads them meanwhile.
fn guarded(steps: &[RoundStep]) {
    let steps: Plain<[RoundStep]> = steps.into();
    model(move || {
        // Per rank and place: a flag of two words.
        let (words, park) = (HeapWords::new(2 * RING * 2), ModelFutex::new());
        let cells: Plain<[AreaCells; 2]> = Plain::default();
        let end = |rank: usize| {
            let (words, park, cells, steps) = (words.clone(), park.clone(), cells.clone(), steps.clone());
            move || {
                let flags = |rank: usize| std::array::from_fn(|place| words.flag((rank * RING + place) * 2));
                let rounds =
                    Rounds::new(rank, vec![flags(0), flags(1)], |_| NONE, Looks::Tight, Abort::default(), park);
                let mut end = End { rank, rounds, cells, opened: 0, settled: 0 };
                steps.iter().for_each(|step| end.step(*step));
            }
        };
        let other = thread::spawn(end(1));
        end(0)();
        other.join().unwrap();
    });
}

#[test]
fn rounds_guard_the_double_buffer() {
    guarded(&[RoundStep::All; 3]);
}

/// Small slots in rounds of all: written again by one who goes on, and after one who went on.
#[test]
fn rounds_guard_the_ring_in_rounds_of_all() {
    guarded(&[RoundStep::Ring; RING + 1]);
    let mut steps = [RoundStep::From(0); RING + 1];
    steps[0] = RoundStep::Ring;
    guarded(&steps);
    steps[0] = RoundStep::From(0);
    steps[RING] = RoundStep::Ring;
    guarded(&steps);
}

/// Once round the ring and on: the wait that was put off is for the slot's last readers.
#[test]
fn rounds_guard_the_slots_of_who_goes_on() {
    guarded(&[RoundStep::From(0); RING + 2]);
}

/// Who gives changes, so that both have rounds that they have not settled.
#[test]
fn rounds_guard_the_slots_of_several_roots() {
    guarded(&[
        RoundStep::From(0),
        RoundStep::From(1),
        RoundStep::From(1),
        RoundStep::From(0),
        RoundStep::From(0),
        RoundStep::From(1),
    ]);
}

/// What went on is caught up with before large slots are written, and again after.
#[test]
fn rounds_guard_large_slots_between_small_ones() {
    guarded(&[
        RoundStep::All,
        RoundStep::From(0),
        RoundStep::All,
        RoundStep::From(1),
        RoundStep::From(0),
        RoundStep::All,
    ]);
}
