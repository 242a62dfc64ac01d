//! A process that a launcher of others started: it joins its coordinator, starts a rank for each world that it is told
//! of, and ends with the run's exit code. The one of rank 0 starts the coordinator.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::control::ToRank;
use crate::interrupt;
use crate::launcher::leave_with;
use crate::placement::host_name;
use crate::poll::{Interest, PollSet};
use crate::process::Process;
use crate::rank::{Departure, RankChannel, join};
use crate::starter::{become_rank, keep_children, own_name};

use super::{Adoption, notice};

/// The hidden argument of a coordinator that the post of rank 0 starts; what follows it is the user's.
const COORDINATOR: &str = "__coordinator";

/// Between two looks for the coordinator.
const LOOK: Duration = Duration::from_millis(20);

/// How long one attempt to join may take: the file may be that of a coordinator which is gone.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Whether these arguments (with the program's name) are those of a coordinator that a post started.
pub fn is_coordinator(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|argument| argument == OsStr::new(COORDINATOR))
}

/// The arguments that the user gave, without the hidden one.
pub fn coordinator_arguments(arguments: &[OsString]) -> Vec<OsString> {
    arguments.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, argument)| argument.clone()).collect()
}

/// The life of a post. Gives the exit code of the run. To be called on the main thread.
///
/// # Errors
/// Why it ended otherwise; [`Departure::Lost`] when the coordinator is gone, of which only the post of rank 0 should speak.
pub fn serve(adoption: &Adoption, arguments: &[OsString], limit: Duration) -> Result<u8, Departure> {
    interrupt::install().map_err(Departure::System)?;
    keep_children().map_err(Departure::System)?;
    let mut coordinator = if adoption.rank == 0 { Some(start_coordinator(arguments)?) } else { None };
    if let Some(child) = &coordinator {
        forward_signals(child.id()).map_err(Departure::System)?;
    }
    let dismissed = match arrive(adoption, coordinator.as_mut(), limit) {
        Ok(mut channel) => obey(&mut channel),
        Err(departure) => Err(departure),
    };
    match coordinator {
        // It may be at its last words.
        Some(mut child) => {
            let status = child.wait().map_err(Departure::System)?;
            match (status.code(), status.signal()) {
                (Some(code), _) => Ok(u8::try_from(code).unwrap_or(1)),
                (None, signal) => {
                    let how = signal
                        .map_or_else(|| "ended".to_owned(), |signal| format!("died of {}", interrupt::name(signal)));
                    Err(Departure::CoordinatorDied(how))
                }
            }
        }
        None => dismissed,
    }
}

/// Starts the coordinator, which is asked to end when this process does: it then leaves a valid record.
fn start_coordinator(arguments: &[OsString]) -> Result<Child, Departure> {
    let parent = std::process::id();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(own_name()).arg(COORDINATOR).args(arguments.iter().skip(1)).stdin(Stdio::null());
    // A group of its own: what the launcher sends to this one is passed on, once.
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec and makes system calls only: no allocation, no locks.
    unsafe { command.pre_exec(move || leave_with(parent)) };
    command.spawn().map_err(Departure::System)
}

/// A thread that passes the first signal of the launcher on to the coordinator.
fn forward_signals(coordinator: u32) -> io::Result<()> {
    let process = Process::watch(coordinator)?;
    let wait = move || {
        let mut polls = PollSet::default();
        while interrupt::requested().is_none() {
            polls.clear();
            let Some(alarm) = interrupt::descriptor() else { return };
            polls.add(alarm, Interest::Read);
            let ended = polls.add(process.descriptor(), Interest::Read);
            if polls.wait(None).is_err() || polls.happened(ended) {
                return;
            }
        }
        process.ask_to_end();
    };
    std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10).spawn(wait).map(drop)
}

/// Finds the coordinator and joins it.
pub(super) fn arrive(
    adoption: &Adoption,
    mut coordinator: Option<&mut Child>,
    limit: Duration,
) -> Result<RankChannel, Departure> {
    let deadline = Instant::now() + limit;
    let host = host_name();
    loop {
        let why = match notice::read(&adoption.folder, &adoption.job) {
            Err(why) => Departure::NoCoordinator { launcher: adoption.launcher(), rank: adoption.rank, cause: why },
            Ok(mut notice) => {
                let said = notice.invitation.spec.ranks;
                if said != adoption.size {
                    let message = format!("its launcher started {said} ranks, and that of this one {}", adoption.size);
                    return Err(Departure::Refused(message));
                }
                notice.invitation.patience = ATTEMPT;
                match join(&notice.invitation, adoption.rank, &host) {
                    Err(refused @ Departure::Refused(_)) => return Err(refused),
                    Err(other) => other,
                    Ok(channel) => return Ok(channel),
                }
            }
        };
        // It has said itself what is wrong.
        let gone = coordinator.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        if gone || Instant::now() >= deadline {
            return Err(why);
        }
        std::thread::sleep(LOOK);
    }
}

/// Starts ranks until the run is over.
fn obey(channel: &mut RankChannel) -> Result<u8, Departure> {
    let mut rank: Option<Child> = None;
    loop {
        let message = channel.receive();
        // Of the world before; it has left, or was killed.
        if let Some(mut child) = rank.take() {
            if message.is_err() {
                // Its guardian has noticed, too, and gives its collective a moment to end.
                let deadline = Instant::now() + ATTEMPT;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(LOOK);
                }
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        match message? {
            ToRank::Serve { argument, environment } => rank = Some(start_rank(&argument, &environment)?),
            ToRank::Dismissed(code) => return Ok(code),
            _ => return Err(Departure::Protocol("a message that is out of place".to_owned())),
        }
    }
}

fn start_rank(argument: &str, environment: &[(String, String)]) -> Result<Child, Departure> {
    let parent = std::process::id();
    // What ranks and their libraries print goes where the launcher collects errors: standard output is the record's.
    // SAFETY: the descriptor is open as long as this process lives; a copy of it is made.
    let errors = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let errors = errors.try_clone_to_owned().map_err(Departure::System)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(own_name()).arg(argument).stdin(Stdio::null()).stdout(errors);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // A group of its own: only the coordinator ends it in order.
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec and makes system calls only: no allocation, no locks.
    unsafe { command.pre_exec(move || become_rank(parent, &[], None)) };
    command.spawn().map_err(Departure::System)
}
