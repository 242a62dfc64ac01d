//! From a case's values to a recipe: what was not given is filled in, what does not fit is refused with the arithmetic.

use contract::fields::problem;
use engine::cuda::{Cuda, LOGITS_MULTIPLE};
use engine::{Host, Program};
use model::{Fallback, Input, Model};
use parallel::{Balance, Mesh, Optimizer, Recipe, Schedule, SleepTimes};
use record::{Case, Caveat, WriteFields as _};
use serde_json::Value;
use terms::{Dtype, FieldError};

use super::asleep;
use super::data::Origin;
use super::fields::{Compute, DIMENSIONS, Fields, LoadBalance, Optimizers, Sleeping, Strategy};
use super::gpus::OnGpus;

/// Samples of a replica's step when nobody says.
const BATCH: u64 = 4;
/// Tokens of a sample when nobody says, unless the model's own default is shorter: longer ones take a CPU seconds each.
const SEQUENCE: u64 = 256;
/// Micro-batches for each stage when nobody says, as far as they divide the batch.
const MICRO_BATCHES_A_STAGE: u64 = 2;

/// A case, ready to be built.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) recipe: Recipe,
    pub(super) threads: usize,
    pub(super) load_balance: LoadBalance,
    pub(super) balance: Balance,
    pub(super) origin: Origin,
    pub(super) backend: String,
    /// Whether most of its micro-batches come from `accumulate`.
    pub(super) accumulates: bool,
    /// Where nothing is computed.
    pub(super) sleep: Option<Sleep>,
    /// Where native ranks compute on GPUs.
    pub(super) gpus: Option<OnGpus>,
}

/// How passes of blocks sleep.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sleep {
    pub(super) times: SleepTimes,
    pub(super) jitter: f64,
    pub(super) heavy_tail: bool,
}

impl Task {
    /// Reads a checked case.
    ///
    /// # Errors
    /// What does not fit, should the case not have been checked.
    pub(super) fn from_case(case: &Case) -> Result<Self, FieldError> {
        let (fields, sleeping) = (Fields::of(case)?, Sleeping::of(case)?);
        let mesh = mesh(&fields)?;
        let model = model(&fields.model, &dimensions(case))?;
        let accumulates = fields.accumulate > fields.micro_batches();
        let micro_batches = fields.parts() as usize;
        let gpus = OnGpus::from_case(case, &fields);
        let recipe = Recipe {
            mesh,
            precision: fields.precision,
            matmul: fields.matmul,
            micro_batch: fields.batch.unwrap_or(BATCH) as usize / micro_batches,
            micro_batches: vec![micro_batches; mesh.data],
            schedule: fields.schedule.unwrap_or(Schedule::OneForwardOneBackward),
            chunks: fields.chunks.unwrap_or(1) as usize,
            stages: Vec::new(),
            sharded: fields.sharded,
            bucket_bytes: fields.bucket,
            overlap: fields.overlap,
            sequence_parallel: fields.sequence_parallel,
            recompute: fields.recompute,
            synchronised: fields.synchronised,
            optimizer: optimizer(&fields),
            clip: fields.clip,
            seed: fields.seed,
            communicate: fields.communicate,
            logits_multiple: if gpus.is_some() { LOGITS_MULTIPLE } else { 1 },
            model,
        };
        Ok(Self {
            threads: fields.threads,
            load_balance: fields.load_balance,
            balance: fields.balance,
            origin: Origin::new(&fields, &recipe.model.input),
            backend: fields.backend.clone().unwrap_or_default(),
            accumulates,
            sleep: match sleeping.compute {
                Compute::Native => None,
                Compute::Sleep => Some(Sleep {
                    times: asleep::times(case, &sleeping, &recipe)?,
                    jitter: sleeping.sleep_jitter,
                    heavy_tail: sleeping.sleep_tail,
                }),
            },
            gpus,
            recipe,
        })
    }

    /// Bytes of temporary memory that a program takes where it runs.
    pub(super) fn scratch(&self, program: &Program) -> usize {
        match &self.gpus {
            Some(gpus) => Cuda::scratch_of(program, gpus.attends()),
            None => Host::scratch_of(program, self.threads),
        }
    }

    /// Tokens of a sample; zero where samples are not texts.
    pub(super) fn tokens(&self) -> usize {
        match self.recipe.model.input {
            Input::Tokens { sequence, .. } => sequence,
            Input::Image { .. } | Input::Vector { .. } => 0,
        }
    }
}

/// Puts what was not given among the case's parameters, drops what means nothing in it, and checks what can be checked
/// without building a program.
pub(super) fn fill(case: &mut Case) -> Result<Task, FieldError> {
    let given = Fields::of(case)?;
    let mut fields = given.clone();
    let mesh = mesh(&fields)?;
    let strategy = *fields.strategy.insert(strategy(&fields));
    fields.mesh.get_or_insert_with(|| mesh.to_string());
    let single = fields.precision == Dtype::F32;
    let concerns = |name: &str| concerns(mesh, fields.optimizer, fields.sharded > 0, name);
    let sleeps = Sleeping::of(case)?.compute == Compute::Sleep;
    let stays = |name: &str| concerns(name) && (single || name != "matmul") && (sleeps || !name.starts_with("sleep_"));
    case.parameters.retain(|name, _| stays(name));
    asleep::resolve(case)?;
    if sleeps && !case.caveats.contains(&Caveat::ComputeAsleep) {
        case.caveats.push(Caveat::ComputeAsleep);
    }
    if mesh.pipeline > 1 {
        fill_schedule(&mut fields)?;
    }
    fill_batch(&mut fields, mesh, strategy)?;
    fields.write(&given, case);
    fill_sequence(case, &fields.model);
    Task::from_case(case)
}

/// Which parameters mean something on this mesh.
pub(super) fn concerns(mesh: Mesh, optimizer: Optimizers, sharded: bool, name: &str) -> bool {
    match name {
        "gradient_as_bucket_view" | "static_graph" => mesh.data > 1 && !sharded,
        "overlap" | "communicate" | "sharded" | "bucket" | "load_balance" | "synchronised" => mesh.data > 1,
        "schedule" | "chunks" | "balance" => mesh.pipeline > 1,
        "sequence_parallel" => mesh.tensor > 1,
        "momentum" => optimizer == Optimizers::Sgd,
        "weight_decay" => optimizer == Optimizers::AdamW,
        _ => true,
    }
}

/// How the work is divided.
pub(super) fn strategy(fields: &Fields) -> Strategy {
    let otherwise = if fields.mesh.is_some() { Strategy::Hybrid } else { Strategy::Data };
    fields.strategy.unwrap_or(otherwise)
}

/// A hybrid that names no mesh: pairs of ranks share the layers, and the rest are replicas. Without a pair, all are replicas.
fn hybrid(ranks: usize) -> Mesh {
    let tensor = if ranks.is_multiple_of(2) { 2 } else { 1 };
    Mesh { data: ranks / tensor, tensor, ..Mesh::SERIAL }
}

/// How the ranks stand, from strategy, mesh and their number.
fn mesh(fields: &Fields) -> Result<Mesh, FieldError> {
    let ranks = fields.ranks as usize;
    let strategy = strategy(fields);
    let along = match strategy {
        Strategy::Data => Some(Mesh { data: ranks, ..Mesh::SERIAL }),
        Strategy::Tensor => Some(Mesh { tensor: ranks, ..Mesh::SERIAL }),
        Strategy::Pipeline | Strategy::Model => Some(Mesh { pipeline: ranks, ..Mesh::SERIAL }),
        Strategy::Hybrid => None,
    };
    let Some(text) = &fields.mesh else { return Ok(along.unwrap_or_else(|| hybrid(ranks))) };
    let given: Mesh = text.parse().map_err(|message: String| problem("mesh", message, "sizes are from 1 to 1024"))?;
    if given.ranks() != ranks {
        let Mesh { data, tensor, pipeline } = given;
        let message = format!("{data} x {tensor} x {pipeline} = {} ranks, but there are {ranks}", given.ranks());
        return Err(problem("mesh", message, format!("`ranks: {}`, or sizes with the product {ranks}", given.ranks())));
    }
    match along {
        Some(along) if along != given => {
            let message = format!("strategy `{strategy}` with {ranks} ranks uses mesh {along}, not {given}");
            Err(problem("mesh", message, "`strategy: hybrid` supports any mesh"))
        }
        _ => Ok(given),
    }
}

fn fill_schedule(fields: &mut Fields) -> Result<(), FieldError> {
    let interleaved = *fields.schedule.get_or_insert(Schedule::OneForwardOneBackward) == Schedule::Interleaved;
    if interleaved {
        fields.chunks.get_or_insert(2);
    }
    let chunks = fields.chunks.unwrap_or(1);
    match interleaved {
        true if chunks < 2 => {
            let message = format!("an interleaved pipeline needs several chunks on each stage, not {chunks}");
            Err(problem("chunks", message, "`chunks: 2`, or `schedule: 1f1b`"))
        }
        false if chunks > 1 => {
            Err(problem("chunks", format!("{chunks} chunks per stage need interleaving"), "`schedule: interleaved`"))
        }
        _ => Ok(()),
    }
}

/// Batch, global batch and micro-batches, from those that were given.
fn fill_batch(fields: &mut Fields, mesh: Mesh, strategy: Strategy) -> Result<(), FieldError> {
    let replicas = mesh.data as u64;
    let batch = match (fields.batch, fields.global_batch) {
        (Some(batch), Some(global)) if batch * replicas != global => {
            let message = format!("{batch} samples x {replicas} replicas = {}, not {global}", batch * replicas);
            return Err(problem("global_batch", message, "give only one of `batch` and `global_batch`"));
        }
        (Some(batch), _) => batch,
        (None, Some(global)) if global % replicas != 0 => {
            let message = divided("a global batch", global, replicas, "replicas");
            return Err(problem("global_batch", message, multiples(global, replicas)));
        }
        (None, Some(global)) => global / replicas,
        (None, None) => BATCH,
    };
    fields.batch = Some(batch);
    let stages = mesh.pipeline as u64;
    let accumulate = fields.accumulate;
    if strategy == Strategy::Model && fields.parts() > 1 {
        let message = "strategy `model` passes the whole batch from stage to stage";
        return Err(problem("micro_batches", message, "`strategy: pipeline` has micro-batches in flight"));
    }
    let mut parts = fields.parts();
    if stages > 1 && strategy != Strategy::Model && fields.micro_batches.is_none() {
        let most = MICRO_BATCHES_A_STAGE * stages;
        let count = (1..=most.min(batch)).rev().find(|count| batch % (count * accumulate) == 0).unwrap_or(1);
        fields.micro_batches = Some(count);
        parts = count * accumulate;
    }
    if batch % parts == 0 {
        return Ok(());
    }
    let field = if accumulate > 1 { "accumulate" } else { "micro_batches" };
    let message = if batch < parts {
        format!("a batch of {batch} is smaller than its {parts} micro-batches")
    } else {
        divided("a batch", batch, parts, "micro-batches")
    };
    Err(problem(field, message, multiples(batch, parts)))
}

/// `a batch of 7 is not divisible by 2 replicas: 7 = 2 x 3 + 1`.
fn divided(what: &str, all: u64, by: u64, parts: &str) -> String {
    format!("{what} of {all} is not divisible by {by} {parts}: {all} = {by} x {} + {}", all / by, all % by)
}

/// The nearest numbers that divide.
fn multiples(all: u64, by: u64) -> String {
    let below = all / by * by;
    if below > 0 { format!("for example {below} or {}", below + by) } else { format!("for example {by}") }
}

/// Samples are not longer than what a processor takes in a moment, unless the user says so.
fn fill_sequence(case: &mut Case, model: &str) {
    let Ok(entry) = model::entry(model) else { return };
    let declared = entry.settings.iter().find(|setting| setting.name == "sequence").map(|setting| setting.fallback);
    if let Some(Fallback::Value(own)) = declared
        && !case.parameters.contains_key("sequence")
    {
        case.parameters.insert("sequence", SEQUENCE.min(own as u64).into());
    }
}

/// What the case says of its model's dimensions.
pub(super) fn dimensions(case: &Case) -> Vec<(String, f64)> {
    let value = |field| match case.value_of(field)? {
        Value::Bool(on) => Some(f64::from(u8::from(*on))),
        other => other.as_f64(),
    };
    DIMENSIONS.iter().filter_map(|field| Some((field.name.to_owned(), value(field)?))).collect()
}

/// The case's model. Problems name the case's field, where it has one of that name.
fn model(name: &str, dimensions: &[(String, f64)]) -> Result<Model, FieldError> {
    model::model(name, dimensions).map_err(|error| {
        let field = DIMENSIONS.iter().map(|field| field.name).find(|name| *name == error.field).unwrap_or("model");
        FieldError { field, error: error.error, excluded_by: None }
    })
}

/// Rates are those that train without diverging in short runs; a benchmark's time does not depend on them.
fn optimizer(fields: &Fields) -> Optimizer {
    match fields.optimizer {
        Optimizers::Sgd => Optimizer::Sgd { rate: fields.learning_rate.unwrap_or(0.01), momentum: fields.momentum },
        Optimizers::AdamW => Optimizer::AdamW {
            rate: fields.learning_rate.unwrap_or(3e-4),
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            decay: fields.weight_decay,
        },
    }
}

impl Fields {
    fn micro_batches(&self) -> u64 {
        self.micro_batches.unwrap_or(1)
    }

    /// Micro-batches that a replica's batch is cut into, those of `accumulate` among them.
    pub(super) fn parts(&self) -> u64 {
        self.micro_batches() * self.accumulate
    }
}
