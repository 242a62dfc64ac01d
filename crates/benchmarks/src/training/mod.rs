//! The benchmarks `training` and `memory`: a model trained by a strategy on a mesh of ranks, timed step by step, or
//! looked at for what it holds.

mod balance;
mod baselines;
mod catalog;
mod data;
mod exchange;
mod fields;
mod limit;
mod merge;
mod metrics;
mod notes;
mod predict;
mod prepared;
mod process;
mod resolve;
mod scaling;
mod search;
mod torch;
mod view;

use ::view::View;
use measure::{Failure, Trial};
use record::{About, Case, CaseLine, Command, Plan};
use serde_json::{Map, Value};
use terms::FieldError;

use self::prepared::Wanted;
use self::resolve::Task;
use crate::fields::problem;
use crate::{Benchmark, Host, Measured, Prepared, RankContext, Study};

pub use self::catalog::{ModelLine, models, parameters};
pub use self::fields::strategies;

/// Training, timed.
pub(crate) struct TrainingBenchmark;

/// Training, for what it holds in memory.
pub(crate) struct MemoryBenchmark;

static TRAINING: About = About {
    name: "training",
    doc: "training steps of a model: time by phase, throughput, MFU, scaling",
    fields: &[
        fields::Fields::fields,
        fields::Sleeping::fields,
        || fields::DIMENSIONS,
        crate::fields::Execution::fields,
        || fields::TORCH,
        crate::fields::World::fields,
        comm::fields,
        || fields::SAMPLING,
    ],
    metrics: fields::METRICS,
    check,
    command: Some(Command {
        name: "train",
        doc: "Trains a model by a strategy on a mesh of ranks: step time by phase, throughput, MFU, scaling, memory, traffic",
        argument: "",
        examples: &[
            ("--model gpt2-mini --ranks 2", "data parallelism"),
            ("--strategy tensor,pipeline --ranks 2", "compares two strategies"),
            ("--ranks 1,2,4 --global-batch 8", "strong scaling"),
            ("--ranks 2 --quick", "a first look"),
        ],
        notes: "",
        sweep: None,
    }),
    show: view::training,
};

static MEMORY: About = About {
    name: "memory",
    doc: "memory of training by category: predicted, measured, and the largest batch that fits",
    fields: &[
        fields::Fields::fields,
        || fields::DIMENSIONS,
        crate::fields::World::fields,
        comm::fields,
        fields::Memory::fields,
    ],
    metrics: fields::MEMORY_METRICS,
    check,
    command: Some(Command {
        name: "memory",
        doc: "What training a model holds in memory, by category: predicted, measured, and the largest batch that fits",
        argument: "",
        examples: &[
            ("--model gpt2-mini", "memory by category"),
            ("--find-max-batch --limit 4GiB", "largest batch that fits"),
            ("--ranks 2 --sharded 0,3", "what sharding saves"),
        ],
        notes: "",
        sweep: None,
    }),
    show: view::memory,
};

/// Whether its ranks run phases of steps that can be delayed.
pub(crate) fn has_phases(case: &Case) -> bool {
    case.benchmark == TRAINING.name && !crate::is_pytorch(case)
}

fn check(case: &mut Case) -> Result<(), FieldError> {
    let about = if case.benchmark == MEMORY.name { &MEMORY } else { &TRAINING };
    torch::resolve(case)?;
    crate::fields::check(case, about)?;
    if crate::is_simulated(case) {
        return Err(problem(
            "backend",
            "training computes, and a simulated backend has no time for that",
            "`backend: shm`",
        ));
    }
    if crate::World::of(case)?.progress_thread {
        let message = "training runs its exchanges on threads of its own";
        return Err(problem("progress_thread", message, "`overlap: true` is what it is for here"));
    }
    let task = resolve::fill(case)?;
    if task.load_balance == fields::LoadBalance::Measured && task.recipe.micro_batches[0] < 2 {
        let message = "with 1 micro-batch on each replica there is nothing to move";
        return Err(problem("load_balance", message, "for example `accumulate: 4`"));
    }
    check_sleep(&task)?;
    predict::check(&task)?;
    if task.load_balance == fields::LoadBalance::Measured {
        predict::check_uneven(&task)?;
    }
    task.origin.check(&task.recipe.model.input)?;
    torch::check(case, &task)?;
    crate::fields::reorder(case, about);
    Ok(())
}

/// Where nothing is computed, there is no speed to measure.
fn check_sleep(task: &Task) -> Result<(), FieldError> {
    let measured = task.load_balance == fields::LoadBalance::Measured || task.balance == parallel::Balance::Measured;
    if task.sleep.is_some() && measured {
        return Err(problem("compute", "blocks that sleep have no speed to balance by", "`compute: native`"));
    }
    Ok(())
}

/// A checked case's task, on a rank.
fn task(case: &Case) -> Result<Task, Failure> {
    Ok(Task::from_case(case)?)
}

fn fault(trials: &[Trial]) -> Option<String> {
    match metrics::notes(trials.last()) {
        Some(notes) => metrics::disagreement(&notes),
        None => Some("ranks noted nothing of their steps".to_owned()),
    }
}

impl Benchmark for TrainingBenchmark {
    fn about(&self) -> &'static About {
        &TRAINING
    }

    fn complete(&self, plan: &mut Plan) {
        merge::single_ranks(plan, TRAINING.name);
        baselines::complete(plan, TRAINING.name);
    }

    fn memory(&self, case: &Case) -> u64 {
        if crate::runtime::is_on_gpus(case) { 0 } else { predict::held(case) }
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        prepared::prepare(task(case)?, Wanted { peak: true, limit: None }, rank)
    }

    fn keeps_prepared(&self) -> bool {
        true
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&view::TrainingView)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let (Ok(task), Some(notes)) = (Task::from_case(case), metrics::notes(measured.trials.last())) else {
            return Map::new();
        };
        metrics::of_training(&metrics::balanced(task, &notes), measured, &notes, !crate::is_pytorch(case))
    }

    fn fault(&self, _case: &Case, trials: &[Trial]) -> Option<String> {
        fault(trials)
    }

    fn relations(&self, line: &CaseLine, all: &[&CaseLine]) -> Map<String, Value> {
        scaling::relations(line, all)
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
        merge::single_ranks(plan, MEMORY.name);
    }

    fn memory(&self, case: &Case) -> u64 {
        predict::held(case)
    }

    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let limit = fields::Memory::of(case)?.limit;
        prepared::prepare(task(case)?, Wanted { peak: false, limit }, rank)
    }

    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value> {
        let (Ok(task), Some(notes)) = (Task::from_case(case), metrics::notes(measured.trials.last())) else {
            return Map::new();
        };
        metrics::of_memory(&metrics::balanced(task, &notes), measured, &notes)
    }

    fn fault(&self, _case: &Case, trials: &[Trial]) -> Option<String> {
        fault(trials)
    }

    fn view(&self) -> Option<&'static dyn View> {
        Some(&view::MemoryView)
    }

    fn study(&self, cases: &[&Case], host: &Host) -> Option<Box<dyn Study>> {
        Some(Box::new(search::MaxBatch::for_cases(cases, host)?))
    }

    fn relations(&self, line: &CaseLine, _all: &[&CaseLine]) -> Map<String, Value> {
        let largest = search::largest(line);
        largest.map(|batch| ("max_batch".to_owned(), Value::from(batch))).into_iter().collect()
    }
}
