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
use contract::{
    Benchmark, Host, Measured, ParsedCase, Prepared, RankContext, Relations, Study, TrialCost, is_on_gpus, is_pytorch,
};
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};

use self::about::{MEMORY, TRAINING};
use self::fields::MemoryHow;
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

/// Bytes of the host that training holds on all ranks.
fn memory(case: &Case, task: &Task) -> u64 {
    if is_on_gpus(case) { 0 } else { predict::held(case, task) }
}

fn fault(trials: &[Trial]) -> Option<String> {
    match metrics::read_notes(trials.last()) {
        Some(notes) => metrics::disagreement(&notes),
        None => Some("ranks noted nothing of their steps".to_owned()),
    }
}

/// The values of a case of training, read once.
struct TrainingCase {
    case: Case,
    task: Task,
    /// Whether steps are made twice, and their bits compared.
    repeated: bool,
    /// Whether kinds of kernels are timed.
    kernel_times: bool,
}

/// The values of a case of memory, read once.
struct MemoryCase {
    case: Case,
    task: Task,
    how: MemoryHow,
}

impl Benchmark for TrainingBenchmark {
    fn about(&self) -> &'static About {
        &TRAINING
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        Ok(Box::new(TrainingCase {
            case: case.clone(),
            task: Task::from_case(case)?,
            repeated: fields::Repeating::of(case)?.reproducible,
            kernel_times: fields::ByKind::of(case)?.kernel_times,
        }))
    }

    fn complete(&self, plan: &mut Plan) {
        merge::single_ranks(plan, &TRAINING);
        baselines::complete(plan, &TRAINING);
    }

    fn keeps_prepared(&self) -> bool {
        true
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&view::TrainingView)
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

impl ParsedCase for TrainingCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        memory(&self.case, &self.task)
    }

    fn trial_cost(&self) -> TrialCost {
        cost::here(&self.case, &self.task)
    }

    fn prepare(&self, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let Self { repeated, kernel_times, .. } = *self;
        prepared::prepare(self.task.clone(), WantedMeasures { peak: true, limit: None, repeated, kernel_times }, rank)
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let Some(notes) = metrics::read_notes(measured.trials.last()) else { return Map::new() };
        let task = metrics::balanced(self.task.clone(), &notes);
        let mut found = metrics::of_training(&self.case, &task, measured, &notes);
        if let Some(repeated) = repeat::found(measured) {
            contract::reproducible::put(&mut found, repeated);
        }
        found
    }

    fn fault(&self, trials: &[Trial]) -> Option<String> {
        fault(trials)
    }
}

impl Benchmark for MemoryBenchmark {
    fn about(&self) -> &'static About {
        &MEMORY
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        Ok(Box::new(MemoryCase { case: case.clone(), task: Task::from_case(case)?, how: MemoryHow::of(case)? }))
    }

    fn complete(&self, plan: &mut Plan) {
        merge::single_ranks(plan, &MEMORY);
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

impl ParsedCase for MemoryCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        memory(&self.case, &self.task)
    }

    fn trial_cost(&self) -> TrialCost {
        cost::here(&self.case, &self.task)
    }

    fn prepare(&self, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let wanted =
            WantedMeasures { peak: false, limit: limit::Limit::of(&self.how), repeated: false, kernel_times: false };
        prepared::prepare(self.task.clone(), wanted, rank)
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let Some(notes) = metrics::read_notes(measured.trials.last()) else { return Map::new() };
        metrics::of_memory(&metrics::balanced(self.task.clone(), &notes), measured, &notes)
    }

    fn is_planned(&self, host: &Host) -> bool {
        let ranks = self.case.ranks() as usize;
        ranks > MEASURED
            && ranks > host.cores
            && host.spread.is_none()
            && host.launched.is_none()
            && !is_on_gpus(&self.case)
            && !is_pytorch(&self.case)
            // Without a limit, a search is for what fits this machine.
            && (self.how.limit.is_some() || !self.how.find_max_batch)
    }

    fn predicted(&self) -> Map<String, Value> {
        metrics::predicted_memory(&self.task)
    }

    fn fault(&self, trials: &[Trial]) -> Option<String> {
        if trials.is_empty() { search::exceeded(&self.case) } else { fault(trials) }
    }
}
