//! How fast this rank's blocks and this replica are: what balances are made from.

use std::time::Instant;

use comm::Communicator;
use device::Region;
use terms::{Collective, Dtype, Reduce};

use super::{StepReport, Trainer, TrainerError, call};

impl Trainer {
    /// Seconds that each block of the model takes in a step, forward and backward, without communication: the mean over the
    /// ranks that hold it. Runs a step (which trains). Collective.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn block_seconds(&mut self, world: &mut dyn Communicator) -> Result<Vec<f64>, TrainerError> {
        self.load()?;
        self.steps += 1;
        let mut seconds = vec![0.0; self.recipe.model.blocks.len()];
        let (mut done, end) = (0, self.program.instructions.len());
        self.run(world, &mut StepReport::default(), |running, marks| {
            for mark in marks {
                running.run(done..mark.begin, &[])?;
                running.wait()?;
                let (begun, waited) = (Instant::now(), running.report.communication_s);
                running.run(mark.begin..mark.end, &[])?;
                running.wait()?;
                seconds[mark.block] += begun.elapsed().as_secs_f64() - (running.report.communication_s - waited);
                done = mark.end;
            }
            running.run(done..end, &[])
        })?;
        // Every stage's ranks hold their own blocks: as many as there are replicas and parts.
        let holders = (self.recipe.mesh.data * self.recipe.mesh.tensor) as f64;
        let summed = joined(&seconds, Reduce::Sum, world)?;
        Ok(summed.into_iter().map(|sum| sum / holders).collect())
    }

    /// Seconds that each replica takes for one micro-batch, by the step before (`report`): of its slowest rank, without
    /// communication. Collective.
    ///
    /// # Errors
    /// What communication says.
    pub fn micro_batch_seconds(
        &mut self,
        report: &StepReport,
        world: &mut dyn Communicator,
    ) -> Result<Vec<f64>, TrainerError> {
        let mut seconds = vec![0.0; self.recipe.mesh.data];
        let micros = self.recipe.micro_batches[self.at.data] as f64;
        seconds[self.at.data] = (report.forward_s + report.backward_s) / micros;
        joined(&seconds, Reduce::Max, world)
    }
}

/// Numbers of all ranks, reduced element by element.
fn joined(numbers: &[f64], reduce: Reduce, world: &mut dyn Communicator) -> Result<Vec<f64>, TrainerError> {
    let bytes = size_of_val(numbers);
    let region = Region::host(bytes).map_err(|source| TrainerError::Memory { bytes, source })?;
    let base = region.base().cast::<f64>();
    // SAFETY: fresh memory of that size, which only this function uses but for the operation below.
    unsafe { std::slice::from_raw_parts_mut(base, numbers.len()) }.copy_from_slice(numbers);
    let whole = region.whole();
    world.run(&call(Collective::AllReduce, reduce, Dtype::F64, &whole, &whole, 0))?;
    // SAFETY: as above; the operation is complete.
    Ok(unsafe { std::slice::from_raw_parts(base, numbers.len()) }.to_vec())
}
