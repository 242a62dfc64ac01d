//! What a timeline says about a job: where its steps' time goes, who makes others wait, and what to do about it.
//!
//! Every part abstains, with a reason, where the timeline cannot carry the claim. Times are in seconds. docs/explanation/diagnosis.md says
//! how often verdicts are right; `tests/all/profile/simulation.rs` is what they answer to.

mod analysis;
mod blame;
mod bubble;
mod calls;
mod collectives;
mod critical_path;
mod device;
mod differences;
mod disturbance;
mod exchanges;
mod findings;
mod instances;
mod intervals;
mod lanes;
mod lateness;
mod listed;
mod overlap;
mod pauses;
mod replay;
mod replay_graph;
mod replay_walk;
mod series;
mod settings;
mod slow_exchange;
mod step_without;
mod steps;
mod straggler;
mod waterfall;
mod without;

use trace::timeline::Timeline;

pub use analysis::Analysis;
pub use bubble::Bubble;
pub use calls::{CallTotals, TimedCall, call_totals};
pub use collectives::{Collectives, Communicator, MessageSize, OperationTotals};
pub use critical_path::{CriticalPath, PathPart};
pub use device::{Idle, LISTED_KERNELS, TopKernel};
pub use differences::{DifferenceOf, ProfileDifference, differences};
pub use disturbance::Disturbance;
pub use exchanges::Exchange;
pub use findings::{Confidence, Evidence, FindingKind, ProfileFinding};
pub use instances::Clocks;
pub use overlap::{Overlap, Parts, RankOverlap};
pub use pauses::{Pauses, Who};
pub use series::Series;
pub use settings::{LEAST_FINDING, MINIMUM_STEPS, Pipeline, Settings};
pub use step_without::{Replay, Typical, Without};
pub use steps::{RankSteps, Steps};
pub use straggler::{BusyRank, Phase, PhaseExcess, Rotating, Straggler};
pub use waterfall::{Bar, Cause, Scaling, Term, Waterfall, waterfall};

/// Analyses a timeline. It takes time in proportion to the spans.
pub fn analyse(timeline: &Timeline, settings: &Settings) -> Analysis {
    let prepared = lanes::prepare(timeline, settings);
    let instances = instances::instances(timeline, &prepared);
    let steps = steps::steps(&prepared);
    let count = steps.numbers.len();
    let exposed = overlap::exposed(&prepared, &instances);
    let parts = overlap::parts(&prepared, &steps, &exposed);
    let blame = blame::blame(&instances, timeline.ranks.len(), count);
    let shows_waits = prepared.ranks.iter().all(lanes::Lanes::shows_waits);
    let pauses = pauses::pauses(&steps, shows_waits);
    let more = steps.more(&timeline.source);
    let blames = blame.as_deref().map(blame::shares);
    let context = straggler::Context { blame: blames.as_deref(), pauses: pauses.as_ref(), more: &more };
    let verdict = straggler::verdict(&prepared, &steps, &context, settings);
    let path = critical_path::critical_path(&prepared, &instances, parts.step_s, settings);
    let (critical_path, critical_path_abstains) = path.map_or_else(|why| (None, Some(why)), |path| (Some(path), None));
    let bubble = bubble::bubble(overlap::bubble(&exposed, count), parts.step_s, settings.pipeline);
    let mut notes = prepared.notes.clone();
    if count == 0 {
        notes.push("no step is on all ranks, so nothing is said about steps".to_owned());
    }
    notes.extend(instances.notes.iter().cloned());
    if !verdict.apart.is_empty() {
        let apart = straggler::other_work(&verdict.apart);
        notes.push(format!("{apart}: ranks do different work, and only the others are compared"));
    }
    let collectives = collectives::collectives(&instances, &timeline.names, count);
    notes.extend(exchanges::varying(&collectives, parts.step_s));
    let (calls, calls_left_out) = if count == 0 { calls::of_timeline(timeline) } else { Default::default() };
    let (exchanges, exchanges_left_out) = exchanges::exchanges(&instances, &prepared, &timeline.names);
    notes.extend(collectives.left_out());
    notes.extend(listed::note("exchanges", exchanges.len(), exchanges_left_out));
    let mut analysis = Analysis {
        source: timeline.source.clone(),
        world: timeline.world,
        collectives,
        calls,
        calls_left_out,
        exchanges,
        exchanges_left_out,
        overlap: overlap::overlap(&prepared),
        blame,
        pauses,
        is_whole: is_whole(timeline, &verdict, count),
        straggler: verdict.stragglers.first().cloned(),
        stragglers: verdict.stragglers,
        busy: verdict.busy,
        rotating: verdict.rotating,
        straggler_abstains: verdict.abstains,
        straggler_at_most: verdict.unseen_share,
        critical_path,
        critical_path_abstains,
        idle: device::idle(&prepared),
        kernels: device::top_kernels(&prepared, &timeline.names),
        bubble,
        disturbance: settings.disturbance.clone(),
        findings: Vec::new(),
        replay: None,
        replay_abstains: None,
        without_slow_ranks: None,
        notes,
        steps,
        parts,
    };
    analysis.notes.extend(analysis.calls_note());
    if count == 0 {
        // Where the time of the device goes needs no step.
        let whole = lanes::whole(timeline);
        analysis.overlap = overlap::overlap(&whole);
        analysis.idle = device::idle(&whole);
        analysis.kernels = device::top_kernels(&whole, &timeline.names);
    }
    let waits = (timeline.world, settings.pipeline.is_some());
    let replayer = replay::Replayer::new(&prepared, &instances, &analysis.steps, waits);
    match &replayer {
        Ok(replayer) => {
            analysis.replay = Some(replayer.summary);
            let all: Vec<&Straggler> = analysis.stragglers.iter().collect();
            analysis.without_slow_ranks =
                if all.is_empty() { None } else { without::slow_ranks(replayer, &all, &analysis.stragglers) };
        }
        Err(why) => {
            if !analysis.stragglers.is_empty() {
                analysis
                    .notes
                    .push(format!("how long a step would take without the slow rank cannot be told, because {why}"));
            }
            analysis.replay_abstains = Some(why.clone());
        }
    }
    let waits = overlap::waits(&exposed, count);
    let slow_exchanges = slow_exchange::slow_exchanges(&prepared, &instances, (&timeline.names, count), settings);
    let transfer = overlap::transfer(&exposed, count);
    analysis.findings = findings::findings(&findings::Sources {
        prepared: &prepared,
        analysis: &analysis,
        transfer: &transfer,
        waiting: &waits,
        minimum_share: settings.minimum_share,
        least_finding: settings.least_finding,
        replayer: replayer.as_ref().ok(),
        slow_exchanges: &slow_exchanges,
    });
    analysis
}

/// Whether all that a timeline may show was analysed: steps, all ranks of the job, and whether one is slow. One rank waits for no
/// other.
fn is_whole(timeline: &Timeline, verdict: &straggler::StragglerVerdict, steps: usize) -> bool {
    let ranks = timeline.ranks.len();
    let all = timeline.world.map_or(ranks > 1, |world| world as usize == ranks);
    let judged = verdict.abstains.is_none() && verdict.apart.is_empty() || (ranks == 1 && steps >= MINIMUM_STEPS);
    steps > 0 && all && judged
}
