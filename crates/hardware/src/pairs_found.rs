//! What is found out of all pairs of ranks: the metric `pairs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stats::PairTimes;

/// A value for each pair of ranks, by row and column; null on the diagonal.
pub(super) type Cells = Vec<Vec<Value>>;

/// The pairs of a large tournament, which has a part of all: a square of them would be empty for the most part, and longer than a
/// line of a record may be.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ListedPairs {
    ranks: usize,
    /// The lower and the higher rank of each pair, one after the other.
    pairs: Vec<u32>,
    /// Seconds of a message, by pair.
    s: Vec<f64>,
}

impl ListedPairs {
    /// Times have six digits, more than a clock has.
    pub(super) fn from_times(times: &PairTimes) -> Self {
        let six = |time: f64| format!("{time:.5e}").parse().unwrap_or(time);
        Self {
            ranks: times.members,
            pairs: times.pairs.iter().flat_map(|(pair, _)| *pair).collect(),
            s: times.pairs.iter().map(|(_, time)| six(*time)).collect(),
        }
    }

    /// None where its lists do not fit each other.
    pub(super) fn times(&self) -> Option<PairTimes> {
        let is_pair = |pair: &&[u32]| pair[0] < pair[1] && (pair[1] as usize) < self.ranks;
        let fits = self.pairs.len() == 2 * self.s.len() && self.pairs.chunks_exact(2).all(|pair| is_pair(&pair));
        let pairs = self.pairs.chunks_exact(2).zip(&self.s).map(|(pair, time)| ([pair[0], pair[1]], *time));
        fits.then(|| PairTimes { members: self.ranks, pairs: pairs.collect() })
    }
}

/// Times of messages between pairs, and which ranks and pairs are slow.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Pairs {
    /// Seconds of a message between the median pair.
    pub(super) median: f64,
    /// Seconds of a message between the slowest pair.
    #[serde(default)]
    pub(super) slowest: f64,
    #[serde(default)]
    pub(super) ranks: u32,
    /// How many pairs exchanged messages at the same time, as the ranks say.
    #[serde(default)]
    pub(super) at_once: Value,
    /// How many pairs exchanged messages, where not all did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<usize>,
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
