//! The one place where a recipe is checked: what does not fit is refused with the arithmetic, before anything starts.

use engine::layers::logits_node;
use model::{Input, Layer, Split};
use terms::FieldError;

use crate::recipe::{Recipe, Schedule};
use crate::schedule::{self, Dimensions};
use crate::strategies::stages;

fn refuse(field: &'static str, message: String, hint: impl std::fmt::Display) -> Result<(), FieldError> {
    Err(FieldError::new(field, message).hint(hint))
}

/// Refuses recipes that cannot be followed.
///
/// # Errors
/// The first thing that does not fit.
pub fn check(recipe: &Recipe) -> Result<(), FieldError> {
    numbers(recipe)?;
    size(recipe)?;
    data(recipe)?;
    if recipe.mesh.tensor > 1 {
        tensor(recipe)?;
    }
    pipeline(recipe)
}

fn numbers(recipe: &Recipe) -> Result<(), FieldError> {
    let mesh = recipe.mesh;
    if mesh.ranks() == 0 {
        return refuse("mesh", format!("the mesh {mesh} holds no rank"), "for example 2x1x1");
    }
    if !recipe.precision.is_float() {
        let message = format!("{} is not a type to train in", recipe.precision);
        return refuse("precision", message, "f32, bf16, f16 or f64");
    }
    if recipe.micro_batch == 0 {
        return refuse("batch", "a micro-batch holds no sample".to_owned(), "a batch of at least as many samples");
    }
    if recipe.micro_batches.len() != mesh.data || recipe.micro_batches.contains(&0) {
        let message = format!(
            "{} replicas need {} numbers of micro-batches, not {:?}",
            mesh.data, mesh.data, recipe.micro_batches
        );
        return refuse("micro_batches", message, "at least one for each replica");
    }
    if recipe.clip.is_some_and(|clip| clip <= 0.0) {
        return refuse("clip", "a norm is positive".to_owned(), "for example 1.0");
    }
    if recipe.sharded > 3 {
        return refuse("sharded", format!("there is no sharding {}", recipe.sharded), "0 to 3");
    }
    Ok(())
}

/// Layer passes of a step: layers of the model, each for every micro-batch of a replica. A program lists each several
/// times, so that this many take some 300 MB and a second or two to plan.
pub(crate) const MOST_PASSES: usize = 1 << 18;

/// Refuses a step that is too long to be written as a program, before any of it is.
fn size(recipe: &Recipe) -> Result<(), FieldError> {
    let layers: usize = recipe.model.blocks.iter().map(|block| block.nodes.len()).sum();
    let most = recipe.micro_batches.iter().copied().max().unwrap_or(0);
    let passes = most.saturating_mul(layers);
    if passes <= MOST_PASSES {
        return Ok(());
    }
    let message = format!(
        "{most} micro-batches x {layers} layers of {} = {passes} layer passes a step; at most {MOST_PASSES} are planned",
        recipe.model.name
    );
    refuse(
        "micro_batches",
        message,
        format!("at most {} micro-batches, each of more samples", MOST_PASSES / layers.max(1)),
    )
}

fn data(recipe: &Recipe) -> Result<(), FieldError> {
    let equal = recipe.micro_batches.iter().all(|count| *count == recipe.micro_batches[0]);
    if recipe.sharded >= 2 && !equal {
        let message = format!("sharded {} exchanges at every micro-batch: replicas need equal numbers", recipe.sharded);
        return refuse("load_balance", message, "sharded 0 or 1");
    }
    let batch_norm = |node: &model::Node| matches!(node.layer, Layer::BatchNorm(_));
    let normalises = recipe.model.blocks.iter().flat_map(|block| &block.nodes).any(batch_norm);
    if recipe.synchronised && normalises && !equal {
        let message = "synchronised batch norm exchanges at every micro-batch: replicas need equal numbers".to_owned();
        return refuse("load_balance", message, "no load balance, or batch norm of each replica's own");
    }
    Ok(())
}

fn tensor(recipe: &Recipe) -> Result<(), FieldError> {
    let parts = recipe.mesh.tensor;
    let nodes = || recipe.model.blocks.iter().flat_map(|block| &block.nodes);
    let divides = |what: &str, count: usize| {
        if count.is_multiple_of(parts) {
            return Ok(());
        }
        let message = format!("{count} {what} do not divide into {parts} parts");
        refuse("mesh", message, format!("a tensor size that divides {count}"))
    };
    let mut cut = false;
    for node in nodes() {
        match &node.layer {
            Layer::Attention(layer) => {
                divides("attention heads", layer.heads)?;
                divides("key and value heads", layer.kv_heads)?;
            }
            Layer::Linear(layer) if layer.split == Split::Row => {
                cut = true;
                divides("input features", layer.inputs)?;
            }
            Layer::SwiGlu { width } => divides("features of the feed-forward layer", *width)?,
            _ => {}
        }
    }
    if !cut {
        let message = format!("{} has no layers that tensor parallelism cuts", recipe.model.name);
        return refuse("strategy", message, "data or pipeline parallelism");
    }
    logits(recipe)?;
    let (samples, each) = (recipe.micro_batch, recipe.model.input.rows());
    let rows = samples * each;
    if recipe.sequence_parallel && !rows.is_multiple_of(parts) {
        let message = format!("{samples} x {each} = {rows} rows do not divide into {parts} parts");
        let what = if matches!(recipe.model.input, Input::Tokens { .. }) { "sequence" } else { "micro-batch" };
        return refuse("sequence_parallel", message, format!("a {what} that the tensor size divides"));
    }
    Ok(())
}

/// Refuses logits that leave a part without a column: it would have an empty product.
fn logits(recipe: &Recipe) -> Result<(), FieldError> {
    let parts = recipe.mesh.tensor;
    for block in &recipe.model.blocks {
        let Some(node) = logits_node(block).map(|place| &block.nodes[place]) else { continue };
        let Layer::Linear(layer) = &node.layer else { continue };
        let columns: usize = layer.outputs.iter().sum();
        if layer.split == Split::Column && columns < parts {
            let (what, field) = match recipe.model.input {
                Input::Tokens { .. } => ("tokens of the vocabulary", "vocabulary"),
                Input::Image { .. } | Input::Vector { .. } => ("classes", "classes"),
            };
            let message = format!("{columns} {what} / {parts} parts of each layer = fewer than one for each part");
            let hint = format!("a tensor size of at most {columns}, or `{field}: {parts}` or more");
            return refuse("mesh", message, hint);
        }
    }
    Ok(())
}

fn pipeline(recipe: &Recipe) -> Result<(), FieldError> {
    let (pipeline, chunks) = (recipe.mesh.pipeline, recipe.chunks);
    if chunks == 0 || (chunks > 1 && recipe.schedule != Schedule::Interleaved) {
        return refuse("chunks", format!("{} has no {chunks} chunks", recipe.schedule), "`schedule: interleaved`");
    }
    let places = pipeline * chunks;
    let blocks = recipe.model.blocks.len();
    if places > blocks {
        let message = format!("{pipeline} stages x {chunks} chunks = {places} places for {blocks} blocks");
        return refuse("mesh", message, format!("at most {blocks} places, or a model of more layers"));
    }
    if !recipe.stages.is_empty() {
        let sum: usize = recipe.stages.iter().sum();
        if recipe.stages.len() != places || sum != blocks || recipe.stages.contains(&0) {
            let message = format!("stages of {:?} blocks are not {places} that hold {blocks}", recipe.stages);
            return refuse("balance", message, "a number of blocks for each, that add up");
        }
    }
    debug_assert_eq!(stages(recipe).iter().flatten().map(|range| range.len()).sum::<usize>(), blocks);
    if chunks > 1
        && let Some(count) = recipe.micro_batches.iter().find(|count| !count.is_multiple_of(pipeline))
    {
        let message = format!("interleaved: {count} micro-batches are not a multiple of {pipeline} stages");
        return refuse("micro_batches", message, format!("for example {pipeline}"));
    }
    let fits =
        |micros: &usize| schedule::fits(recipe.schedule, Dimensions { stages: pipeline, chunks, micros: *micros });
    match recipe.micro_batches.iter().find(|micros| !fits(micros)) {
        Some(micros) => refuse(
            "schedule",
            format!("{} does not fit {pipeline} stages of {chunks} chunks and {micros} micro-batches", recipe.schedule),
            "another schedule, or a number of micro-batches that the number of stages divides",
        ),
        None => Ok(()),
    }
}
