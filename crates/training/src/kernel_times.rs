//! Where the time of a step on a GPU goes, by kind of kernel: a few steps whose operations are given singly, with points of the
//! device's time between those of different kinds. They come after all that is timed, because they take longer.

use std::collections::BTreeMap;

use comm::Communicator;
use contract::fields::problem;
use engine::{Kind, Kinds};
use measure::Failure;
use parallel::Trainer;
use record::Case;
use serde::{Deserialize, Serialize};
use terms::FieldError;

use super::fields::ByKind;
use super::notes::Notes;
use super::resolve::Task;

/// Steps that count, and one before them, in which the device's points are made.
const STEPS: usize = 5;

/// Milliseconds of a step by kind of kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KernelTimes {
    /// Time by kind, each the median over steps.
    #[serde(flatten)]
    pub(super) kinds: BTreeMap<Kind, f64>,
    /// Median of the sum of all kinds.
    pub(super) sum: f64,
    /// Steps that these are medians of.
    pub(super) steps: usize,
    /// Median of the usual steps, whose operations are given as graphs. None on the way from a rank, which does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<f64>,
}

impl KernelTimes {
    fn from_steps(steps: &[Kinds]) -> Self {
        let median = |of: &dyn Fn(&Kinds) -> u64| {
            stats::median(&steps.iter().map(|step| of(step) as f64 / 1e6).collect::<Vec<_>>())
        };
        let of_kind = |kind: Kind| median(&|step| step.ns.get(&kind).copied().unwrap_or(0));
        let mut kinds: Vec<Kind> = steps.iter().flat_map(|step| step.ns.keys().copied()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Self {
            kinds: kinds.into_iter().map(|kind| (kind, of_kind(kind))).collect(),
            sum: median(&|step| step.ns.values().sum()),
            steps: steps.len(),
            step: None,
        }
    }

    /// What does not wait for other ranks.
    fn computing(&self) -> f64 {
        self.sum - self.kinds.get(&Kind::Exchanges).copied().unwrap_or(0.0)
    }
}

/// Refuses ranks whose device notes no kinds.
pub(super) fn check(case: &Case, task: &Task) -> Result<(), FieldError> {
    if ByKind::of(case)?.kernel_times && task.gpus.is_none() {
        let message = "only native ranks on GPUs time their kernels";
        return Err(problem("kernel_times", message, "`device: cuda` with `runtime: native`, or leave it out"));
    }
    Ok(())
}

/// Makes the steps. Collective.
pub(super) fn measure(trainer: &mut Trainer, comm: &mut dyn Communicator) -> Result<KernelTimes, Failure> {
    let mut steps = Vec::with_capacity(STEPS);
    for number in 0..=STEPS {
        let kinds = trainer.kinds(comm).map_err(|error| Failure::new(error.to_string()))?;
        let kinds = kinds.ok_or_else(|| Failure::new("the device does not report the kinds of kernels"))?;
        if number > 0 {
            steps.push(kinds);
        }
    }
    Ok(KernelTimes::from_steps(&steps))
}

/// Kernel times of the rank that computes longest, beside the usual step; None where no rank has any.
pub(super) fn found(notes: &[Notes], median_s: f64) -> Option<KernelTimes> {
    let all = notes.iter().filter_map(|rank| rank.kernel_times.as_ref());
    let slowest = all.max_by(|a, b| a.computing().total_cmp(&b.computing()))?;
    Some(KernelTimes { step: Some(median_s * 1e3), ..slowest.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(products: u64, exchanges: u64) -> Kinds {
        let ns = BTreeMap::from([(Kind::Products, products * 1_000_000), (Kind::Exchanges, exchanges * 1_000_000)]);
        Kinds { span_ns: ns.values().sum(), ns }
    }

    #[test]
    fn kinds_are_medians_over_steps_and_a_kind_that_is_missing_counts_as_zero() {
        let loss = Kinds { ns: BTreeMap::from([(Kind::Loss, 4_000_000)]), span_ns: 4_000_000 };
        let times = KernelTimes::from_steps(&[step(5, 1), step(7, 3), loss]);
        let expected = [(Kind::Products, 5.0), (Kind::Loss, 0.0), (Kind::Exchanges, 1.0)];
        assert_eq!((times.kinds, times.sum, times.steps), (expected.into(), 6.0, 3));
    }

    #[test]
    fn the_rank_that_computes_longest_counts_and_not_the_one_that_waits() {
        let rank = |products, exchanges| {
            let kernel_times = Some(KernelTimes::from_steps(&[step(products, exchanges)]));
            Notes { kernel_times, ..Notes::default() }
        };
        let found = found(&[rank(5, 9), rank(8, 1)], 0.0125).unwrap();
        assert_eq!((found.kinds[&Kind::Products], found.sum, found.step), (8.0, 9.0, Some(12.5)));
        let map = serde_json::to_value(&found).unwrap();
        assert_eq!(map, serde_json::json!({"products": 8.0, "exchanges": 1.0, "sum": 9.0, "steps": 1, "step": 12.5}));
        assert_eq!(serde_json::from_value::<KernelTimes>(map).unwrap(), found, "as it comes back from a rank");
    }
}
