//! Looking at what a trainer holds: for checks and tests, between steps.

use std::collections::BTreeMap;

use comm::Communicator;
use engine::op::{Op, Rows};
use engine::{Element, Instruction, Loaded, Multiplier, View, Wide};
use half::{bf16, f16};
use terms::Dtype;

use super::{StepReport, Trainer, TrainerError};
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
        for instruction in &self.program.instructions {
            let Instruction::Run(op) = instruction else { continue };
            let flops = engine::flops(op);
            if flops > 0.0 {
                let by = engine::multiplier_of(op, self.recipe.precision, self.recipe.matmul);
                *multiplied.entry(by).or_default() += flops;
            }
        }
        multiplied
    }

    /// What a record should have of how the device runs the program.
    pub fn about(&self) -> BTreeMap<&'static str, String> {
        self.loaded.about()
    }

    /// The masters that this rank updates.
    ///
    /// # Errors
    /// What the device says.
    pub fn parameters(&self) -> Result<Vec<Piece>, TrainerError> {
        self.pieces(|storage| storage.master)
    }

    /// The gradients that this rank's last update used, before clipping and with the loss scale.
    ///
    /// # Errors
    /// What the device says.
    pub fn gradients(&self) -> Result<Vec<Piece>, TrainerError> {
        self.pieces(|storage| storage.own_gradient)
    }

    fn pieces(&self, of: impl Fn(&crate::store::Storage) -> View) -> Result<Vec<Piece>, TrainerError> {
        let store = &self.built.store;
        let mut pieces = Vec::new();
        for (unit, storage) in store.units.iter().zip(&store.storage) {
            let view = of(storage);
            let shard = store.shard * view.len;
            for held in &unit.held {
                self.pieces_of(held, view, shard, &mut pieces)?;
            }
        }
        Ok(pieces)
    }

    /// What of a parameter lies in a shard that begins at `shard` of its unit.
    fn pieces_of(&self, held: &Held, view: View, shard: usize, pieces: &mut Vec<Piece>) -> Result<(), TrainerError> {
        let part = model::Part { index: self.at.tensor, of: self.recipe.mesh.tensor };
        let mut place = held.offset;
        for (first, len) in held.parameter.part_runs(part) {
            let from = place.max(shard);
            let to = (place + len).min(shard + view.len);
            if from < to {
                let numbers = read(&*self.loaded, view.part(from - shard, to - from))?;
                pieces.push(Piece { name: held.parameter.name.clone(), first: first + from - place, numbers });
            }
            place += len;
        }
        Ok(())
    }

    /// The logits of the first micro-batch of the next step, `[rows, classes of this part]`: runs a step as far as the loss,
    /// and changes no parameter. None where this rank does not compute the loss. Collective.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn logits(&mut self, world: &mut dyn Communicator) -> Result<Option<Vec<f64>>, TrainerError> {
        let instructions = &self.program.instructions;
        let logits_of = |instruction: &Instruction| match instruction {
            Instruction::Run(Op::Rows(Rows::CrossEntropy { logits, targets: rows, classes, .. })) => {
                Some((*logits, rows.len, *classes))
            }
            Instruction::Run(Op::Rows(Rows::CrossEntropyLargest { logits, largest: rows, classes })) => {
                Some((*logits, rows.len, *classes))
            }
            _ => None,
        };
        let Some(end) = instructions.iter().position(|instruction| logits_of(instruction).is_some()) else {
            return Ok(None);
        };
        let logits = logits_of(&instructions[end]);
        self.load()?;
        self.steps += 1;
        let ran = self.run(world, &mut StepReport::default(), |running, _| running.run(0..end, &[]));
        // No step: nothing was updated.
        self.steps -= 1;
        ran?;
        let Some((view, rows, classes)) = logits else { return Ok(None) };
        let all = read(&*self.loaded, view)?;
        Ok(Some(all.chunks_exact(view.len / rows).flat_map(|row| &row[..classes]).copied().collect()))
    }
}

fn read(loaded: &dyn Loaded, view: View) -> Result<Vec<f64>, TrainerError> {
    fn widened<E: Element>(loaded: &dyn Loaded, view: View) -> Result<Vec<f64>, TrainerError> {
        let mut all = Vec::new();
        // SAFETY: no exchange is under way between steps.
        unsafe { loaded.see::<E>(view, |numbers| all.extend(numbers.iter().map(|number| number.widen().f64()))) }?;
        Ok(all)
    }
    match loaded.memory().dtype(view) {
        Dtype::F64 => widened::<f64>(loaded, view),
        Dtype::Bf16 => widened::<bf16>(loaded, view),
        Dtype::F16 => widened::<f16>(loaded, view),
        _ => widened::<f32>(loaded, view),
    }
}
