//! Why a run is to end before its plan does: Ctrl-C and the other signals that ask for it (SIGINT, SIGTERM, SIGHUP), or
//! what [`stop`] was told. The first ends what is in flight and lets the run end in order; a second signal ends the
//! process at once, and the kernel ends its ranks.
//!
//! Signal dispositions belong to the whole process, so this is process-wide state; only a coordinator installs it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::verdict::signal_name;

/// An eventfd that is readable from the first signal or [`stop`] on, for ever. -1: not installed.
static ALARM: AtomicI32 = AtomicI32::new(-1);
/// The first signal.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// When it came, in nanoseconds of CLOCK_MONOTONIC.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Why the run ends, where no signal asked for it.
static STOPPED: OnceLock<String> = OnceLock::new();

/// A second signal this soon is the first one once more: a terminal and a wrapper (`timeout`, `cargo run`) may both
/// deliver it.
const SAME: u64 = 200_000_000;

/// Handles SIGINT, SIGTERM and SIGHUP from now on: worlds answer [`measure::VerdictKind::Interrupted`]. A SIGHUP that is
/// ignored stays ignored: that is what `nohup` is for. Once is enough; more calls change nothing.
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
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if signal == libc::SIGHUP && is_ignored(signal)? {
            continue;
        }
        handle(signal, on_signal)?;
    }
    Ok(())
}

/// Lets a write beyond the limit on file sizes (`ulimit -f`) fail with an error. Without a handler SIGXFSZ ends the
/// process. A handler and not SIG_IGN, which programs that are started would inherit.
///
/// # Errors
/// When the system refuses.
pub fn outlive_file_limit() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    handle(libc::SIGXFSZ, nothing)
}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction; the handlers here do only what is async-signal-safe.
    let refused = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if refused < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeros is a valid sigaction, and the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut action) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(action.sa_sigaction == libc::SIG_IGN)
    }
}

/// Ends the run for this reason: what is in flight fails with it, and nothing more begins. The first reason counts.
pub fn stop(why: String) {
    if STOPPED.set(why).is_ok() {
        ring();
    }
}

/// What [`stop`] was told first.
pub(crate) fn stopped() -> Option<String> {
    STOPPED.get().cloned()
}

/// Why the run is to end, if it is: "interrupted by SIGINT", or what [`stop`] was told.
pub fn why() -> Option<String> {
    requested().map(|signal| format!("interrupted by {}", name(signal))).or_else(stopped)
}

/// The signal that ended the run, if one has; the exit code of such a program is 128 + this.
pub fn requested() -> Option<i32> {
    Some(SIGNAL.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// "SIGINT".
pub fn name(signal: i32) -> String {
    signal_name(signal)
}

/// Readable once a signal has come, or [`stop`] was called.
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
        ring();
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

/// Wakes whoever waits. Async-signal-safe.
fn ring() {
    let one = 1_u64;
    // SAFETY: writes eight bytes from a local variable to the eventfd; without one it is refused.
    unsafe { libc::write(ALARM.load(Ordering::SeqCst), std::ptr::from_ref(&one).cast(), size_of::<u64>()) };
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid out-pointer, and this clock exists on every supported kernel.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
