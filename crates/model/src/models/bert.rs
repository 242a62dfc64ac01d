//! BERT (Devlin et al., arXiv 1810.04805) as Hugging Face's `BertForMaskedLM` has it: post-norm, exact GELU, learned
//! positions and segments, a masked-language head (dense, GELU, LayerNorm, tied decoder with a bias of its own), no
//! pooler. Weights begin as N(0, 0.02). Attention probabilities are not dropped out: the engine keeps none.
//!
//! All tokens are targets, not 15% of them, so that the work does not depend on a draw: kernels do the same either way.

use crate::entry::Entry;
use crate::error::ModelError;
use crate::graph::{Graph, decoder, layer_norm, linear, packed};
use crate::layer::{Attention, CrossEntropy, Embedding, Layer, Split};
use crate::models::{TOKENS, most, transformer};
use crate::settings::{DROPOUT, ModelSettings, Setting};
use crate::specification::{Block, Model, Value};

const EPSILON: f64 = 1e-12;
const DEVIATION: f64 = 0.02;

const fn settings(layers: u32, width: u32, heads: u32) -> [Setting; 9] {
    [
        Setting::count("layers", most::LAYERS, layers, "transformer layers"),
        Setting::count("width", most::WIDTH, width, "features of a token"),
        Setting::count("heads", most::HEADS, heads, "attention heads, which share the width equally"),
        Setting::multiple("ffn", most::FFN, 4, "width", "features between the two linear layers of the MLP"),
        Setting::count("vocabulary", most::VOCABULARY, 30522, "different tokens"),
        Setting::count("sequence", most::SEQUENCE, 128, "tokens of a sample (9 of 10 published training steps: 128)"),
        Setting::count("positions", most::SEQUENCE, 512, "learned positions, at least the sequence"),
        Setting::count("segments", most::CLASSES, 2, "segment types; all tokens are of the first"),
        DROPOUT,
    ]
}

/// `bert-base`: 109,514,298 parameters.
pub(crate) static BERT_BASE: Entry = Entry {
    name: "bert-base",
    doc: "BERT base, uncased, with its masked-language head (110M)",
    settings: &settings(12, 768, 12),
    build,
};

/// `bert-large`: 335,174,458 parameters.
pub(crate) static BERT_LARGE: Entry = Entry {
    name: "bert-large",
    doc: "BERT large, uncased, with its masked-language head (335M)",
    settings: &settings(24, 1024, 16),
    build,
};

fn build(name: &'static str, settings: &ModelSettings) -> Result<Model, ModelError> {
    settings.sequence_fits_positions()?;
    settings.divided("width", "heads")?;
    let ends = [embedding(settings), head(settings.count("vocabulary"), settings.count("width"))];
    Ok(transformer(name, settings, false, ends, |index| layer(settings, index)))
}

fn embedding(settings: &ModelSettings) -> Block {
    let width = settings.count("width");
    let lookup = Embedding {
        vocabulary: settings.count("vocabulary"),
        width,
        positions: settings.count("positions"),
        segments: settings.count("segments"),
        deviation: DEVIATION,
    };
    let mut graph = Graph::new("embedding");
    let x = graph.node("lookup", Layer::Embedding(lookup), &[Value::Input]);
    let x = graph.node("norm", layer_norm(width, EPSILON), &[x]);
    graph.dropout("dropout", settings.rate("dropout"), x);
    graph.finish()
}

fn layer(settings: &ModelSettings, index: usize) -> Block {
    let (width, heads, ffn) = (settings.count("width"), settings.count("heads"), settings.count("ffn"));
    let rate = settings.rate("dropout");
    let qkv = packed(width, vec![width; 3], true, DEVIATION);
    let attention = Attention { heads, kv_heads: heads, head_width: width / heads, causal: false };

    let mut graph = Graph::new(format!("layer.{index}"));
    let x = Value::Input;
    let branch = graph.node("attn.qkv", qkv, &[x]);
    let branch = graph.node("attn.attention", Layer::Attention(attention), &[branch]);
    let branch = graph.node("attn.proj", linear(width, width, true, Split::Row, DEVIATION), &[branch]);
    let branch = graph.dropout("attn.dropout", rate, branch);
    let x = graph.node("attn.add", Layer::Add, &[x, branch]);
    let x = graph.node("attn.norm", layer_norm(width, EPSILON), &[x]);
    let branch = graph.node("mlp.fc", linear(width, ffn, true, Split::Column, DEVIATION), &[x]);
    let branch = graph.node("mlp.gelu", Layer::Gelu { exact: true }, &[branch]);
    let branch = graph.node("mlp.proj", linear(ffn, width, true, Split::Row, DEVIATION), &[branch]);
    let branch = graph.dropout("mlp.dropout", rate, branch);
    let x = graph.node("mlp.add", Layer::Add, &[x, branch]);
    graph.node("mlp.norm", layer_norm(width, EPSILON), &[x]);
    graph.finish()
}

fn head(vocabulary: usize, width: usize) -> Block {
    let output = decoder(width, vocabulary, true, Some(TOKENS), DEVIATION);
    let mut graph = Graph::new("head");
    let x = graph.node("dense", linear(width, width, true, Split::Whole, DEVIATION), &[Value::Input]);
    let x = graph.node("gelu", Layer::Gelu { exact: true }, &[x]);
    let x = graph.node("norm", layer_norm(width, EPSILON), &[x]);
    let logits = graph.node("decoder", output, &[x]);
    graph.node("loss", Layer::CrossEntropy(CrossEntropy { classes: vocabulary }), &[logits]);
    graph.finish()
}
