//! A fleet, judged: what becomes of each node and link, and what that rests on.

use stats::FEWEST_LINKED;
use terms::HostName;

use super::inventory::Inventory;

/// The chance that any healthy node or link of a fleet is called slow.
pub const FLEET_LEVEL: f64 = 0.01;

/// A node is good only where a deficit of this size would have been seen.
pub const MOST_UNSEEN: f64 = 0.10;

terms::named! {
    /// What becomes of a node.
    pub enum NodeVerdict("verdict on a node") {
        /// Results are missing or wrong.
        Failed = "failed",
        /// The node is slower than its peers.
        Slow = "slow",
        /// There are too few peers, or times vary too much.
        CannotTell = "cannot tell",
        /// The node is as fast as its peers, as far as could be seen.
        Good = "good",
    }
}

/// What nodes of one kind took for one kind of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    /// Equal keys are equal work.
    pub key: String,
    /// The work, in words.
    pub label: String,
    /// Place in [`Fleet::kinds`].
    pub kind: usize,
    /// Nodes that have it.
    pub nodes: usize,
    /// What is healthy; None where the nodes are too few.
    pub level: Option<stats::Level>,
    /// The deficit that is found in nine of ten tries: 0.05 is 5%.
    pub smallest: Option<f64>,
}

/// In what a node is slow.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowIn {
    /// Place in [`Fleet::criteria`]; None for its links.
    pub criterion: Option<usize>,
    /// The work, in words.
    pub what: String,
    /// How many times as long it takes as its healthy peers.
    pub ratio: f64,
    /// The 95% interval of that.
    pub interval: [f64; 2],
    /// Trials in different rounds that say so.
    pub trials: usize,
    /// The day since which it is so, where earlier records differ.
    pub since: Option<String>,
}

/// A node of the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the node's host.
    pub host: HostName,
    /// Place in [`Fleet::kinds`].
    pub kind: usize,
    /// Records that it is in.
    pub records: Vec<String>,
    /// What becomes of it.
    pub verdict: NodeVerdict,
    /// In what it is slow, the slowest first.
    pub slow: Vec<SlowIn>,
    /// What of it failed, and why.
    pub failed: Vec<String>,
    /// Why nothing can be said; empty otherwise.
    pub unknown: String,
    /// By criterion, how many times as long it takes as its healthy peers.
    pub ratios: Vec<Option<f64>>,
}

/// Nodes of a kind that did the same seeded work, compared bit by bit.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultCheck {
    /// The work, in words.
    pub what: String,
    /// Place in [`Fleet::kinds`].
    pub kind: usize,
    /// Nodes that did it.
    pub nodes: usize,
    /// Operations that all of them did together.
    pub operations: u64,
    /// Rounds that left other bits than those of the majority.
    pub wrong_rounds: u64,
    /// The rate of errors, by operation, that is excluded at 95%; None where bits differ.
    pub excluded_rate: Option<f64>,
}

/// Two nodes that are slow only together.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowLink {
    /// The hosts.
    pub hosts: [HostName; 2],
    /// The exchange, in words.
    pub what: String,
    /// How many times as long it takes as both nodes explain.
    pub ratio: f64,
    /// The day since which it is so, where earlier records differ.
    pub since: Option<String>,
}

/// A part of the nodes of a kind that takes longer than the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The work, in words.
    pub what: String,
    /// The nodes that take longer.
    pub slower: Vec<HostName>,
    /// How many others there are.
    pub others: usize,
    /// How many times as long they take.
    pub ratio: f64,
    /// What else differs between the two, a clause each: `kernel: 6.1.0, others 6.8.0`.
    pub differs: Vec<String>,
}

/// A tournament, and what it could show.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCriterion {
    /// The exchange, in words.
    pub what: String,
    /// Nodes in it.
    pub nodes: usize,
    /// Pairs of nodes that exchanged messages: of large fleets not all.
    pub pairs: usize,
    /// The deficit of a link that is found in nine of ten tries; None where the nodes are too few.
    pub smallest: Option<f64>,
}

/// A fleet, judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// What failed or is wrong, and whose fault it is cannot be told.
    pub failures: Vec<String>,
    /// The kinds of nodes.
    pub kinds: Vec<Inventory>,
    /// What nodes were judged by.
    pub criteria: Vec<Criterion>,
    /// The nodes, in the natural order of their names.
    pub nodes: Vec<Node>,
    /// What links were judged by.
    pub link_criteria: Vec<LinkCriterion>,
    /// Links that are slow, the slowest first.
    pub links: Vec<SlowLink>,
    /// Kinds that are two groups in some work.
    pub groups: Vec<Group>,
    /// What was compared bit by bit.
    pub results: Vec<ResultCheck>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl LinkCriterion {
    /// Pairs that its nodes have.
    pub fn possible_pairs(&self) -> usize {
        self.nodes * self.nodes.saturating_sub(1) / 2
    }
}

impl Fleet {
    /// Whether a link that is 10% slower would not have shown in a tournament of enough nodes to judge links.
    pub fn is_blind_to_links(&self) -> bool {
        let is_blind = |one: &LinkCriterion| match one.smallest {
            Some(smallest) => smallest > MOST_UNSEEN,
            None => one.nodes >= FEWEST_LINKED,
        };
        self.link_criteria.iter().any(is_blind)
    }

    /// Nodes of this verdict.
    pub fn count(&self, verdict: NodeVerdict) -> usize {
        self.nodes.iter().filter(|node| node.verdict == verdict).count()
    }

    /// Hosts of nodes with any of these verdicts, in their order.
    pub fn hosts(&self, verdicts: &[NodeVerdict]) -> Vec<&HostName> {
        self.nodes.iter().filter(|node| verdicts.contains(&node.verdict)).map(|node| &node.host).collect()
    }
}
