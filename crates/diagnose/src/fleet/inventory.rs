//! The hardware of nodes. Nodes with the same hardware are of one kind, and are peers. A node that has less than its
//! peers lost a part.

use std::collections::BTreeMap;

use record::Machine;
use serde::{Deserialize, Serialize};

/// Memory that differs by at most this share counts as the same. Firmware takes a little, and not the same on each
/// node; a lost module is at least a thirty-second.
const SAME_MEMORY: f64 = 0.02;

/// The parts of a node that decide how fast it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The processor's own name, or its architecture.
    pub processor: String,
    /// Physical cores, or hardware threads where cores are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Number of GPUs of each model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, usize>,
}

impl Inventory {
    /// The inventory of a machine.
    pub fn from_machine(machine: &Machine) -> Self {
        let mut gpus: BTreeMap<String, usize> = BTreeMap::new();
        machine.gpus.iter().for_each(|model| *gpus.entry(model.clone()).or_default() += 1);
        Self {
            processor: machine.processor().to_owned(),
            cores: machine.cores.or(machine.threads),
            memory_bytes: machine.memory_bytes,
            gpus,
        }
    }

    /// Whether both are of one kind.
    pub fn is_like(&self, other: &Self) -> bool {
        self.processor == other.processor
            && self.cores == other.cores
            && self.gpus == other.gpus
            && same_memory(self.memory_bytes, other.memory_bytes)
    }

    /// What it has less of than its peers, one clause each. None if it has less of nothing, more of anything, or other
    /// processors.
    pub fn lost(&self, peers: &Self) -> Option<Vec<String>> {
        if self.processor != peers.processor || self.gpus.keys().any(|model| !peers.gpus.contains_key(model)) {
            return None;
        }
        let mut lost = Vec::new();
        if self.cores != peers.cores {
            let (own, expected) = (self.cores?, peers.cores?);
            lost.push((own < expected).then(|| format!("{own} cores, peers have {expected}"))?);
        }
        if !same_memory(self.memory_bytes, peers.memory_bytes) {
            let (own, expected) = (self.memory_bytes?, peers.memory_bytes?);
            lost.push((own < expected).then(|| format!("{} of memory, peers have {}", gib(own), gib(expected)))?);
        }
        for (model, expected) in &peers.gpus {
            let own = self.gpus.get(model).copied().unwrap_or(0);
            if own != *expected {
                let gpus = if own == 1 { "GPU" } else { "GPUs" };
                lost.push((own < *expected).then(|| format!("{own} {gpus} ({model}), peers have {expected}"))?);
            }
        }
        (!lost.is_empty()).then_some(lost)
    }

    /// The inventory in words: `64 cores, model, 512 GiB, 8 x H200`.
    pub fn label(&self) -> String {
        let mut parts: Vec<String> = self.cores.map(|cores| format!("{cores} cores")).into_iter().collect();
        parts.extend(Some(&self.processor).filter(|text| !text.is_empty()).cloned());
        parts.extend(self.memory_bytes.map(gib));
        parts.extend(self.gpus.iter().map(|(model, number)| format!("{number} x {model}")));
        if parts.is_empty() { "unknown hardware".to_owned() } else { parts.join(", ") }
    }
}

fn same_memory(one: Option<u64>, other: Option<u64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(other) as f64 <= SAME_MEMORY * one.max(other) as f64,
        (one, other) => one == other,
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Sorts nodes into kinds: the kinds, and for each node its kind and what it lost. A kind with fewer than `fewest`
/// nodes that is not among the `learned` ones may be another kind that lost parts.
pub(super) fn sort_into_kinds(
    nodes: &[&Inventory],
    learned: &[Inventory],
    fewest: usize,
) -> (Vec<Inventory>, Vec<(usize, Vec<String>)>) {
    let mut kinds: Vec<Inventory> = Vec::new();
    let mut kind_of = vec![0; nodes.len()];
    // In order of memory, so that each kind is represented by the node with the least.
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| nodes[*at].memory_bytes);
    for at in order {
        kind_of[at] = kinds.iter().position(|kind| kind.is_like(nodes[at])).unwrap_or_else(|| {
            kinds.push(nodes[at].clone());
            kinds.len() - 1
        });
    }
    let size = |kind: usize| kind_of.iter().filter(|own| **own == kind).count();
    let sizes: Vec<usize> = (0..kinds.len()).map(size).collect();
    let is_learned = |kind: &Inventory| learned.iter().any(|known| known.is_like(kind));
    // Of the kinds that this one may have been before it lost parts, the one with the most nodes.
    let complete_kind = |kind: usize| {
        let largest = (0..kinds.len())
            .filter(|other| sizes[*other] >= fewest)
            .max_by_key(|other| kinds[kind].lost(&kinds[*other]).map_or(0, |_| sizes[*other]));
        largest.and_then(|other| Some((other, kinds[kind].lost(&kinds[other])?)))
    };
    let mut found: Vec<(usize, Vec<String>)> = kind_of.iter().map(|kind| (*kind, Vec::new())).collect();
    for (at, kind) in kind_of.iter().enumerate() {
        if sizes[*kind] >= fewest || is_learned(&kinds[*kind]) {
            continue;
        }
        if let Some(complete) = complete_kind(*kind) {
            found[at] = complete;
        } else if let Some(lost) = learned.iter().find_map(|known| kinds[*kind].lost(known)) {
            found[at] = (*kind, lost);
        }
    }
    without_unused(kinds, found)
}

/// Removes kinds that have no nodes, and numbers the others in the order of their nodes.
fn without_unused(
    kinds: Vec<Inventory>,
    mut found: Vec<(usize, Vec<String>)>,
) -> (Vec<Inventory>, Vec<(usize, Vec<String>)>) {
    let mut kept: Vec<usize> = Vec::new();
    for (kind, _) in &mut found {
        let at = kept.iter().position(|own| own == kind);
        *kind = at.unwrap_or_else(|| {
            kept.push(*kind);
            kept.len() - 1
        });
    }
    (kept.into_iter().map(|kind| kinds[kind].clone()).collect(), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cores: u32, gib: f64, gpus: usize) -> Inventory {
        Inventory {
            processor: "model".to_owned(),
            cores: Some(cores),
            memory_bytes: Some((gib * f64::from(1 << 30)) as u64),
            gpus: BTreeMap::from([("H200".to_owned(), gpus)]),
        }
    }

    #[test]
    fn a_part_that_peers_have_is_lost() {
        let mut nodes = vec![node(64, 511.49, 8); 4];
        nodes.extend(vec![node(64, 511.51, 8); 4]);
        nodes.extend([node(64, 511.5, 7), node(63, 480.0, 8), node(64, 511.5, 9)]);
        let (kinds, of) = sort_into_kinds(&nodes.iter().collect::<Vec<_>>(), &[], 5);
        // The node with more is another kind.
        assert_eq!(kinds.len(), 2, "{kinds:?}");
        assert_eq!(of[8], (0, vec!["7 GPUs (H200), peers have 8".to_owned()]));
        assert_eq!(of[9].1, ["63 cores, peers have 64", "480 GiB of memory, peers have 511 GiB"]);
        assert_eq!(of[10], (1, Vec::new()));
        assert!(of[..8].iter().all(|one| *one == (0, Vec::new())));
    }

    #[test]
    fn two_kinds_of_enough_nodes_are_two_kinds() {
        let nodes: Vec<Inventory> = (0..12).map(|at| node(64, if at < 6 { 256.0 } else { 512.0 }, 8)).collect();
        let (kinds, of) = sort_into_kinds(&nodes.iter().collect::<Vec<_>>(), &[], 5);
        assert_eq!((kinds.len(), of.iter().all(|(_, lost)| lost.is_empty())), (2, true));
    }

    #[test]
    fn a_newcomer_is_compared_with_the_kinds_that_are_known() {
        let known = [node(64, 512.0, 8)];
        let lost = |own: Inventory| sort_into_kinds(&[&own], &known, 5).1.remove(0).1;
        assert_eq!(lost(node(64, 511.0, 8)), Vec::<String>::new());
        assert_eq!(lost(node(64, 511.0, 7)), ["7 GPUs (H200), peers have 8"]);
        assert_eq!(lost(node(128, 511.0, 7)), Vec::<String>::new());
    }
}
