//! Llama 3 (Grattafiori et al., arXiv 2407.21783) as Hugging Face's `modeling_llama.py` has it: pre-norm by RMSNorm,
//! rotary positions, grouped-query attention, SwiGLU, no biases. All weights begin as N(0, 0.02) (`initializer_range`).
//!
//! Llama 3.2 stretches its rotary frequencies for contexts beyond 8192 tokens; that is left out, as it changes neither
//! shapes nor work.

use crate::entry::Entry;
use crate::error::ModelError;
use crate::graph::{Graph, decoder, linear, packed};
use crate::layer::{Attention, CrossEntropy, Embedding, Layer, Norm, Rotary, Split};
use crate::models::{TOKENS, most, transformer};
use crate::settings::{DROPOUT, ModelSettings, Setting};
use crate::specification::{Block, Model, Value};

const EPSILON: f64 = 1e-5;
const DEVIATION: f64 = 0.02;
const ROTARY_BASE: f64 = 500_000.0;

/// Dimensions by default.
struct LlamaSize {
    layers: u32,
    width: u32,
    heads: u32,
    kv_heads: u32,
    vocabulary: u32,
    sequence: u32,
}

const fn settings(size: LlamaSize) -> [Setting; 9] {
    [
        Setting::count("layers", most::LAYERS, size.layers, "transformer layers"),
        Setting::count("width", most::WIDTH, size.width, "features of a token"),
        Setting::count("heads", most::HEADS, size.heads, "query heads, which share the width equally"),
        Setting::count(
            "kv_heads",
            most::HEADS,
            size.kv_heads,
            "key and value heads, each read by equally many queries",
        ),
        Setting::multiple("ffn", most::FFN, 4, "width", "features of SwiGLU's gate, and of its other half"),
        Setting::count("vocabulary", most::VOCABULARY, size.vocabulary, "different tokens"),
        Setting::count("sequence", most::SEQUENCE, size.sequence, "tokens of a sample"),
        Setting::switch("tied", "whether the head's weight is the token table (1) or its own (0)"),
        DROPOUT,
    ]
}

/// `llama-1b`: 1,235,814,400 parameters.
pub(crate) static LLAMA_1B: Entry = Entry {
    name: "llama-1b",
    doc: "Llama 3.2 1B (1.24B)",
    settings: &settings(LlamaSize {
        layers: 16,
        width: 2048,
        heads: 32,
        kv_heads: 8,
        vocabulary: 128_256,
        sequence: 2048,
    }),
    build,
};

/// `llama-tiny`: for plans that must be quick anywhere.
pub(crate) static LLAMA_TINY: Entry = Entry {
    name: "llama-tiny",
    doc: "Llama's graph at a size that trains in milliseconds (5M), for quick plans; not a published model",
    settings: &settings(LlamaSize { layers: 4, width: 256, heads: 8, kv_heads: 4, vocabulary: 4096, sequence: 128 }),
    build,
};

fn build(name: &'static str, settings: &ModelSettings) -> Result<Model, ModelError> {
    let head_width = settings.divided("width", "heads")?;
    settings.divided("heads", "kv_heads")?;
    if head_width % 2 != 0 {
        let (width, heads) = (settings.count("width"), settings.count("heads"));
        return Err(ModelError::new(
            "heads",
            format!("rotary positions turn pairs of features, and a head has {width} / {heads} = {head_width}"),
            format!("width = {}", heads * (head_width + 1)),
        ));
    }
    let ends =
        [embedding(settings), head(settings.count("vocabulary"), settings.count("width"), settings.switch("tied"))];
    Ok(transformer(name, settings, true, ends, |index| layer(settings, index, head_width)))
}

fn norm(width: usize) -> Layer {
    Layer::Norm(Norm { width, epsilon: EPSILON, centred: false })
}

fn embedding(settings: &ModelSettings) -> Block {
    let mut graph = Graph::new("embedding");
    let lookup = Embedding {
        vocabulary: settings.count("vocabulary"),
        width: settings.count("width"),
        positions: 0,
        segments: 0,
        deviation: DEVIATION,
    };
    let x = graph.node("lookup", Layer::Embedding(lookup), &[Value::Input]);
    graph.dropout("dropout", settings.rate("dropout"), x);
    graph.finish()
}

fn layer(settings: &ModelSettings, index: usize, head_width: usize) -> Block {
    let (width, ffn) = (settings.count("width"), settings.count("ffn"));
    let (heads, kv_heads) = (settings.count("heads"), settings.count("kv_heads"));
    let rate = settings.rate("dropout");
    let qkv = vec![heads * head_width, kv_heads * head_width, kv_heads * head_width];
    let rotary = Rotary { heads, kv_heads, head_width, base: ROTARY_BASE };
    let attention = Attention { heads, kv_heads, head_width, causal: true };

    let mut graph = Graph::new(format!("layers.{index}"));
    let x = Value::Input;
    let branch = graph.node("attn_norm", norm(width), &[x]);
    let branch = graph.node("attn.qkv", packed(width, qkv, false, DEVIATION), &[branch]);
    let branch = graph.node("attn.rotary", Layer::Rotary(rotary), &[branch]);
    let branch = graph.node("attn.attention", Layer::Attention(attention), &[branch]);
    let branch = graph.node("attn.proj", linear(width, width, false, Split::Row, DEVIATION), &[branch]);
    let branch = graph.dropout("attn.dropout", rate, branch);
    let x = graph.node("attn.add", Layer::Add, &[x, branch]);
    let branch = graph.node("mlp_norm", norm(width), &[x]);
    let branch = graph.node("mlp.gate_up", packed(width, vec![ffn, ffn], false, DEVIATION), &[branch]);
    let branch = graph.node("mlp.swiglu", Layer::SwiGlu { width: ffn }, &[branch]);
    let branch = graph.node("mlp.down", linear(ffn, width, false, Split::Row, DEVIATION), &[branch]);
    let branch = graph.dropout("mlp.dropout", rate, branch);
    graph.node("mlp.add", Layer::Add, &[x, branch]);
    graph.finish()
}

fn head(vocabulary: usize, width: usize, tied: bool) -> Block {
    let output = decoder(width, vocabulary, false, tied.then_some(TOKENS), DEVIATION);
    let mut graph = Graph::new("head");
    let x = graph.node("norm", norm(width), &[Value::Input]);
    let logits = graph.node("output", output, &[x]);
    graph.node("loss", Layer::CrossEntropy(CrossEntropy { classes: vocabulary }), &[logits]);
    graph.finish()
}
