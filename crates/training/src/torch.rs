//! What differs where ranks are the user's Python: what torch has not, or has not in a form to compare, and the recipe
//! that its ranks are sent, in which nothing is open.

use contract::fields::problem;
use contract::runtime::{CUBLAS, CUDNN, Native, is_on_gpus, is_pytorch};
use contract::{Common, World};
use engine::Matmul;
use model::Layer;
use parallel::Optimizer;
use record::{Case, Caveat};
use serde_json::{Map, Value, json};
use terms::{Bind, Dtype, FieldError};

use super::data::Origin;
use super::fields::{LoadBalance, MEMORY, TORCH};
use super::gpus;
use super::resolve::{Task, dimensions};

/// What PyTorch's ranks alone understand.
fn fields() -> Vec<&'static str> {
    TORCH.iter().map(|field| field.name).collect()
}

/// Settles runtime and backend.
pub(super) fn resolve(case: &mut Case) -> Result<(), FieldError> {
    let memory = case.benchmark == MEMORY;
    let theirs = |backend: &String| comm::backend(backend).is_none();
    if let Some(backend) = Common::of(case)?.backend.filter(|backend| memory && theirs(backend)) {
        let message = format!("`memory` inspects native ranks, but `{backend}` is a backend of PyTorch ranks");
        return Err(problem(
            "backend",
            message,
            "use `rankmark train --runtime pytorch`, which shows what its ranks hold",
        ));
    }
    contract::runtime::resolve_products(case, &fields(), &[CUBLAS, CUDNN])
}

/// Refuses fields of the other runtime, skips what torch does not do here, and adds the recipe.
pub(super) fn check(case: &mut Case, task: &Task) -> Result<(), FieldError> {
    contract::runtime::check(case, &fields(), Native::GpusThroughHost)?;
    gpus::check(case, task)?;
    if !is_pytorch(case) {
        return Ok(());
    }
    let bind = World::of(case)?.bind;
    if let Some(reason) = lacking(is_on_gpus(case), bind, &dimensions(case), task) {
        case.skip = Some(reason.to_owned());
    }
    if task.recipe.precision == Dtype::Bf16 {
        case.caveats.push(Caveat::Autocast);
    }
    let recipe = recipe(case, task)?;
    case.settings.insert("recipe", recipe);
    Ok(())
}

/// Why torch's ranks cannot run the case.
fn lacking(on_gpus: bool, bind: Option<Bind>, dimensions: &[(String, f64)], task: &Task) -> Option<&'static str> {
    let recipe = &task.recipe;
    let several = recipe.mesh.data > 1;
    let nodes = || recipe.model.blocks.iter().flat_map(|block| &block.nodes);
    let normalises = || nodes().any(|node| matches!(node.layer, Layer::BatchNorm(_)));
    let bound = bind == Some(Bind::Core) && task.threads > 1;
    let on_cpu = !on_gpus;
    let reasons = [
        (recipe.mesh.tensor * recipe.mesh.pipeline > 1, "PyTorch ranks support strategy `data` only"),
        (
            dimensions.iter().any(|(name, rate)| name == "dropout" && *rate > 0.0),
            "torch draws dropout in another order: losses would differ from those of native ranks",
        ),
        (recipe.precision == Dtype::F16, "PyTorch ranks train in f32, bf16 and f64: loss scaling is not supported yet"),
        (
            recipe.matmul != Matmul::Auto,
            "PyTorch chooses how it multiplies, and never splits f32: `matmul` is for native ranks",
        ),
        (task.sleep.is_some(), "PyTorch ranks compute: `compute: sleep` is for native ranks"),
        (recipe.recompute, "PyTorch ranks do not recompute activations"),
        (task.load_balance == LoadBalance::Measured, "PyTorch ranks train on the same number of micro-batches"),
        (task.origin != Origin::Synthetic, "PyTorch ranks do not read data files: they use synthetic samples"),
        (
            several && recipe.sharded == 1,
            "PyTorch ranks support `sharded` 0 (nothing), 2 (optimizer and gradients) and 3 (parameters, too)",
        ),
        (
            several && !recipe.overlap && recipe.communicate,
            "torch always overlaps the exchange of gradients with the backward pass",
        ),
        (several && !recipe.communicate && recipe.sharded > 0, "torch's FSDP2 cannot leave out its exchanges"),
        (
            several && recipe.sharded > 0 && recipe.synchronised && normalises(),
            "PyTorch ranks synchronise batch norm with `sharded: 0` only: `synchronised: false` trains the same on both runtimes",
        ),
        (
            several && on_cpu && recipe.synchronised && normalises(),
            "torch's SyncBatchNorm runs on GPUs only: `synchronised: false` trains the same on both runtimes",
        ),
        (bound, "torch's threads would share the one core that a rank is bound to: use `bind: none`"),
    ];
    reasons.iter().find(|(holds, _)| *holds).map(|(_, reason)| *reason)
}

/// Everything that a rank must know, defaults included.
fn recipe(case: &Case, task: &Task) -> Result<Value, FieldError> {
    let recipe = &task.recipe;
    let entry = model::entry(&recipe.model.name);
    let resolved = entry.and_then(|entry| entry.resolved(&dimensions(case)));
    let resolved = resolved.map_err(|error| FieldError { field: "model", error: error.error, excluded_by: None })?;
    let dimensions: Map<String, Value> =
        resolved.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    let mut all = json!({
        "model": recipe.model.name,
        "dimensions": dimensions,
        "precision": recipe.precision,
        "micro_batch": recipe.micro_batch,
        "micro_batches": recipe.micro_batches.first(),
        "sharded": recipe.sharded,
        "bucket": recipe.bucket_bytes,
        "communicate": recipe.communicate,
        "clip": recipe.clip,
        "synchronised": recipe.synchronised,
        "seed": recipe.seed,
    });
    let optimizer = match recipe.optimizer {
        Optimizer::Sgd { rate, momentum } => {
            json!({"optimizer": "sgd", "learning_rate": rate, "momentum": momentum})
        }
        Optimizer::AdamW { rate, beta1, beta2, epsilon, decay } => json!({
            "optimizer": "adamw", "learning_rate": rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon,
            "weight_decay": decay,
        }),
    };
    if let (Value::Object(all), Value::Object(optimizer)) = (&mut all, optimizer) {
        all.extend(optimizer);
        all.extend(fields().into_iter().map(|name| (name.to_owned(), Value::from(case.flag(name)))));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
