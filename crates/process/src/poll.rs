//! Sleeping until one of several descriptors has something to say. Knows descriptors and time, nothing of what they mean.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Descriptors to wait for, and what happened to each. Reused from wait to wait, so that waiting allocates nothing; by
/// `libc`, because a set of rustix borrows its descriptors and cannot outlive one wait.
#[derive(Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

/// What to wait for.
#[derive(Clone, Copy)]
pub enum Interest {
    /// Something to read, the end of the stream, or (for a pidfd) the end of the process.
    Read,
    /// What `Read` waits for, and room to write.
    ReadWrite,
    /// Only that the peer is gone; unread data does not wake.
    Gone,
}

impl PollSet {
    /// Forgets all descriptors.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a descriptor; returns its index in this wait.
    pub fn add(&mut self, descriptor: BorrowedFd<'_>, interest: Interest) -> usize {
        let events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::ReadWrite => libc::POLLIN | libc::POLLOUT,
            Interest::Gone => libc::POLLRDHUP,
        };
        self.entries.push(libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 });
        self.entries.len() - 1
    }

    /// Whether anything happened to the descriptor of this index, errors and hang-ups included.
    pub fn happened(&self, index: usize) -> bool {
        self.entries.get(index).is_some_and(|entry| entry.revents != 0)
    }

    /// Sleeps until something happens, a signal arrives (no entry has happened then), or the time is over. None: no
    /// limit.
    ///
    /// # Errors
    /// When the system refuses, which a correct set never provokes.
    pub fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        // ppoll, not poll: milliseconds would be rounded up on the path of every command.
        let time = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = self.entries.len() as libc::nfds_t;
        // SAFETY: the entries and the time outlive the call, and `count` is the number of entries.
        let happened = unsafe { libc::ppoll(self.entries.as_mut_ptr(), count, time, std::ptr::null()) };
        if happened >= 0 {
            return Ok(());
        }
        self.entries.iter_mut().for_each(|entry| entry.revents = 0);
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
    }
}
