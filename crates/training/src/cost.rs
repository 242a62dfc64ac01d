//! How long a step takes at least, for the estimate of a run: its operations over the peak of the cores.

use contract::{TrialCost, is_on_gpus};
use engine::cores::peak;
use measure::machine;
use record::Case;

use super::resolve::Task;

/// Operations of a step that no estimate notices. The peak is not measured for less: that takes up to a tenth of a second.
const NOTICED: f64 = 1e7;
/// Steps of this program take up to this many times as long as the operations alone: memory, waits, the optimizer.
const SLOWEST: f64 = 4.0;

/// The cost of a trial on this machine. Nothing is known of GPUs without measuring them.
pub(super) fn here(case: &Case, task: &Task) -> TrialCost {
    if is_on_gpus(case) {
        return TrialCost::default();
    }
    let sample_s = step_s(case.ranks(), task).unwrap_or(0.0);
    // A trial has a sample that warms up and one that counts, at least.
    TrialCost { sample_s, more_s: (SLOWEST - 1.0) * 2.0 * sample_s, ..TrialCost::default() }
}

fn step_s(ranks: u32, task: &Task) -> Option<f64> {
    if task.sleep.is_some() {
        return None;
    }
    let model = &task.recipe.model;
    let flops = model.flops(model.headline()).ok().flatten()? * task.recipe.global_batch() as f64;
    if flops < NOTICED {
        return None;
    }
    let kind = (task.recipe.precision, engine::multiplier(task.recipe.precision, task.recipe.matmul)?);
    let wanted = ranks as usize * task.threads;
    Some(flops / (peak::of_one_core(kind) * wanted.min(machine::allowed_cpus().len()).max(1) as f64))
}

#[cfg(test)]
mod tests {
    use record::plan::from_flags;

    use super::*;

    fn step(model: &str, batch: &str) -> f64 {
        let fields = [("model", model), ("batch", batch), ("ranks", "1"), ("threads", "1")];
        let plan = from_flags(&super::super::about::TRAINING, &fields, &[]).unwrap();
        here(&plan.cases[0], &Task::from_case(&plan.cases[0]).unwrap()).sample_s
    }

    #[test]
    fn large_steps_take_their_operations_over_the_peak() {
        // A forward and a backward pass of ResNet-50 over 128 images: 3.1e12 operations.
        let (large, half) = (step("resnet50", "128"), step("resnet50", "64"));
        assert!((large / half - 2.0).abs() < 1e-9, "{large} {half}");
        let rate = 3.1e12 / large;
        assert!((1e9..1e13).contains(&rate), "{rate} a second of one core");
    }

    #[test]
    fn a_hundred_small_steps_are_noticed() {
        let small = step("gpt2-mini", "1");
        assert!(small > 0.0 && small < 0.1 * step("gpt2", "1"), "{small}");
    }
}
