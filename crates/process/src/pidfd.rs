//! One child process: watched, killed and reaped through its pidfd, so that a reused process number is never hit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal, waitid,
};
use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// Ended by itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Somehow: another process or the system waited for it, and only that one knows.
    Unknown,
}

/// A process of this host: a child that nobody else reaps, leader of its own process group, or another's child.
#[derive(Debug)]
pub struct Process {
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
    pub fn watch(pid: u32) -> io::Result<Self> {
        Self::open(pid, false)
    }

    /// Watches another's child, which has said its number just now over a connection that it holds.
    ///
    /// # Errors
    /// When there is no such process any more, or the system has no descriptors left.
    pub fn watch_foreign(pid: u32) -> io::Result<Self> {
        Self::open(pid, true)
    }

    fn open(pid: u32, foreign: bool) -> io::Result<Self> {
        let descriptor = pidfd_open(to_pid(pid)?, PidfdFlags::empty())?;
        Ok(Self { pid, descriptor, exit: None, foreign })
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Readable once the process has ended.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// How it ended; None while it runs. What it started itself and left behind in its group is killed before it is
    /// reaped: until then the group's number cannot be reused.
    pub fn exit(&mut self) -> Option<Exit> {
        if self.exit.is_some() {
            return self.exit;
        }
        if self.foreign {
            self.exit = self.is_over().then_some(Exit::Unknown);
            return self.exit;
        }
        let ended = self.wait(WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?;
        // Of one that was reaped already, the number may be another group's.
        if ended != Exit::Unknown {
            self.kill_group();
        }
        self.exit = self.wait(WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        self.exit
    }

    /// Whether its descriptor says that it has ended.
    fn is_over(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// How it ended, as far as [`Process::exit`] has found out.
    pub fn known_exit(&self) -> Option<Exit> {
        self.exit
    }

    fn wait(&self, options: WaitIdOptions) -> Option<Exit> {
        match waitid(WaitId::PidFd(self.descriptor.as_fd()), options) {
            Ok(ended) => {
                let ended = ended?;
                let code = ended.exit_status().map(Exit::Code);
                code.or_else(|| ended.terminating_signal().map(Exit::Signal))
            }
            // Reaped by somebody else, or by the system where SIGCHLD is ignored: how it ended is not known any more.
            Err(Errno::CHILD) => Some(Exit::Unknown),
            Err(_) => None,
        }
    }

    /// Kills what it started in its group, and itself. Before it is reaped, so that the group is its own.
    pub(crate) fn kill_group(&self) {
        if let (None, false, Ok(group)) = (self.exit, self.foreign, to_pid(self.pid)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Kills it; a process that has ended already is not an error.
    pub fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Asks it to end, so that it takes with it what it started.
    pub fn ask_to_end(&self) {
        self.send(Signal::TERM);
    }

    /// Sends it a signal that has a name; to one that has ended there is nothing to send.
    pub fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.send(signal);
        }
    }

    fn send(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }

    /// Whether it is stopped (SIGSTOP, a terminal's stop), as /proc tells. A debugger's stop ('t') does not count.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        state_and_parent_of(&stat).is_some_and(|(state, _)| state == 'T')
    }
}

fn to_pid(pid: u32) -> io::Result<Pid> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no process has this number"))
}

/// The state letter and the parent of a /proc/PID/stat line. The name before them may hold any character, so the last `)`
/// ends it.
pub(crate) fn state_and_parent_of(stat: &str) -> Option<(char, u32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_no_process_are_refused() {
        for pid in [0, u32::MAX] {
            assert!(Process::watch_foreign(pid).is_err(), "{pid}");
        }
    }

    #[test]
    fn a_child_that_another_waited_for_has_not_succeeded() {
        let mut child = std::process::Command::new("/bin/false").spawn().unwrap();
        let mut process = Process::watch(child.id()).unwrap();
        child.wait().unwrap();
        assert_eq!(process.exit(), Some(Exit::Unknown));
    }

    #[test]
    fn state_is_read_behind_any_name() {
        assert_eq!(state_and_parent_of("12 (name) S 1 2"), Some(('S', 1)));
        assert_eq!(state_and_parent_of("12 (a) R (b)) T 7 2"), Some(('T', 7)));
        assert_eq!(state_and_parent_of(""), None);
    }
}
