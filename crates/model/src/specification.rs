//! What a model is: blocks, each a small graph with one input and one output. Pipelines cut between blocks.

use crate::layer::Layer;
use crate::parameter::Parameter;

/// Where a node's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// The block's input: the output of the block before, or the model's input.
    Input,
    /// The output of an earlier node of the same block.
    Node(usize),
}

/// A layer at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the layer within the block, the first part of its parameters' names ("attn.qkv").
    pub name: String,
    /// What it does.
    pub layer: Layer,
    /// What it does it to.
    pub inputs: Vec<Value>,
}

/// A graph of layers in the order in which they run; the last node's output is the block's.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Name of the block, the first part of its parameters' names ("h.3").
    pub name: String,
    /// Nodes of the block.
    pub nodes: Vec<Node>,
}

/// What a sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// `sequence` tokens. Targets: the next token, or (`next: false`, masked language models) the token itself.
    Tokens {
        /// Number of different tokens.
        vocabulary: usize,
        /// Tokens of a sample.
        sequence: usize,
        /// Whether the target is the next token.
        next: bool,
    },
    /// An NHWC image and its class.
    Image {
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
        /// Channels.
        channels: usize,
        /// Number of different classes.
        classes: usize,
    },
    /// A vector and its class.
    Vector {
        /// Numbers.
        features: usize,
        /// Number of different classes.
        classes: usize,
    },
}

impl Input {
    /// Rows of a sample in the first block's input: tokens, pixels, or one.
    pub fn rows(&self) -> usize {
        match *self {
            Self::Tokens { sequence, .. } => sequence,
            Self::Image { height, width, .. } => height * width,
            Self::Vector { .. } => 1,
        }
    }

    /// Numbers in a row; zero for tokens, which are indices.
    pub fn columns(&self) -> usize {
        match *self {
            Self::Tokens { .. } => 0,
            Self::Image { channels, .. } => channels,
            Self::Vector { features, .. } => features,
        }
    }

    /// Targets of a sample.
    pub fn targets(&self) -> usize {
        match *self {
            Self::Tokens { sequence, .. } => sequence,
            Self::Image { .. } | Self::Vector { .. } => 1,
        }
    }
}

/// What formulas of FLOPs apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// 6N and what belongs to it (definitions: MFU of transformers).
    Transformer {
        /// Layers.
        layers: usize,
        /// Heads x head width.
        width: usize,
        /// Whether attention is causal.
        causal: bool,
    },
    /// FLOPs counted layer by layer.
    Other,
}

/// A model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The one spelling of the model's name.
    pub name: String,
    /// What formulas of FLOPs apply.
    pub family: Family,
    /// What a sample is.
    pub input: Input,
    /// Blocks of the model, in order. The last ends with [`Layer::CrossEntropy`].
    pub blocks: Vec<Block>,
}

impl Block {
    /// The block's own parameters in the order of its nodes; tied ones are their owner's.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.nodes.iter().flat_map(|node| node.parameters(&self.name)).collect()
    }
}

impl Model {
    /// All parameters, once each.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.blocks.iter().flat_map(Block::parameters).collect()
    }

    /// Numbers in all parameters.
    pub fn parameter_count(&self) -> usize {
        self.parameters().iter().map(Parameter::len).sum()
    }
}
