//! What is asked about one case, and about what its trials gave.
//!
//! Plans, records and messages to ranks hold a case as a map of values. Its benchmark reads that map once
//! ([`crate::Benchmark::parse`]); code that runs, estimates or shows the case uses what was read.

use measure::{Failure, Trial};
use record::{Case, Limit, TimeSummary};
use serde_json::{Map, Value};
use terms::Collective;

use crate::{Host, Modelled, Prepared, RankContext};

/// A case whose values its benchmark has read.
pub trait ParsedCase: Send + Sync {
    /// The case as plans and records hold it.
    fn case(&self) -> &Case;

    /// Bytes that the buffers of the case hold on this host, over all ranks. Checked against the machine before any rank
    /// allocates.
    fn memory(&self) -> u64;

    /// Bytes that a call goes through, over all ranks, wherever they lie.
    fn working_set(&self) -> u64 {
        self.memory()
    }

    /// Allocates and fills what the case needs. Runs on every rank; collective.
    ///
    /// # Errors
    /// What could not be had.
    fn prepare(&self, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure>;

    /// Whether times of the case follow from its operation alone, where its backend has a model ([`crate::has_model`]). Ranks are
    /// then not started.
    fn is_modelled(&self) -> bool {
        false
    }

    /// The case as a model computes its times, for all of its ranks.
    ///
    /// # Errors
    /// What could not be had; always where it is not one of these.
    fn modelled(&self) -> Result<Box<dyn Modelled>, Failure> {
        Err(Failure::new("times of this benchmark are those of ranks"))
    }

    /// Whether the case is answered by [`ParsedCase::predicted`] alone: it has more ranks than this host can usefully start,
    /// and what it asks for is known without them.
    fn is_planned(&self, _host: &Host) -> bool {
        false
    }

    /// Whether the case can run on this host, beyond what holds for every benchmark.
    ///
    /// # Errors
    /// The reason to skip it.
    fn admit(&self, _host: &Host) -> Result<(), String> {
        Ok(())
    }

    /// Whether each trial needs rank processes that were started for it, and that run nothing else.
    fn needs_new_ranks(&self) -> bool {
        false
    }

    /// Time that trials of the case take beyond their sampling time. The estimate of a run counts it.
    fn trial_cost(&self) -> TrialCost {
        TrialCost::default()
    }

    /// Cores that the case's ranks keep busy.
    fn cores_wanted(&self) -> usize {
        crate::cores_wanted(self.case().ranks(), &self.case().world)
    }

    /// The rank that rank 0 exchanges messages with, where the case's calls go between these two alone.
    fn peer(&self) -> Option<u32> {
        None
    }

    /// The operation of a call and its bytes, as traces show them.
    fn operation(&self) -> (Collective, u64) {
        (Collective::Barrier, 0)
    }

    /// Bytes that each rank must send to others in a call, by any algorithm: what a link bounds. 0: none, or not known.
    fn sent(&self) -> f64 {
        0.0
    }

    /// Bytes that the link of one host must carry in one direction in a call, by any algorithm, where ranks are on these hosts: what
    /// bounds calls across hosts. None where the benchmark does not know. `hosts`: the host of each rank.
    fn between_hosts(&self, _hosts: &[u32]) -> Option<f64> {
        None
    }

    /// The declared metrics of the case, once it is measured.
    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value>;

    /// The declared metrics of a case that this machine cannot run: those that follow from its fields alone.
    fn predicted(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Why the measured case has failed for another reason than wrong elements: what only all ranks together show. Without trials:
    /// why a planned one has.
    fn fault(&self, _trials: &[Trial]) -> Option<String> {
        None
    }
}

/// Time of a case's trials that is known before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialCost {
    /// Least seconds of a sample.
    pub sample_s: f64,
    /// Seconds around each sample that are not timed.
    pub around_s: f64,
    /// Seconds of each trial apart from its samples.
    pub trial_s: f64,
    /// Seconds that a trial may take in addition: the upper end of the estimate counts them.
    pub more_s: f64,
}

/// What a case's trials gave.
pub struct Measured<'a> {
    /// Seconds of one call.
    pub times: &'a TimeSummary,
    /// The machine's limit, where it was measured.
    pub limit: Option<&'a Limit>,
    /// Operations a second of the case's type on its devices together, by the profile of the machine that the case names.
    pub peak: Option<(f64, &'a str)>,
    /// All trials.
    pub trials: &'a [Trial],
}
