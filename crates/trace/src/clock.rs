//! The clock: CLOCK_MONOTONIC_RAW of this host, or a fake one that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of nanoseconds. Differences count, not the origin.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// CLOCK_MONOTONIC_RAW: the same for every process of a host, never slewed.
    #[default]
    Monotonic,
    /// Moves only by [`Clock::advance`]; clones share the time.
    Fake(Arc<AtomicU64>),
}

impl Clock {
    /// A fake clock at zero.
    pub fn fake() -> Self {
        Self::Fake(Arc::default())
    }

    /// Whether its times were never measured.
    pub const fn is_fake(&self) -> bool {
        matches!(self, Self::Fake(_))
    }

    /// How the system calls it.
    pub const fn name(&self) -> &'static str {
        if self.is_fake() { "fake" } else { "CLOCK_MONOTONIC_RAW" }
    }

    /// Nanoseconds since an arbitrary origin.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Monotonic => {
                let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                // SAFETY: `time` is a valid out-pointer, and this clock exists on every supported kernel.
                unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
                time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
            }
            Self::Fake(now) => now.load(Ordering::Acquire),
        }
    }

    /// Moves a fake clock on; a real one cannot be moved, and stays.
    pub fn advance(&self, ns: u64) {
        if let Self::Fake(now) = self {
            now.fetch_add(ns, Ordering::AcqRel);
        }
    }

    /// Moves a fake clock to at least `ns`.
    pub fn advance_to(&self, ns: u64) {
        if let Self::Fake(now) = self {
            now.fetch_max(ns, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_clock_moves_only_when_told_and_clones_share_it() {
        let clock = Clock::fake();
        let shared = clock.clone();
        assert!(clock.is_fake());
        clock.advance(7);
        assert_eq!((clock.now_ns(), shared.now_ns()), (7, 7));
        shared.advance_to(5);
        assert_eq!(clock.now_ns(), 7, "advance_to never goes back");
        shared.advance_to(9);
        assert_eq!(clock.now_ns(), 9);
    }

    #[test]
    fn the_real_clock_runs_and_cannot_be_moved() {
        let clock = Clock::default();
        assert!(!clock.is_fake());
        let before = clock.now_ns();
        clock.advance(3_600_000_000_000);
        clock.advance_to(u64::MAX);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let passed = clock.now_ns() - before;
        // An hour would mean that `advance` moved it; the sleep bounds it from below.
        assert!((2_000_000..3_600_000_000_000).contains(&passed), "{passed} ns");
    }
}
