//! Models, one module a family of the same graph; each entry is one line of [`crate::CATALOG`].

use crate::settings::ModelSettings;
use crate::specification::{Block, Family, Input, Model};

pub(crate) mod bert;
pub(crate) mod gpt;
pub(crate) mod llama;
pub(crate) mod mlp;
pub(crate) mod resnet;

/// Largest values that settings take: far above anything that fits a machine, and low enough that the number of
/// parameters of any combination is exact in 64 bits.
pub(crate) mod most {
    pub(crate) const LAYERS: u32 = 4096;
    pub(crate) const WIDTH: u32 = 1 << 18;
    pub(crate) const FFN: u32 = 1 << 20;
    pub(crate) const HEADS: u32 = 1 << 12;
    pub(crate) const VOCABULARY: u32 = 1 << 24;
    pub(crate) const SEQUENCE: u32 = 1 << 20;
    pub(crate) const IMAGE: u32 = 1 << 12;
    pub(crate) const CLASSES: u32 = 1 << 20;
    pub(crate) const FEATURES: u32 = 1 << 20;
}

/// The full name of the token table, which tied heads name as their weight.
pub(crate) const TOKENS: &str = "embedding.lookup.tokens";

/// A transformer of these ends and layers; where it is causal, each token is to tell the next.
fn transformer(
    name: &str,
    settings: &ModelSettings,
    causal: bool,
    [embedding, head]: [Block; 2],
    layer: impl Fn(usize) -> Block,
) -> Model {
    let (layers, width) = (settings.count("layers"), settings.count("width"));
    let (vocabulary, sequence) = (settings.count("vocabulary"), settings.count("sequence"));
    Model {
        name: name.to_owned(),
        family: Family::Transformer { layers, width, causal },
        input: Input::Tokens { vocabulary, sequence, next: causal },
        blocks: [embedding].into_iter().chain((0..layers).map(layer)).chain([head]).collect(),
    }
}
