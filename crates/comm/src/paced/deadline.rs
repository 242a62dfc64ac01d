//! Sleeping until an instant of the rank's clock without burning the core.

use std::time::Duration;

use trace::Clock;

use crate::{Abort, Result};

/// Bounds how late a raised abort is seen.
const NAP: Duration = Duration::from_millis(20);

/// What is left to do awake after a sleep: the time that a system may take to wake a thread, with timers that fire at
/// once (30 to 40 us in a virtual machine).
const AWAKE_NS: u64 = 60_000;

/// Returns when `clock` shows `deadline_ns` or later; a fake clock is moved there. Sleeps for most of the time and
/// stays awake for the last microseconds: spinning, or where it may not, offering its core to others.
///
/// # Errors
/// [`crate::Error::Aborted`].
pub(super) fn wait_until(clock: &Clock, deadline_ns: u64, may_spin: bool, abort: &Abort) -> Result<()> {
    clock.advance_to(deadline_ns);
    let mut prompt = None;
    loop {
        let left = deadline_ns.saturating_sub(clock.now_ns());
        if left == 0 {
            return Ok(());
        }
        abort.check()?;
        if left > AWAKE_NS {
            prompt.get_or_insert_with(PromptTimers::ask);
            std::thread::sleep(Duration::from_nanos(left - AWAKE_NS).min(NAP));
        } else if may_spin {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

/// Has this thread's timers fire at once while it lives; by default the system delays them by up to 50 us.
struct PromptTimers {
    before: libc::c_int,
}

impl PromptTimers {
    fn ask() -> Self {
        // SAFETY: reads and sets one number of the calling thread.
        let before = unsafe {
            let before = libc::prctl(libc::PR_GET_TIMERSLACK);
            libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
            before
        };
        Self { before }
    }
}

impl Drop for PromptTimers {
    fn drop(&mut self) {
        // Zero would mean the default; a failed read (negative) is left to it.
        let slack = libc::c_ulong::try_from(self.before).unwrap_or(0);
        // SAFETY: sets one number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack) };
    }
}
