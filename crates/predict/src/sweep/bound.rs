//! Bounds of a candidate without a simulation.

use std::ops::Range;

use model::{Part, Shard};
use parallel::{Optimizer, Pieces, Schedule};
use terms::{Collective, Dtype};

use super::Candidate;
use crate::costs::{Costs, ExchangeGroup};
use crate::passes::BlockTimes;
use crate::workload::Workload;

/// Share of an exchange of all units at once that its exchanges one by one take at least: measured curves are not straight.
const SURE: f64 = 0.8;

/// What bounds need of a model.
pub(super) struct ModelBounds {
    blocks: usize,
    /// Ranks on one node.
    node: usize,
    /// Elements of the parameters of all blocks before each: those that a tensor group cuts, and those that each part holds.
    cut: Vec<u64>,
    whole: Vec<u64>,
    /// Elements of a parameter that the last block borrows from the first.
    tied: u64,
    bytes: u64,
    state_bytes: u64,
    /// Numbers of state for each parameter.
    states: u64,
}

impl ModelBounds {
    pub(super) fn new(base: &Workload) -> Self {
        let recipe = &base.recipe;
        let blocks = &recipe.model.blocks;
        let sum = |block: &model::Block, cut: bool| {
            let wanted = |parameter: &model::Parameter| (parameter.shard != Shard::Whole) == cut;
            block
                .parameters()
                .iter()
                .filter(|parameter| wanted(parameter))
                .map(|parameter| parameter.len() as u64)
                .sum()
        };
        let borrowed = blocks.iter().flat_map(|block| &block.nodes).find_map(|node| match &node.layer {
            model::Layer::Linear(layer) => layer.tied.clone(),
            _ => None,
        });
        let all = recipe.model.parameters();
        let tied = all.iter().find(|parameter| Some(&parameter.name) == borrowed.as_ref());
        let state_bytes = if recipe.precision == Dtype::F64 { 8 } else { 4 };
        Self {
            blocks: blocks.len(),
            node: base.ranks_per_node,
            cut: running(blocks.iter().map(|block| sum(block, true))),
            whole: running(blocks.iter().map(|block| sum(block, false))),
            tied: tied.map_or(0, |parameter| parameter.len() as u64),
            bytes: recipe.precision.bytes(),
            state_bytes,
            states: match recipe.optimizer {
                Optimizer::Sgd { momentum, .. } => u64::from(momentum != 0.0),
                Optimizer::AdamW { .. } => 2,
            },
        }
    }

    /// The blocks of a place.
    fn range(&self, candidate: &Candidate, place: usize) -> Range<usize> {
        Part { index: place, of: candidate.mesh.pipeline * candidate.chunks }.range(self.blocks)
    }

    /// Bytes of the rank that needs the most, without what a plan adds between buffers: a little below the truth.
    pub(super) fn bytes(&self, candidate: &Candidate, pieces: &Pieces) -> u64 {
        let most = (0..candidate.mesh.pipeline).map(|stage| self.bytes_of(candidate, pieces, stage));
        // The first stage holds the most micro-batches, the last the head: stages between hold no more than these two.
        most.max().unwrap_or(0)
    }

    fn bytes_of(&self, candidate: &Candidate, pieces: &Pieces, stage: usize) -> u64 {
        let (data, pipeline) = (candidate.mesh.data as u64, candidate.mesh.pipeline);
        let ranges = || (0..candidate.chunks).map(|chunk| self.range(candidate, chunk * pipeline + stage));
        let elements = self.elements(candidate, stage);
        let cut = |from: u8| if candidate.sharded >= from { data } else { 1 };
        let masters = if self.bytes == self.state_bytes { 0 } else { self.state_bytes * elements / cut(1) };
        let lasting = self.bytes * elements / cut(3)
            + masters
            + self.state_bytes * elements / cut(2)
            + self.states * self.state_bytes * elements / cut(1);
        let kept = |range: Range<usize>| -> u64 {
            let of_block = |block: usize| {
                let piece = &pieces.blocks[pieces.places[block]];
                match candidate.recompute && block + 1 < self.blocks {
                    true => block.checked_sub(1).map_or(0, |before| pieces.blocks[pieces.places[before]].output_bytes),
                    false => piece.saved_bytes,
                }
            };
            range.map(of_block).sum()
        };
        let all: u64 = ranges().map(kept).sum();
        lasting + all * self.held(candidate, stage) as u64 / candidate.chunks as u64
    }

    /// Elements of the parameters that a rank of a stage computes with.
    fn elements(&self, candidate: &Candidate, stage: usize) -> u64 {
        let (tensor, pipeline) = (candidate.mesh.tensor as u64, candidate.mesh.pipeline);
        let ranges = (0..candidate.chunks).map(|chunk| self.range(candidate, chunk * pipeline + stage));
        let sums = ranges.map(|range| {
            let of = |sums: &[u64]| sums[range.end] - sums[range.start];
            of(&self.cut) / tensor + of(&self.whole)
        });
        let own: u64 = sums.sum();
        if stage + 1 == pipeline && pipeline > 1 { own + self.tied / tensor } else { own }
    }

    /// Passes whose values a stage holds at once.
    fn held(&self, candidate: &Candidate, stage: usize) -> usize {
        let (pipeline, chunks) = (candidate.mesh.pipeline, candidate.chunks);
        let all = candidate.micros * chunks;
        match candidate.schedule {
            Schedule::GPipe => all,
            Schedule::OneForwardOneBackward => (pipeline - stage).min(all),
            Schedule::Interleaved if candidate.micros == pipeline => all,
            Schedule::Interleaved => ((pipeline - stage - 1) * 2 + (chunks - 1) * pipeline + 1).min(all),
        }
    }

    /// Seconds that no simulation is below.
    pub(super) fn seconds(
        &self,
        candidate: &Candidate,
        pieces: &Pieces,
        times: &[BlockTimes],
        costs: &Costs<'_>,
    ) -> f64 {
        let pipeline = candidate.mesh.pipeline;
        let passes = |range: Range<usize>| -> f64 {
            let blocks = range.map(|block| &times[pieces.places[block]]);
            blocks.map(|block| block.forward.total() + block.backward.total()).sum()
        };
        let (mut before, mut most) = (0.0, 0.0_f64);
        // Links within a node take as long as each other, and so do those between nodes.
        let mut links: [Option<f64>; 2] = [None; 2];
        for stage in 0..pipeline {
            let first = passes(self.range(candidate, stage));
            let others: f64 =
                (1..candidate.chunks).map(|chunk| passes(self.range(candidate, chunk * pipeline + stage))).sum();
            let (within, after) = self.of_replicas(candidate, stage, costs);
            let micros = candidate.micros as f64;
            // What a stage computes goes through all stages before it, first and last; its update does not.
            let computed = before + micros * (first + others) + after;
            most = most.max(computed).max(micros * within + after);
            before += first;
            if stage + 1 < pipeline {
                let pair = ExchangeGroup::of_stages(candidate.mesh, stage, stage + 1, self.node);
                let known = &mut links[usize::from(pair.nodes() > 1)];
                before += 2.0 * *known.get_or_insert_with(|| link(candidate, pieces, pair, costs));
            }
        }
        most
    }

    /// Seconds of exchanges among replicas, at least: within each micro-batch, and after the last.
    fn of_replicas(&self, candidate: &Candidate, stage: usize, costs: &Costs<'_>) -> (f64, f64) {
        let mesh = candidate.mesh;
        if mesh.data == 1 || candidate.sharded == 0 {
            return (0.0, 0.0);
        }
        let group = ExchangeGroup::strided(mesh.data, mesh.tensor, self.node, mesh.ranks());
        let elements = self.elements(candidate, stage);
        let state = if costs.habits().narrow_gradients { self.bytes } else { self.state_bytes };
        let time = |operation, each: u64| SURE * costs.exchange(operation, group, elements * each);
        let gathered = || time(Collective::AllGather, self.bytes);
        match candidate.sharded {
            1 => (0.0, gathered()),
            2 => (time(Collective::ReduceScatter, state), gathered()),
            // Once for the forward and once for the backward pass.
            _ => (time(Collective::ReduceScatter, state) + 2.0 * gathered(), 0.0),
        }
    }
}

/// Seconds of a transfer between the ranks of two stages, at least.
fn link(candidate: &Candidate, pieces: &Pieces, pair: ExchangeGroup, costs: &Costs<'_>) -> f64 {
    let bytes = pieces.blocks.iter().map(|block| block.output_bytes).min().unwrap_or(0);
    let cut = if costs.habits().cut_transfers { candidate.mesh.tensor as u64 } else { 1 };
    SURE * costs.exchange(Collective::SendRecv, pair, bytes / cut)
}

/// Sums of all before each, and of all.
fn running(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sums = vec![0];
    for value in values {
        sums.push(sums[sums.len() - 1] + value);
    }
    sums
}
