//! How one thread waits until another has moved on: brief spinning, then yielding, then parking; the other pays for a
//! wake-up only when somebody sleeps.

use std::sync::PoisonError;
use std::time::Duration;

#[cfg(loom)]
use loom::{
    sync::Mutex,
    sync::atomic::{AtomicBool, Ordering, fence},
    thread::{Thread, current, yield_now},
};
#[cfg(not(loom))]
use std::{
    sync::Mutex,
    sync::atomic::{AtomicBool, Ordering, fence},
    thread::{Thread, current, yield_now},
};

/// How often a waiting thread looks before it sleeps, where it has a core to itself: about 40 us, the time of two
/// context switches, so that waiting costs at most twice what an oracle would pay.
pub(super) const SPIN: u32 = 4000;

/// How often it then offers its core to others before it sleeps, in any case: where a thread shares its core with the
/// one that it waits for, this is what lets that one run, at a twentieth of the price of sleeping and being woken.
/// (Loom needs no patience, and every turn is one more branch to try.)
const YIELDS: u32 = if cfg!(loom) { 0 } else { 200 };

/// The longest sleep: bounds how late a raised abort is seen.
const NAP: Duration = Duration::from_millis(20);

/// A place for one thread to sleep.
#[derive(Debug)]
pub(super) struct Bed {
    /// Only the sleeper writes it: a waker that cleared it could clear the mark of the next sleep.
    asleep: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
    #[cfg_attr(loom, expect(dead_code, reason = "loom has no time"))]
    nap: Duration,
}

impl Default for Bed {
    fn default() -> Self {
        Self { asleep: AtomicBool::new(false), sleeper: Mutex::default(), nap: NAP }
    }
}

impl Bed {
    /// Blocks until `ready`, which reads (acquire) what the waker wrote (release). After each nap `check` may end the
    /// wait.
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
            yield_now();
        }
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(current());
        // First asleep, then another look: the waker writes first and then looks for a sleeper, so that, with a full
        // fence on each side, one of the two always sees the other.
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let outcome = loop {
            if ready() {
                break Ok(());
            }
            if let Err(error) = check() {
                break Err(error);
            }
            self.sleep();
        };
        self.asleep.store(false, Ordering::Relaxed);
        outcome
    }

    #[cfg(not(loom))]
    fn sleep(&self) {
        std::thread::park_timeout(self.nap);
    }

    /// Without an end, so that loom sees a lost wake-up as a deadlock.
    #[cfg(loom)]
    fn sleep(&self) {
        loom::thread::park();
    }

    /// Wakes the sleeper, if there is one. To be called after the write that `ready` reads.
    #[inline]
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            // Cloned, so that the sleeper does not wake up to find its bed locked.
            let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(thread) = sleeper {
                thread.unpark();
            }
        }
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p rankmark-comm --release --lib models` runs every interleaving.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;

    /// The waiter sleeps and is woken twice, so that what the first turn leaves behind is met by the second.
    #[test]
    fn no_wake_up_is_lost() {
        loom::model(|| {
            let (bed, word) = (Arc::new(Bed::default()), Arc::new(AtomicU32::new(0)));
            let (sleeper, seen) = (bed.clone(), word.clone());
            let waiter = loom::thread::spawn(move || {
                for turn in 0..2 {
                    let ready = || seen.load(Ordering::Acquire) > turn;
                    let Ok(()) = sleeper.wait(0, ready, || Ok::<(), std::convert::Infallible>(()));
                }
            });
            for turn in 0..2 {
                word.store(turn + 1, Ordering::Release);
                bed.wake();
            }
            waiter.join().expect("the waiter");
        });
    }
}

#[cfg(all(test, not(loom)))]
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
            let ready = || bed.1.load(Ordering::Acquire) > turn;
            let Ok(()) = bed.0.wait(turn % 3, ready, || Ok::<(), Infallible>(()));
        };
        let wake = |bed: &(Bed, AtomicU32)| {
            bed.1.fetch_add(1, Ordering::Release);
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
