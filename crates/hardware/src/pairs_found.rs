//! What is found out of all pairs of ranks: the metric `pairs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value for each pair of ranks, by row and column; null on the diagonal.
pub(super) type Cells = Vec<Vec<Value>>;

/// Times of messages between pairs, and which ranks and pairs are slow.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Pairs {
    /// Seconds of a message between the median pair.
    pub(super) median: f64,
    /// And between the slowest.
    #[serde(default)]
    pub(super) slowest: f64,
    #[serde(default)]
    pub(super) ranks: u32,
    /// How many pairs exchanged messages at the same time, as the ranks say.
    #[serde(default)]
    pub(super) at_once: Value,
    /// The host of each rank, where they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<String>,
    /// A rank that took this many times as long would be named. Older records have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) least_factor: Option<f64>,
    /// In words: `none`, `cannot tell`, or who.
    #[serde(default)]
    pub(super) slow: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slow_ranks: Option<Vec<SlowRank>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slow_pairs: Option<Vec<SlowPair>>,
}

/// A rank whose messages to all others take long.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SlowRank {
    pub(super) rank: usize,
    /// How many times as long as between other ranks.
    pub(super) factor: f64,
}

/// A pair of ranks, neither of which is slow with others.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SlowPair {
    pub(super) ranks: [usize; 2],
    /// How many times as long as between the other pairs.
    pub(super) factor: f64,
}
