//! Predictions as one JSON object.

use serde_json::{Map, Value, json};
use terms::Named;

use crate::candidates;
use crate::judged::Line;
use crate::sweep::{Choices, Swept};
use crate::{Fitted, Judged, Prediction, Predictor, Workload, category_name};

fn line(value: Value) -> String {
    format!("{value}\n")
}

/// An object that begins as every one does.
fn object<const N: usize>(predictor: &Predictor, more: [(&str, Value); N]) -> String {
    let (profile, basis) = (&predictor.profile, predictor.evidence.name());
    let mut all = json!({ "predicted": true, "machine": profile.name, "basis": basis, "source": profile.source });
    for (name, value) in more {
        all[name] = value;
    }
    line(all)
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
    json!({
        "rows": rows,
        "constants": constants,
        "errors_before": sizes(&fit.errors_before),
        "errors_after": sizes(&fit.errors_after),
        "left_out": sizes(&fit.left_out),
        "folds": fit.folds,
    })
}

/// How large errors are.
pub(crate) fn sizes(errors: &[f64]) -> Value {
    let [mean, median, p90] = Judged::sizes(errors);
    json!({ "mean": mean, "median": median, "p90": p90 })
}

/// A step that was measured and predicted.
pub(crate) fn row(line: &Line) -> Value {
    json!({
        "model": line.model, "mesh": line.mesh, "micro_batch": line.micro_batch, "micro_batches": line.micros,
        "measured_s": line.measured_s, "predicted_s": line.predicted_s,
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
    object(predictor, [("workload", described), ("prediction", step(prediction)), ("fit", fit(fitted))])
}

/// Errors of rows.
pub fn errors(predictor: &Predictor, fitted: Option<&Fitted>, judged: &Judged) -> String {
    let with_error = |(line, error): (&Line, &f64)| {
        let mut row = row(line);
        row["error"] = (*error).into();
        row
    };
    let rows: Vec<Value> = judged.lines.iter().zip(&judged.errors).map(with_error).collect();
    object(
        predictor,
        [
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
    object(
        predictor,
        [
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
