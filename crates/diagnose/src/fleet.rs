//! Which nodes of a fleet are slow, which links, and what that rests on.
//!
//! Each node is compared with its peers: nodes of the same hardware that did the same work. What is healthy is learned from the
//! fleet itself ([`stats::fleet`]), so a fleet that is slow as a whole looks healthy here.

mod hosts;
mod judge;
mod measures;

use record::{CaseLine, Record};
use terms::HostName;

pub use hosts::compressed;
pub use measures::{Measured, NodeRun, Tournament};
pub use stats::FEWEST_MEMBERS;

/// The chance that any healthy node or link of a fleet is called slow.
pub const FLEET_LEVEL: f64 = 0.01;

/// A node is good only where a deficit of this size would have been seen.
pub const MOST_UNSEEN: f64 = 0.10;

terms::named! {
    /// What becomes of a node.
    pub enum NodeVerdict("verdict on a node") {
        /// Results are missing or wrong.
        Failed = "failed",
        /// It is slower than its peers.
        Slow = "slow",
        /// Its peers are too few, or times vary too much.
        CannotTell = "cannot tell",
        /// It is as fast as its peers, as far as could be seen.
        Good = "good",
    }
}

/// How a record is read.
pub struct Reader<'f> {
    /// Whether ranks of a case work apart, so that each rank's time is its host's.
    pub is_local: &'f dyn Fn(&CaseLine) -> bool,
    /// Seconds between each two ranks, where a case is a tournament.
    pub pairs: &'f dyn Fn(&CaseLine) -> Option<Vec<Vec<f64>>>,
    /// What a case is called.
    pub label: &'f dyn Fn(&Record, &CaseLine) -> String,
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
    /// Whether other programs or the like disturbed it while it was measured.
    pub disturbed: bool,
}

/// A node of the fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its host's name.
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

/// Two nodes that are slow only together.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowLink {
    /// The hosts.
    pub hosts: [HostName; 2],
    /// The exchange, in words.
    pub what: String,
    /// How many times as long it takes as both nodes explain.
    pub ratio: f64,
}

/// A tournament, and what it could show.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCriterion {
    /// The exchange, in words.
    pub what: String,
    /// Nodes in it.
    pub nodes: usize,
    /// The deficit of a link that is found in nine of ten tries; None where the nodes are too few.
    pub smallest: Option<f64>,
}

/// A fleet, judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fleet {
    /// The kinds of nodes, in words.
    pub kinds: Vec<String>,
    /// What nodes were judged by.
    pub criteria: Vec<Criterion>,
    /// The nodes, in the natural order of their names.
    pub nodes: Vec<Node>,
    /// What links were judged by.
    pub link_criteria: Vec<LinkCriterion>,
    /// Links that are slow, the slowest first.
    pub links: Vec<SlowLink>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Fleet {
    /// Nodes of this verdict.
    pub fn count(&self, verdict: NodeVerdict) -> usize {
        self.nodes.iter().filter(|node| node.verdict == verdict).count()
    }

    /// Hosts of nodes with any of these verdicts, in their order.
    pub fn hosts(&self, verdicts: &[NodeVerdict]) -> Vec<&HostName> {
        self.nodes.iter().filter(|node| verdicts.contains(&node.verdict)).map(|node| &node.host).collect()
    }
}

/// Judges the nodes of these runs. `absent`: hosts that were to take part and have no result, each with the reason.
pub fn fleet(runs: &[NodeRun], tournaments: &[Tournament], absent: &[(HostName, String)]) -> Fleet {
    judge::judge(runs, tournaments, absent)
}

/// Judges nodes by what a fleet learned, which they took no part in.
pub fn against(learned: &Fleet, runs: &[NodeRun]) -> Fleet {
    judge::against(learned, runs)
}

/// What nodes of one or several records took, and their tournaments.
pub type Taken = (Vec<NodeRun>, Vec<Tournament>);

/// What the nodes of a record took, and its tournaments. `name`: what the record is called.
///
/// # Errors
/// A host of the record has a name that no list of hosts can hold.
pub fn read(name: &str, record: &Record, reader: &Reader) -> Result<Taken, terms::Error> {
    measures::read(name, record, reader)
}
