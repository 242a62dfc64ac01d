//! Which call each rank is in, and for which ranks it waits there.

use std::collections::{BTreeMap, BTreeSet};

use trace::timeline::synchronises;

use super::read::BATCH;
use super::ring::{FlightEntry, FlightRank};

#[cfg(test)]
mod tests;

/// A rank that is in a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The rank.
    pub rank: u32,
    /// The oldest of its calls that have not ended.
    pub call: FlightEntry,
    /// Ranks that it waits for. Empty: every rank that has a dump is in the call.
    pub awaits: Vec<u32>,
}

/// The collectives of one rank in one communicator, by number.
pub(super) type Calls<'r> = BTreeMap<u64, &'r FlightEntry>;

/// What a call is to the ranks that take part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallRole<'r> {
    /// A communicator and the number in it.
    Collective(&'r str, u64),
    /// A communicator, sender, receiver, and the place among their transfers that have not ended.
    Transfer(&'r str, u32, u32, usize),
    /// A transfer of a rank that does not say with whom: the rank and the number in its ring.
    Unknown(u32, u64),
}

/// The dumps of all ranks, in the order in which they are asked.
pub(super) struct Dumps<'r> {
    /// Collectives by communicator and rank.
    pub(super) groups: BTreeMap<&'r str, BTreeMap<u32, Calls<'r>>>,
    /// Ranks of a communicator that have no dump.
    absent: BTreeMap<&'r str, Vec<u32>>,
    /// Transfers that have not ended, by communicator, sender and receiver: those of the sender, those of the receiver.
    pub(super) transfers: BTreeMap<(&'r str, u32, u32), [Vec<&'r FlightEntry>; 2]>,
    /// The oldest call of each rank that has not ended.
    pub(super) at: BTreeMap<u32, (CallRole<'r>, &'r FlightEntry)>,
    /// The last entry of each rank that has a dump.
    last: BTreeMap<u32, Option<&'r FlightEntry>>,
}

impl<'r> Dumps<'r> {
    /// Sorts the entries of all ranks. `groups` are the communicators that dumps name with their ranks.
    pub(super) fn new(ranks: &'r [FlightRank], groups: &'r [(String, Vec<u32>)]) -> Self {
        let mut dumps = Self {
            groups: collectives(ranks),
            absent: BTreeMap::new(),
            transfers: BTreeMap::new(),
            at: BTreeMap::new(),
            last: ranks.iter().map(|rank| (rank.rank, rank.entries.last())).collect(),
        };
        for (group, members) in groups {
            dumps.add_members(group, members);
        }
        ranks.iter().for_each(|rank| dumps.add_open(rank));
        dumps.add_ends_without_others(ranks);
        dumps
    }

    fn add_members(&mut self, group: &'r str, members: &[u32]) {
        let Some(calls) = self.groups.get_mut(group) else { return };
        let absent = self.absent.entry(group).or_default();
        for rank in members {
            if self.last.contains_key(rank) {
                calls.entry(*rank).or_default();
            } else {
                absent.push(*rank);
            }
        }
        absent.sort_unstable();
        absent.dedup();
    }

    /// Notes the calls of a rank that have not ended.
    fn add_open(&mut self, rank: &'r FlightRank) {
        let age = |entry: &FlightEntry| (entry.created_ns, entry.record);
        let mut open: Vec<(CallRole<'r>, &'r FlightEntry)> = Vec::new();
        for (group, calls) in &self.groups {
            let Some(calls) = calls.get(&rank.rank) else { continue };
            let not_ended = calls.iter().filter(|(_, entry)| !entry.is_finished);
            open.extend(not_ended.map(|(sequence, entry)| (CallRole::Collective(group, *sequence), *entry)));
        }
        for entry in rank.entries.iter().filter(|entry| entry.is_p2p && !entry.is_finished && entry.operation != BATCH)
        {
            let group = entry.group.as_str();
            let Some((from, to)) = entry.peers else {
                open.push((CallRole::Unknown(rank.rank, entry.record), entry));
                continue;
            };
            let side = usize::from(to == rank.rank);
            let of_pair = &mut self.transfers.entry((group, from, to)).or_default()[side];
            open.push((CallRole::Transfer(group, from, to, of_pair.len()), entry));
            of_pair.push(entry);
        }
        if let Some(oldest) = open.into_iter().min_by_key(|(_, entry)| age(entry)) {
            self.at.insert(rank.rank, oldest);
        }
    }

    /// A collective that not all ranks reached cannot have ended. A dump that was written after the time limit says so.
    fn add_ends_without_others(&mut self, ranks: &'r [FlightRank]) {
        for rank in ranks {
            let Some(last) = rank.entries.last().filter(|last| !last.is_p2p && synchronises(&last.operation)) else {
                continue;
            };
            let others = || self.groups.get(last.group.as_str()).into_iter().flatten();
            if !self.at.contains_key(&rank.rank) && others().any(|(_, calls)| !has_reached(calls, last.sequence)) {
                self.at.insert(rank.rank, (CallRole::Collective(&last.group, last.sequence), last));
            }
        }
    }

    /// The ranks that a rank waits for in the call that it is in.
    pub(super) fn awaits(&self, rank: u32) -> Vec<u32> {
        let Some((call, _)) = self.at.get(&rank) else { return Vec::new() };
        match call {
            CallRole::Collective(group, sequence) => {
                let members = self.groups.get(group).into_iter().flatten();
                let late = members.filter(|(_, calls)| match calls.get(sequence) {
                    // A rank that is in an older call gets to this one later.
                    Some(entry) => !entry.is_finished,
                    None => !has_reached(calls, *sequence),
                });
                late.map(|(other, _)| *other).filter(|other| *other != rank && !self.is_in(*other, call)).collect()
            }
            CallRole::Transfer(group, from, to, place) => {
                let (other, side) = if *from == rank { (*to, 1) } else { (*from, 0) };
                let sides = self.transfers.get(&(*group, *from, *to));
                let has_begun = sides.is_some_and(|sides| sides[side].len() > *place);
                // Transfers of one rank run at the same time as each other, and after a collective.
                let is_behind = matches!(self.at.get(&other), Some((CallRole::Collective(..), _)));
                let is_late = self.last.contains_key(&other) && (!has_begun || is_behind);
                is_late.then_some(other).into_iter().collect()
            }
            CallRole::Unknown(..) => Vec::new(),
        }
    }

    /// Ranks without a dump that take part in a call.
    pub(super) fn absent(&self, call: &CallRole<'r>) -> Vec<u32> {
        match call {
            CallRole::Collective(group, _) => self.absent.get(group).cloned().unwrap_or_default(),
            CallRole::Transfer(_, from, to, _) => {
                [*from, *to].into_iter().filter(|rank| !self.last.contains_key(rank)).collect()
            }
            CallRole::Unknown(..) => Vec::new(),
        }
    }

    /// Whether this is the call that a rank is in.
    pub(super) fn is_in(&self, rank: u32, call: &CallRole<'r>) -> bool {
        self.at.get(&rank).is_some_and(|(own, _)| own == call)
    }

    /// Ranks that entered a call.
    pub(super) fn entered(&self, call: &CallRole<'r>) -> Vec<u32> {
        match call {
            CallRole::Collective(group, sequence) => {
                let members = self.groups.get(group).into_iter().flatten();
                members.filter(|(_, calls)| has_reached(calls, *sequence)).map(|(rank, _)| *rank).collect()
            }
            other => self.at.iter().filter(|(_, (call, _))| call == other).map(|(rank, _)| *rank).collect(),
        }
    }

    /// The last entry of a rank.
    pub(super) fn last(&self, rank: u32) -> Option<&'r FlightEntry> {
        self.last.get(&rank).copied().flatten()
    }

    /// All ranks that have a dump.
    pub(super) fn ranks(&self) -> BTreeSet<u32> {
        self.last.keys().copied().collect()
    }
}

/// Whether a rank has called this collective, or one after it.
fn has_reached(calls: &Calls<'_>, sequence: u64) -> bool {
    calls.last_key_value().is_some_and(|(last, _)| *last >= sequence)
}

fn collectives(ranks: &[FlightRank]) -> BTreeMap<&str, BTreeMap<u32, Calls<'_>>> {
    let mut groups: BTreeMap<&str, BTreeMap<u32, Calls<'_>>> = BTreeMap::new();
    for rank in ranks {
        for entry in rank.entries.iter().filter(|entry| !entry.is_p2p) {
            let calls = groups.entry(&entry.group).or_default().entry(rank.rank).or_default();
            calls.insert(entry.sequence, entry);
        }
    }
    groups
}
