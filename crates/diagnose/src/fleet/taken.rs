//! What records have of nodes and links, before anything is judged.

use std::collections::{BTreeMap, BTreeSet};

use record::{CaseLine, Record};
use stats::PairTimes;
use terms::HostName;

use super::inventory::Inventory;
use super::rails::Rail;

/// How a record is read.
pub struct Reader<'f> {
    /// Whether ranks of a case work apart, so that each rank's time is its host's.
    pub is_local: &'f dyn Fn(&CaseLine) -> bool,
    /// Seconds between pairs of ranks, where a case is a tournament.
    pub pairs: &'f dyn Fn(&CaseLine) -> Option<PairTimes>,
    /// What each rank took in each trial, where ranks are on several hosts; None where the record has no samples.
    pub rank_trials: &'f dyn Fn(&CaseLine) -> Option<Vec<RankTrial>>,
    /// What each rank's equal rounds of work left, where a case looks for silent corruption.
    pub bits: &'f dyn Fn(&CaseLine) -> Option<Vec<RankBits>>,
    /// What a case is called.
    pub label: &'f dyn Fn(&Record, &CaseLine) -> String,
}

/// A trial of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct RankTrial {
    /// The round of the run that it belongs to.
    pub round: u32,
    /// The median of each rank's samples, in seconds of a call, by rank.
    pub seconds: Vec<f64>,
}

/// What a node took for one kind of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Equal keys are equal work.
    pub key: String,
    /// The work, in words.
    pub label: String,
    /// Median time of the work, in seconds.
    pub median_s: f64,
    /// The round and the median of each trial; empty where the record does not have them.
    pub trials: Vec<(u32, f64)>,
    /// Whether the machine was disturbed.
    pub disturbed: bool,
}

/// A case of a node that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCase {
    /// Equal keys are equal work.
    pub key: String,
    /// The case, and why it failed.
    pub why: String,
}

/// A node in one record.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRun {
    /// Name of the node's host.
    pub host: HostName,
    /// Hardware of the node: nodes of one kind are peers.
    pub inventory: Inventory,
    /// What else can differ between nodes, by name: `kernel`, `GPU driver`.
    pub facts: BTreeMap<&'static str, String>,
    /// The record.
    pub record: String,
    /// When it began; None where the record does not say.
    pub started: Option<jiff::Timestamp>,
    /// What it took.
    pub measured: Vec<Measured>,
    /// What failed, and why.
    pub failed: Vec<FailedCase>,
    /// Why the node may have been lost: it led the run, and the run has no end.
    pub unended: Option<String>,
    /// GPUs that its ranks used, the most in any case: a rank uses one. 0 where no case used GPUs.
    pub gpus_used: usize,
    /// Keys of the work that it took part in and that is right.
    pub right: BTreeSet<String>,
    /// What its equal rounds of work left.
    pub bits: Vec<NodeBits>,
}

/// Times between hosts: between each two, or of large fleets a part of the pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Tournament {
    /// Equal keys are equal work.
    pub key: String,
    /// The exchange, in words.
    pub label: String,
    /// When its record began; None where that does not say.
    pub started: Option<jiff::Timestamp>,
    /// The hosts, one each.
    pub hosts: Vec<HostName>,
    /// Seconds between them, by place; of several ranks on a host, the fastest pair, which the link alone bounds.
    pub times: PairTimes,
    /// What each rank's way to other nodes adds, where ranks have GPUs and messages are long; empty elsewhere.
    pub rails: Vec<Rail>,
    /// Trials of each pair, in different rounds.
    pub trials: usize,
    /// Whether its messages are short, so that their time depends on the distance.
    pub short: bool,
    /// The host that other programs or the like disturbed: the coordinator looks at its own.
    pub disturbed: Option<HostName>,
}

/// A case that failed or is wrong, and names nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unblamed {
    /// Equal keys are equal work.
    pub key: String,
    /// When its record began; None where that does not say.
    pub started: Option<jiff::Timestamp>,
    /// The case, and what it did wrong.
    pub why: String,
    /// The hosts that took part.
    pub hosts: Vec<HostName>,
}

/// What one or several records have of nodes and links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// What nodes took.
    pub nodes: Vec<NodeRun>,
    /// Times between hosts.
    pub tournaments: Vec<Tournament>,
    /// Cases that failed or are wrong, and name nobody.
    pub unblamed: Vec<Unblamed>,
}

impl Taken {
    /// Adds what another record has.
    pub fn add(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
        self.tournaments.extend(other.tournaments);
        self.unblamed.extend(other.unblamed);
    }
}

/// What a rank's equal rounds of work left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankBits {
    /// How it was computed: only equal ways must leave equal bits.
    pub how: String,
    /// Operations of a round.
    pub operations: u64,
    /// Rounds by the digest of their results.
    pub rounds: BTreeMap<String, u64>,
}

/// What a node's equal rounds of work left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBits {
    /// Equal keys are equal work, computed in the same way.
    pub key: String,
    /// The work, in words.
    pub label: String,
    /// Operations of a round.
    pub operations: u64,
    /// Rounds by the digest of their results.
    pub rounds: BTreeMap<String, u64>,
}

impl NodeBits {
    /// All of its rounds.
    pub(super) fn total(&self) -> u64 {
        self.rounds.values().sum()
    }

    /// The result of most of its rounds, and how many those are.
    pub(super) fn main(&self) -> Option<(&str, u64)> {
        self.rounds.iter().max_by_key(|(_, rounds)| **rounds).map(|(digest, rounds)| (digest.as_str(), *rounds))
    }

    /// Takes in the rounds of another rank, or of a later run.
    pub(super) fn add(&mut self, rounds: &BTreeMap<String, u64>) {
        rounds.iter().for_each(|(digest, rounds)| *self.rounds.entry(digest.clone()).or_default() += rounds);
    }
}
