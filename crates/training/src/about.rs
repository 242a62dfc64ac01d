//! What the two benchmarks declare, and which combinations of fields make sense.

use contract::fields::{Execution, Supports, World, problem};
use contract::{is_pytorch, is_simulated};
use record::{About, Case, Command};
use terms::FieldError;

use super::resolve::{self, Task};
use super::{declared, fields, kernel_times, limit, predict, repeat, torch, view};

/// The table entry of `training`.
pub(super) static TRAINING: About = About {
    name: fields::TRAINING,
    doc: "training steps of a model: time by phase, throughput, MFU, scaling",
    fields: &[
        fields::Fields::fields,
        fields::Sleeping::fields,
        fields::Repeating::fields,
        fields::ByKind::fields,
        || fields::DIMENSIONS,
        Execution::fields,
        || fields::TORCH,
        World::fields,
        comm::fields,
        || fields::SAMPLING,
    ],
    metrics: declared::METRICS,
    check,
    command: Some(Command {
        name: "train",
        doc: "Trains a model on a mesh of ranks: step time by phase, throughput, MFU, scaling, memory, traffic",
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

/// The table entry of `memory`.
pub(super) static MEMORY: About = About {
    name: fields::MEMORY,
    doc: "memory of training by category: predicted, measured, and the largest batch that fits",
    fields: &[fields::Fields::fields, || fields::DIMENSIONS, World::fields, comm::fields, fields::MemoryHow::fields],
    metrics: declared::MEMORY_METRICS,
    check,
    command: Some(Command {
        name: "memory",
        doc: "Predicts and measures the memory of training by category, and finds the largest batch that fits",
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

fn check(case: &mut Case) -> Result<(), FieldError> {
    let about = if case.benchmark == MEMORY.name { &MEMORY } else { &TRAINING };
    torch::resolve(case)?;
    let phases = case.benchmark == TRAINING.name && !is_pytorch(case);
    contract::fields::check(case, about, Supports { phases, ..Supports::default() })?;
    if is_simulated(case) {
        return Err(problem(
            "backend",
            "training computes, but a simulated backend does not model computation",
            "`backend: shm`",
        ));
    }
    if World::of(case)?.progress_thread {
        let message = "training already runs its exchanges on separate threads";
        return Err(problem("progress_thread", message, "use `overlap: true` instead"));
    }
    limit::check(case)?;
    let task = resolve::fill(case)?;
    if task.load_balance == fields::LoadBalance::Measured && task.recipe.micro_batches[0] < 2 {
        let message = "with 1 micro-batch on each replica, none can be moved";
        return Err(problem("load_balance", message, "for example `accumulate: 4`"));
    }
    check_sleep(&task)?;
    if case.benchmark == TRAINING.name {
        repeat::check(case, &task)?;
        kernel_times::check(case, &task)?;
    }
    predict::check(&task)?;
    if task.load_balance == fields::LoadBalance::Measured {
        predict::check_uneven(&task)?;
    }
    task.origin.check(&task.recipe.model.input)?;
    torch::check(case, &task)?;
    contract::fields::reorder(case, about);
    Ok(())
}

/// Where nothing is computed, there is no speed to measure.
fn check_sleep(task: &Task) -> Result<(), FieldError> {
    let measured = task.load_balance == fields::LoadBalance::Measured || task.balance == parallel::Balance::Measured;
    if task.sleep.is_some() && measured {
        return Err(problem("compute", "sleeping blocks have no speed to balance by", "`compute: native`"));
    }
    Ok(())
}
