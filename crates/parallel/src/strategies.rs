//! Writes the program of one rank: passes in the schedule's order, exchanges where strategies put them.

mod exchange;
mod inputs;
mod passes;
mod update;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use engine::layers::{Emit, Saved, Tensor, Terms, dropouts};
use engine::op::{Op, Rows};
use engine::{Axis, Category, Exchange, ExchangeKind, Instruction, Lifetime, Phase, Program, View};
use model::Part;
use terms::{Dtype, FieldError};

use crate::mesh::Coordinate;
use crate::recipe::Recipe;
use crate::schedule::{self, Dimensions, Event};
use crate::store::Store;
use crate::units::{self, Rules};

pub(crate) use inputs::MicroBatch;

/// The program of a rank and what the trainer must know of it.
pub(crate) struct Built {
    pub(crate) program: Program,
    pub(crate) store: Store,
    /// F64, 1: the loss, summed over all ranks at the end of a step.
    pub(crate) loss: View,
    /// F64, 4: see [`engine::op::Update`].
    pub(crate) control: View,
    /// What to load before a step.
    pub(crate) inputs: Vec<MicroBatch>,
    /// Products of a step, recomputed passes apart.
    pub(crate) model_flops: f64,
    /// Which instructions belong to which block, in order.
    pub(crate) marks: Vec<PassMark>,
    /// Bytes of each block's output, for a micro-batch.
    pub(crate) output_bytes: Vec<u64>,
}

/// A pass of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassMark {
    pub(crate) block: usize,
    /// First instruction of the pass.
    pub(crate) begin: usize,
    /// One past its last.
    pub(crate) end: usize,
}

/// What parameter gradients, statistics and masters are.
pub(crate) fn state_of(precision: Dtype) -> Dtype {
    if precision == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }
}

/// Blocks of each chunk of each stage: `[stage][chunk]`, as ranges of the model's blocks.
pub(crate) fn stages(recipe: &Recipe) -> Vec<Vec<std::ops::Range<usize>>> {
    let places = recipe.mesh.pipeline * recipe.chunks;
    let blocks = recipe.model.blocks.len();
    let sizes: Vec<usize> = if recipe.stages.is_empty() {
        (0..places).map(|index| Part { index, of: places }.range(blocks).len()).collect()
    } else {
        recipe.stages.clone()
    };
    let mut stages = vec![Vec::new(); recipe.mesh.pipeline];
    let mut first = 0;
    for (place, size) in sizes.iter().enumerate() {
        stages[place % recipe.mesh.pipeline].push(first..first + size);
        first += size;
    }
    stages
}

/// Writes the program of the rank at this coordinate. The recipe has been checked.
pub(crate) fn build(recipe: &Recipe, at: Coordinate) -> Result<Built, FieldError> {
    let dimensions =
        Dimensions { stages: recipe.mesh.pipeline, chunks: recipe.chunks, micros: recipe.micro_batches[at.data] };
    let events = schedule::events(recipe.schedule, dimensions, at.pipeline).ok_or_else(|| {
        FieldError::new("schedule", format!("{} does not fit {dimensions:?}", recipe.schedule))
            .hint("another schedule, or a number of micro-batches that the number of stages divides")
    })?;
    let mut builder = Builder::new(recipe, at);
    builder.begin();
    for event in events {
        builder.event(event);
    }
    builder.end();
    Ok(builder.built())
}

pub(crate) struct Builder<'a> {
    recipe: &'a Recipe,
    at: Coordinate,
    pub(crate) program: Program,
    pub(crate) store: Store,
    terms: Terms,
    control: View,
    chunks: Vec<std::ops::Range<usize>>,
    inputs: Vec<MicroBatch>,
    /// Rows and columns of each block's output, for a micro-batch.
    outputs: Vec<Tensor>,
    /// Number of the first dropout of each block.
    dropouts: Vec<u32>,
    phase: Option<Phase>,
    /// What forward passes left: by (block, micro-batch).
    saved: HashMap<(usize, usize), Saved>,
    /// Inputs of chunks, where blocks run their forward pass again: by (block, micro-batch).
    kept: HashMap<(usize, usize), Option<Tensor>>,
    /// What arrived, or is about to: by (chunk, micro-batch, backward).
    arriving: HashMap<(usize, usize, bool), (Tensor, u32)>,
    /// What is to be sent: by (chunk, micro-batch, backward).
    leaving: HashMap<(usize, usize, bool), Tensor>,
    /// The last send of each link and direction, until it is finished.
    sending: BTreeMap<(usize, bool), u32>,
    /// Exchanges that put a unit's values together, until they are finished.
    gathering: HashMap<usize, u32>,
    /// Backward passes that are still to write to each unit.
    left: Vec<usize>,
    /// Backward passes that wrote to each unit since it was last exchanged.
    since: Vec<usize>,
    /// Exchanges of gradients under way, in order.
    reducing: VecDeque<exchange::Reduction>,
    /// Whether a shard's gradient holds something of this step.
    begun: Vec<bool>,
    model_flops: f64,
    marks: Vec<PassMark>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(recipe: &'a Recipe, at: Coordinate) -> Self {
        let mut program = Program::default();
        let state = state_of(recipe.precision);
        let part = Part { index: at.tensor, of: recipe.mesh.tensor };
        let chunks = stages(recipe)[at.pipeline].clone();
        let blocks: BTreeSet<usize> = chunks.iter().cloned().flatten().collect();
        let rules = Rules {
            part,
            replicas: recipe.mesh.data,
            state,
            bucket_bytes: recipe.bucket_bytes,
            by_block: crate::store::level(recipe) >= 2,
            logits_multiple: recipe.logits_multiple,
        };
        let units = units::units(&recipe.model, &blocks, rules);
        let scalar =
            |program: &mut Program, len| program.buffer(Category::Scalar, Lifetime::Persistent, Dtype::F64, len);
        let loss = scalar(&mut program, 1);
        let control = scalar(&mut program, 4);
        let store = Store::new(&mut program, recipe, units, at.data, state);
        let terms = Terms {
            element: recipe.precision,
            state,
            part,
            sequence_parallel: recipe.sequence_parallel,
            batch_norm_replicas: if recipe.synchronised { recipe.mesh.data } else { 1 },
            input: recipe.model.input,
            global_batch: recipe.global_batch(),
            logits_multiple: recipe.logits_multiple,
            loss,
            control,
        };
        let micros = recipe.micro_batches[at.data];
        let left = store.units.iter().map(|unit| unit.writers.len() * micros).collect();
        let count = store.units.len();
        let mut first = 0;
        let numbers = recipe.model.blocks.iter().map(|block| {
            let own = first;
            first += dropouts(block);
            own
        });
        let numbers = numbers.collect();
        Self {
            outputs: passes::outputs(recipe, terms),
            dropouts: numbers,
            recipe,
            at,
            program,
            store,
            terms,
            control,
            chunks,
            inputs: Vec::new(),
            phase: None,
            saved: HashMap::new(),
            kept: HashMap::new(),
            arriving: HashMap::new(),
            leaving: HashMap::new(),
            sending: BTreeMap::new(),
            gathering: HashMap::new(),
            left,
            since: vec![0; count],
            reducing: VecDeque::new(),
            begun: vec![false; count],
            model_flops: 0.0,
            marks: Vec::new(),
        }
    }

    fn begin(&mut self) {
        self.program.run(Op::Rows(Rows::Fill { y: self.terms.loss, value: 0.0 }));
        self.add_inputs();
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Pass(pass) => self.pass(pass),
            Event::Send(transfer) => self.send(transfer),
            Event::Receive(transfer) => self.receive(transfer),
        }
    }

    fn end(&mut self) {
        for (_, ticket) in std::mem::take(&mut self.sending) {
            self.program.finish(ticket);
        }
        self.reduce_the_rest();
        self.enter(Phase::Optimizer);
        self.update();
        if self.recipe.mesh.ranks() > 1 {
            let loss = self.terms.loss;
            let exchange = Exchange { axis: Axis::World, kind: ExchangeKind::Sum, input: loss, output: loss };
            self.program.exchange(exchange);
        }
    }

    fn enter(&mut self, phase: Phase) {
        if self.phase != Some(phase) {
            self.phase = Some(phase);
            self.program.instructions.push(Instruction::Enter(phase));
        }
    }

    fn emit(&mut self, block: usize, micro: usize) -> Emit<'_> {
        Emit {
            program: &mut self.program,
            terms: self.terms,
            batch: self.inputs[micro].batch,
            parameters: &mut self.store,
            first_dropout: self.dropouts[block],
        }
    }

    fn built(self) -> Built {
        let each = self.terms.element.bytes();
        let output_bytes = self.outputs.iter().map(|output| (output.rows * output.columns) as u64 * each).collect();
        Built {
            output_bytes,
            program: self.program,
            store: self.store,
            loss: self.terms.loss,
            control: self.control,
            inputs: self.inputs,
            model_flops: self.model_flops,
            marks: self.marks,
        }
    }
}
