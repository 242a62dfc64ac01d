//! The models, with what each of them takes: for `rankmark list models`.

use model::{CATALOG, Entry};
use serde_json::json;
use terms::Bytes;

use super::predict;
use super::resolve::{self, Task};

/// A model at its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLine {
    /// The one spelling of the model's name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Parameters, shared ones once.
    pub parameters: usize,
    /// Floating-point operations of one sample in a training step, counted layer by layer.
    pub flops: f64,
    /// Tokens of that sample; zero where samples are not texts.
    pub tokens: usize,
    /// Bytes that one rank holds to train it: f32, AdamW, one sample.
    pub bytes: Option<u64>,
    /// What can be set.
    pub dimensions: Vec<&'static str>,
}

impl ModelLine {
    /// What it takes: `124 M parameters, 0.855 TFLOP a sample of 1024 tokens, 2.1 GiB to train it: GPT-2, ...`.
    pub fn takes(&self) -> String {
        let tokens = if self.tokens > 0 { format!(" of {} tokens", self.tokens) } else { String::new() };
        let memory = self.bytes.map_or(String::new(), |bytes| format!(", {} to train it", Bytes(bytes).about()));
        let (parameters, flops) = (count(self.parameters as f64), count(self.flops));
        format!("{parameters} parameters, {flops}FLOP a sample{tokens}{memory}: {}", self.doc)
    }
}

/// Three significant digits and a prefix: `124 M`, `0.855 T`.
fn count(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e12 => (v / 1e12, " T"),
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, " "),
    };
    format!("{}{prefix}", terms::number::three_digits(scaled))
}

/// Parameters of a model with these dimensions, shared ones once; None where there is no such model.
pub fn parameters(name: &str, dimensions: &[(String, f64)]) -> Option<usize> {
    model::model(name, dimensions).ok().map(|model| model.parameter_count())
}

/// Every model, in the order of the catalog.
pub fn models() -> Vec<ModelLine> {
    CATALOG.iter().filter_map(|entry| line(entry)).collect()
}

fn line(entry: &Entry) -> Option<ModelLine> {
    let mut case = record::Case::new(
        "training",
        serde_json::from_value(json!({"model": entry.name, "ranks": 1, "batch": 1})).ok()?,
    );
    let task: Task = resolve::fill(&mut case).ok()?;
    let model = &task.recipe.model;
    Some(ModelLine {
        name: entry.name,
        doc: entry.doc,
        parameters: model.parameter_count(),
        flops: model.training_flops().ok()?,
        tokens: task.tokens(),
        bytes: predict::outlines(&task).ok().map(|outlines| predict::bytes(&task, &outlines)),
        dimensions: entry.settings.iter().map(|setting| setting.name).collect(),
    })
}
