//! Work by measured speed: micro-batches of replicas, blocks of stages. A few steps with equal shares tell the speeds;
//! every rank computes the same shares from the same numbers.
//!
//! The gradient stays exact: shares move work between ranks, and every sample still counts once.

use measure::Failure;
use parallel::{Balance, Recipe};

use super::exchange::Exchange;
use super::fields::LoadBalance;
use super::prepared::trainer;
use super::resolve::Task;
use crate::RankContext;

/// Steps that are not looked at, and those that are: the fastest of them counts.
const WARM_UP: usize = 1;
const LOOKED_AT: usize = 3;

/// Balances what the task asks for. Collective.
pub(super) fn apply(task: &mut Task, exchange: &mut Exchange, context: &mut RankContext) -> Result<(), Failure> {
    if task.balance == Balance::Measured && task.recipe.mesh.pipeline > 1 {
        let seconds = computing(task, exchange, context)?;
        task.recipe.stages = stages(&task.recipe, &seconds)?;
    }
    if task.load_balance == LoadBalance::Measured && task.recipe.mesh.data > 1 {
        let seconds = computing(task, exchange, context)?;
        task.recipe.micro_batches = micro_batches(&task.recipe, &seconds);
    }
    Ok(())
}

/// Seconds that each rank computes in a step, the fastest of a few. Collective.
fn computing(task: &Task, exchange: &mut Exchange, context: &mut RankContext) -> Result<Vec<f64>, Failure> {
    let mut trainer = trainer(task, context)?;
    let mut least = f64::INFINITY;
    for step in 0..WARM_UP + LOOKED_AT {
        let report = trainer.step(&mut *context.comm).map_err(|error| Failure::new(error.to_string()))?;
        if step >= WARM_UP {
            least = least.min(report.forward_s + report.backward_s);
        }
    }
    exchange.gather(&mut *context.comm, least)
}

/// Micro-batches of each replica in proportion to its speed, at least one each, as many as before in all. What a replica
/// takes is what the slowest of its ranks takes.
fn micro_batches(recipe: &Recipe, seconds: &[f64]) -> Vec<usize> {
    let mut slowest = vec![f64::MIN_POSITIVE; recipe.mesh.data];
    for (rank, seconds) in seconds.iter().enumerate() {
        let replica = recipe.mesh.coordinate(rank).data;
        slowest[replica] = slowest[replica].max(*seconds);
    }
    let speeds: Vec<f64> =
        slowest.iter().zip(&recipe.micro_batches).map(|(seconds, count)| *count as f64 / seconds).collect();
    apportion(recipe.micro_batches.iter().sum(), &speeds)
}

/// `total` things in proportion to weights, at least one each: each next one goes where it is finished first. Exact for
/// the time of the last to finish, which largest remainders are not.
fn apportion(total: usize, speeds: &[f64]) -> Vec<usize> {
    let mut shares = vec![1; speeds.len()];
    for _ in speeds.len()..total {
        let finish = |index: &usize| (shares[*index] + 1) as f64 / speeds[*index];
        let next = (0..speeds.len()).min_by(|a, b| finish(a).total_cmp(&finish(b))).unwrap_or(0);
        shares[next] += 1;
    }
    shares
}

/// Blocks of each chunk such that the slowest chunk takes the least. A stage's measured time is shared among its blocks
/// by their operations: what a stage is slower than its operations say, its blocks are.
fn stages(recipe: &Recipe, seconds: &[f64]) -> Result<Vec<usize>, Failure> {
    let flops = recipe.model.forward_flops_by_node().map_err(|error| Failure::new(error.to_string()))?;
    let flops: Vec<f64> = flops.into_iter().map(|block| block.into_iter().sum()).collect();
    let (chunks, blocks) = (recipe.mesh.pipeline * recipe.chunks, flops.len());
    let even = |chunk: usize| model::Part { index: chunk, of: chunks }.range(blocks);
    let mut stage_seconds = vec![0.0_f64; recipe.mesh.pipeline];
    for (rank, seconds) in seconds.iter().enumerate() {
        let stage = recipe.mesh.coordinate(rank).pipeline;
        stage_seconds[stage] = stage_seconds[stage].max(*seconds);
    }
    let mut stage_flops = vec![0.0_f64; recipe.mesh.pipeline];
    for chunk in 0..chunks {
        stage_flops[chunk % recipe.mesh.pipeline] += even(chunk).map(|block| flops[block]).sum::<f64>();
    }
    let mut times = vec![0.0; blocks];
    for chunk in 0..chunks {
        let stage = chunk % recipe.mesh.pipeline;
        for block in even(chunk) {
            times[block] = flops[block] * stage_seconds[stage] / stage_flops[stage].max(1.0);
        }
    }
    Ok(cut(&times, chunks))
}

/// Cuts a row into `parts` stretches of at least one, such that the largest sum is the least: by dynamic programming over
/// the first so many.
fn cut(times: &[f64], parts: usize) -> Vec<usize> {
    let sum = |from: usize, to: usize| times[from..to].iter().sum::<f64>();
    let count = times.len();
    // best[p][n]: the least largest sum of the first n in p + 1 parts, and where the last part begins.
    let mut best: Vec<Vec<(f64, usize)>> = vec![(0..=count).map(|to| (sum(0, to), 0)).collect()];
    for part in 1..parts {
        let before = &best[part - 1];
        let row = (0..=count)
            .map(|to| {
                let options = (part..to).map(|from| (before[from].0.max(sum(from, to)), from));
                options.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
            })
            .collect();
        best.push(row);
    }
    let (mut to, mut sizes) = (count, vec![0; parts]);
    for part in (0..parts).rev() {
        let from = best[part][to].1;
        sizes[part] = to - from;
        to = from;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_follow_speed() {
        assert_eq!(apportion(8, &[1.0, 1.0]), [4, 4]);
        assert_eq!(apportion(8, &[3.0, 1.0]), [6, 2]);
        assert_eq!(apportion(4, &[1000.0, 1.0]), [3, 1], "at least one each");
        assert_eq!(apportion(9, &[2.0, 1.0, 1.5]).iter().sum::<usize>(), 9);
    }

    #[test]
    fn the_slowest_stage_is_as_fast_as_can_be() {
        assert_eq!(cut(&[1.0, 1.0, 1.0, 1.0], 2), [2, 2]);
        // A head as slow as four blocks stands alone.
        assert_eq!(cut(&[0.0, 1.0, 1.0, 1.0, 1.0, 4.0], 2), [5, 1]);
        assert_eq!(cut(&[5.0, 1.0, 1.0], 3), [1, 1, 1]);
        assert_eq!(cut(&[1.0, 2.0, 3.0, 4.0, 5.0], 3), [3, 1, 1]);
    }
}
