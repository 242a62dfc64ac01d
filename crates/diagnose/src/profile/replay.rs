//! Steps over again, from their recorded dependencies: how long they take when some work or some transfers take another time.
//!
//! A rank works, enters collectives, and waits until they end. A collective ends when its last rank has entered and its bytes
//! have moved. With the recorded times this must give the recorded steps back; where it does not, nothing is said.

use super::instances::Instances;
use super::lanes::CommonSteps;
use super::replay_graph::{self, Chain, PARTS};
use super::replay_walk::{self, Variant};
use super::step_without::Replay;
use super::steps::Steps;

/// Fewer steps bound nothing.
const FEWEST_STEPS: usize = 8;
/// Above this share of a step, what the replay misses could be what it is asked for.
const LARGEST_ERROR: f64 = 0.05;

/// A timeline that can be replayed.
pub(super) struct Replayer<'r> {
    pub(super) prepared: &'r CommonSteps<'r>,
    pub(super) instances: &'r Instances,
    pub(super) summary: Replay,
    /// Seconds of the steps that count, as recorded.
    pub(super) recorded: Vec<f64>,
    /// Seconds of these steps as replayed with the recorded times.
    baseline: Vec<f64>,
    chains: Vec<Chain>,
    sections: usize,
}

impl<'r> Replayer<'r> {
    /// A replay of these steps, or why there is none. `pipeline`: ranks wait in transfers between two of them.
    pub(super) fn new(
        prepared: &'r CommonSteps<'r>,
        instances: &'r Instances,
        steps: &Steps,
        (world, pipeline): (Option<u32>, bool),
    ) -> Result<Self, String> {
        refuse(prepared, instances, world, pipeline)?;
        let step_s = steps.step.median.filter(|step| *step > 0.0).ok_or("steps have no duration")?;
        let mut chains = replay_graph::chains(prepared, instances, step_s)?;
        let sections = replay_graph::number_sections(&mut chains);
        let summary = Replay { steps: 0, error_share: 0.0, fixed_waits_share: 0.0 };
        let (recorded, baseline) = (Vec::new(), Vec::new());
        let mut replayer = Self { prepared, instances, summary, recorded, baseline, chains, sections };
        replayer.recorded = replayer.places().map(|place| steps.step.values[place]).collect();
        let count = replayer.recorded.len();
        if count < FEWEST_STEPS {
            return Err(format!(
                "{count} steps that follow another one are too few: at least {FEWEST_STEPS} are needed"
            ));
        }
        let as_recorded = Variant { work: &|_, _, _| [1.0; PARTS], transfer: &|_| 1.0 };
        replayer.baseline = replayer
            .seconds(&as_recorded)
            .ok_or("the recorded order of collectives contradicts itself between ranks")?;
        replayer.summary = replayer.judged(steps);
        let Replay { error_share, fixed_waits_share, .. } = replayer.summary;
        if error_share > LARGEST_ERROR {
            return Err(format!("a replay of the recorded steps is off by {:.0}% of a step", 100.0 * error_share));
        }
        if fixed_waits_share > LARGEST_ERROR {
            return Err(format!(
                "waits of {:.0}% of a step end with no collective that all its ranks show",
                100.0 * fixed_waits_share
            ));
        }
        Ok(replayer)
    }

    fn judged(&self, steps: &Steps) -> Replay {
        let error = |(replayed, recorded): (&f64, &f64)| (replayed - recorded).abs() / recorded.max(f64::MIN_POSITIVE);
        let errors: Vec<f64> = self.baseline.iter().zip(&self.recorded).map(error).collect();
        let fixed =
            |rank: usize| self.chains.iter().map(|chain| chain.ranks[rank].unexplained).sum::<i64>() as f64 * 1e-9;
        let most = (0..self.prepared.ranks.len()).map(fixed).fold(0.0, f64::max);
        Replay {
            steps: self.recorded.len(),
            error_share: stats::median(&errors),
            fixed_waits_share: most / steps.step.values.iter().sum::<f64>(),
        }
    }

    /// Places of the steps that count: all but the first of each chain, if any chain has more than that.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        let skipped = usize::from(self.chains.iter().any(|chain| chain.last > chain.first));
        self.chains.iter().flat_map(move |chain| chain.first + skipped..=chain.last)
    }

    /// Nanoseconds of a rank's own work, by section, part and step.
    pub(super) fn work(&self, rank: usize) -> Vec<[Vec<f64>; PARTS]> {
        let none = || std::array::from_fn(|_| vec![0.0; self.prepared.numbers.len()]);
        let mut found: Vec<[Vec<f64>; PARTS]> = (0..self.sections).map(|_| none()).collect();
        for point in self.chains.iter().flat_map(|chain| &chain.ranks[rank].points) {
            let Some(step) = point.step else { continue };
            found[point.section].iter_mut().zip(point.work).for_each(|(part, work)| part[step] += work);
        }
        found
    }

    /// What a variant takes off each step that counts, in seconds.
    pub(super) fn savings(&self, variant: &Variant) -> Option<Vec<f64>> {
        let replayed = self.seconds(variant)?;
        Some(self.baseline.iter().zip(&replayed).map(|(before, after)| before - after).collect())
    }

    fn seconds(&self, variant: &Variant) -> Option<Vec<f64>> {
        let mut steps = vec![0.0; self.prepared.numbers.len()];
        for chain in &self.chains {
            let times = replay_walk::walk(chain, &self.instances.all, variant)?;
            steps[chain.first..=chain.last].iter_mut().zip(times).for_each(|(step, time)| *step = time * 1e-9);
        }
        Some(self.places().map(|place| steps[place]).collect())
    }
}

/// What a replay cannot know.
fn refuse(prepared: &CommonSteps, instances: &Instances, world: Option<u32>, pipeline: bool) -> Result<(), String> {
    let ranks = prepared.ranks.len();
    let communicates = prepared.ranks.iter().any(|lanes| !lanes.comm.is_empty());
    if let Some(world) = world.filter(|world| *world as usize > ranks) {
        return Err(format!("only {ranks} of {world} ranks are in the trace"));
    }
    if ranks < 2 && communicates {
        return Err("the trace has one rank, but what it waits for is on other ranks".to_owned());
    }
    if pipeline || prepared.ranks.iter().any(|lanes| !lanes.point_to_point.is_empty()) {
        return Err("the trace does not say which send each receive waits for".to_owned());
    }
    if prepared.ranks.iter().any(|lanes| !lanes.shows_waits()) {
        return Err("the trace does not show when steps wait for communication".to_owned());
    }
    if ranks > 1 && !instances.all.iter().any(super::instances::Instance::tells_waits) {
        return Err("the trace has no collective in which ranks wait for each other".to_owned());
    }
    Ok(())
}
