//! GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) as Hugging Face's
//! `modeling_gpt2.py` has it: pre-norm, GELU by tanh, learned positions, tied head without bias. Weights begin as
//! N(0, 0.02), those before an addition as N(0, 0.02 / sqrt(2 layers)) (section 2.3 there). Attention probabilities are
//! not dropped out: the engine keeps none.

use crate::entry::Entry;
use crate::error::ModelError;
use crate::graph::{Graph, decoder, layer_norm, linear, packed};
use crate::layer::{Attention, CrossEntropy, Embedding, Layer, Split};
use crate::models::{TOKENS, most, transformer};
use crate::settings::{DROPOUT, ModelSettings, Setting};
use crate::specification::{Block, Model, Value};

const EPSILON: f64 = 1e-5;
const DEVIATION: f64 = 0.02;

/// Dimensions by default.
struct GptSize {
    layers: u32,
    width: u32,
    heads: u32,
    vocabulary: u32,
    sequence: u32,
    positions: u32,
}

const fn settings(size: GptSize) -> [Setting; 8] {
    [
        Setting::count("layers", most::LAYERS, size.layers, "transformer layers"),
        Setting::count("width", most::WIDTH, size.width, "features of a token"),
        Setting::count("heads", most::HEADS, size.heads, "attention heads, which share the width equally"),
        Setting::multiple("ffn", most::FFN, 4, "width", "features between the two linear layers of the MLP"),
        Setting::count("vocabulary", most::VOCABULARY, size.vocabulary, "different tokens"),
        Setting::count("sequence", most::SEQUENCE, size.sequence, "tokens of a sample"),
        Setting::count("positions", most::SEQUENCE, size.positions, "learned positions, at least the sequence"),
        DROPOUT,
    ]
}

/// `gpt2`: 124,439,808 parameters.
pub(crate) static GPT2: Entry = Entry {
    name: "gpt2",
    doc: "GPT-2, the smallest published one (124M)",
    settings: &settings(GptSize {
        layers: 12,
        width: 768,
        heads: 12,
        vocabulary: 50257,
        sequence: 1024,
        positions: 1024,
    }),
    build,
};

/// `gpt2-medium`: 354,823,168 parameters.
pub(crate) static GPT2_MEDIUM: Entry = Entry {
    name: "gpt2-medium",
    doc: "GPT-2 medium (355M)",
    settings: &settings(GptSize {
        layers: 24,
        width: 1024,
        heads: 16,
        vocabulary: 50257,
        sequence: 1024,
        positions: 1024,
    }),
    build,
};

/// `gpt2-mini`: for plans that must be quick anywhere.
pub(crate) static GPT2_MINI: Entry = Entry {
    name: "gpt2-mini",
    doc: "GPT-2's graph at a size that trains in milliseconds (4M), for quick plans; not a published model",
    settings: &settings(GptSize { layers: 4, width: 256, heads: 4, vocabulary: 4096, sequence: 128, positions: 256 }),
    build,
};

/// `transformer-small`: 25.3 million parameters, the token table included, as the other two count theirs.
pub(crate) static TRANSFORMER_SMALL: Entry = Entry {
    name: "transformer-small",
    doc: "pre-norm decoder of GPT-2's graph (25M)",
    settings: &settings(GptSize {
        layers: 12,
        width: 320,
        heads: 10,
        vocabulary: 32000,
        sequence: 512,
        positions: 512,
    }),
    build,
};

/// `transformer-medium`: dimensions of GPT-3 Medium (Brown et al., arXiv 2005.14165, table 2.1).
pub(crate) static TRANSFORMER_MEDIUM: Entry = Entry {
    name: "transformer-medium",
    doc: "pre-norm decoder of GPT-3 Medium's dimensions (350M)",
    settings: &settings(GptSize {
        layers: 24,
        width: 1024,
        heads: 16,
        vocabulary: 50257,
        sequence: 1024,
        positions: 2048,
    }),
    build,
};

/// `transformer-large`: dimensions of GPT-3 XL (table 2.1 there) with 16 heads of 128, because its 24 heads of 128 do not
/// make its width of 2048.
pub(crate) static TRANSFORMER_LARGE: Entry = Entry {
    name: "transformer-large",
    doc: "pre-norm decoder of GPT-3 XL's dimensions (1.3B)",
    settings: &settings(GptSize {
        layers: 24,
        width: 2048,
        heads: 16,
        vocabulary: 50257,
        sequence: 1024,
        positions: 2048,
    }),
    build,
};

fn build(name: &'static str, settings: &ModelSettings) -> Result<Model, ModelError> {
    settings.sequence_fits_positions()?;
    settings.divided("width", "heads")?;
    let ends = [embedding(settings), head(settings.count("vocabulary"), settings.count("width"))];
    Ok(transformer(name, settings, true, ends, |index| layer(settings, index)))
}

fn embedding(settings: &ModelSettings) -> Block {
    let mut graph = Graph::new("embedding");
    let lookup = Embedding {
        vocabulary: settings.count("vocabulary"),
        width: settings.count("width"),
        positions: settings.count("positions"),
        segments: 0,
        deviation: DEVIATION,
    };
    let x = graph.node("lookup", Layer::Embedding(lookup), &[Value::Input]);
    graph.dropout("dropout", settings.rate("dropout"), x);
    graph.finish()
}

fn layer(settings: &ModelSettings, index: usize) -> Block {
    let (width, heads, ffn) = (settings.count("width"), settings.count("heads"), settings.count("ffn"));
    let rate = settings.rate("dropout");
    let before_addition = DEVIATION / (2.0 * settings.count("layers") as f64).sqrt();
    let qkv = packed(width, vec![width; 3], true, DEVIATION);
    let attention = Attention { heads, kv_heads: heads, head_width: width / heads, causal: true };

    let mut graph = Graph::new(format!("h.{index}"));
    let x = Value::Input;
    let branch = graph.node("ln_1", layer_norm(width, EPSILON), &[x]);
    let branch = graph.node("attn.qkv", qkv, &[branch]);
    let branch = graph.node("attn.attention", Layer::Attention(attention), &[branch]);
    let branch = graph.node("attn.proj", linear(width, width, true, Split::Row, before_addition), &[branch]);
    let branch = graph.dropout("attn.dropout", rate, branch);
    let x = graph.node("attn.add", Layer::Add, &[x, branch]);
    let branch = graph.node("ln_2", layer_norm(width, EPSILON), &[x]);
    let branch = graph.node("mlp.fc", linear(width, ffn, true, Split::Column, DEVIATION), &[branch]);
    let branch = graph.node("mlp.gelu", Layer::Gelu { exact: false }, &[branch]);
    let branch = graph.node("mlp.proj", linear(ffn, width, true, Split::Row, before_addition), &[branch]);
    let branch = graph.dropout("mlp.dropout", rate, branch);
    graph.node("mlp.add", Layer::Add, &[x, branch]);
    graph.finish()
}

fn head(vocabulary: usize, width: usize) -> Block {
    let output = decoder(width, vocabulary, false, Some(TOKENS), DEVIATION);
    let mut graph = Graph::new("head");
    let x = graph.node("ln_f", layer_norm(width, EPSILON), &[Value::Input]);
    let logits = graph.node("output", output, &[x]);
    graph.node("loss", Layer::CrossEntropy(CrossEntropy { classes: vocabulary }), &[logits]);
    graph.finish()
}
