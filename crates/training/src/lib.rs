//! The benchmarks `training` and `memory`: a model trained by a strategy on a mesh of ranks, timed step by step, or
//! looked at for what it holds.

mod about;
mod asleep;
mod balance;
mod baselines;
mod catalog;
mod cost;
mod data;
mod declared;
mod exchange;
mod fields;
mod gpus;
mod kernel_times;
mod limit;
mod merge;
mod metrics;
mod notes;
mod predict;
mod prepared;
mod process;
mod repeat;
mod resolve;
mod scaling;
mod search;
mod torch;
mod view;

#[cfg(test)]
#[path = "../../../tests/facts.rs"]
mod facts;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;

use ::view::View;
use contract::{Benchmark, Host, Measured, Prepared, RankContext, Relations, Study, TrialCost, is_on_gpus, is_pytorch};
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};

use self::about::{MEMORY, TRAINING};
use self::prepared::WantedMeasures;
use self::resolve::Task;

pub use self::catalog::{ModelLine, models, parameters};
pub use self::fields::strategies;

/// Training, timed.
pub struct TrainingBenchmark;

/// Training, for what it holds in memory.
pub struct MemoryBenchmark;

/// Ranks whose memory is measured even where they share cores.
const MEASURED: usize = 8;

/// The recipe of a case of training, and how long its passes sleep where nothing is computed; None for other cases.
pub fn recipe(case: &Case) -> Option<Result<(parallel::Recipe, Option<parallel::SleepTimes>), terms::FieldError>> {
    let is_native = case.benchmark == TRAINING.name && !is_pytorch(case);
    is_native.then(|| Task::from_case(case).map(|task| (task.recipe, task.sleep.map(|sleep| sleep.times))))
}

/// A checked case's task, on a rank.
fn task(case: &Case) -> Result<Task, Failure> {
    Ok(Task::from_case(case)?)
}

fn fault(trials: &[Trial]) -> Option<String> {
    match metrics::read_notes(trials.last()) {
        Some(notes) => metrics::disagreement(&notes),
        None => Some("ranks noted nothing of their steps".to_owned()),
    }
}

impl Benchmark for TrainingBenchmark {
    fn about(&self) -> &'static About {
        &TRAINING
    }

    fn complete(&self, plan: &mut Plan) {
        merge::single_ranks(plan, &TRAINING);
        baselines::complete(plan, &TRAINING);
    }

    fn memory(&self, case: &Case) -> u64 {
        if is_on_gpus(case) { 0 } else { predict::held(case) }
    }

    fn trial_cost(&self, case: &Case) -> TrialCost {
        cost::here(case)
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let repeated = fields::Repeating::of(case)?.reproducible;
        let kernel_times = fields::ByKind::of(case)?.kernel_times;
        prepared::prepare(task(case)?, WantedMeasures { peak: true, limit: None, repeated, kernel_times }, rank)
    }

    fn has_phases(&self, case: &Case) -> bool {
        !is_pytorch(case)
    }

    fn keeps_prepared(&self) -> bool {
        true
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&view::TrainingView)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let (Ok(task), Some(notes)) = (Task::from_case(case), metrics::read_notes(measured.trials.last())) else {
            return Map::new();
        };
        let mut found = metrics::of_training(&metrics::balanced(task, &notes), measured, &notes, !is_pytorch(case));
        if let Some(repeated) = repeat::found(measured) {
            contract::reproducible::put(&mut found, repeated);
        }
        found
    }

    fn fault(&self, _case: &Case, trials: &[Trial]) -> Option<String> {
        fault(trials)
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let compared = scaling::ScalingBaselines::from_lines(all);
        let repeated = repeat::relations(all);
        Box::new(move |line| {
            let mut found = scaling::relations(line, &compared);
            found.extend(repeated(line));
            found
        })
    }

    fn unexplained(&self, all: &[&CaseLine]) -> Vec<String> {
        scaling::unexplained(all)
    }
}

impl Benchmark for MemoryBenchmark {
    fn about(&self) -> &'static About {
        &MEMORY
    }

    fn complete(&self, plan: &mut Plan) {
        merge::single_ranks(plan, &MEMORY);
    }

    fn memory(&self, case: &Case) -> u64 {
        if is_on_gpus(case) { 0 } else { predict::held(case) }
    }

    fn trial_cost(&self, case: &Case) -> TrialCost {
        cost::here(case)
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let limit = fields::MemoryHow::of(case)?.limit;
        prepared::prepare(
            task(case)?,
            WantedMeasures { peak: false, limit, repeated: false, kernel_times: false },
            rank,
        )
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let (Ok(task), Some(notes)) = (Task::from_case(case), metrics::read_notes(measured.trials.last())) else {
            return Map::new();
        };
        metrics::of_memory(&metrics::balanced(task, &notes), measured, &notes)
    }

    fn is_planned(&self, case: &Case, host: &Host) -> bool {
        let ranks = case.ranks() as usize;
        ranks > MEASURED
            && ranks > host.cores
            && host.spread.is_none()
            && host.launched.is_none()
            && !is_on_gpus(case)
            && !is_pytorch(case)
            // Without a limit, a search is for what fits this machine.
            && fields::MemoryHow::of(case).is_ok_and(|memory| memory.limit.is_some() || !memory.find_max_batch)
    }

    fn predicted(&self, case: &Case) -> Map<String, Value> {
        Task::from_case(case).map_or_else(|_| Map::new(), |task| metrics::predicted_memory(&task))
    }

    fn fault(&self, case: &Case, trials: &[Trial]) -> Option<String> {
        if trials.is_empty() { search::exceeded(case) } else { fault(trials) }
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&view::MemoryView)
    }

    fn study(&self, cases: &[&Case], host: &Host) -> Option<Box<dyn Study>> {
        Some(Box::new(search::MaxBatch::for_cases(cases, host)?))
    }

    fn relations<'a>(&self, _all: &[&'a CaseLine]) -> Relations<'a> {
        let largest = |line: &CaseLine| {
            search::largest(line).map(|batch| (declared::MAX_BATCH.name().to_owned(), Value::from(batch)))
        };
        Box::new(move |line| largest(line).into_iter().collect())
    }
}
