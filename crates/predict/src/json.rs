//! Predictions as one JSON object.

use serde_json::{Map, Value, json};
use terms::Named;

use crate::candidates;
use crate::sweep::{Choices, Swept};
use crate::{Fitted, Judged, Prediction, Predictor, Workload, category_name};

fn line(value: Value) -> String {
    format!("{value}\n")
}

/// What every object begins with.
fn head(predictor: &Predictor) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("predicted".to_owned(), true.into());
    head.insert("machine".to_owned(), predictor.profile.name.clone().into());
    head.insert("basis".to_owned(), predictor.evidence.name().into());
    head.insert("source".to_owned(), predictor.profile.source.clone().into());
    head
}

fn with(mut head: Map<String, Value>, more: &[(&str, Value)]) -> String {
    for (name, value) in more {
        head.insert((*name).to_owned(), value.clone());
    }
    line(Value::Object(head))
}

fn step(prediction: &Prediction) -> Value {
    let parts: Map<String, Value> =
        prediction.parts.listed().iter().map(|(name, seconds)| ((*name).to_owned(), json!(seconds))).collect();
    let categories = prediction.memory.categories.iter();
    let categories: Map<String, Value> =
        categories.map(|(category, bytes)| (category_name(*category).to_owned(), json!(bytes))).collect();
    json!({
        "step_s": prediction.seconds,
        "interval90_s": prediction.interval.map(|(low, high)| [low, high]),
        "spread": {
            "constants": prediction.spreads.constants,
            "launches": prediction.spreads.launches,
            "model": prediction.spreads.model,
        },
        "limit": prediction.limit,
        "parts_s": parts,
        "memory": { "stage": prediction.memory.stage, "bytes": prediction.memory.bytes(), "categories": categories },
        "memory_bytes": prediction.memory_bytes,
        "fits": prediction.fits(),
        "would_help": prediction.would_help,
    })
}

fn fit(fitted: Option<&Fitted>) -> Value {
    let Some(Fitted { fit, rows, .. }) = fitted else { return Value::Null };
    let constants: Vec<Value> = fit
        .before
        .listed()
        .iter()
        .zip(fit.after.listed())
        .map(|(before, after)| {
            json!({
                "name": before.name, "unit": before.unit,
                "before": before.value, "after": after.value,
                "spread_before": before.spread, "spread_after": after.spread,
            })
        })
        .collect();
    let errors = |errors: &[f64]| {
        let [mean, median, p90] = Judged::sizes(errors);
        json!({ "mean": mean, "median": median, "p90": p90 })
    };
    json!({
        "rows": rows,
        "constants": constants,
        "errors_before": errors(&fit.errors_before),
        "errors_after": errors(&fit.errors_after),
        "left_out": errors(&fit.left_out),
        "folds": fit.folds,
    })
}

/// A fit alone.
pub fn fitted(fitted: &Fitted) -> String {
    line(json!({ "predicted": true, "fit": fit(Some(fitted)) }))
}

/// One prediction.
pub fn prediction(
    predictor: &Predictor,
    workload: &Workload,
    prediction: &Prediction,
    fitted: Option<&Fitted>,
) -> String {
    let recipe = &workload.recipe;
    let described = json!({
        "model": recipe.model.name,
        "mesh": recipe.mesh.to_string(),
        "schedule": recipe.schedule,
        "chunks": recipe.chunks,
        "micro_batches": workload.micros(),
        "micro_batch": recipe.micro_batch,
        "global_batch": recipe.global_batch(),
        "precision": recipe.precision,
        "recompute": recipe.recompute,
        "sharded": recipe.sharded,
        "sequence_parallel": recipe.sequence_parallel,
        "overlap": recipe.overlap,
        "ranks_per_node": workload.ranks_per_node,
        "software": workload.software,
    });
    with(head(predictor), &[("workload", described), ("prediction", step(prediction)), ("fit", fit(fitted))])
}

/// Errors of rows.
pub fn errors(predictor: &Predictor, fitted: Option<&Fitted>, judged: &Judged) -> String {
    let sizes = |errors: &[f64]| {
        let [mean, median, p90] = Judged::sizes(errors);
        json!({ "mean": mean, "median": median, "p90": p90 })
    };
    let rows: Vec<Value> = judged
        .lines
        .iter()
        .zip(&judged.errors)
        .map(|(line, error)| {
            json!({
                "model": line.model, "mesh": line.mesh, "micro_batch": line.micro_batch, "micro_batches": line.micros,
                "measured_s": line.measured_s, "predicted_s": line.predicted_s, "error": error,
            })
        })
        .collect();
    with(
        head(predictor),
        &[
            ("errors", sizes(&judged.errors)),
            ("constant_rate", sizes(&judged.constant_rate)),
            ("bias", json!(judged.bias())),
            ("coverage90", json!(judged.coverage())),
            ("rows", rows.into()),
            ("fit", fit(fitted)),
        ],
    )
}

/// A sweep.
pub fn sweep(
    predictor: &Predictor,
    base: &Workload,
    choices: &Choices,
    found: &Swept,
    fitted: Option<&Fitted>,
) -> String {
    let best: Vec<Value> = found
        .best
        .iter()
        .map(|ranked| {
            let candidate = &ranked.candidate;
            json!({
                "mesh": candidate.mesh.to_string(),
                "schedule": candidate.schedule,
                "chunks": candidate.chunks,
                "micro_batch": candidate.micro_batch,
                "micro_batches": candidate.micros,
                "recompute": candidate.recompute,
                "sharded": candidate.sharded,
                "sequence_parallel": candidate.sequence_parallel,
                "in_words": candidates::words(candidate),
                "cannot_be_told_apart_from_the_first": ranked.tied,
                "prediction": step(&ranked.prediction),
            })
        })
        .collect();
    with(
        head(predictor),
        &[
            ("model", json!(base.recipe.model.name)),
            ("ranks", json!(choices.ranks)),
            ("global_batch", json!(choices.global_batch)),
            ("legal", json!(found.legal)),
            ("fitting", json!(found.fitting)),
            ("simulated", json!(found.simulated)),
            ("best", best.into()),
            ("fit", fit(fitted)),
        ],
    )
}
