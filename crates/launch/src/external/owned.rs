//! The rank that an agent owns: its process and how that ended. If the coordinator is on another host, also what the rank
//! opens there, and the reports on it.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use control::{ChannelError, FromRank, Invitation, Nonce, RankChannel, Remote, Secret};
use process::{ITSELF, Interest, PollSet, Process, Tie, own_name, path_of, spawn};

use crate::departure::Departure;
use crate::rank::{Seat, launched_argument};
use crate::status::StatusPage;

/// Between two looks at the status page. The coordinator looks as often at that of its own host.
const LOOK: Duration = Duration::from_millis(500);

/// How long a killed rank may take to be gone.
const REAPING: Duration = Duration::from_secs(5);

/// A rank, a child of this process; killed and reaped when dropped.
pub(super) struct OwnedRank {
    process: Process,
    world: Nonce,
    /// Whether the end of the rank was reported.
    ended: bool,
    remote: Option<Mirror>,
}

/// What is reported on a rank to a coordinator on another host.
struct Mirror {
    rank: u32,
    page: StatusPage,
    /// The invitation and the page, which the rank opens.
    _memory: [File; 2],
    next: Instant,
}

impl OwnedRank {
    /// Starts a rank of the coordinator's host.
    pub(super) fn start(world: Nonce, argument: &str, environment: &[(String, String)]) -> Result<Self, Departure> {
        Ok(Self { process: start(argument, environment)?, world, ended: false, remote: None })
    }

    /// Starts a rank of another host, with what it opens there.
    pub(super) fn start_remote(seat: Seat, rank: u32, run: &Secret, remote: Remote) -> Result<Self, Departure> {
        let Remote { world, address, wait, cores, bound, hosts, co_located, spec, environment, rank: numbered } =
            remote;
        let rank = numbered.unwrap_or(rank);
        let (page, status) = StatusPage::create(spec.ranks).map_err(Departure::System)?;
        if rank >= spec.ranks {
            let why = format!("a world of {} ranks has no rank {rank}", spec.ranks);
            return Err(ChannelError::Protocol(why).into());
        }
        let mut invitation = Invitation::new(address, &run.of_world(&world), wait, (cores, bound), spec);
        (invitation.hosts, invitation.co_located) = (hosts, co_located);
        let invitation = invitation.into_memory().map_err(Departure::System)?;
        let argument = launched_argument(seat, numbered, &path_of(&invitation), &path_of(&status));
        let process = start(&argument, &environment)?;
        let next = Instant::now() + LOOK;
        let mirror = Mirror { rank, page, _memory: [invitation, status], next };
        Ok(Self { process, world, ended: false, remote: Some(mirror) })
    }

    /// Whether this is the rank of that world on another host.
    pub(super) fn is_of(&self, world: &Nonce) -> bool {
        self.remote.is_some() && self.world == *world
    }

    /// Adds what to wait for; tells when to look again.
    pub(super) fn register(&self, polls: &mut PollSet) -> Option<Duration> {
        if self.ended {
            return None;
        }
        polls.add(self.descriptor(), Interest::Read);
        let remote = self.remote.as_ref()?;
        Some(remote.next.saturating_duration_since(Instant::now()))
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.process.descriptor()
    }

    /// Tells the coordinator what there is to tell now.
    pub(super) fn tell(&mut self, channel: &mut RankChannel) -> Result<(), ChannelError> {
        if self.ended {
            return Ok(());
        }
        let (now, exit) = (Instant::now(), self.process.exit());
        if let Some(remote) = self.remote.as_mut().filter(|remote| exit.is_some() || now >= remote.next) {
            remote.next = now + LOOK;
            let stopped = exit.is_none() && self.process.is_stopped();
            let words = remote.page.slot(remote.rank).words();
            channel.send(&FromRank::Shows { world: self.world, words, stopped })?;
        }
        if let Some(exit) = exit {
            self.ended = true;
            channel.send(&FromRank::Ended { world: self.world, pid: self.process.pid(), exit })?;
        }
        Ok(())
    }

    /// Waits until it has ended by itself.
    pub(super) fn await_end(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut polls = PollSet::default();
        while self.process.exit().is_none() && Instant::now() < deadline {
            polls.clear();
            polls.add(self.descriptor(), Interest::Read);
            if polls.wait(Some(deadline.saturating_duration_since(Instant::now()))).is_err() {
                return;
            }
        }
    }

    /// Ends it, if it has not ended.
    pub(super) fn end(&mut self) {
        if self.process.exit().is_none() {
            self.process.kill();
            self.await_end(REAPING);
        }
    }
}

impl Drop for OwnedRank {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(argument: &str, environment: &[(String, String)]) -> Result<Process, Departure> {
    // What ranks and their libraries print goes where the launcher collects errors: standard output is the record's.
    let errors = rustix::stdio::stderr().try_clone_to_owned().map_err(Departure::System)?;
    let mut command = Command::new(ITSELF);
    command.arg0(own_name()).arg(argument).stdin(Stdio::null()).stdout(errors);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // Only the coordinator ends it in order.
    spawn(command, Tie::killed().deaf_to_interrupt().without_core_file()).map_err(Departure::System)
}
