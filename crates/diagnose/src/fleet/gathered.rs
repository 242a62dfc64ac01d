//! A node while it is judged.

use std::collections::BTreeMap;

use terms::HostName;

use super::differs::NodeFacts;
use super::evidence::Evidence;
use super::taken::NodeBits;
use super::verdict::{Node, NodeVerdict};

/// A node over all of its records.
pub(super) struct Gathered {
    pub(super) node: Node,
    pub(super) facts: NodeFacts,
    /// By criterion, what it shows now.
    pub(super) evidence: BTreeMap<usize, Evidence>,
    /// What may be slow, and why that cannot be told.
    pub(super) unsettled: Vec<String>,
    /// By work, what its rounds left.
    pub(super) bits: BTreeMap<String, NodeBits>,
    /// Whether peers left the same bits, or a majority tells which are right.
    pub(super) agrees: bool,
    /// Work in which a deficit of 10% of this node would not show.
    pub(super) blind: Vec<String>,
}

/// A node of which nothing is known but what failed.
pub(super) fn missing(host: &HostName, failed: Vec<String>) -> Gathered {
    let node = Node {
        host: host.clone(),
        kind: usize::MAX,
        records: Vec::new(),
        verdict: NodeVerdict::Failed,
        slow: Vec::new(),
        failed,
        unknown: String::new(),
        ratios: Vec::new(),
    };
    Gathered {
        node,
        facts: NodeFacts::new(),
        evidence: BTreeMap::new(),
        unsettled: Vec::new(),
        bits: BTreeMap::new(),
        agrees: false,
        blind: Vec::new(),
    }
}
