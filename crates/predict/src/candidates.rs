//! A candidate of a sweep in words, and as a case of a plan.

use model::{Input, Layer, Model, Values};
use parallel::{Optimizer, Schedule};
use record::ProfileBasis;
use terms::{Error, Named};

use crate::Workload;
use crate::sweep::{Candidate, Ranked, Swept};

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

/// Refuses a sweep of which nothing fits into so much memory of a rank.
///
/// # Errors
/// When nothing fits, with what needs the least.
pub fn refuse_too_large(found: &Swept, memory_bytes: u64) -> Result<(), Error> {
    let Some((smallest, bytes)) = &found.smallest else { return Ok(()) };
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let (smallest, needed, limit) = (words(smallest), gigabytes(*bytes), gigabytes(memory_bytes));
    Err(Error::new("no mesh fits into memory")
        .cause(format!("the smallest, {smallest}, needs {needed} a rank of {limit}"))
        .hint("more ranks, a smaller global batch, or a smaller model"))
}

/// The plan that measures the three best. On a machine that only public numbers are known of, ranks are GPUs: all such machines have them.
pub fn plan((model, set): (&str, &[String]), base: &Workload, best: &[Ranked], machine: ProfileBasis) -> String {
    let optimizer = match base.recipe.optimizer {
        Optimizer::Sgd { momentum, .. } => format!("sgd\n  momentum: {momentum}"),
        Optimizer::AdamW { .. } => "adamw".to_owned(),
    };
    let mut text = format!(
        "# The three best meshes of a sweep by prediction: `rankmark run` measures them.\nexperiment: predicted\ndefaults:\n  \
         model: {}\n  precision: {}\n  optimizer: {optimizer}\n  overlap: {}\n",
        model, base.recipe.precision, base.recipe.overlap
    );
    if machine == ProfileBasis::Public {
        text += "  device: cuda\n  backend: nccl\n";
    }
    for (name, value) in dimensions(model, &base.recipe.model, set) {
        text += &format!("  {name}: {value}\n");
    }
    text += "cases:\n";
    for Ranked { candidate, .. } in best.iter().take(3) {
        text += &case(candidate);
    }
    text
}

/// What the plan says of the model's dimensions, each once: a key that is written twice is refused.
fn dimensions(name: &str, model: &Model, set: &[String]) -> Vec<(String, String)> {
    let entry = model::entry(name).ok();
    let settings = entry.map_or(&[][..], |entry| entry.settings);
    let given = set.iter().map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (terms::normalize(name), value.trim());
        // Switches of models are 0 or 1, and those of plans words.
        match settings.iter().any(|setting| setting.name == name && setting.values == Values::Switch) {
            true => (name, (value.parse::<f64>() != Ok(0.0)).to_string()),
            false => (name, value.to_owned()),
        }
    });
    let mut found: Vec<(String, String)> = given.collect();
    let mut add = |name: &str, value: usize| {
        if found.iter().all(|(known, _)| known != name) {
            found.push((name.to_owned(), value.to_string()));
        }
    };
    // A plan's own default is shorter than that of most models.
    if let Input::Tokens { sequence, .. } = model.input {
        add("sequence", sequence);
    }
    // A sequence that is longer than the default came with as many learned positions.
    let usual = entry.and_then(|entry| entry.resolved(&[]).ok()).unwrap_or_default();
    for node in model.blocks.iter().flat_map(|block| &block.nodes) {
        if let Layer::Embedding(layer) = &node.layer
            && usual.iter().any(|(name, value)| *name == "positions" && *value != layer.positions as f64)
        {
            add("positions", layer.positions);
        }
    }
    found
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

#[cfg(test)]
mod tests {
    use super::*;

    fn written(model: &str, settings: &[(&str, f64)], set: &[&str]) -> Vec<(String, String)> {
        let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let set: Vec<String> = set.iter().map(|pair| (*pair).to_owned()).collect();
        dimensions(model, &model::model(model, &settings).unwrap(), &set)
    }

    fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_plan_says_each_dimension_once() {
        let found = written("gpt2", &[("sequence", 128.0), ("layers", 2.0)], &["Sequence= 128", "layers=2"]);
        assert_eq!(found, pairs(&[("sequence", "128"), ("layers", "2")]));
        assert_eq!(written("gpt2", &[], &[]), pairs(&[("sequence", "1024")]));
    }

    #[test]
    fn a_plan_has_words_for_switches() {
        let found = written("llama-tiny", &[("tied", 0.0)], &["tied=0"]);
        assert_eq!(found, pairs(&[("tied", "false"), ("sequence", "128")]));
    }

    #[test]
    fn a_plan_has_positions_for_its_sequence() {
        let longer = [("sequence", 2048.0), ("positions", 2048.0)];
        assert_eq!(written("gpt2", &longer, &[]), pairs(&[("sequence", "2048"), ("positions", "2048")]));
    }

    #[test]
    fn a_plan_has_the_momentum_that_was_predicted() {
        let mut base = crate::tests::workload(parallel::Mesh::SERIAL);
        base.recipe.optimizer = Optimizer::Sgd { rate: 1e-3, momentum: 0.9 };
        let text = plan(("gpt2-mini", &[]), &base, &[], ProfileBasis::Measured);
        assert!(text.contains("\n  optimizer: sgd\n  momentum: 0.9\n  overlap: true\n"), "{text}");
        assert!(!text.contains("device"), "{text}");
        let text = plan(("gpt2-mini", &[]), &base, &[], ProfileBasis::Public);
        assert!(text.contains("\n  device: cuda\n  backend: nccl\n"), "{text}");
    }
}
