//! The protocols under loom: every interleaving (within a bound on preemptions) of the very code that runs over shared
//! memory, on heap words and threads. A lost wake-up is a deadlock here, a missing order a wrong value.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p comm --release --lib models`

use std::sync::Arc as Plain;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::flag::{Flag, Park, Patience, Word};
use super::rounds::Rounds;
use crate::Abort;

/// Straight to sleep: loom needs no patience, and every spin is one more branch.
const NONE: Patience = Patience { looks: 0, pauses: 0, yields: 0 };

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

/// Words on the heap, kept until the model's end by whoever holds this.
struct Words(Vec<AtomicU32>);

impl Words {
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
        let (words, park) = (Words::new(2), ModelFutex::new());
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
        let (words, park) = (Words::new(2), ModelFutex::new());
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

/// Memory of one parity is written again two rounds later with no other waiting, and nobody reads it meanwhile.
#[test]
fn rounds_guard_the_double_buffer() {
    model(|| {
        // Per rank and parity: a flag of two words.
        let (words, park) = (Words::new(8), ModelFutex::new());
        let slots: Plain<[[UnsafeCell<u32>; 2]; 2]> = Plain::default();
        let rank = |rank: usize| {
            let (words, park, slots) = (words.clone(), park.clone(), slots.clone());
            move || {
                let flags = (0..2).map(|rank| [words.flag(rank * 4), words.flag(rank * 4 + 2)]).collect();
                let mut rounds = Rounds::new(rank, flags, NONE, Abort::default(), park);
                for round in 1..=3 {
                    let own = &slots[rank][rounds.next_parity()];
                    // SAFETY: loom checks that nobody reads meanwhile; that is what is being tested.
                    own.with_mut(|own| unsafe { *own = round * 10 + rank as u32 });
                    rounds.pass().unwrap();
                    // SAFETY: as above.
                    let seen = slots[1 - rank][rounds.parity()].with(|theirs| unsafe { *theirs });
                    assert_eq!(seen, round * 10 + 1 - rank as u32);
                }
            }
        };
        let other = thread::spawn(rank(1));
        rank(0)();
        other.join().unwrap();
    });
}
