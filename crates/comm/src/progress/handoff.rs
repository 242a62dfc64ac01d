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
#[derive(Debug)]
pub(super) struct Bed {
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
    nap: Duration,
}

impl Default for Bed {
    fn default() -> Self {
        Self { asleep: AtomicBool::new(false), sleeper: Mutex::default(), nap: NAP }
    }
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
            std::thread::park_timeout(self.nap);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::channel;

    /// Naps are so long that a lost wake-up is never made good by the end of one.
    #[test]
    fn no_wake_up_is_lost() {
        let bed = || Arc::new((Bed { nap: Duration::from_secs(3600), ..Bed::default() }, AtomicU32::new(0)));
        let (there, back, (done, finished)) = (bed(), bed(), channel());
        let (from, to) = (there.clone(), back.clone());
        let wait = |bed: &(Bed, AtomicU32), turn: u32| {
            // Now and then without any patience, so that both sides of the race are met.
            let ready = || bed.1.load(Ordering::SeqCst) > turn;
            let Ok(()) = bed.0.wait(turn % 3, ready, || Ok::<(), Infallible>(()));
        };
        let wake = |bed: &(Bed, AtomicU32)| {
            bed.1.fetch_add(1, Ordering::SeqCst);
            bed.0.wake();
        };
        const TURNS: u32 = 2000;
        std::thread::spawn(move || {
            for turn in 0..TURNS {
                wait(&from, turn);
                wake(&to);
            }
        });
        std::thread::spawn(move || {
            for turn in 0..TURNS {
                // Long enough for the other side to lie down.
                std::thread::sleep(Duration::from_micros(if turn % 50 == 0 { 1000 } else { 0 }));
                wake(&there);
                wait(&back, turn);
            }
            done.send(()).expect("the test waits");
        });
        finished.recv_timeout(Duration::from_secs(30)).expect("a wake-up was lost");
    }
}
