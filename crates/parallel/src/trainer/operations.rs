//! The time of a step by operation.

use std::time::Instant;

use comm::Communicator;
use engine::{Instruction, OperationShape};

use super::{StepReport, Trainer, TrainerError};

impl Trainer {
    /// One step (which trains) whose operations run one by one, with the seconds of each, in order. Collective.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn operation_seconds(
        &mut self,
        world: &mut dyn Communicator,
    ) -> Result<Vec<(OperationShape, f64)>, TrainerError> {
        self.load()?;
        self.steps += 1;
        let program = std::sync::Arc::clone(&self.program);
        let mut seconds = Vec::new();
        self.run(world, &mut StepReport::default(), |running, _| {
            for (at, instruction) in program.instructions.iter().enumerate() {
                let begun = Instant::now();
                running.run(at..at + 1, &[])?;
                running.wait()?;
                if let Instruction::Run(op) = instruction {
                    seconds.push((OperationShape::of(&program, op), begun.elapsed().as_secs_f64()));
                }
            }
            Ok(())
        })?;
        Ok(seconds)
    }
}
