//! Processes as /proc shows them, and signals sent to exactly the one that is meant.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The hidden argument by which a rank process knows which one it is.
const RANK_ARGUMENT: &str = "__rank=";

/// A rank process of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankProcess {
    pub(crate) rank: u32,
    pub(crate) pid: u32,
}

fn all() -> Vec<u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Children of a process, which its main thread started. Kernels that do not list them are asked for all processes.
fn children(pid: u32) -> Vec<u32> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(listed) => listed.split_whitespace().filter_map(|child| child.parse().ok()).collect(),
        Err(_) => all(),
    }
}

/// State letter and parent of a process; None when it is gone.
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process is there and not a zombie.
pub(crate) fn runs(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The living rank processes of this coordinator that have become ranks (a child between fork and exec has not).
pub(crate) fn ranks_of(coordinator: u32) -> Vec<RankProcess> {
    let rank_of = |pid: u32| {
        let (state, parent) = state_and_parent(pid)?;
        if parent != coordinator || state == 'Z' {
            return None;
        }
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let rank = line.split('\0').find_map(|argument| argument.strip_prefix(RANK_ARGUMENT))?;
        Some(RankProcess { rank: rank.split(',').next()?.parse().ok()?, pid })
    };
    let mut found: Vec<RankProcess> = children(coordinator).into_iter().filter_map(rank_of).collect();
    found.sort_by_key(|process| process.rank);
    found
}

/// Living processes that were started with this entry (`NAME=value`) in their environment.
pub(crate) fn marked(entry: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
    };
    all().into_iter().filter(has).filter(|pid| runs(*pid)).collect()
}

/// Waits until `done` or the limit; tells whether it is done.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process held by a pidfd, so that a reused number is never hit.
pub(crate) struct Aim(OwnedFd);

impl Aim {
    /// Aims at a process; None when it is gone.
    pub(crate) fn at(pid: u32) -> Option<Self> {
        // SAFETY: a plain system call; the result is checked.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        // SAFETY: a descriptor that was made just now and belongs to nobody else.
        (descriptor >= 0).then(|| Self(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) }))
    }

    /// Sends the signal.
    pub(crate) fn send(&self, signal: i32) -> io::Result<()> {
        let none: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: a plain system call on an open pidfd.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, none, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether a process was started as the coordinator of a launcher's ranks.
pub(crate) fn is_coordinator(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).any(|argument| argument == b"__coordinator")
}
