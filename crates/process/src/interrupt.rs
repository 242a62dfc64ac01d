//! Why a run is to end before its plan does: Ctrl-C and the other signals that ask for it (SIGINT, SIGTERM, SIGHUP), or
//! a reason that [`stop`] got. The first ends what is in flight and lets the run end in order; a second signal ends the
//! process at once, and the kernel ends its children.
//!
//! Signal dispositions belong to the whole process, so this is process-wide state; only a program that has something to end installs it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::alarm::Alarm;
use crate::signal::{handle, is_ignored, restore, signal_name};

/// Rings from the first signal or [`stop`] on, for ever. None: not installed.
static ALARM: OnceLock<Alarm> = OnceLock::new();
/// The first signal.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// When it came, in nanoseconds of CLOCK_MONOTONIC.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Why the run ends, where no signal asked for it.
static STOPPED: OnceLock<String> = OnceLock::new();

/// The signals that ask for an end.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// A second signal this soon is the first one once more: a terminal and a wrapper (`timeout`, `cargo run`) may both
/// deliver it.
const SAME: u64 = 200_000_000;

/// Handles SIGINT, SIGTERM and SIGHUP from now on: a waiting thread asks [`requested`]. A SIGHUP that is ignored stays
/// ignored: that is what `nohup` is for. Once is enough; more calls change nothing.
///
/// # Errors
/// When the system refuses.
pub fn install() -> io::Result<()> {
    if ALARM.get().is_some() || ALARM.set(Alarm::new()?).is_err() {
        return Ok(());
    }
    for signal in SIGNALS {
        if signal == libc::SIGHUP && is_ignored(signal)? {
            continue;
        }
        handle(signal, on_signal)?;
    }
    Ok(())
}

/// Undoes [`install`]: from now on a signal ends the process at once, because nothing is in flight that must end in order.
/// A SIGHUP that is ignored stays ignored.
///
/// # Errors
/// When the system refuses.
pub fn release() -> io::Result<()> {
    for signal in SIGNALS {
        if !is_ignored(signal)? {
            restore(signal)?;
        }
    }
    Ok(())
}

/// Lets a write beyond the limit on file sizes (`ulimit -f`) fail with an error. Without a handler SIGXFSZ ends the
/// process. A handler and not SIG_IGN, which programs that are started would inherit.
///
/// # Errors
/// When the system refuses.
pub fn outlive_file_limit() -> io::Result<()> {
    handle(libc::SIGXFSZ, nothing)
}

/// Lets SIGUSR1 and SIGUSR2 pass: schedulers send them to all processes of a job, whose program knows what they mean. Without
/// a handler they end this process. A handler and not SIG_IGN, which programs that are started would inherit. They are not
/// passed on: the program of such a job has its own, and would save its state twice.
///
/// # Errors
/// When the system refuses.
pub fn outlive_user_signals() -> io::Result<()> {
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        if !is_ignored(signal)? {
            handle(signal, nothing)?;
        }
    }
    Ok(())
}

extern "C" fn nothing(_: libc::c_int) {}

/// Ends the run for this reason: what is in flight fails with it, and nothing more begins. The first reason counts.
pub fn stop(why: String) {
    if STOPPED.set(why).is_ok() {
        ring();
    }
}

/// The first reason that [`stop`] got.
pub fn stopped() -> Option<String> {
    STOPPED.get().cloned()
}

/// Why the run is to end, if it is: "interrupted by SIGINT", or the reason that [`stop`] got.
pub fn why() -> Option<String> {
    requested().map(|signal| format!("interrupted by {}", signal_name(signal))).or_else(stopped)
}

/// The signal that ended the run, if one has.
pub fn requested() -> Option<i32> {
    Some(SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// The exit code of a program that a signal ended, where one has come: 130 after Ctrl-C.
pub fn exit_code() -> Option<u8> {
    requested().and_then(|signal| u8::try_from(128 + signal).ok())
}

/// Readable once a signal has come, or [`stop`] was called.
pub fn descriptor() -> Option<BorrowedFd<'static>> {
    ALARM.get().map(Alarm::as_fd)
}

/// Only atomics and system calls: it may interrupt anything.
extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: the location of this thread's errno, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let now = monotonic_ns();
    if SIGNAL.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        SINCE.store(now, Ordering::SeqCst);
        ring();
    } else if now.saturating_sub(SINCE.load(Ordering::SeqCst)) > SAME {
        // Back to the default, which is to die; the signal is delivered when this handler returns.
        let _ = restore(signal);
        // SAFETY: a plain call.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Wakes the waiting thread. Async-signal-safe: what is installed is only read.
fn ring() {
    if let Some(alarm) = ALARM.get() {
        alarm.ring();
    }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
