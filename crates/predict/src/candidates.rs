//! A candidate of a sweep in words, and as a case of a plan.

use parallel::{Optimizer, Schedule};
use terms::Named;

use crate::Workload;
use crate::sweep::{Candidate, Ranked};

/// A candidate in one line.
pub fn words(candidate: &Candidate) -> String {
    let mut words = vec![candidate.mesh.to_string()];
    if candidate.mesh.pipeline > 1 {
        words.push(candidate.schedule.name().to_owned());
    }
    if candidate.chunks > 1 {
        words.push(format!("{} chunks", candidate.chunks));
    }
    words.push(format!("{} x {}", candidate.micros, candidate.micro_batch));
    if candidate.sharded > 0 {
        words.push(format!("sharded {}", candidate.sharded));
    }
    if candidate.recompute {
        words.push("recompute".to_owned());
    }
    if candidate.sequence_parallel {
        words.push("sequence parallel".to_owned());
    }
    words.join(", ")
}

/// The plan that measures the three best.
pub fn plan((model, set): (&str, &[String]), base: &Workload, best: &[Ranked]) -> String {
    let optimizer = match base.recipe.optimizer {
        Optimizer::Sgd { .. } => "sgd",
        Optimizer::AdamW { .. } => "adamw",
    };
    let mut text = format!(
        "# The three best meshes of a sweep by prediction: `rankmark run` measures them.\nexperiment: predicted\ndefaults:\n  \
         model: {}\n  precision: {}\n  optimizer: {optimizer}\n  overlap: {}\n",
        model, base.recipe.precision, base.recipe.overlap
    );
    // A plan's own default is shorter than that of most models.
    if let model::Input::Tokens { sequence, .. } = base.recipe.model.input {
        text += &format!("  sequence: {sequence}\n");
    }
    for pair in set {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        text += &format!("  {}: {}\n", terms::normalize(name), value.trim());
    }
    text += "cases:\n";
    for Ranked { candidate, .. } in best.iter().take(3) {
        text += &case(candidate);
    }
    text
}

fn case(candidate: &Candidate) -> String {
    let Candidate { mesh, schedule, chunks, micro_batch, micros, recompute, sharded, sequence_parallel } = *candidate;
    let mut text = format!(
        "  - benchmark: training\n    ranks: {}\n    mesh: {mesh}\n    batch: {}\n    recompute: {recompute}\n",
        mesh.ranks(),
        micro_batch * micros
    );
    if mesh.pipeline > 1 {
        text += &format!("    schedule: {schedule}\n    micro_batches: {micros}\n");
        if schedule == Schedule::Interleaved {
            text += &format!("    chunks: {chunks}\n");
        }
    } else if micros > 1 {
        text += &format!("    accumulate: {micros}\n");
    }
    if sharded > 0 {
        text += &format!("    sharded: {sharded}\n");
    }
    if sequence_parallel {
        text += "    sequence_parallel: true\n";
    }
    text
}
