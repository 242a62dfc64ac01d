//! Ranks that call different things under one number: operations, sizes and element types are compared.

use std::collections::{BTreeMap, BTreeSet};

use super::ring::FlightEntry;
use super::waits::{Calls, Dumps};

/// What ranks disagree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// Ranks call different operations.
    Operation,
    /// Ranks give different numbers of elements.
    Size,
    /// Elements have different types.
    Dtype,
    /// All ranks together give another number of elements than they expect.
    Total,
}

/// A call that ranks disagree on.
pub(super) struct Mismatch<'r> {
    pub(super) difference: Difference,
    /// What most ranks call; of a transfer, what the sender gives.
    pub(super) expected: &'r FlightEntry,
    /// Ranks that call this.
    pub(super) usual: Vec<u32>,
    /// Ranks that call something else.
    pub(super) odd: Vec<(u32, &'r FlightEntry)>,
    /// Whether some rank has not ended it.
    pub(super) is_open: bool,
}

/// The first call of each communicator, and the first transfer of each pair, that ranks disagree on.
pub(super) fn find<'r>(dumps: &Dumps<'r>) -> Vec<Mismatch<'r>> {
    let of_groups = dumps.groups.values().filter_map(first);
    let transfers = dumps.transfers.iter();
    let of_pairs = transfers.filter_map(|((_, from, to), [sends, receives])| {
        let mut pairs = sends.iter().zip(receives);
        pairs.find_map(|(send, receive)| of_pair((*from, *send), (*to, *receive)))
    });
    of_groups.chain(of_pairs).collect()
}

fn first<'r>(calls: &BTreeMap<u32, Calls<'r>>) -> Option<Mismatch<'r>> {
    let numbers: BTreeSet<u64> = calls.values().flat_map(|calls| calls.keys().copied()).collect();
    let mut numbers = numbers.into_iter();
    numbers.find_map(|sequence| {
        let holders = calls.iter().filter_map(|(rank, calls)| Some((*rank, *calls.get(&sequence)?)));
        of_collective(&holders.collect::<Vec<_>>(), calls.len())
    })
}

/// Compares what ranks hold of one collective. `members` is the number of ranks that have a dump.
fn of_collective<'r>(holders: &[(u32, &'r FlightEntry)], members: usize) -> Option<Mismatch<'r>> {
    // Most collectives are equal on all ranks.
    let (_, one) = *holders.first()?;
    let is_open = holders.iter().any(|(_, entry)| !entry.is_finished);
    if let Some(found) = odd_ones(holders, is_open, Difference::Operation, |entry| entry.operation.clone()) {
        return Some(found);
    }
    if has_equal_sizes(one, holders, is_open) {
        if let Some(found) = odd_ones(holders, is_open, Difference::Size, FlightEntry::elements) {
            return Some(found);
        }
    } else if is_all_to_all(one) && holders.len() == members && !has_equal_totals(holders) {
        let usual = holders.iter().map(|(rank, _)| *rank).collect();
        return Some(Mismatch { difference: Difference::Total, expected: one, usual, odd: Vec::new(), is_open });
    }
    // Ranks that give nothing name no type.
    let typed: Vec<_> = holders.iter().filter(|(_, entry)| entry.dtype().is_some()).copied().collect();
    odd_ones(&typed, is_open, Difference::Dtype, |entry| entry.dtype().map(str::to_owned))
}

/// Whether all ranks must give as much as each other. Ranks of an all_to_all may split as they like, so there only a call
/// that has not ended is judged, in which each rank gives as much as it takes.
fn has_equal_sizes(one: &FlightEntry, holders: &[(u32, &FlightEntry)], is_open: bool) -> bool {
    match one.operation.as_str() {
        "all_reduce" | "reduce" | "broadcast" | "reduce_scatter" | "all_gather" | "gather" | "scatter" | "barrier" => {
            true
        }
        _ if is_all_to_all(one) => {
            is_open && holders.iter().all(|(_, entry)| entry.elements() == entry.output_elements())
        }
        _ => false,
    }
}

fn is_all_to_all(entry: &FlightEntry) -> bool {
    matches!(entry.operation.as_str(), "all_to_all" | "all_to_allv")
}

fn has_equal_totals(holders: &[(u32, &FlightEntry)]) -> bool {
    let sum = |of: fn(&FlightEntry) -> u64| holders.iter().map(|(_, entry)| of(entry)).fold(0, u64::saturating_add);
    sum(FlightEntry::elements) == sum(FlightEntry::output_elements)
}

/// The ranks that are not like most others. Of equally many, those like the lowest rank count as usual.
fn odd_ones<'r, T: Ord>(
    holders: &[(u32, &'r FlightEntry)],
    is_open: bool,
    difference: Difference,
    of: impl Fn(&FlightEntry) -> T,
) -> Option<Mismatch<'r>> {
    let mut alike: BTreeMap<T, Vec<(u32, &'r FlightEntry)>> = BTreeMap::new();
    for (rank, entry) in holders {
        alike.entry(of(entry)).or_default().push((*rank, *entry));
    }
    if alike.len() < 2 {
        return None;
    }
    let most =
        |ranks: &Vec<(u32, &FlightEntry)>| (ranks.len(), std::cmp::Reverse(ranks.first().map(|(rank, _)| *rank)));
    let mut all: Vec<Vec<(u32, &'r FlightEntry)>> = alike.into_values().collect();
    all.sort_by_key(|ranks| std::cmp::Reverse(most(ranks)));
    let usual = all.remove(0);
    let (_, expected) = *usual.first()?;
    let mut odd: Vec<(u32, &'r FlightEntry)> = all.into_iter().flatten().collect();
    odd.sort_by_key(|(rank, _)| *rank);
    Some(Mismatch { difference, expected, usual: usual.into_iter().map(|(rank, _)| rank).collect(), odd, is_open })
}

fn of_pair<'r>((from, send): (u32, &'r FlightEntry), (to, receive): (u32, &'r FlightEntry)) -> Option<Mismatch<'r>> {
    let difference = if send.elements() != receive.elements() {
        Difference::Size
    } else if send.dtype().is_some() && receive.dtype().is_some() && send.dtype() != receive.dtype() {
        Difference::Dtype
    } else {
        return None;
    };
    let (usual, odd) = (vec![from], vec![(to, receive)]);
    Some(Mismatch { difference, expected: send, usual, odd, is_open: true })
}
