//! Looking at what a trainer holds: for checks and tests, between steps.

use std::collections::BTreeMap;

use comm::Communicator;
use engine::op::{Op, Rows};
use engine::{Context, Element, Instruction, Memory, Multiplier, Step, View, Wide};
use half::{bf16, f16};
use terms::Dtype;

use super::{Error, Running, StepReport, Trainer};
use crate::units::Held;

/// Consecutive numbers of a parameter, as this rank holds them.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The parameter's full name.
    pub name: String,
    /// Index of the first in the whole parameter.
    pub first: usize,
    /// Masters, or gradients.
    pub numbers: Vec<f64>,
}

impl Trainer {
    /// Floating-point operations of a step's products on this rank, by what multiplies.
    pub fn multiplied(&self) -> BTreeMap<Multiplier, f64> {
        let mut multiplied = BTreeMap::new();
        for instruction in &self.built.program.instructions {
            let Instruction::Run(op) = instruction else { continue };
            let flops = engine::flops(op);
            if flops > 0.0 {
                let by = engine::multiplier_of(op, self.recipe.precision, self.recipe.matmul);
                *multiplied.entry(by).or_default() += flops;
            }
        }
        multiplied
    }

    /// The masters that this rank updates.
    pub fn parameters(&self) -> Vec<Piece> {
        self.pieces(|storage| storage.master)
    }

    /// The gradients that this rank's last update used, before clipping and with the loss scale.
    pub fn gradients(&self) -> Vec<Piece> {
        self.pieces(|storage| storage.own_gradient)
    }

    fn pieces(&self, of: impl Fn(&crate::store::Storage) -> View) -> Vec<Piece> {
        let store = &self.built.store;
        let mut pieces = Vec::new();
        for (unit, storage) in store.units.iter().zip(&store.storage) {
            let view = of(storage);
            let shard = store.shard * view.len;
            for held in &unit.held {
                self.pieces_of(held, view, shard, &mut pieces);
            }
        }
        pieces
    }

    /// What of a parameter lies in a shard that begins at `shard` of its unit.
    fn pieces_of(&self, held: &Held, view: View, shard: usize, pieces: &mut Vec<Piece>) {
        let part = model::Part { index: self.at.tensor, of: self.recipe.mesh.tensor };
        let mut place = held.offset;
        for (first, len) in held.parameter.part_runs(part) {
            let from = place.max(shard);
            let to = (place + len).min(shard + view.len);
            if from < to {
                let numbers = read(&self.memory, view.part(from - shard, to - from));
                pieces.push(Piece { name: held.parameter.name.clone(), first: first + from - place, numbers });
            }
            place += len;
        }
    }

    /// The logits of the first micro-batch of the next step, `[rows, classes of this part]`: runs a step as far as the loss,
    /// and changes no parameter. None where this rank does not compute the loss. Collective.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn logits(&mut self, world: &mut dyn Communicator) -> Result<Option<Vec<f64>>, Error> {
        let instructions = &self.built.program.instructions;
        let logits_of = |instruction: &Instruction| match instruction {
            Instruction::Run(Op::Rows(
                Rows::CrossEntropy { logits, .. } | Rows::CrossEntropyLargest { logits, .. },
            )) => Some(*logits),
            _ => None,
        };
        let Some(end) = instructions.iter().position(|instruction| logits_of(instruction).is_some()) else {
            return Ok(None);
        };
        self.load()?;
        let Self { built, memory, groups, exchanges, threads, scratch, recipe, steps, recorder, .. } = self;
        let instructions = &built.program.instructions;
        let step = Step { number: *steps + 1, seed: recipe.seed };
        let context = Context { threads: threads.count(), scratch, step, matmul: recipe.matmul };
        let mut report = StepReport::default();
        let (context, here) = (&context, &mut report);
        let mut running = Running { memory, context, groups, exchanges, world, report: here, recorder, asleep: None };
        threads.install(|| running.run(&instructions[..end], &[]))?;
        Ok(logits_of(&instructions[end]).map(|view| read(memory, view)))
    }
}

fn read(memory: &Memory, view: View) -> Vec<f64> {
    fn widened<E: Element>(memory: &Memory, view: View) -> Vec<f64> {
        // SAFETY: no program runs, so nobody writes.
        unsafe { memory.read::<E>(view) }.iter().map(|number| number.widen().f64()).collect()
    }
    match memory.dtype(view) {
        Dtype::F64 => widened::<f64>(memory, view),
        Dtype::Bf16 => widened::<bf16>(memory, view),
        Dtype::F16 => widened::<f16>(memory, view),
        _ => widened::<f32>(memory, view),
    }
}
