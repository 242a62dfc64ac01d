//! Which hosts cannot connect to each other: the reason of many a world that never comes up, or hangs in its first operation.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use control::{FromRank, ToRank};
use process::{Interest, PollSet};

use super::{Agent, Remote, locked, take};
use crate::member::Member;
use crate::status::StatusPage;

/// Hosts that are asked: of more, those of the first ranks.
const MOST_HOSTS: usize = 16;
/// Pairs that are named.
const NAMED: usize = 3;
/// How long an agent may take to listen, and then to try all others.
const LISTENS: Duration = Duration::from_secs(1);
const TRIES: Duration = Duration::from_secs(4);

/// A host that listens: its agent's rank, and where.
struct Listening {
    rank: usize,
    host: String,
    place: SocketAddr,
}

impl Remote {
    /// "h1 (rank 1) cannot connect to h2 (rank 2) at 10.0.0.3 port 40123: no answer within 2 s". None where all hosts that answer
    /// reach each other.
    pub(crate) fn blocked(&mut self, members: &mut [Member], page: &StatusPage) -> Option<String> {
        let agents = self.agents.clone();
        let mut agents = locked(&agents);
        let ranks = self.first_ranks(&agents);
        let asked = ask(&mut agents, &ranks, |number, _| ToRank::Listen(number));
        let listening: Vec<Listening> = self
            .answers(&mut agents, &asked, LISTENS, (&mut *members, page))
            .into_iter()
            .filter_map(|(rank, answer)| match answer {
                FromRank::Listens { place, .. } => {
                    Some(Listening { rank, host: agents[rank].host.clone(), place: place? })
                }
                _ => None,
            })
            .collect();
        if listening.len() < 2 {
            return None;
        }
        let places: Vec<SocketAddr> = listening.iter().map(|one| one.place).collect();
        let ranks: Vec<usize> = listening.iter().map(|one| one.rank).collect();
        let asked = ask(&mut agents, &ranks, |number, _| ToRank::Reach { number, places: places.clone() });
        let mut found = Vec::new();
        for (rank, answer) in self.answers(&mut agents, &asked, TRIES, (members, page)) {
            let FromRank::Reached { failures, .. } = answer else { continue };
            for (to, why) in failures {
                let Some(to) = listening.get(to as usize) else { continue };
                found.push(sentence((rank, &agents[rank].host), to, &why));
            }
        }
        let more = found.len().saturating_sub(NAMED);
        found.truncate(NAMED);
        let more = if more > 0 { format!("; and {more} more pairs of hosts") } else { String::new() };
        (!found.is_empty()).then(|| format!("{}{more}", found.join("; ")))
    }

    /// The first rank of each host that this world has.
    fn first_ranks(&self, agents: &[Agent]) -> Vec<usize> {
        let mut hosts: Vec<&str> = Vec::new();
        let mut first = Vec::new();
        for rank in self.ranks.iter().map(|rank| rank.number as usize) {
            let Some(agent) = agents.get(rank).filter(|agent| agent.lost.is_none()) else { continue };
            if !hosts.contains(&agent.host.as_str()) && first.len() < MOST_HOSTS {
                hosts.push(&agent.host);
                first.push(rank);
            }
        }
        first
    }

    /// What those who were asked answer within this time; what else they say counts as ever.
    fn answers(
        &mut self,
        agents: &mut [Agent],
        asked: &[(usize, u32)],
        limit: Duration,
        (members, page): (&mut [Member], &StatusPage),
    ) -> Vec<(usize, FromRank)> {
        let deadline = Instant::now() + limit;
        let mut all = Vec::new();
        for (rank, number) in asked {
            let agent = &mut agents[*rank];
            let answer = agent.answer(*number, deadline, &mut self.inbox);
            if let Some(member) = members.get_mut(*rank) {
                for message in self.inbox.drain(..) {
                    take(message, &self.world, member, page, agent);
                }
            }
            self.inbox.clear();
            all.extend(answer.map(|answer| (*rank, answer)));
        }
        all
    }
}

fn sentence((rank, host): (usize, &str), to: &Listening, why: &str) -> String {
    let (address, port) = (to.place.ip(), to.place.port());
    format!("{host} (rank {rank}) cannot connect to {} (rank {}) at {address} port {port}: {why}", to.host, to.rank)
}

/// Asks all of them at once. Gives the number of each question.
pub(super) fn ask(agents: &mut [Agent], ranks: &[usize], question: impl Fn(u32, usize) -> ToRank) -> Vec<(usize, u32)> {
    let mut asked = Vec::new();
    for rank in ranks {
        let agent = &mut agents[*rank];
        agent.asked = agent.asked.wrapping_add(1);
        let number = agent.asked;
        if agent.send(&question(number, *rank)) {
            asked.push((*rank, number));
        }
    }
    asked
}

impl Agent {
    /// The answer to a question, if it comes before the deadline. Any other message goes to `heard`.
    pub(super) fn answer(&mut self, asked: u32, deadline: Instant, heard: &mut Vec<FromRank>) -> Option<FromRank> {
        let (mut polls, mut came) = (PollSet::default(), Vec::new());
        let is_answer = |message: &FromRank| match message {
            FromRank::Listens { number, .. } | FromRank::Reached { number, .. } | FromRank::Links { number, .. } => {
                *number == asked
            }
            _ => false,
        };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.lost.is_some() {
                return None;
            }
            polls.clear();
            let interest = if self.connection.is_sending() { Interest::ReadWrite } else { Interest::Read };
            let index = polls.add(self.connection.descriptor(), interest);
            polls.wait(Some(left)).ok()?;
            if polls.happened(index) {
                self.lost = self.connection.flush().and_then(|()| self.connection.receive(&mut came)).err();
            }
            let mut answer = None;
            for message in came.drain(..) {
                if is_answer(&message) {
                    answer = Some(message);
                } else {
                    heard.push(message);
                }
            }
            if answer.is_some() {
                return answer;
            }
        }
    }
}
