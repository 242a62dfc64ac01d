//! What rings of several ranks say together: who did not arrive, who called something else, what did not end.

use std::collections::{BTreeMap, BTreeSet};

use super::{FlightEntry, FlightRank, Frame};

/// Something wrong with one call of one communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// The communicator.
    pub group: String,
    /// The number of the collective in it.
    pub sequence: u64,
    /// What it is.
    pub operation: String,
    /// Dimensions of each input.
    pub input_sizes: Vec<Vec<u64>>,
    /// Element type of each input.
    pub input_dtypes: Vec<String>,
    /// Ranks that entered it.
    pub arrived: Vec<u32>,
    /// Where the first of these ranks called it, innermost first.
    pub frames: Vec<Frame>,
    /// The other ranks of the communicator.
    pub missing: Vec<Missing>,
}

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Some ranks entered it, and others never did.
    NotReached,
    /// Ranks called different operations, or sizes that do not fit.
    Mismatch,
    /// Every rank that has a dump entered it, and it did not end on some of them.
    NotFinished,
}

/// A rank that did not enter a call, called something else, or did not end it; by the problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The rank.
    pub rank: u32,
    /// The call of this communicator that is its last, or that it made instead. None: it made none that the ring still holds.
    pub last: Option<FlightEntry>,
}

/// The collectives of one rank in one communicator, by number.
type Calls<'r> = BTreeMap<u64, &'r FlightEntry>;

/// Findings of all communicators.
pub(super) fn find(ranks: &[FlightRank], groups: &[(String, Vec<u32>)]) -> Vec<Finding> {
    let mut by_group: BTreeMap<&str, BTreeMap<u32, Calls<'_>>> = BTreeMap::new();
    for rank in ranks {
        for entry in rank.entries.iter().filter(|entry| !entry.is_p2p) {
            let calls = by_group.entry(&entry.group).or_default().entry(rank.rank).or_default();
            calls.insert(entry.sequence, entry);
        }
    }
    let files: BTreeSet<u32> = ranks.iter().map(|rank| rank.rank).collect();
    for (group, members) in groups {
        if let Some(calls) = by_group.get_mut(group.as_str()) {
            for rank in members.iter().filter(|rank| files.contains(rank)) {
                calls.entry(*rank).or_default();
            }
        }
    }
    let mut findings = Vec::new();
    for (group, calls) in &by_group {
        let found = not_reached(group, calls);
        findings.extend(mismatch(group, calls));
        if found.is_empty() {
            findings.extend(not_finished(group, calls));
        }
        findings.extend(found);
    }
    findings.sort_by(|a, b| (a.problem, &a.group, a.sequence).cmp(&(b.problem, &b.group, b.sequence)));
    findings
}

fn finding(problem: Problem, group: &str, entry: &FlightEntry) -> Finding {
    Finding {
        problem,
        group: group.to_owned(),
        sequence: entry.sequence,
        operation: entry.operation.clone(),
        input_sizes: entry.input_sizes.clone(),
        input_dtypes: entry.input_dtypes.clone(),
        arrived: Vec::new(),
        frames: entry.frames.clone(),
        missing: Vec::new(),
    }
}

fn last(calls: &Calls<'_>) -> Option<u64> {
    calls.last_key_value().map(|(sequence, _)| *sequence)
}

/// Ranks that stopped before others. Ranks that stopped at the same call are one finding.
fn not_reached(group: &str, calls: &BTreeMap<u32, Calls<'_>>) -> Vec<Finding> {
    let Some(furthest) = calls.values().filter_map(last).max() else { return Vec::new() };
    let stops: BTreeSet<Option<u64>> = calls.values().map(last).filter(|last| *last < Some(furthest)).collect();
    let mut findings = Vec::new();
    for stop in stops {
        // The first call after it that a rank further on still holds.
        let after = |calls: &Calls<'_>| {
            let next = stop.map_or(0, |stop| stop.saturating_add(1));
            calls.range(next..).next().map(|(sequence, _)| *sequence)
        };
        let Some(sequence) = calls.values().filter_map(after).min() else { continue };
        let reached = |calls: &Calls<'_>| last(calls).is_some_and(|last| last >= sequence);
        let Some(entry) = calls.values().find_map(|calls| calls.get(&sequence)) else { continue };
        let mut found = finding(Problem::NotReached, group, entry);
        found.arrived = calls.iter().filter(|(_, calls)| reached(calls)).map(|(rank, _)| *rank).collect();
        let behind = calls.iter().filter(|(_, calls)| last(calls) == stop);
        found.missing = behind
            .map(|(rank, calls)| Missing {
                rank: *rank,
                last: calls.last_key_value().map(|(_, entry)| (*entry).clone()),
            })
            .collect();
        findings.push(found);
    }
    findings
}

/// The first call that ranks disagree on.
fn mismatch(group: &str, calls: &BTreeMap<u32, Calls<'_>>) -> Option<Finding> {
    let mut first: BTreeMap<u64, (u32, &FlightEntry)> = BTreeMap::new();
    let mut odd: BTreeMap<u64, Vec<(u32, &FlightEntry)>> = BTreeMap::new();
    for (rank, calls) in calls {
        for (sequence, entry) in calls {
            let (_, expected) = first.entry(*sequence).or_insert((*rank, entry));
            if !fits(expected, entry) {
                odd.entry(*sequence).or_default().push((*rank, entry));
            }
        }
    }
    let (sequence, others) = odd.into_iter().next()?;
    let (_, expected) = first.get(&sequence)?;
    let mut found = finding(Problem::Mismatch, group, expected);
    let is_odd = |rank: &u32| others.iter().any(|(other, _)| other == rank);
    let holds = calls.iter().filter(|(rank, calls)| calls.contains_key(&sequence) && !is_odd(rank));
    found.arrived = holds.map(|(rank, _)| *rank).collect();
    found.missing = others.into_iter().map(|(rank, entry)| Missing { rank, last: Some(entry.clone()) }).collect();
    Some(found)
}

/// Whether two ranks' entries can be one call. Sizes must be equal where each rank gives as much as any other.
fn fits(a: &FlightEntry, b: &FlightEntry) -> bool {
    let has_equal_sizes = matches!(a.operation.as_str(), "all_reduce" | "reduce" | "broadcast" | "reduce_scatter");
    let elements = |entry: &FlightEntry| -> u64 {
        let of = |sizes: &Vec<u64>| sizes.iter().fold(1_u64, |product, size| product.saturating_mul(*size));
        entry.input_sizes.iter().map(of).fold(0, u64::saturating_add)
    };
    a.operation == b.operation && (!has_equal_sizes || elements(a) == elements(b))
}

/// The first call that all ranks entered and that did not end everywhere.
fn not_finished(group: &str, calls: &BTreeMap<u32, Calls<'_>>) -> Option<Finding> {
    let open = calls.values().flat_map(|calls| calls.values()).filter(|entry| !entry.is_finished);
    let entry = open.min_by_key(|entry| entry.sequence)?;
    let mut found = finding(Problem::NotFinished, group, entry);
    for (rank, calls) in calls {
        match calls.get(&entry.sequence) {
            Some(call) if !call.is_finished => {
                found.missing.push(Missing { rank: *rank, last: Some((*call).clone()) });
            }
            _ => found.arrived.push(*rank),
        }
    }
    Some(found)
}
