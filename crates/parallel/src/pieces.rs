//! A step in pieces, for those who predict it: what each different block does in a pass, what ends a step on each stage, and who
//! does what when.
//!
//! The pieces are read from programs that [`crate::program`] writes too. A program of all micro-batches of all layers repeats them
//! thousands of times; here each is listed once, so that a step of any size is known in milliseconds.

use std::collections::BTreeMap;

use engine::{Axis, Buffer, Category, ExchangeKind, Instruction, Kind, Lifetime, Op, OperationShape, Program};
use model::{Block, Input, Model};
use terms::{Dtype, FieldError};

use crate::check::check;
use crate::mesh::{Coordinate, Mesh};
use crate::outline::bytes_of;
use crate::recipe::{Recipe, Schedule};
use crate::schedule::{self, Dimensions};
use crate::store;
use crate::strategies::{Builder, PassMark, build, stages};

pub use crate::schedule::{Event, Pass, Transfer};

/// One thing that a pass does.
#[derive(Clone, Debug, PartialEq)]
pub enum PassWork {
    /// An operation.
    Run {
        /// What its time depends on.
        shape: OperationShape,
        /// What kind of work it is.
        kind: Kind,
        /// Whether a product on a GPU computes it as it writes its result ([`engine::is_epilogue`]): bytes of the operand that is not
        /// read again.
        joins: Option<u64>,
    },
    /// An exchange, which the pass waits for.
    Exchange {
        /// Along which axis.
        axis: Axis,
        /// What.
        kind: ExchangeKind,
        /// Bytes of the operation (S of docs/explanation/bandwidth.md).
        bytes: u64,
    },
}

/// What a block does with one micro-batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockPieces {
    /// The forward pass.
    pub forward: Vec<PassWork>,
    /// The backward pass, without a forward pass that is run again.
    pub backward: Vec<PassWork>,
    /// Bytes of the block's output, which crosses to the next stage if the block is the last of a stage.
    pub output_bytes: u64,
    /// Bytes that the forward pass leaves for the backward pass, the output included and the input not.
    pub saved_bytes: u64,
    /// Bytes that are held for a while within one of the passes, at most.
    pub working_bytes: u64,
}

/// The blocks of a model: each different one once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pieces {
    /// The different blocks.
    pub blocks: Vec<BlockPieces>,
    /// For each block of the model its place in [`Pieces::blocks`].
    pub places: Vec<usize>,
}

/// A run of parameters that are exchanged at once, on one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitPieces {
    /// Elements, padding included.
    pub elements: usize,
    /// Blocks of the model with a backward pass that writes to its gradients.
    pub writers: Vec<usize>,
    /// Whether another stage holds it too.
    pub tied: bool,
    /// Bytes of each gradient that the tensor group sums before replicas do, one by one (sequence parallelism).
    pub partials: Vec<u64>,
}

/// What a stage holds, and how it ends a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePieces {
    /// Parameters of the stage, in the order in which their gradients become final.
    pub units: Vec<UnitPieces>,
    /// Norms, updates, and parameters put together again, in order.
    pub update: Vec<PassWork>,
    /// Bytes of buffers that last from step to step, but for inputs.
    pub held: BTreeMap<Category, u64>,
    /// Blocks of each chunk.
    pub chunks: Vec<std::ops::Range<usize>>,
    /// Type of gradients.
    pub state: Dtype,
    /// Degree of sharding in effect.
    pub level: u8,
}

/// The pieces of a recipe's blocks: of a micro-batch that is not the first, unless there is but one.
///
/// # Errors
/// When the tensor group cannot cut this model.
pub fn pieces(recipe: &Recipe) -> Result<Pieces, FieldError> {
    let (model, places) = different(&recipe.model);
    let is_single = recipe.micro_batches.iter().all(|count| *count == 1) || recipe.sharded >= 2 && recipe.mesh.data > 1;
    let micros = if is_single { 1 } else { 2 };
    let single = Recipe {
        model,
        mesh: Mesh { data: 1, pipeline: 1, ..recipe.mesh },
        micro_batches: vec![micros],
        schedule: Schedule::GPipe,
        chunks: 1,
        stages: Vec::new(),
        sharded: 0,
        recompute: false,
        ..recipe.clone()
    };
    check(&single)?;
    let built = build(&single, single.mesh.coordinate(0))?;
    let count = single.model.blocks.len();
    let lives = built.program.lifetimes();
    let forward = &built.marks[(micros - 1) * count..micros * count];
    let backward = &built.marks[(2 * micros - 1) * count..2 * micros * count];
    let turning = backward.first().map_or(0, |mark| mark.begin);
    let blocks = (0..count).map(|block| {
        let (forward, backward) = (forward[block], backward[count - 1 - block]);
        let memory = BlockMemory { program: &built.program, lives: &lives, turning };
        BlockPieces {
            forward: listed(&built.program, forward),
            backward: listed(&built.program, backward),
            output_bytes: built.output_bytes[block],
            saved_bytes: memory.saved(forward),
            working_bytes: memory.working(forward).max(memory.working(backward)),
        }
    });
    Ok(Pieces { blocks: blocks.collect(), places })
}

/// What a stage holds, and how it ends a step.
///
/// # Errors
/// When the recipe cannot be followed. Only the mesh is checked, not the length of the step.
pub fn stage_pieces(recipe: &Recipe, stage: usize) -> Result<StagePieces, FieldError> {
    let at = Coordinate { data: 0, tensor: 0, pipeline: stage };
    let mut builder = Builder::new(recipe, at);
    let held = held(&builder.program.buffers);
    let state = crate::strategies::state_of(recipe.precision);
    // With sequence parallelism each part saw some of the rows: gradients of what is whole on every part are summed.
    // The layer that reads samples saw all rows.
    let is_partial = recipe.sequence_parallel && recipe.mesh.tensor > 1;
    let first = &recipe.model.blocks[0];
    let reads_samples = format!("{}.{}.", first.name, first.nodes[0].name);
    let units = builder.store.units.iter().map(|unit| {
        let saw_some = |name: &str| !name.starts_with(&reads_samples);
        let whole = unit.held.iter().filter(|held| is_partial && held.whole() && saw_some(&held.parameter.name));
        UnitPieces {
            elements: unit.len,
            writers: unit.writers.iter().copied().collect(),
            tied: unit.tied_across,
            partials: whole.map(|held| held.len as u64 * state.bytes()).collect(),
        }
    });
    let units = units.collect();
    let begin = builder.program.instructions.len();
    builder.update();
    let end = builder.program.instructions.len();
    let update = listed(&builder.program, PassMark { block: 0, begin, end });
    let chunks = stages(recipe)[stage].clone();
    Ok(StagePieces { units, update, held, chunks, state, level: store::level(recipe) })
}

/// What every stage does, in order; None when the schedule does not fit these numbers.
pub fn timetable(schedule: Schedule, stages: usize, chunks: usize, micros: usize) -> Option<Vec<Vec<Event>>> {
    schedule::all_events(schedule, Dimensions { stages, chunks, micros })
}

/// The model with each of several equal blocks in a row once, and the place of each block there. Of samples that are vectors, the
/// first block leaves all rows on every part, so that the block behind it exchanges less than its equals.
fn different(model: &Model) -> (Model, Vec<usize>) {
    let gets_all_rows = |at: usize| at == 1 && matches!(model.input, Input::Vector { .. });
    let mut blocks: Vec<Block> = Vec::new();
    let mut places = Vec::with_capacity(model.blocks.len());
    for (at, block) in model.blocks.iter().enumerate() {
        let follows_equal = blocks.last().is_some_and(|last| last.nodes == block.nodes);
        if !follows_equal || gets_all_rows(at - 1) {
            blocks.push(block.clone());
        }
        places.push(blocks.len() - 1);
    }
    (Model { blocks, ..model.clone() }, places)
}

/// Bytes of buffers that last, by category, but for inputs: these follow from the micro-batches.
fn held(buffers: &[Buffer]) -> BTreeMap<Category, u64> {
    let mut found = BTreeMap::new();
    let lasts = |buffer: &&Buffer| buffer.lifetime == Lifetime::Persistent && buffer.category != Category::Input;
    for buffer in buffers.iter().filter(lasts) {
        *found.entry(buffer.category).or_insert(0) += buffer.bytes() as u64;
    }
    found
}

/// The instructions of a stretch, as pieces.
fn listed(program: &Program, stretch: PassMark) -> Vec<PassWork> {
    let mut before: Option<&Op> = None;
    let mut pieces = Vec::new();
    for instruction in &program.instructions[stretch.begin..stretch.end] {
        match instruction {
            Instruction::Run(op) => {
                let joins = before
                    .is_some_and(|before| engine::is_epilogue(before, op))
                    .then(|| engine::largest_view(program, op));
                pieces.push(PassWork::Run { shape: OperationShape::of(program, op), kind: Kind::of(op), joins });
                before = Some(op);
            }
            Instruction::Start { exchange, .. } => {
                let bytes = bytes_of(program, exchange);
                pieces.push(PassWork::Exchange { axis: exchange.axis, kind: exchange.kind, bytes });
            }
            Instruction::Finish { .. } | Instruction::Enter(_) => {}
        }
    }
    pieces
}

/// What blocks hold of a step's memory.
struct BlockMemory<'a> {
    program: &'a Program,
    lives: &'a [Option<(usize, usize)>],
    /// The first instruction of the first backward pass.
    turning: usize,
}

impl BlockMemory<'_> {
    fn of_step(&self) -> impl Iterator<Item = (u64, (usize, usize))> {
        let both = self.program.buffers.iter().zip(self.lives);
        both.filter(|(buffer, _)| buffer.lifetime == Lifetime::Step)
            .filter_map(|(buffer, life)| Some((buffer.bytes() as u64, (*life)?)))
    }

    /// Bytes that begin in this forward pass and are still wanted when backward passes begin.
    fn saved(&self, forward: PassMark) -> u64 {
        let begins = |first: usize| (forward.begin..forward.end).contains(&first);
        let saved = self.of_step().filter(|(_, (first, last))| begins(*first) && *last >= self.turning);
        saved.map(|(bytes, _)| bytes).sum()
    }

    /// The most bytes that live at one time in this stretch, of those that begin in it and are not saved.
    fn working(&self, stretch: PassMark) -> u64 {
        let mut change = vec![0_i64; stretch.end - stretch.begin + 1];
        for (bytes, (first, last)) in self.of_step() {
            let saved = first < self.turning && last >= self.turning;
            if saved || !(stretch.begin..stretch.end).contains(&first) {
                continue;
            }
            change[first - stretch.begin] += bytes as i64;
            if last < stretch.end {
                change[last - stretch.begin + 1] -= bytes as i64;
            }
        }
        let mut held = 0;
        let most = change.iter().map(|change| {
            held += change;
            held
        });
        most.max().unwrap_or(0).max(0) as u64
    }
}

#[cfg(test)]
mod tests;
