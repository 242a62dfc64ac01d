//! Where a hang begins, from the rings of several ranks: who did not arrive, who called something else, what did not end.
//!
//! Each rank that is in a call waits for the ranks that are not. Those that others wait for and that wait nowhere are the
//! cause. All other ranks only wait, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use super::mismatch::{self, Difference, Mismatch};
use super::ring::{FlightEntry, FlightRank, Frame};
use super::waits::{CallRole, Dumps, Waiting};

/// One cause of a hang.
#[derive(Clone, Debug, PartialEq)]
pub struct HangCause {
    /// What is wrong.
    pub problem: Problem,
    /// The call, as one of the ranks that arrived noted it.
    pub call: FlightEntry,
    /// Ranks that entered it, or that agree on it.
    pub arrived: Vec<u32>,
    /// The ranks that cause the hang; by the problem.
    pub missing: Vec<Missing>,
}

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Ranks call different things under one number.
    Mismatch(Difference),
    /// Some ranks entered it, and others did not and wait nowhere.
    NotReached,
    /// Ranks wait for each other in different calls.
    Deadlock,
    /// Every rank that has a dump entered it, and other ranks of the communicator have no dump.
    NoDump,
    /// Every rank entered it, and it did not end on some of them.
    NotFinished,
}

/// A rank that did not enter a call, called something else, or did not end it; by the problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The rank.
    pub rank: u32,
    /// What it called instead, the call that it did not end, or its last call. None: its dump holds none.
    pub last: Option<FlightEntry>,
}

impl HangCause {
    /// Where the first of the ranks that arrived called it, innermost first.
    pub fn frames(&self) -> &[Frame] {
        &self.call.frames
    }
}

/// Causes, and the ranks that wait because of them.
pub(super) fn find(ranks: &[FlightRank], groups: &[(String, Vec<u32>)]) -> (Vec<HangCause>, Vec<Waiting>) {
    let dumps = Dumps::new(ranks, groups);
    let mismatches = mismatch::find(&dumps);
    causes(&dumps, mismatches)
}

/// As [`find`], of calls that nobody numbered while a rank is in none: ranks in different calls may be in different communicators,
/// so these are not compared.
pub(super) fn find_without_comparing(
    ranks: &[FlightRank],
    groups: &[(String, Vec<u32>)],
) -> (Vec<HangCause>, Vec<Waiting>) {
    causes(&Dumps::new(ranks, groups), Vec::new())
}

/// Causes and waiting ranks, with the calls that ranks disagree on.
fn causes(dumps: &Dumps<'_>, mismatches: Vec<Mismatch<'_>>) -> (Vec<HangCause>, Vec<Waiting>) {
    let awaits: BTreeMap<u32, Vec<u32>> = dumps.at.keys().map(|rank| (*rank, dumps.awaits(*rank))).collect();
    let (open, ended): (Vec<_>, Vec<_>) = mismatches.into_iter().partition(|found| found.is_open);
    let mut findings: Vec<HangCause> = open.into_iter().map(of_mismatch).collect();
    findings.extend(not_reached(dumps, &awaits));
    let stuck = stuck(dumps, &awaits, &findings);
    findings.extend(stuck);
    findings.extend(deadlock(dumps, &awaits));
    if findings.is_empty() {
        findings.extend(ended.into_iter().map(of_mismatch));
    }
    findings.sort_by(|a, b| {
        let key = |one: &HangCause| (one.problem, one.call.group.clone(), one.call.sequence);
        key(a).cmp(&key(b))
    });
    let named: BTreeSet<u32> = findings.iter().flat_map(|found| &found.missing).map(|missing| missing.rank).collect();
    let waiting = dumps.at.iter().filter(|(rank, _)| !named.contains(*rank)).map(|(rank, (_, entry))| Waiting {
        rank: *rank,
        call: (*entry).clone(),
        awaits: awaits.get(rank).cloned().unwrap_or_default(),
    });
    (findings, waiting.collect())
}

fn of_mismatch(found: Mismatch<'_>) -> HangCause {
    let missing = found.odd.into_iter().map(|(rank, entry)| Missing { rank, last: Some(entry.clone()) });
    HangCause {
        problem: Problem::Mismatch(found.difference),
        call: found.expected.clone(),
        arrived: found.usual,
        missing: missing.collect(),
    }
}

/// Ranks that others wait for and that are in no call. Those that were awaited first in the same call are one finding.
fn not_reached<'r>(dumps: &Dumps<'r>, awaits: &BTreeMap<u32, Vec<u32>>) -> Vec<HangCause> {
    // The oldest call in which a rank is awaited, and who waits in it.
    let mut causes: BTreeMap<u32, (&CallRole<'r>, &'r FlightEntry)> = BTreeMap::new();
    for (rank, others) in awaits {
        let Some((call, entry)) = dumps.at.get(rank).map(|(call, entry)| (call, *entry)) else { continue };
        for other in others.iter().filter(|other| !dumps.at.contains_key(*other)) {
            let first = causes.entry(*other).or_insert((call, entry));
            if entry.created_ns < first.1.created_ns {
                *first = (call, entry);
            }
        }
    }
    let mut calls: BTreeMap<&CallRole<'r>, (&'r FlightEntry, Vec<u32>)> = BTreeMap::new();
    for (rank, (call, entry)) in causes {
        calls.entry(call).or_insert_with(|| (entry, Vec::new())).1.push(rank);
    }
    let finding = |(call, (entry, ranks)): (&CallRole<'r>, (&FlightEntry, Vec<u32>))| HangCause {
        problem: Problem::NotReached,
        call: entry.clone(),
        arrived: dumps.entered(call),
        missing: ranks.into_iter().map(|rank| Missing { rank, last: dumps.last(rank).cloned() }).collect(),
    };
    calls.into_iter().map(finding).collect()
}

/// Calls in which nobody with a dump is awaited, and that did not end. Transfers of a communicator are one finding.
fn stuck(dumps: &Dumps<'_>, awaits: &BTreeMap<u32, Vec<u32>>, known: &[HangCause]) -> Vec<HangCause> {
    let mut calls: BTreeMap<(&str, bool, u64), Vec<u32>> = BTreeMap::new();
    for (rank, (_, entry)) in dumps.at.iter().filter(|(rank, _)| awaits.get(*rank).is_some_and(Vec::is_empty)) {
        let sequence = if entry.is_p2p { 0 } else { entry.sequence };
        calls.entry((entry.group.as_str(), entry.is_p2p, sequence)).or_default().push(*rank);
    }
    let is_known = |entry: &FlightEntry| {
        let mismatches = known.iter().filter(|one| matches!(one.problem, Problem::Mismatch(_)));
        mismatches.map(|one| &one.call).any(|call| {
            (&call.group, call.is_p2p) == (&entry.group, entry.is_p2p)
                && (entry.is_p2p || call.sequence == entry.sequence)
        })
    };
    let finding = |ranks: Vec<u32>| {
        let (_, first) = dumps.at.get(ranks.first()?)?;
        if is_known(first) {
            return None;
        }
        let of_ranks = ranks.iter().filter_map(|rank| dumps.at.get(rank)).map(|(call, _)| call);
        let absent: BTreeSet<u32> = of_ranks.clone().flat_map(|call| dumps.absent(call)).collect();
        let entered: BTreeSet<u32> = of_ranks.flat_map(|call| dumps.entered(call)).collect();
        let (problem, missing, arrived): (_, Vec<u32>, Vec<u32>) = match absent.is_empty() {
            false => (Problem::NoDump, absent.into_iter().collect(), entered.into_iter().collect()),
            true => {
                let arrived = entered.into_iter().filter(|rank| !ranks.contains(rank)).collect();
                (Problem::NotFinished, ranks, arrived)
            }
        };
        let last = |rank: u32| dumps.at.get(&rank).map(|(_, entry)| (*entry).clone());
        let missing = missing.into_iter().map(|rank| Missing { rank, last: last(rank) }).collect();
        Some(HangCause { problem, call: (*first).clone(), arrived, missing })
    };
    calls.into_values().filter_map(finding).collect()
}

/// Ranks that wait in a circle, which no other cause explains.
fn deadlock(dumps: &Dumps<'_>, awaits: &BTreeMap<u32, Vec<u32>>) -> Option<HangCause> {
    // Ranks from which a cause is reached: one that is in no call, or in a call in which it waits for nobody.
    let mut explained: BTreeSet<u32> = dumps.ranks();
    explained.retain(|rank| awaits.get(rank).is_none_or(Vec::is_empty));
    loop {
        let before = explained.len();
        let reach = |others: &Vec<u32>| others.iter().any(|other| explained.contains(other));
        let more: Vec<u32> = awaits.iter().filter(|(_, others)| reach(others)).map(|(rank, _)| *rank).collect();
        explained.extend(more);
        if explained.len() == before {
            break;
        }
    }
    let start = *awaits.keys().find(|rank| !explained.contains(rank))?;
    let (mut path, mut rank) = (Vec::new(), start);
    while !path.contains(&rank) {
        path.push(rank);
        rank = *awaits.get(&rank)?.first()?;
    }
    let circle = path.split_off(path.iter().position(|known| *known == rank)?);
    let at = |rank: &u32| dumps.at.get(rank).map(|(_, entry)| (*entry).clone());
    Some(HangCause {
        problem: Problem::Deadlock,
        call: circle.first().and_then(at)?,
        arrived: Vec::new(),
        missing: circle.iter().map(|rank| Missing { rank: *rank, last: at(rank) }).collect(),
    })
}
