//! One thread of another process, stopped by ptrace for as long as this lives. By `libc`: rustix has no ptrace.

use std::io;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::registers::{self, Registers};

/// A thread that does not stop within this time is in an uninterruptible call.
const STOPPING: Duration = Duration::from_millis(200);
/// Between two looks at whether it has stopped.
const LOOK: Duration = Duration::from_micros(200);
/// `PTRACE_EVENT_STOP`, in the second byte of a stop's status.
const EVENT_STOP: i32 = 128;

/// A thread that is stopped by us. Dropping it lets it go on as it was.
pub(super) struct Seized {
    number: libc::pid_t,
    /// A signal that was about to be delivered when it stopped, and that it gets when it is let go.
    signal: i32,
    /// When it was last known to run.
    pub(super) since: Instant,
}

impl Seized {
    /// Stops the thread.
    ///
    /// # Errors
    /// EPERM when that is not permitted; ESRCH when the thread has ended; a timeout when it does not stop.
    pub(super) fn stop(number: u32, deadline: Instant) -> io::Result<Self> {
        let number = libc::pid_t::try_from(number).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        request(libc::PTRACE_SEIZE, number, 0)?;
        let mut seized = Self { number, signal: 0, since: Instant::now() };
        request(libc::PTRACE_INTERRUPT, number, 0)?;
        seized.await_stop(deadline.min(Instant::now() + STOPPING))?;
        Ok(seized)
    }

    fn await_stop(&mut self, deadline: Instant) -> io::Result<()> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let pid = Pid::from_raw(self.number).ok_or_else(gone)?;
        loop {
            // Stops only: how a process ended stays for the process that reaps it.
            let asked = Instant::now();
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            if let Some(status) = waitid(WaitId::Pid(pid), options)? {
                let status = status.trapping_signal().or_else(|| status.stopping_signal()).ok_or_else(gone)?;
                let event = (status >> 8) & 0xff;
                self.signal = if event == EVENT_STOP { 0 } else { status & 0x7f };
                return Ok(());
            }
            self.since = asked;
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it does not stop: it is inside the kernel, or waits for a core",
                ));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Registers of the thread.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn registers(&self) -> io::Result<Registers> {
        let mut raw = registers::Raw::default();
        let mut part = libc::iovec { iov_base: (&raw mut raw).cast(), iov_len: size_of::<registers::Raw>() };
        // SAFETY: the kernel writes at most `iov_len` bytes to `raw`, which any bytes are valid for.
        let done = unsafe {
            libc::ptrace(libc::PTRACE_GETREGSET, self.number, libc::c_long::from(libc::NT_PRSTATUS), &raw mut part)
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(registers::taken(&raw))
    }
}

impl Drop for Seized {
    fn drop(&mut self) {
        // One that has ended, or that never stopped, is let go when this thread of ours ends.
        let _ = request(libc::PTRACE_DETACH, self.number, self.signal);
    }
}

#[cfg(target_env = "gnu")]
type Request = libc::c_uint;
#[cfg(not(target_env = "gnu"))]
type Request = libc::c_int;

fn request(request: Request, number: libc::pid_t, data: i32) -> io::Result<()> {
    let data: libc::c_long = data.into();
    // SAFETY: requests without memory of ours; a wrong number is answered with an error.
    let done = unsafe { libc::ptrace(request, number, null_mut::<libc::c_void>(), data) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
