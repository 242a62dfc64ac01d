//! Ranks that a launcher's processes (agents) start, as their coordinator sees them: agents tell how their ranks ended, and on
//! other hosts also what the status pages show there; there they end ranks when they are asked to, and read the clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::{Connection, FromRank, Lost, Nonce, ToRank};
use measure::{ClockReadings, Clocks, HostClock, RoundTrip};
use process::{Interest, PollSet, host_name, interrupt};
use trace::Clock;

use crate::departure::launcher_ended;
use crate::member::Member;
use crate::status::StatusPage;

mod blocked;
mod links;

pub(crate) use links::link_changes;

/// Round trips; the shortest tells a clock. They are enough that some find both processes awake and both ways free.
const TRIPS: usize = 16;

/// How long one may take. A host that answers later is not a host to measure with, or out of reach, which is found out elsewhere.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A process of the launcher that keeps the place of one rank.
pub(crate) struct Agent {
    /// Number of the agent's process on its host.
    pub(crate) pid: u32,
    /// Name of the agent's host.
    pub(crate) host: String,
    pub(crate) connection: Connection,
    /// Why it is not there any more.
    pub(crate) lost: Option<Lost>,
    /// What it said of its host's clock.
    clock: ClockReadings,
    /// Times that it was asked.
    asked: u32,
}

/// The agents of all ranks, in rank order. Shared with the worlds that they have ranks of.
pub(crate) type Agents = Arc<Mutex<Vec<Agent>>>;

/// The agents; a panic elsewhere leaves them as they are.
pub(crate) fn locked(agents: &Agents) -> MutexGuard<'_, Vec<Agent>> {
    agents.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Agent {
    /// One that has proved itself.
    pub(crate) fn new(pid: u32, host: String, connection: Connection) -> Self {
        Self { pid, host, connection, lost: None, clock: ClockReadings::default(), asked: 0 }
    }

    /// "this host", "on node-b".
    pub(crate) fn place(&self) -> String {
        if self.host == host_name() { "this host".to_owned() } else { format!("on {}", self.host) }
    }

    /// Reads its host's clock again. Any other message goes to `heard`.
    fn read_clock(&mut self, heard: &mut Vec<FromRank>) {
        // No further one where one does not come back.
        let trips: Vec<RoundTrip> = (0..TRIPS).map_while(|_| self.round_trip(heard)).collect();
        self.clock.add(&trips);
    }

    fn round_trip(&mut self, heard: &mut Vec<FromRank>) -> Option<RoundTrip> {
        let (clock, mut polls, mut came) = (Clock::default(), PollSet::default(), Vec::new());
        self.asked = self.asked.wrapping_add(1);
        let (deadline, sent_ns) = (Instant::now() + ANSWER_LIMIT, clock.now_ns());
        if !self.send(&ToRank::Clock(self.asked)) {
            return None;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            polls.clear();
            let interest = if self.connection.is_sending() { Interest::ReadWrite } else { Interest::Read };
            let index = polls.add(self.connection.descriptor(), interest);
            polls.wait(Some(left)).ok()?;
            if !polls.happened(index) {
                continue;
            }
            let received = self.connection.flush().and_then(|()| self.connection.receive(&mut came));
            // Not before: what is taken for the end must not be earlier than it was.
            let received_ns = clock.now_ns();
            self.lost = received.err();
            let mut answer = None;
            for message in came.drain(..) {
                match message {
                    FromRank::Clock { number, at_ns } if number == self.asked => answer = Some(at_ns),
                    other => heard.push(other),
                }
            }
            if let Some(remote_ns) = answer {
                return Some(RoundTrip { sent_ns, remote_ns, received_ns });
            }
            if self.lost.is_some() {
                return None;
            }
        }
    }

    /// Sends a message; false when the agent is gone.
    pub(crate) fn send(&mut self, message: &ToRank) -> bool {
        if self.lost.is_none() {
            self.lost = self.connection.send(message).err();
        }
        self.lost.is_none()
    }
}

/// The ranks of one world, and which of them are on other hosts.
pub(crate) struct Remote {
    agents: Agents,
    world: Nonce,
    /// They, ascending.
    ranks: Vec<Rank>,
    inbox: Vec<FromRank>,
}

struct Rank {
    number: u32,
    abroad: bool,
    /// Place of the rank's agent in the current wait.
    watched: Option<usize>,
}

impl Remote {
    /// The remote ranks of this world: whether each rank is on another host, by rank. Hosts are named by the agents.
    pub(crate) fn new(agents: Agents, world: Nonce, abroad: impl Iterator<Item = bool>) -> Self {
        let ranks = (0..).zip(abroad).map(|(number, abroad)| Rank { number, abroad, watched: None }).collect();
        Self { agents, world, ranks, inbox: Vec::new() }
    }

    /// The host of a rank, where it is another one.
    pub(crate) fn host(&self, rank: u32) -> Option<String> {
        self.ranks.iter().find(|own| own.number == rank && own.abroad)?;
        locked(&self.agents).get(rank as usize).map(|agent| agent.host.clone())
    }

    /// Adds what to wait for.
    pub(crate) fn register(&mut self, polls: &mut PollSet) {
        let agents = locked(&self.agents);
        for rank in &mut self.ranks {
            let agent = agents.get(rank.number as usize).filter(|agent| agent.lost.is_none());
            rank.watched = agent.map(|agent| {
                let interest = if agent.connection.is_sending() { Interest::ReadWrite } else { Interest::Read };
                polls.add(agent.connection.descriptor(), interest)
            });
        }
    }

    /// Takes in what agents have reported.
    pub(crate) fn serve(&mut self, polls: &PollSet, members: &mut [Member], page: &StatusPage) {
        let mut agents = locked(&self.agents);
        for Rank { number, abroad, watched } in &self.ranks {
            let (Some(agent), Some(member)) = (agents.get_mut(*number as usize), members.get_mut(*number as usize))
            else {
                continue;
            };
            if agent.lost.is_none() && watched.is_some_and(|index| polls.happened(index)) {
                let heard = agent.connection.flush().and_then(|()| agent.connection.receive(&mut self.inbox));
                agent.lost = heard.err();
            }
            for message in self.inbox.drain(..) {
                take(message, &self.world, member, page, agent);
            }
            match &agent.lost {
                // Nobody else knows whether it was started.
                Some(lost) if member.is_unknown() => member.tell_agent_lost(agent.pid, lost.clone()),
                // Of a rank of this host the kernel tells.
                Some(lost) if *abroad => member.tell_silence(lost.clone()),
                _ => {}
            }
        }
    }

    /// Compares the clocks of these ranks' hosts with this one's: of each host its first rank's agent reads it.
    pub(crate) fn read_clocks(&mut self, members: &mut [Member], page: &StatusPage) -> Clocks {
        let mut agents = locked(&self.agents);
        let mut clocks = Clocks { hosts: Vec::new(), of: vec![None; members.len()] };
        for Rank { number, .. } in self.ranks.iter().filter(|rank| rank.abroad) {
            let (Some(agent), Some(member)) = (agents.get_mut(*number as usize), members.get_mut(*number as usize))
            else {
                continue;
            };
            let known = clocks.hosts.iter().position(|known| known.host == agent.host);
            let index = known.unwrap_or_else(|| {
                agent.read_clock(&mut self.inbox);
                for message in self.inbox.drain(..) {
                    take(message, &self.world, member, page, agent);
                }
                clocks.hosts.push(HostClock { host: agent.host.clone(), fit: agent.clock.fit() });
                clocks.hosts.len() - 1
            });
            if let Some(of) = clocks.of.get_mut(*number as usize) {
                *of = Some(index);
            }
        }
        clocks
    }

    /// Has agents of other hosts end those of their ranks that still run.
    pub(crate) fn end(&mut self, members: &[Member]) {
        let mut agents = locked(&self.agents);
        for Rank { number, .. } in self.ranks.iter().filter(|rank| rank.abroad) {
            let runs = members.get(*number as usize).is_some_and(Member::runs);
            if let Some(agent) = agents.get_mut(*number as usize).filter(|_| runs) {
                agent.send(&ToRank::End(self.world));
            }
        }
    }
}

/// One message of an agent. A report on an earlier world comes too late and does not count.
fn take(message: FromRank, of: &Nonce, member: &mut Member, page: &StatusPage, agent: &Agent) {
    match message {
        FromRank::Shows { world, words, stopped } if world == *of => {
            page.slot(member.rank()).mirror(words);
            member.tell_stopped(stopped);
        }
        FromRank::Ended { world, pid, exit } if world == *of => member.tell_end(pid, exit),
        FromRank::LauncherEnded(title) => interrupt::stop(launcher_ended(&title, &agent.place())),
        _ => {}
    }
}
