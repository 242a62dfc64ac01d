//! How a child is started: tied to this process from before its program is loaded, and watched from then on.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getppid, set_parent_process_death_signal, setrlimit, setsid};

use crate::pidfd::Process;
use crate::placement::CoreMask;
use crate::signal;

/// This program, also when its file was replaced since it started.
pub const ITSELF: &str = "/proc/self/exe";

/// The name under which `ps` shows this program.
#[expect(clippy::disallowed_methods, reason = "argument 0 only: children that are this program keep its name")]
pub fn own_name() -> OsString {
    std::env::args_os().next().unwrap_or_else(|| OsString::from("rankmark"))
}

/// What a child does between fork and exec. It leads a process group of its own: a terminal's Ctrl-C and Ctrl-Z reach
/// this process only, which decides.
pub struct Tie {
    /// What the kernel sends it when the *thread* that started it ends.
    at_our_end: Signal,
    leads_session: bool,
    leaves_core_file: bool,
    hears_interrupt: bool,
    cores: Option<CoreMask>,
    kept: Vec<RawFd>,
}

impl Tie {
    /// The kernel kills it when the thread that started it ends.
    pub const fn killed() -> Self {
        Self {
            at_our_end: Signal::KILL,
            leads_session: false,
            leaves_core_file: true,
            hears_interrupt: true,
            cores: None,
            kept: Vec::new(),
        }
    }

    /// The kernel only asks it to end then (SIGTERM), so that it takes with it what it started.
    pub fn asked() -> Self {
        Self { at_our_end: Signal::TERM, ..Self::killed() }
    }

    /// Has the process lead a session, too, if `leads`.
    #[must_use]
    pub fn session(mut self, leads: bool) -> Self {
        self.leads_session = leads;
        self
    }

    /// Has the process leave no file of its whole memory when it aborts.
    #[must_use]
    pub fn without_core_file(mut self) -> Self {
        self.leaves_core_file = false;
        self
    }

    /// Has the process ignore SIGINT.
    #[must_use]
    pub fn deaf_to_interrupt(mut self) -> Self {
        self.hears_interrupt = false;
        self
    }

    /// Has the process run on these cores only. Bound before its program is loaded: the very first page is then near them.
    #[must_use]
    pub fn bound_to(mut self, cores: Option<CoreMask>) -> Self {
        self.cores = cores;
        self
    }

    /// Has the process inherit these descriptors, under their numbers. They must be open until it is started.
    #[must_use]
    pub fn keeping(mut self, descriptors: &[RawFd]) -> Self {
        self.kept = descriptors.to_vec();
        self
    }

    /// Has the command's child do so.
    pub fn apply(self, command: &mut Command) {
        if !self.leads_session {
            command.process_group(0);
        }
        let parent = std::process::id();
        // SAFETY: the closure runs between fork and exec and makes system calls only: no allocation, no locks.
        unsafe { command.pre_exec(move || self.apply_in_child(parent)) };
    }

    /// Async-signal-safe: system calls only, no allocation, no locks.
    fn apply_in_child(&self, parent: u32) -> io::Result<()> {
        if self.leads_session {
            setsid()?;
        }
        set_parent_process_death_signal(Some(self.at_our_end))?;
        // Had the parent died before that, nobody would ever send the signal.
        if getppid().map(|pid| pid.as_raw_pid() as u32) != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        if !self.leaves_core_file {
            // Where this is refused, the file is what it would have been.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        }
        if !self.hears_interrupt {
            signal::ignore(libc::SIGINT)?;
        }
        self.cores.as_ref().map_or(Ok(()), CoreMask::bind_this_thread)?;
        self.kept.iter().try_for_each(|number| {
            // SAFETY: used for one call that changes a flag of the child's own; a wrong number is answered with an error.
            let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
            crate::descriptor::keep_on_exec(descriptor)
        })
    }
}

/// Starts a child, tied so, and watches it. Closes the command's own copies of the descriptors that the child got,
/// without which its pipes would never end.
///
/// # Errors
/// When the system refuses; nothing is left running then.
pub fn spawn(mut command: Command, tie: Tie) -> io::Result<Process> {
    tie.apply(&mut command);
    let mut child = command.spawn()?;
    drop(command);
    Process::watch(child.id()).inspect_err(|_| {
        let _ = child.kill();
        let _ = child.wait();
    })
}
