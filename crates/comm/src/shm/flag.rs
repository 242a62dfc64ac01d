//! One flag: a counter that one rank raises and others wait for, and the handshake that lets them sleep.
//!
//! Knows two words and nothing of ranks. Under `cfg(loom)` the words are loom's, on the heap, so that every
//! interleaving of the same code is run.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Abort, Result};

/// A 32-bit word that other processes may map. A plain pointer: a flag must not promise that its memory lives as long
/// as any reference, and loom's words are of another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word(*const AtomicU32);

// SAFETY: the word is only accessed atomically.
unsafe impl Send for Word {}

impl Word {
    /// # Safety
    /// `word` is aligned and stays valid for as long as this and its copies are used; all access to it is atomic.
    pub(crate) unsafe fn new(word: *const AtomicU32) -> Self {
        Self(word)
    }

    /// The word itself.
    #[inline(always)]
    pub(crate) fn get(&self) -> &AtomicU32 {
        // SAFETY: promised by `new`.
        unsafe { &*self.0 }
    }
}

/// How a thread sleeps until a word changes.
pub(crate) trait Park {
    /// Sleeps if the word still is `current`, until it is woken or some time has passed (to look for an abort).
    fn sleep(&self, word: Word, current: u32);
    /// Wakes all who sleep on the word.
    fn wake(&self, word: Word);
}

/// How long to wait before sleeping. `native.md` section 1 has the figures behind the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinPolicy {
    /// Looks at the flag before waiting longer, with or without pauses between (see [`Looks`]): on Intel one pause takes longer
    /// than a flag does.
    pub(crate) looks: u32,
    /// Looks with a `pause` between.
    pub(crate) pauses: u32,
    /// Looks with the core offered to others between.
    pub(crate) yields: u32,
}

impl SpinPolicy {
    /// For ranks that have a core each.
    pub(crate) const OWN_CORE: Self = Self { looks: 300, pauses: 4000, yields: 200 };
    /// For ranks that share cores: who spins keeps the one it waits for from running.
    pub(crate) const SHARED_CORE: Self = Self { looks: 0, pauses: 0, yields: 200 };
    /// For who shares a core, in rounds of all, towards ranks on other cores once all on its own have arrived: nobody here
    /// could go on. Longer than the others take to switch between ranks. (4 ranks on 2 cores: a round 1.7 us, 2.5 without looks,
    /// 2.2 with 1,000 of them.)
    pub(crate) const OTHER_CORE: Self = Self { looks: 3000, pauses: 0, yields: 200 };
}

/// How looks at a flag follow each other before a rank waits longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    /// At once.
    Tight,
    /// With a pause between: each look takes the line from the rank that is about to write it.
    Apart,
}

impl Looks {
    /// The longest pause for which looks are taken apart: a flag goes from core to core in 26 ns (AMD of Zen 5, near cores,
    /// where a pause takes 25), and Intel's have taken 140 cycles since Skylake.
    const LONGEST_PAUSE_NS: u128 = 30;

    /// What this processor's pauses are short enough for: the shortest of some bursts, since any may be interrupted.
    pub(crate) fn of_this_processor() -> Self {
        const PAUSES: u32 = 100;
        let burst = |_| {
            let begin = std::time::Instant::now();
            (0..PAUSES).for_each(|_| spin());
            begin.elapsed().as_nanos()
        };
        let shortest = (0..10).map(burst).min().unwrap_or(u128::MAX);
        if shortest <= Self::LONGEST_PAUSE_NS * u128::from(PAUSES) { Self::Apart } else { Self::Tight }
    }
}

/// A counter that one rank raises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    count: Word,
    /// How many sleep, or are about to. Only waiters write it: were the raiser to clear it, it could clear the mark of
    /// one that waits for the next count already.
    sleepers: Word,
}

impl Flag {
    pub(crate) fn new(count: Word, sleepers: Word) -> Self {
        Self { count, sleepers }
    }

    /// Publishes everything that this thread wrote before, and wakes sleepers.
    ///
    /// The exchange and the look at sleepers are sequentially consistent, as are the sleeper's mark and its second look
    /// at the count: either this look sees the mark, or that one sees the count. A plain store and a fence later, after
    /// looking at peers' flags, was tried: a barrier took 0.21 us instead of 0.16.
    #[inline(always)]
    pub(crate) fn raise(&self, count: u32, park: &impl Park) {
        self.count.get().swap(count, Ordering::SeqCst);
        loom_fence();
        if self.sleepers.get().load(Ordering::SeqCst) != 0 {
            park.wake(self.count);
        }
    }

    /// Whether the flag was raised to `count` or beyond (counts wrap). If so, what was written before is visible.
    #[inline(always)]
    pub(crate) fn reached(&self, count: u32) -> bool {
        (self.count.get().load(Ordering::Acquire).wrapping_sub(count) as i32) >= 0
    }

    /// Looks without giving the core away; true once reached.
    #[inline(always)]
    pub(crate) fn look(&self, count: u32, spin_policy: SpinPolicy, looks: Looks) -> bool {
        for _ in 0..spin_policy.looks {
            if self.reached(count) {
                return true;
            }
            if looks == Looks::Apart {
                spin();
            }
        }
        self.reached(count)
    }

    /// Where it lies.
    pub(crate) fn line(&self) -> *const u8 {
        self.count.0.cast()
    }

    /// Waits.
    ///
    /// # Errors
    /// [`crate::Error::Aborted`].
    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&self, count: u32, spin_policy: SpinPolicy, abort: &Abort, park: &impl Park) -> Result<()> {
        for turn in 0..spin_policy.pauses {
            if self.reached(count) {
                return Ok(());
            }
            if turn % 64 == 63 {
                abort.check()?;
            }
            spin();
        }
        for _ in 0..spin_policy.yields {
            if self.reached(count) {
                return Ok(());
            }
            abort.check()?;
            offer_core();
        }
        while !self.reached(count) {
            abort.check()?;
            self.doze(count, park);
        }
        Ok(())
    }

    /// Sleeps once, unless the flag is raised meanwhile.
    fn doze(&self, count: u32, park: &impl Park) {
        self.sleepers.get().fetch_add(1, Ordering::SeqCst);
        loom_fence();
        let current = self.count.get().load(Ordering::SeqCst);
        if (current.wrapping_sub(count) as i32) < 0 {
            park.sleep(self.count, current);
        }
        self.sleepers.get().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Loom takes sequentially consistent accesses for weaker ones, and only knows such fences; the code that runs needs
/// none.
#[inline(always)]
fn loom_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
#[inline(always)]
fn spin() {
    std::hint::spin_loop();
}

#[cfg(not(loom))]
fn offer_core() {
    std::thread::yield_now();
}

#[cfg(loom)]
fn spin() {
    loom::thread::yield_now();
}

#[cfg(loom)]
fn offer_core() {
    loom::thread::yield_now();
}

/// The kernel's futex: works across processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Futex;

impl Park for Futex {
    fn sleep(&self, word: Word, current: u32) {
        // Bounds only how late an abort is seen: wake-ups are never lost.
        let limit = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        // SAFETY: the word is valid (`Word::new`); no private flag, since the waker may be another process.
        unsafe { libc::syscall(libc::SYS_futex, word.0, libc::FUTEX_WAIT, current, &raw const limit) };
    }

    fn wake(&self, word: Word) {
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_futex, word.0, libc::FUTEX_WAKE, i32::MAX) };
    }
}
