//! Ctrl-C: the coordinator's SIGINT and SIGTERM. The first ends what is in flight and lets the run end in order; a
//! second ends the process at once, and the kernel ends its ranks.
//!
//! Signal dispositions belong to the whole process, so this is process-wide state; only a coordinator installs it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::verdict::signal_name;

/// An eventfd that is readable from the first signal on, for ever. -1: not installed.
static ALARM: AtomicI32 = AtomicI32::new(-1);
/// The first signal.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// When it came, in nanoseconds of CLOCK_MONOTONIC.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// A second signal this soon is the first one once more: a terminal and a wrapper (`timeout`, `cargo run`) may both
/// deliver it.
const SAME: u64 = 200_000_000;

/// Handles SIGINT and SIGTERM from now on: worlds answer [`measure::VerdictKind::Interrupted`]. Once is enough; more
/// calls change nothing.
///
/// # Errors
/// When the system refuses.
pub fn install() -> io::Result<()> {
    if ALARM.load(Ordering::SeqCst) >= 0 {
        return Ok(());
    }
    // SAFETY: a plain call; the result is checked.
    let alarm = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if alarm < 0 {
        return Err(io::Error::last_os_error());
    }
    if ALARM.compare_exchange(-1, alarm, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        // SAFETY: created above, and known to nobody else.
        unsafe { libc::close(alarm) };
        return Ok(());
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all zeros is a valid sigaction; the handler does only what is async-signal-safe.
        let refused = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        };
        if refused < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The signal that ended the run, if one has; the exit code of such a program is 128 + this.
pub fn requested() -> Option<i32> {
    Some(SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// "SIGINT".
pub fn name(signal: i32) -> String {
    signal_name(signal)
}

/// Readable once a signal has come.
pub(crate) fn descriptor() -> Option<BorrowedFd<'static>> {
    let alarm = ALARM.load(Ordering::SeqCst);
    // SAFETY: once installed, the descriptor stays open as long as the process lives.
    (alarm >= 0).then(|| unsafe { BorrowedFd::borrow_raw(alarm) })
}

/// Only atomics and system calls: it may interrupt anything.
extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: the location of this thread's errno, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let now = monotonic_ns();
    if SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        SINCE.store(now, Ordering::SeqCst);
        let one = 1_u64;
        // SAFETY: writes eight bytes from a local variable to the eventfd.
        unsafe { libc::write(ALARM.load(Ordering::SeqCst), std::ptr::from_ref(&one).cast(), size_of::<u64>()) };
    } else if now.saturating_sub(SINCE.load(Ordering::SeqCst)) > SAME {
        // SAFETY: back to the default, which is to die; the signal is delivered when this handler returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid out-pointer, and this clock exists on every supported kernel.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
