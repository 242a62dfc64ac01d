//! The table of models, and building one of them by its name.

use crate::entry::Entry;
use crate::error::ModelError;
use crate::models::{bert, gpt, llama, mlp, resnet};
use crate::specification::Model;

/// All models, in the order of help.
pub static CATALOG: &[&Entry] = &[
    &gpt::GPT2,
    &gpt::GPT2_MEDIUM,
    &gpt::GPT2_MINI,
    &llama::LLAMA_1B,
    &llama::LLAMA_TINY,
    &bert::BERT_BASE,
    &bert::BERT_LARGE,
    &resnet::RESNET18,
    &resnet::RESNET50,
    &gpt::TRANSFORMER_SMALL,
    &gpt::TRANSFORMER_MEDIUM,
    &gpt::TRANSFORMER_LARGE,
    &mlp::MLP,
];

/// The entry of this name.
///
/// # Errors
/// When there is none, with the nearest or all of them.
pub fn entry(name: &str) -> Result<&'static Entry, ModelError> {
    let wanted = terms::normalize(name);
    if let Some(entry) = CATALOG.iter().find(|entry| terms::normalize(entry.name) == wanted) {
        return Ok(entry);
    }
    let hint = terms::suggestion(name, CATALOG.iter().map(|entry| entry.name));
    Err(ModelError::new("model", format!("there is no model `{name}`"), hint))
}

/// The model of this name with these settings.
///
/// # Errors
/// As [`entry`] and [`Entry::model`].
pub fn model(name: &str, settings: &[(String, f64)]) -> Result<Model, ModelError> {
    entry(name)?.model(settings)
}
