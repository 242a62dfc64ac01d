//! The best of all legal meshes: memory first, then a bound, then simulation of what can still win.
//!
//! The bound is admissible: a stage cannot begin before the first micro-batch has come through all stages before it, and the step
//! cannot end before the last gradient has gone back through them. Candidates are simulated by their bounds, the least first, until
//! the bound of the next is above the worst of the best found.
//!
//! Memory that comes first is a little below what is needed. So the best are those whose plans fit, too: one that does not is no
//! reason to end the search.

mod bound;
mod candidates;
mod fastest;

use std::collections::HashMap;
use std::sync::Arc;

use parallel::{Pieces, StagePieces, pieces};
use terms::Error;

use crate::Costs;
use crate::memory::{fits, memory};
use crate::passes::{BlockTimes, block_times};
use crate::prediction::{Prediction, Predictor};
use crate::simulate::{Times, play};
use crate::workload::{Step, Workload};

use bound::ModelBounds;
pub use candidates::{Candidate, Choices};
use fastest::Fastest;

/// What a sweep found.
#[derive(Clone, Debug, PartialEq)]
pub struct Swept {
    /// Legal candidates.
    pub legal: usize,
    /// Of these, those that fit into memory by an estimate.
    pub fitting: usize,
    /// Of these, those that were simulated.
    pub simulated: usize,
    /// The best, the fastest first.
    pub best: Vec<Ranked>,
    /// The candidate that needs the least memory, where none fits.
    pub smallest: Option<(Candidate, u64)>,
}

/// One of the best.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The candidate.
    pub candidate: Candidate,
    /// The prediction of the candidate.
    pub prediction: Prediction,
    /// Whether the first may well be slower than this one.
    pub tied: bool,
}

/// Share of the model's error that two meshes of one model on one machine do not have in common. Assumed.
const OWN_ERROR: f64 = 0.3;
/// Rounds of micro-batches, one for each place, that are played: a pipeline in steady state repeats itself.
const PLAYED: usize = 3;

/// Pieces of blocks, and their times without and with recomputation.
type Blocks = (Arc<Pieces>, Vec<BlockTimes>, Vec<BlockTimes>);
/// Tensor size, samples, sequence parallelism, whether gradients are written once.
type BlocksKey = (usize, usize, bool, bool);
/// Tensor size, stages, chunks, replicas, degree of sharding, sequence parallelism.
type StagesKey = (usize, usize, usize, usize, u8, bool);

/// What candidates share: lists and times that depend on few of their choices.
struct SweepCache<'a> {
    base: &'a Workload,
    costs: &'a Costs<'a>,
    blocks: HashMap<BlocksKey, Option<Arc<Blocks>>>,
    stages: HashMap<StagesKey, Option<Arc<Vec<StagePieces>>>>,
}

impl SweepCache<'_> {
    /// Pieces, times without and with recomputation of a candidate's blocks; None where the tensor group cannot cut the model.
    fn blocks(&mut self, candidate: &Candidate) -> Option<Arc<Blocks>> {
        let is_single = candidate.micros == 1 || candidate.sharded >= 2 && candidate.mesh.data > 1;
        let key = (candidate.mesh.tensor, candidate.micro_batch, candidate.sequence_parallel, is_single);
        if let Some(known) = self.blocks.get(&key) {
            return known.clone();
        }
        let workload = candidate.workload(self.base);
        let made = pieces(&workload.recipe).ok().map(|pieces| {
            let times = |recompute| {
                let mut workload = workload.clone();
                workload.recipe.recompute = recompute;
                block_times(self.costs, &workload, &pieces)
            };
            let (plain, again) = (times(false), times(true));
            Arc::new((Arc::new(pieces), plain, again))
        });
        self.blocks.insert(key, made.clone());
        made
    }

    fn stages(&mut self, candidate: &Candidate, workload: &Workload) -> Option<Arc<Vec<StagePieces>>> {
        let mesh = candidate.mesh;
        let level = if mesh.data == 1 { 0 } else { candidate.sharded };
        let key = (mesh.tensor, mesh.pipeline, candidate.chunks, mesh.data, level, candidate.sequence_parallel);
        let base = &workload;
        self.stages.entry(key).or_insert_with(|| base.stages().ok().map(Arc::new)).clone()
    }

    /// The whole step of a candidate; None where it cannot be simulated.
    fn step(&mut self, candidate: &Candidate) -> Option<Step> {
        let workload = candidate.workload(self.base);
        let (blocks, stages) = (self.blocks(candidate)?, self.stages(candidate, &workload)?);
        let timetable = workload.timetable(candidate.micros).ok()?;
        Some(Step { pieces: Arc::clone(&blocks.0), stages, timetable, workload })
    }

    /// Whether a candidate truly fits.
    fn fits(&mut self, candidate: &Candidate, limit: u64) -> bool {
        self.step(candidate).is_some_and(|step| fits(&step, limit))
    }
}

/// Finds the best candidates.
///
/// # Errors
/// When no candidate is legal.
pub fn sweep(predictor: &Predictor, base: &Workload, choices: &Choices, top: usize) -> Result<Swept, Error> {
    let ranks = base.ranks_per_node.min(choices.ranks);
    let costs = Costs::new(&predictor.profile, predictor.constants, base.software, ranks as u32);
    let mut cache = SweepCache { base, costs: &costs, blocks: HashMap::new(), stages: HashMap::new() };
    let bounds = ModelBounds::new(base);
    let limit = predictor.profile.memory_bytes;
    let mut open: Vec<(f64, Candidate)> = Vec::new();
    let (mut legal, mut smallest): (usize, Option<(Candidate, u64)>) = (0, None);
    choices.for_each(base, &mut |candidate| {
        let Some(blocks) = cache.blocks(candidate) else { return };
        legal += 1;
        let (pieces, plain, again) = &*blocks;
        let bytes = bounds.bytes(candidate, pieces);
        if smallest.is_none_or(|known| bytes < known.1) {
            smallest = Some((*candidate, bytes));
        }
        if bytes <= limit {
            let times = if candidate.recompute { again } else { plain };
            open.push((bounds.seconds(candidate, pieces, times, &costs), *candidate));
        }
    });
    if legal == 0 {
        return Err(Error::new(format!("no mesh of {} ranks is legal for this model and batch", choices.ranks))
            .hint("a global batch that the number of replicas divides; heads that the tensor size divides"));
    }
    let fitting = open.len();
    open.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut found, mut simulated) = (Fastest::default(), 0);
    for (bound, candidate) in open {
        if found.has_best(top, bound, |candidate| cache.fits(candidate, limit)) {
            break;
        }
        let workload = candidate.workload(base);
        let (Some(blocks), Some(stages)) = (cache.blocks(&candidate), cache.stages(&candidate, &workload)) else {
            continue;
        };
        let Some(seconds) = quick(&costs, workload, &candidate, &blocks, &stages) else { continue };
        simulated += 1;
        found.add(seconds, candidate);
    }
    let best = ranked(predictor, base, &found.into_best(top, |candidate| cache.fits(candidate, limit)));
    let smallest = smallest.filter(|_| best.is_empty()).map(|(candidate, least)| {
        // The least that it may need can be below the limit. What it does need is not.
        let step = if least <= limit { cache.step(&candidate) } else { None };
        (candidate, step.map_or(least, |step| memory(&step).bytes()))
    });
    Ok(Swept { legal, fitting, simulated, best, smallest })
}

/// Seconds of a step: beyond the first rounds of a pipeline each further round takes as long as the one before.
fn quick(
    costs: &Costs<'_>,
    workload: Workload,
    candidate: &Candidate,
    blocks: &Blocks,
    stages: &Arc<Vec<StagePieces>>,
) -> Option<f64> {
    let stages_of_pipeline = candidate.mesh.pipeline;
    let round = stages_of_pipeline * candidate.chunks;
    let times = if candidate.recompute { &blocks.2 } else { &blocks.1 };
    let mut step = Step { pieces: Arc::clone(&blocks.0), stages: Arc::clone(stages), timetable: Vec::new(), workload };
    let times = Times::with_blocks(&step, costs, times.clone());
    let mut seconds = |micros: usize| {
        step.timetable = step.workload.timetable(micros).ok()?;
        Some(play(&step, &step.timetable, &times).seconds)
    };
    // A whole number of rounds is left out, so that what is played ends as the step does.
    let rounds = (candidate.micros / round).saturating_sub(PLAYED);
    let played = candidate.micros - rounds * round;
    let end = seconds(played)?;
    if rounds == 0 {
        return Some(end);
    }
    let before = seconds(played - round)?;
    Some(end + rounds as f64 * (end - before))
}

/// The best, predicted in full.
fn ranked(predictor: &Predictor, base: &Workload, found: &[Candidate]) -> Vec<Ranked> {
    let mut best: Vec<(Ranked, [f64; crate::CONSTANTS])> = Vec::new();
    for candidate in found {
        let Ok(step) = candidate.workload(base).step() else { continue };
        let (prediction, slopes) = predictor.predict_with_slopes(&step);
        best.push((Ranked { candidate: *candidate, prediction, tied: false }, slopes));
    }
    best.sort_by(|a, b| a.0.prediction.seconds.total_cmp(&b.0.prediction.seconds));
    let first = best.first().map(|(first, slopes)| (first.prediction.seconds, *slopes));
    if let Some((seconds, slopes)) = first {
        for (other, own) in best.iter_mut().skip(1) {
            let apart: [f64; crate::CONSTANTS] = std::array::from_fn(|at| own[at] - slopes[at]);
            let spreads = other.prediction.spreads;
            let spread = predictor.by_constants(&apart).hypot(spreads.launches).hypot(OWN_ERROR * spreads.model);
            other.tied = (other.prediction.seconds / seconds).ln() < 1.645 * spread;
        }
    }
    best.into_iter().map(|(ranked, _)| ranked).collect()
}

#[cfg(test)]
mod tests;
