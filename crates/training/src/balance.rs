//! Work by measured speed: micro-batches of replicas, blocks of stages. A few steps with equal shares tell the speeds;
//! every rank computes the same shares from the same numbers (`parallel::balance`).
//!
//! The gradient stays exact: shares move work between ranks, and every sample still counts once.

use contract::RankContext;
use measure::Failure;
use parallel::{Balance, Trainer, balance};

use super::fields::LoadBalance;
use super::prepared::{Computes, trainer};
use super::resolve::Task;

/// Steps that are not looked at, and those that are: the fastest of them counts.
const WARM_UP: usize = 1;
const LOOKED_AT: usize = 3;

/// Balances what the task asks for. Collective.
pub(super) fn apply(task: &mut Task, device: &Computes, context: &mut RankContext) -> Result<(), Failure> {
    if task.balance == Balance::Measured && task.recipe.mesh.pipeline > 1 {
        let seconds = fastest(task, device, context, |trainer, context| trainer.block_seconds(&mut *context.comm))?;
        task.recipe.stages = balance::stages(&seconds, task.recipe.mesh.pipeline * task.recipe.chunks);
    }
    if task.load_balance == LoadBalance::Measured && task.recipe.mesh.data > 1 {
        let seconds = fastest(task, device, context, |trainer, context| {
            let report = trainer.step(&mut *context.comm)?;
            trainer.micro_batch_seconds(&report, &mut *context.comm)
        })?;
        task.recipe.micro_batches = balance::micro_batches(task.recipe.micro_batches.iter().sum(), &seconds);
    }
    Ok(())
}

/// The least of each number that a few steps give. Collective.
fn fastest(
    task: &Task,
    device: &Computes,
    context: &mut RankContext,
    look: impl Fn(&mut Trainer, &mut RankContext) -> Result<Vec<f64>, parallel::TrainerError>,
) -> Result<Vec<f64>, Failure> {
    let failed = |error: parallel::TrainerError| Failure::new(error.to_string());
    let mut trainer = trainer(task, device, context)?;
    for _ in 0..WARM_UP {
        trainer.step(&mut *context.comm).map_err(failed)?;
    }
    let mut least = look(&mut trainer, context).map_err(failed)?;
    for _ in 1..LOOKED_AT {
        for (least, seconds) in least.iter_mut().zip(look(&mut trainer, context).map_err(failed)?) {
            *least = least.min(seconds);
        }
    }
    Ok(least)
}
