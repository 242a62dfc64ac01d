//! The time of a step by kind of work, where the device tells.

use comm::Communicator;
use engine::Kinds;

use super::{StepReport, Trainer, TrainerError};

impl Trainer {
    /// One step (which trains) whose operations are given singly, and what its device did meanwhile, by kind; None where the device
    /// notes nothing. Collective.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn kinds(&mut self, world: &mut dyn Communicator) -> Result<Option<Kinds>, TrainerError> {
        if self.loaded.kinds(true)?.is_none() {
            return Ok(None);
        }
        self.loaded.enter(engine::Kind::Other)?;
        self.load()?;
        self.steps += 1;
        let all = 0..self.program.instructions.len();
        self.run(world, &mut StepReport::default(), |running, marks| running.run(all, marks))?;
        Ok(self.loaded.kinds(false)?)
    }
}
