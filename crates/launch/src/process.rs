//! One child process: watched, killed and reaped through its pidfd, so that a reused process number is never hit.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Somehow: it was another's child, and only that one knows.
    Unknown,
}

/// A process of this host: a child that nobody else reaps, leader of its own process group, or another's child.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    descriptor: OwnedFd,
    exit: Option<Exit>,
    /// Not our child: nothing to reap.
    foreign: bool,
}

impl Process {
    /// Watches a child that was started just now and not waited for, so that its number is still its own.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub(crate) fn watch(pid: u32) -> io::Result<Self> {
        Self::open(pid, false)
    }

    /// Watches another's child, which has said its number just now over a connection that it holds.
    ///
    /// # Errors
    /// When there is no such process any more, or the system has no descriptors left.
    pub(crate) fn watch_foreign(pid: u32) -> io::Result<Self> {
        Self::open(pid, true)
    }

    fn open(pid: u32, foreign: bool) -> io::Result<Self> {
        // SAFETY: a plain system call; the result is checked.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was created just now (closed on exec, as all pidfds) and belongs to nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) };
        Ok(Self { pid, descriptor, exit: None, foreign })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Readable once the process has ended.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// How it ended; None while it runs. What it started itself and left behind in its group is killed before it is
    /// reaped: until then the group's number cannot be reused.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_some() {
            return self.exit;
        }
        if self.foreign {
            self.exit = self.is_over().then_some(Exit::Unknown);
            return self.exit;
        }
        self.wait(libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?;
        // SAFETY: a plain call; the group is this child's own and cannot be another's before the child is reaped.
        unsafe { libc::kill(-(self.pid as libc::pid_t), libc::SIGKILL) };
        self.exit = self.wait(libc::WEXITED | libc::WNOHANG);
        self.exit
    }

    /// Whether its descriptor says that it has ended.
    fn is_over(&self) -> bool {
        let mut entry = libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which outlives the call, and no waiting.
        unsafe { libc::poll(&mut entry, 1, 0) > 0 }
    }

    /// How it ended, as far as [`Process::exit`] has found out.
    pub(crate) fn known_exit(&self) -> Option<Exit> {
        self.exit
    }

    fn wait(&self, options: libc::c_int) -> Option<Exit> {
        // SAFETY: all zeros is a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = self.descriptor.as_raw_fd() as libc::id_t;
        // SAFETY: `info` is a valid out-pointer.
        if unsafe { libc::waitid(libc::P_PIDFD, id, &mut info, options) } < 0 {
            // Reaped by somebody else, which nobody in this program does: it is gone, and how is not known any more.
            let reaped = io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
            return reaped.then_some(Exit::Code(0));
        }
        // SAFETY: waitid filled the fields of SIGCHLD, or left zeros when nothing has ended.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        match (pid, info.si_code) {
            (0, _) => None,
            (_, libc::CLD_EXITED) => Some(Exit::Code(status)),
            _ => Some(Exit::Signal(status)),
        }
    }

    /// Kills it; a process that has ended already is not an error.
    pub(crate) fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    /// Asks it to end, so that it takes with it what it started.
    pub(crate) fn ask_to_end(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Sends it a signal; to one that has ended there is nothing to send.
    pub(crate) fn signal(&self, signal: libc::c_int) {
        let none: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: a plain system call on an open pidfd.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.descriptor.as_raw_fd(), signal, none, 0);
        }
    }

    /// Whether it is stopped (SIGSTOP, a terminal's stop), as /proc tells. A debugger's stop ('t') does not count.
    pub(crate) fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        state_of(&stat) == Some('T')
    }
}

/// The state letter of a /proc/PID/stat line. The name before it may hold any character, so the last `)` ends it.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_behind_any_name() {
        assert_eq!(state_of("12 (rank) S 1 2"), Some('S'));
        assert_eq!(state_of("12 (a) R (b)) T 1 2"), Some('T'));
        assert_eq!(state_of(""), None);
    }
}
