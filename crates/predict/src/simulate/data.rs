//! Exchanges among replicas: of gradients, and of parameters where replicas hold shards of them.

use parallel::StagePieces;
use terms::{Collective, Dtype};

use super::replicas;
use crate::costs::{Costs, ExchangeGroup};
use crate::workload::Step;

/// The times of a stage's exchanges among replicas.
pub(crate) struct DataTimes {
    /// Seconds of the exchange of each unit's gradients.
    pub(super) reduce: Vec<f64>,
    /// Seconds in which the values of each unit are put together; zero where replicas hold all of them.
    pub(super) gather: Vec<f64>,
    /// Seconds of the sum over the tensor group that comes before.
    pub(super) partial: Vec<f64>,
    /// Units that each block writes to or computes with, from the stage's first block on.
    pub(super) of_block: Vec<Vec<usize>>,
    /// First block of the stage.
    pub(super) first: usize,
    /// Degree of sharding in effect.
    pub(super) level: u8,
    pub(super) overlap: bool,
}

impl DataTimes {
    pub(super) fn new(costs: &Costs<'_>, step: &Step, stage: &StagePieces, bytes_of_gradient: u64) -> Self {
        let recipe = &step.workload.recipe;
        let group = replicas(step);
        let tensor = ExchangeGroup::strided(recipe.mesh.tensor, 1, step.workload.ranks_per_node, recipe.mesh.ranks());
        let exchanges = recipe.mesh.data > 1 && recipe.communicate;
        let operation = if stage.level == 0 { Collective::AllReduce } else { Collective::ReduceScatter };
        let beside = if recipe.overlap { costs.collective_slowdown() } else { 1.0 };
        let reduce = stage.units.iter().map(|unit| match exchanges {
            true => beside * costs.exchange(operation, group, unit.elements as u64 * bytes_of_gradient),
            false => 0.0,
        });
        // Parameters are put together also where gradients are not exchanged.
        let gather = stage.units.iter().map(|unit| match stage.level == 3 {
            true => {
                beside * costs.exchange(Collective::AllGather, group, unit.elements as u64 * bytes_of(recipe.precision))
            }
            false => 0.0,
        });
        let sum = |bytes: u64| costs.exchange(Collective::AllReduce, tensor, bytes);
        let partial = stage.units.iter().map(|unit| match unit.partials.as_slice() {
            [] => 0.0,
            all if costs.habits().joined_sums => sum(all.iter().sum()),
            all => all.iter().map(|bytes| sum(*bytes)).sum::<f64>(),
        });
        let blocks = || stage.chunks.iter().cloned().flatten();
        let first = blocks().min().unwrap_or(0);
        let mut of_block = vec![Vec::new(); blocks().max().map_or(0, |last| last + 1 - first)];
        for (at, unit) in stage.units.iter().enumerate() {
            for writer in &unit.writers {
                of_block[writer - first].push(at);
            }
        }
        Self {
            reduce: reduce.collect(),
            gather: gather.collect(),
            partial: partial.collect(),
            of_block,
            first,
            level: stage.level,
            overlap: recipe.overlap,
        }
    }
}

fn bytes_of(dtype: Dtype) -> u64 {
    dtype.bytes()
}

#[cfg(test)]
impl DataTimes {
    /// Makes every exchange of gradients take so long.
    pub(crate) fn set(&mut self, seconds: f64) {
        self.reduce.fill(seconds);
    }
}
