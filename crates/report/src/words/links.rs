//! Which partner of rank 0 is slow: `ping_pong` with one after another (`peer: [1, 2, 3]`) shows each way by itself, where
//! a collective is as slow everywhere as its slowest rank.

use std::collections::BTreeMap;

use record::{CaseLine, Caveat, Placement};
use serde_json::Value;

use crate::Run;
use crate::number::{bytes, factor, list};
use crate::study::{Measured, Operation};
use view::plain;

/// A way counts as slow if it certainly takes this many times as long as the quickest.
const SLOW: f64 = 2.0;
/// Partners that one sentence names; more are in the table.
const NAMED: usize = 4;

/// A partner with its time.
struct Partner<'o> {
    peer: usize,
    /// Host of the partner; None where the record tells nothing of hosts.
    host: Option<&'o str>,
    point: &'o Measured<'o>,
}

impl Partner<'_> {
    fn name(&self) -> String {
        self.host.map_or_else(|| format!("rank {}", self.peer), |host| format!("rank {} on {host}", self.peer))
    }
}

/// A sentence for each kind of call that some partners answer much later than others of the same distance: on rank 0's
/// host, or on others. Of the largest size where one is slow.
pub(crate) fn sentences(operation: &Operation, run: &Run) -> Vec<String> {
    let mut groups: BTreeMap<(String, bool, usize), BTreeMap<u64, Vec<Partner>>> = BTreeMap::new();
    for point in operation.points() {
        let hosts = run.placement.iter().find(|placement| placement.ranks == point.case.ranks);
        let Some(peer) = peer(point.case).filter(|peer| !may_share_a_core(*peer, point, hosts)) else { continue };
        let host = |rank: usize| hosts.and_then(|placement| placement.hosts.get(rank)).map(String::as_str);
        let near = host(peer) == host(0);
        let way = Partner { peer, host: host(peer), point };
        let sizes = groups.entry((kind(point.case), near, crowd(peer, point, hosts))).or_default();
        sizes.entry(point.bytes.unwrap_or(0)).or_default().push(way);
    }
    groups.values().filter_map(|sizes| sizes.iter().rev().find_map(|(size, ways)| slow(*size, ways))).collect()
}

/// Two on one core wait for each other, and say nothing of the way between them. Hosts may be containers of one machine, and
/// then have the same cores.
fn may_share_a_core(peer: usize, point: &Measured, placement: Option<&Placement>) -> bool {
    let cpus = |rank: usize| placement.and_then(|placement| placement.cpus.get(rank)).filter(|cpus| !cpus.is_empty());
    let apart = cpus(0).zip(cpus(peer)).is_some_and(|(own, other)| own.iter().all(|cpu| !other.contains(cpu)));
    point.has(Caveat::Oversubscribed) && !apart
}

/// Ranks that share the partner's core, and may delay its answers. Only links with equally many are compared.
fn crowd(peer: usize, point: &Measured, placement: Option<&Placement>) -> usize {
    let Some(placement) = placement.filter(|_| point.has(Caveat::Oversubscribed)) else { return 0 };
    let Some(own) = placement.cpus.get(peer) else { return 0 };
    let others = placement.cpus.iter().enumerate().filter(|(rank, _)| *rank != peer);
    others.filter(|(_, cpus)| cpus.iter().any(|cpu| own.contains(cpu))).count()
}

/// The partner of a call that has one.
fn peer(case: &CaseLine) -> Option<usize> {
    let op = case.parameters.get("op").and_then(Value::as_str);
    // Rank 1 where the record says nothing.
    let peer = case.parameters.get("peer").map_or(Some(1), Value::as_u64)?;
    (op == Some("ping_pong")).then_some(peer as usize)
}

/// What must be equal for times of partners to be comparable.
fn kind(case: &CaseLine) -> String {
    let parameters = case.parameters.iter().filter(|(name, _)| !["peer", "bytes", "seed"].contains(name));
    parameters.map(|(name, value)| format!("{name}={}", plain(value))).collect::<Vec<_>>().join(" ")
}

fn slow(size: u64, ways: &[Partner]) -> Option<String> {
    let quickest = ways.iter().min_by(|a, b| a.point.time.mid.total_cmp(&b.point.time.mid))?;
    let ratio = |way: &Partner| crate::study::ratio(way.point, quickest.point);
    let slow: Vec<&Partner> = ways.iter().filter(|way| way.peer != quickest.peer && ratio(way).exceeds(SLOW)).collect();
    let said = |way: &&Partner| {
        let ratio = ratio(way);
        format!("{}{} as long with {}", factor(ratio.mid), ratio.range(factor), way.name())
    };
    let mut parts: Vec<String> = slow.iter().take(NAMED).map(said).collect();
    if slow.len() > NAMED {
        parts.push(format!("more than {}x with {} more", SLOW, slow.len() - NAMED));
    }
    let (size, quickest) = (bytes(size), quickest.name());
    (!parts.is_empty()).then(|| format!("From rank 0, ping_pong of {size} takes {} as with {quickest}.", list(&parts)))
}
