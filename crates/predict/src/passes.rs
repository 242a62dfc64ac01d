//! What the passes of blocks take, from the list of their operations.

use engine::{ExchangeKind, Kind, Phase};
use parallel::{BlockPieces, PassWork, Pieces, SleepTimes, StagePieces};
use terms::Collective;

use crate::costs::{Costs, ExchangeGroup};
use crate::workload::Workload;

/// Seconds by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// Products, attention and convolutions.
    pub compute: f64,
    /// Operations that read and write rows.
    pub element_wise: f64,
    /// Exchanges of tensor groups.
    pub tensor: f64,
    /// Exchanges of gradients and parameters among replicas that computation does not hide.
    pub data: f64,
    /// Transfers between stages that computation does not hide.
    pub pipeline: f64,
    /// Waiting for other stages.
    pub bubble: f64,
    /// Norms and updates.
    pub optimizer: f64,
    /// Waiting for the host, and what a step takes in addition.
    pub host: f64,
}

impl Parts {
    /// All seconds.
    pub fn total(&self) -> f64 {
        self.listed().iter().map(|(_, seconds)| seconds).sum()
    }

    /// Each part with its name.
    pub fn listed(&self) -> [(&'static str, f64); 8] {
        [
            ("compute", self.compute),
            ("element_wise", self.element_wise),
            ("tensor", self.tensor),
            ("data", self.data),
            ("pipeline", self.pipeline),
            ("bubble", self.bubble),
            ("optimizer", self.optimizer),
            ("host", self.host),
        ]
    }

    /// Adds another's seconds, this many times.
    pub fn add(&mut self, other: &Self, times: f64) {
        self.compute += times * other.compute;
        self.element_wise += times * other.element_wise;
        self.tensor += times * other.tensor;
        self.data += times * other.data;
        self.pipeline += times * other.pipeline;
        self.bubble += times * other.bubble;
        self.optimizer += times * other.optimizer;
        self.host += times * other.host;
    }
}

/// The times of a block's passes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockTimes {
    /// The forward pass.
    pub forward: Parts,
    /// The backward pass, with what is computed again.
    pub backward: Parts,
    /// Exchanges of tensor groups in each of them.
    pub exchanges: [u32; 2],
}

/// The times of all different blocks.
pub fn block_times(costs: &Costs<'_>, workload: &Workload, pieces: &Pieces) -> Vec<BlockTimes> {
    let recipe = &workload.recipe;
    let mesh = recipe.mesh;
    let tensor = ExchangeGroup::strided(mesh.tensor, 1, workload.ranks_per_node, mesh.ranks());
    let last = pieces.blocks.len() - 1;
    let times = pieces.blocks.iter().enumerate().map(|(at, block)| {
        if let Some(sleep) = &workload.emulated.sleep {
            return asleep(costs, block, (sleep, at), tensor);
        }
        let forward = sum(costs, &block.forward, tensor, false);
        let mut backward = sum(costs, &block.backward, tensor, false);
        // The last block's backward pass follows its forward pass at once.
        if recipe.recompute && at != last {
            backward.add(&forward, 1.0);
        } else if workload.recompute_attention && costs.habits().scores_in_memory {
            backward.add(&sum(costs, &block.forward, tensor, true), 1.0);
        }
        let again = if recipe.recompute && at != last { exchanges(&block.forward) } else { 0 };
        let exchanges = [exchanges(&block.forward), exchanges(&block.backward) + again];
        BlockTimes { forward, backward, exchanges }
    });
    times.collect()
}

fn exchanges(list: &[PassWork]) -> u32 {
    list.iter().filter(|piece| matches!(piece, PassWork::Exchange { .. })).count() as u32
}

/// The passes of a block that sleeps: exchanges within a pass are real, and it sleeps for the rest of its time.
fn asleep(
    costs: &Costs<'_>,
    block: &BlockPieces,
    (sleep, at): (&SleepTimes, usize),
    tensor: ExchangeGroup,
) -> BlockTimes {
    let of = |list: &[PassWork], phase: Phase| {
        let exchanged = sum(costs, list, tensor, false).tensor;
        Parts { compute: (sleep.seconds(phase, at) - exchanged).max(0.0), tensor: exchanged, ..Parts::default() }
    };
    BlockTimes {
        forward: of(&block.forward, Phase::Forward),
        backward: of(&block.backward, Phase::Backward),
        exchanges: [exchanges(&block.forward), exchanges(&block.backward)],
    }
}

/// The seconds of a list, or of its attention only.
fn sum(costs: &Costs<'_>, list: &[PassWork], tensor: ExchangeGroup, attention_only: bool) -> Parts {
    let mut parts = Parts::default();
    let (mut starts, mut gaps) = (0.0, 0.0);
    for piece in list {
        match piece {
            PassWork::Run { shape, kind, joins } => {
                if attention_only && *kind != Kind::Attention {
                    continue;
                }
                let time = costs.operation(shape, *kind, *joins);
                match kind {
                    Kind::Products | Kind::Attention | Kind::Convolutions => parts.compute += time.work_s,
                    _ => parts.element_wise += time.work_s,
                }
                starts += time.start_s;
                gaps += time.gap_s;
            }
            PassWork::Exchange { kind, bytes, .. } if !attention_only => {
                parts.tensor += costs.exchange(operation(*kind), tensor, *bytes);
            }
            PassWork::Exchange { .. } => {}
        }
    }
    // The host starts operations ahead of the device: of both, the slower decides.
    parts.host = gaps.max(starts - parts.compute - parts.element_wise);
    parts
}

/// What ends a step on a stage: the norm of gradients, the updates, and what is put together again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UpdateTimes {
    /// Norms, before all ranks agree on them.
    pub norm: f64,
    /// Whether there is a norm.
    pub has_norm: bool,
    /// Updates.
    pub update: f64,
    /// Gathering parameters.
    pub gather: f64,
}

/// The times of a stage's update.
pub fn update_times(costs: &Costs<'_>, workload: &Workload, stage: &StagePieces) -> UpdateTimes {
    let data = data_group(workload);
    let mut times = UpdateTimes::default();
    let sleep = workload.emulated.sleep.as_ref();
    let mut before = "";
    for piece in &stage.update {
        match piece {
            PassWork::Run { shape, kind, joins } => {
                let time = costs.operation(shape, *kind, *joins);
                // Updates in a row are one launch.
                let seconds = if shape.kernel == before { time.work_s } else { time.work_s.max(time.start_s) };
                before = shape.kernel;
                match shape.kernel {
                    "begin_norm" | "sum_squares" | "judge" => {
                        times.norm += if sleep.is_some() { 0.0 } else { seconds };
                        times.has_norm = true;
                    }
                    _ => times.update += seconds,
                }
            }
            PassWork::Exchange { kind: ExchangeKind::AllGather, bytes, .. } => {
                times.gather += costs.exchange(Collective::AllGather, data, *bytes);
            }
            // The sum of the norm: all ranks meet in the simulation.
            PassWork::Exchange { .. } => {}
        }
    }
    if let Some(sleep) = sleep {
        times.update = sleep.seconds(Phase::Optimizer, 0);
    }
    times
}

/// The group of replicas of a rank.
pub fn data_group(workload: &Workload) -> ExchangeGroup {
    let mesh = workload.recipe.mesh;
    ExchangeGroup::strided(mesh.data, mesh.tensor, workload.ranks_per_node, mesh.ranks())
}

/// Which operation an exchange is.
pub fn operation(kind: ExchangeKind) -> Collective {
    match kind {
        ExchangeKind::Sum | ExchangeKind::Max => Collective::AllReduce,
        ExchangeKind::AllGather => Collective::AllGather,
        ExchangeKind::ReduceScatter => Collective::ReduceScatter,
        ExchangeKind::Transfer { .. } => Collective::SendRecv,
    }
}
