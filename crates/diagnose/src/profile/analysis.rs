//! Everything that a timeline says about a job.

use serde::Serialize;

use super::listed::{self, is_zero};
use super::{
    Bubble, BusyRank, CallTotals, Collectives, CriticalPath, Disturbance, Exchange, Idle, Overlap, Parts, Pauses,
    ProfileFinding, Replay, Rotating, Steps, Straggler, TopKernel, Without,
};

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// What recorded the timeline.
    pub source: String,
    /// Ranks of the whole job, where known.
    pub world: Option<u32>,
    /// The steps, rank by rank.
    pub steps: Steps,
    /// Where the mean step's time goes.
    pub parts: Parts,
    /// Collectives and transfers.
    pub collectives: Collectives,
    /// Communication call by call, where no step is on all ranks; empty otherwise.
    pub calls: Vec<CallTotals>,
    /// How many of those with the least time are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls_left_out: usize,
    /// The exchanges of a step, by communicator and in their order.
    pub exchanges: Vec<Exchange>,
    /// How many of those with the least time are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub exchanges_left_out: usize,
    /// Overlap of communication with computation.
    pub overlap: Overlap,
    /// The most costly slow rank; None: no rank stands out, or `straggler_abstains` says why nothing can be said.
    pub straggler: Option<Straggler>,
    /// All slow ranks, the most costly first.
    pub stragglers: Vec<Straggler>,
    /// Ranks that are late because they wait for a processor: the machine is busy, and they are not slow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<BusyRank>,
    /// Ranks that are late in turn; only where no rank stands out.
    pub rotating: Option<Rotating>,
    /// Why there is no verdict on slow ranks.
    pub straggler_abstains: Option<String>,
    /// Where no rank is named: the share of a step that any rank loses at most in the median step, with 95% confidence for all
    /// ranks together. Where single steps cost a rank more than that, what it loses at most on average. None where nothing
    /// bounds it.
    pub straggler_at_most: Option<f64>,
    /// Steps that take much longer than the others.
    pub pauses: Option<Pauses>,
    /// Whether all was analysed: steps of all ranks of the job, and whether one is slow. Else what was not found may still be
    /// there.
    pub is_whole: bool,
    /// Seconds per step that each rank (rows, as in `steps.ranks`) waits for each other (columns); None where no collective
    /// tells it.
    pub blame: Option<Vec<Vec<f64>>>,
    /// The critical path; None where `critical_path_abstains` says why.
    pub critical_path: Option<CriticalPath>,
    /// Why there is no critical path.
    pub critical_path_abstains: Option<String>,
    /// Idle time of devices; None without kernels.
    pub idle: Option<Idle>,
    /// Kernels, those with the most time first. The record keeps the first [`LISTED_KERNELS`](super::LISTED_KERNELS).
    #[serde(serialize_with = "listed")]
    pub kernels: Vec<TopKernel>,
    /// The pipeline bubble; None without transfers between two ranks.
    pub bubble: Option<Bubble>,
    /// What others took of the machine while the steps were recorded; absent where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// What to do, the largest credible loss first.
    pub findings: Vec<ProfileFinding>,
    /// How well a replay of the recorded dependencies gives the recorded steps; None where `replay_abstains` says why there is
    /// none.
    pub replay: Option<Replay>,
    /// Why there is no replay.
    pub replay_abstains: Option<String>,
    /// How long a step would take without all slow ranks; None without a slow rank or a replay.
    pub without_slow_ranks: Option<Without>,
    /// What could not be read or used, one sentence each.
    pub notes: Vec<String>,
}

impl Analysis {
    /// What is said where calls are left out of [`Analysis::calls`].
    pub fn calls_note(&self) -> Option<String> {
        listed::note("operations, by communicator and size,", self.calls.len(), self.calls_left_out)
    }
}

/// The kernels with the most time.
fn listed<S: serde::Serializer>(kernels: &[TopKernel], into: S) -> Result<S::Ok, S::Error> {
    into.collect_seq(&kernels[..kernels.len().min(super::LISTED_KERNELS)])
}
