//! What a timeline says about a job: where its steps' time goes, who makes others wait, and what to do about it.
//!
//! Every part abstains, with a reason, where the timeline cannot carry the claim. Times are in seconds. docs/diagnosis.md says
//! how often verdicts are right; `simulation` is what they answer to.

mod blame;
mod bubble;
mod collectives;
mod critical_path;
mod device;
mod differences;
mod exchanges;
mod findings;
mod instances;
mod intervals;
mod lanes;
mod lateness;
mod overlap;
mod series;
pub mod simulation;
mod steps;
mod straggler;
mod waterfall;

use std::ops::Range;

use serde::Serialize;
use trace::timeline::Timeline;

pub use bubble::Bubble;
pub use collectives::{Collectives, Communicator, MessageSize, OperationTotals};
pub use critical_path::{CriticalPath, PathPart};
pub use device::{Idle, TopKernel};
pub use differences::{Difference, Part, differences};
pub use exchanges::Exchange;
pub use findings::{Confidence, Evidence, Finding, FindingKind};
pub use instances::Clocks;
pub use overlap::{Overlap, Parts, RankOverlap};
pub use series::Series;
pub use steps::{RankSteps, Steps};
pub use straggler::{Phase, Rotating, Straggler};
pub use waterfall::{Bar, Cause, Scaling, Term, Waterfall, waterfall};

/// Fewer steps carry no verdict on slow ranks.
pub const MINIMUM_STEPS: usize = 10;

/// The schedule of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pipeline {
    /// Stages, p.
    pub stages: u32,
    /// Micro-batches of a step, m.
    pub micro_batches: u32,
}

/// What to look at, and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Numbers of the steps to look at; None: all.
    pub steps: Option<Range<u32>>,
    /// What costs less than this share of a step is not named: 0.005 is 0.5%.
    pub minimum_share: f64,
    /// The chance of naming any rank where none is slow by more than the minimum share.
    pub level: f64,
    /// The schedule, if the job is a pipeline.
    pub pipeline: Option<Pipeline>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { steps: None, minimum_share: 0.005, level: 0.01, pipeline: None }
    }
}

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
    /// The exchanges of a step, by communicator and in their order.
    pub exchanges: Vec<Exchange>,
    /// Overlap of communication with computation.
    pub overlap: Overlap,
    /// The most costly slow rank; None: no rank stands out, or `straggler_abstains` says why nothing can be said.
    pub straggler: Option<Straggler>,
    /// All slow ranks, the most costly first.
    pub stragglers: Vec<Straggler>,
    /// Ranks that are late in turn; only where no rank stands out.
    pub rotating: Option<Rotating>,
    /// Why there is no verdict on slow ranks.
    pub straggler_abstains: Option<String>,
    /// Where no rank is named: the share of a step that any rank loses at most in the median step, with 95% confidence for all
    /// ranks together.
    pub straggler_at_most: Option<f64>,
    /// Seconds per step that each rank (rows, as in `steps.ranks`) waits for each other (columns); None where no collective
    /// tells it.
    pub blame: Option<Vec<Vec<f64>>>,
    /// The critical path; None where `critical_path_abstains` says why.
    pub critical_path: Option<CriticalPath>,
    /// Why there is no critical path.
    pub critical_path_abstains: Option<String>,
    /// Idle time of devices; None without kernels.
    pub idle: Option<Idle>,
    /// The kernels with the most time.
    pub kernels: Vec<TopKernel>,
    /// The pipeline bubble; None without transfers between two ranks.
    pub bubble: Option<Bubble>,
    /// What to do, the most saving first.
    pub findings: Vec<Finding>,
    /// What could not be read or used, one sentence each.
    pub notes: Vec<String>,
}

/// Analyses a timeline. It takes time in proportion to the spans.
pub fn analyse(timeline: &Timeline, settings: &Settings) -> Analysis {
    let prepared = lanes::prepare(timeline, settings);
    let instances = instances::instances(timeline, &prepared);
    let steps = steps::steps(&prepared);
    let count = steps.numbers.len();
    let exposed = overlap::exposed(&prepared, &instances);
    let parts = overlap::parts(&prepared, &steps, &exposed);
    let blame = blame::blame(&instances, timeline.ranks.len(), count);
    let verdict = straggler::verdict(&prepared, &steps, blame.as_deref(), settings);
    let path = critical_path::critical_path(&prepared, &instances, parts.step_s, settings);
    let (critical_path, critical_path_abstains) = path.map_or_else(|why| (None, Some(why)), |path| (Some(path), None));
    let bubble = bubble::bubble(overlap::bubble(&exposed, count), parts.step_s, settings.pipeline);
    let mut notes = prepared.notes.clone();
    if count == 0 {
        notes.push("no step is on all ranks, so nothing is said about steps".to_owned());
    }
    notes.extend(instances.notes.iter().cloned());
    let collectives = collectives::collectives(&instances, &timeline.names, count);
    notes.extend(exchanges::varying(&collectives, parts.step_s));
    let mut analysis = Analysis {
        source: timeline.source.clone(),
        world: timeline.world,
        collectives,
        exchanges: exchanges::exchanges(&instances, &prepared, &timeline.names),
        overlap: overlap::overlap(&prepared),
        blame,
        straggler: verdict.stragglers.first().cloned(),
        stragglers: verdict.stragglers,
        rotating: verdict.rotating,
        straggler_abstains: verdict.abstains,
        straggler_at_most: verdict.unseen_share,
        critical_path,
        critical_path_abstains,
        idle: device::idle(&prepared),
        kernels: device::top_kernels(&prepared, &timeline.names),
        bubble,
        findings: Vec::new(),
        notes,
        steps,
        parts,
    };
    let transfer = overlap::transfer(&exposed, count);
    analysis.findings = findings::findings(&findings::Sources {
        prepared: &prepared,
        analysis: &analysis,
        transfer: &transfer,
        minimum_share: settings.minimum_share,
    });
    analysis
}
