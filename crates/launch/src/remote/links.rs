//! Links that flap: which hosts counted that one went down or came back.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use control::{FromRank, ToRank};

use super::blocked::ask;
use super::{Agents, locked};

/// How long agents may take to answer, all together.
const ANSWERS: Duration = Duration::from_secs(1);

/// The host, the interface and how often, as the first agent of each host says.
pub(crate) fn link_changes(agents: &Agents) -> Vec<(String, String, u64)> {
    let mut agents = locked(agents);
    let mut hosts: HashSet<String> = HashSet::new();
    let there = agents.iter().enumerate().filter(|(_, agent)| agent.lost.is_none());
    let first: Vec<usize> = there.filter(|(_, agent)| hosts.insert(agent.host.clone())).map(|(at, _)| at).collect();
    let asked = ask(&mut agents, &first, |number, _| ToRank::Links(number));
    let deadline = Instant::now() + ANSWERS;
    // No world is there to tell what else they say.
    let (mut heard, mut found) = (Vec::new(), Vec::new());
    for (at, number) in asked {
        let agent = &mut agents[at];
        if let Some(FromRank::Links { changed, .. }) = agent.answer(number, deadline, &mut heard) {
            found.extend(changed.into_iter().map(|(interface, count)| (agent.host.clone(), interface, count)));
        }
    }
    found
}
