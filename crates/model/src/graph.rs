//! Writes a block down, node by node.

use crate::layer::{Layer, Linear, Norm, Split};
use crate::specification::{Block, Node, Value};

/// A block under construction.
pub(crate) struct Graph {
    block: Block,
}

impl Graph {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { block: Block { name: name.into(), nodes: Vec::new() } }
    }

    /// Adds a node; returns its output.
    pub(crate) fn node(&mut self, name: &str, layer: Layer, inputs: &[Value]) -> Value {
        self.block.nodes.push(Node { name: name.to_owned(), layer, inputs: inputs.to_vec() });
        Value::Node(self.block.nodes.len() - 1)
    }

    /// Dropout, or nothing at rate zero, so that plans need not know of it.
    pub(crate) fn dropout(&mut self, name: &str, rate: f64, input: Value) -> Value {
        if rate == 0.0 { input } else { self.node(name, Layer::Dropout { rate }, &[input]) }
    }

    pub(crate) fn finish(self) -> Block {
        self.block
    }
}

/// A linear layer of one output part and its own weight.
pub(crate) fn linear(inputs: usize, outputs: usize, bias: bool, split: Split, deviation: f64) -> Layer {
    Layer::Linear(Linear { inputs, outputs: vec![outputs], bias, split, tied: None, deviation })
}

/// A linear layer of several output parts and its own weight; tensor parallelism cuts each part for itself.
pub(crate) fn packed(inputs: usize, outputs: Vec<usize>, bias: bool, deviation: f64) -> Layer {
    Layer::Linear(Linear { inputs, outputs, bias, split: Split::Column, tied: None, deviation })
}

/// The linear layer of a head. `tied` is the parameter of another block that is its weight, where there is one.
pub(crate) fn decoder(inputs: usize, outputs: usize, bias: bool, tied: Option<&str>, deviation: f64) -> Layer {
    let tied = tied.map(str::to_owned);
    Layer::Linear(Linear { inputs, outputs: vec![outputs], bias, split: Split::Column, tied, deviation })
}

/// LayerNorm.
pub(crate) fn layer_norm(width: usize, epsilon: f64) -> Layer {
    Layer::Norm(Norm { width, epsilon, centred: true })
}
