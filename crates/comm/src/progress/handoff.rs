//! How one thread waits until another has moved on: brief spinning, then yielding, then parking; the other pays for a
//! wake-up only when somebody sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// How often a waiting thread looks before it sleeps, where it has a core to itself: about 40 us, the time of two
/// context switches, so that waiting costs at most twice what an oracle would pay.
pub(super) const SPIN: u32 = 4000;

/// How often it then offers its core to others before it sleeps, in any case: where a thread shares its core with the
/// one that it waits for, this is what lets that one run, at a twentieth of the price of sleeping and being woken.
const YIELDS: u32 = 200;

/// The longest sleep: bounds how late a raised abort is seen.
const NAP: Duration = Duration::from_millis(20);

/// A place for one thread to sleep.
#[derive(Debug, Default)]
pub(super) struct Bed {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
}

impl Bed {
    /// Blocks until `ready`, which must read with [`Ordering::SeqCst`] what the waker wrote with it. After each nap
    /// `check` may end the wait.
    pub(super) fn wait<E>(
        &self,
        spin: u32,
        ready: impl Fn() -> bool,
        mut check: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        for _ in 0..spin {
            if ready() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        for _ in 0..YIELDS {
            if ready() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        loop {
            // First asleep, then a last look: the waker writes first and then looks for a sleeper, so that one of the
            // two always sees the other.
            self.asleep.store(true, Ordering::SeqCst);
            let outcome = if ready() { Some(Ok(())) } else { check().err().map(Err) };
            if let Some(outcome) = outcome {
                self.asleep.store(false, Ordering::SeqCst);
                return outcome;
            }
            std::thread::park_timeout(NAP);
        }
    }

    /// Wakes the sleeper, if there is one. To be called after the write that `ready` reads.
    #[inline]
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = &*sleeper {
                thread.unpark();
            }
        }
    }
}
