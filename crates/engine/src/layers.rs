//! From a model's layers to instructions: the forward and the backward pass of each layer, written out.
//!
//! No differentiation happens here or anywhere: each layer's two passes are listed by hand, and what a pass leaves for
//! the other is what both name. How tensor parallelism cuts a value is its [`Cut`]; where cuts meet, exchanges stand
//! (Megatron-LM, arXiv 1909.08053; with `sequence_parallel`, Korthikanti et al., arXiv 2205.05198).

mod backward;
mod forward;
mod gradients;
mod linear;
mod normalise;

use model::{Block, Input, Layer, Part, Split, Value};
use terms::Dtype;

use crate::buffer::{Category, Lifetime, View};
use crate::op::{Op, Rows};
use crate::program::{Axis, Exchange, ExchangeKind, Program};

pub use gradients::Gradients;

/// What a part of a tensor group holds of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of the value, the same on every part.
    Whole,
    /// Some of its columns.
    Columns,
    /// An equal run of its rows.
    Rows,
}

/// A value of a program: a matrix, as this part holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tensor {
    /// Where.
    pub view: View,
    /// Rows held.
    pub rows: usize,
    /// Columns held.
    pub columns: usize,
    /// What that is of the whole.
    pub cut: Cut,
}

/// Where parameters and their gradients lie.
pub trait Parameters {
    /// This part's values, of type E, to compute with.
    fn value(&self, name: &str) -> View;

    /// Where this part's gradient goes, of type S, and whether something was written there in this step already. Every
    /// call is followed by a write.
    fn gradient(&mut self, program: &mut Program, name: &str) -> (View, bool);

    /// A parameter's view, or that of its gradient, with the padding that lies behind it.
    fn padded(&self, name: &str, view: View) -> View;

    /// Told of a gradient that is this part's share of a sum over the tensor group.
    fn partial(&mut self, name: &str);
}

/// The numbers of a micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// I32: tokens, `[samples x sequence]`.
    pub tokens: Option<View>,
    /// E: images or vectors, `[samples x rows, columns]`.
    pub numbers: Option<View>,
    /// I32: targets, `[samples x targets]`.
    pub targets: Option<View>,
    /// Samples.
    pub samples: usize,
    /// Place of the first sample in the global batch.
    pub first_sample: usize,
}

/// How layers are cut and computed, the same for all of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// E: type of activations.
    pub element: Dtype,
    /// S: type of gradients and statistics.
    pub state: Dtype,
    /// Which part of a tensor group this is.
    pub part: Part,
    /// Whether what tensor parallelism keeps whole is cut by rows.
    pub sequence_parallel: bool,
    /// Replicas that count their rows together in batch norm; 1 for each its own.
    pub batch_norm_replicas: usize,
    /// What a sample is.
    pub input: Input,
    /// Samples of a step, over all replicas.
    pub global_batch: usize,
    /// Rows of logits have a multiple of so many elements: see [`padded`].
    pub logits_multiple: usize,
    /// F64, 1: where losses are added.
    pub loss: View,
    /// F64, `[4]`: see [`crate::op::Update`].
    pub control: View,
}

/// What the forward pass of a block leaves for its backward pass.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The block's input; None for the first block of a model of tokens.
    pub input: Option<Tensor>,
    /// The output of each node.
    pub values: Vec<Tensor>,
    /// Statistics, log-sums, indices: what a node keeps in addition to its output.
    aside: Vec<Option<View>>,
}

impl Saved {
    /// The block's output.
    pub fn output(&self) -> Tensor {
        *self.values.last().expect("a block has nodes")
    }

    fn value(&self, value: Value) -> Tensor {
        match value {
            Value::Input => self.input.expect("this node has an input"),
            Value::Node(node) => self.values[node],
        }
    }
}

/// Writes the instructions of blocks into a program.
pub struct Emit<'a> {
    /// The program that instructions are written into.
    pub program: &'a mut Program,
    /// How layers are cut and computed.
    pub terms: Terms,
    /// The micro-batch that instructions work on.
    pub batch: Batch,
    /// Where parameters lie.
    pub parameters: &'a mut dyn Parameters,
    /// Numbers the dropout layers of the model: that of the first in this block.
    pub first_dropout: u32,
}

impl Emit<'_> {
    fn parts(&self) -> usize {
        self.terms.part.of
    }

    fn activation(&mut self, rows: usize, columns: usize) -> View {
        self.program.buffer(Category::Activation, Lifetime::Step, self.terms.element, rows * columns)
    }

    fn statistic(&mut self, len: usize) -> View {
        self.program.buffer(Category::Activation, Lifetime::Step, self.terms.state, len)
    }

    fn run(&mut self, op: Op) {
        self.program.run(op);
    }

    fn rows(&mut self, op: Rows) {
        self.program.run(Op::Rows(op));
    }

    fn exchange(&mut self, axis: Axis, kind: ExchangeKind, input: View, output: View) {
        self.program.exchange(Exchange { axis, kind, input, output });
    }

    /// A value cut by rows, put together.
    fn gathered(&mut self, tensor: Tensor) -> Tensor {
        if tensor.cut != Cut::Rows {
            return tensor;
        }
        let rows = tensor.rows * self.parts();
        let view = self.activation(rows, tensor.columns);
        self.exchange(Axis::Tensor, ExchangeKind::AllGather, tensor.view, view);
        Tensor { view, rows, columns: tensor.columns, cut: Cut::Whole }
    }

    /// The sum over the parts of what each holds of a whole value: whole again, or cut by rows.
    fn summed(&mut self, partial: Tensor, cut: Cut) -> Tensor {
        if self.parts() == 1 {
            return Tensor { cut: Cut::Whole, ..partial };
        }
        if cut == Cut::Rows {
            let rows = partial.rows / self.parts();
            let view = self.activation(rows, partial.columns);
            self.exchange(Axis::Tensor, ExchangeKind::ReduceScatter, partial.view, view);
            return Tensor { view, rows, columns: partial.columns, cut };
        }
        self.exchange(Axis::Tensor, ExchangeKind::Sum, partial.view, partial.view);
        Tensor { cut: Cut::Whole, ..partial }
    }

    /// How values between layers are cut: by rows under sequence parallelism.
    fn between(&self) -> Cut {
        if self.terms.sequence_parallel && self.parts() > 1 { Cut::Rows } else { Cut::Whole }
    }

    /// The full name of a node's own parameter.
    fn name(block: &Block, node: usize, parameter: &str) -> String {
        format!("{}.{}.{parameter}", block.name, block.nodes[node].name)
    }

    /// Where a parameter's gradient goes; `partial` when this part computes a share of it only.
    fn gradient(&mut self, name: &str, partial: bool) -> (View, bool) {
        if partial {
            self.parameters.partial(name);
        }
        self.parameters.gradient(self.program, name)
    }

    /// As [`Emit::gradient`], for operations that always add: zeros first where nothing was written yet.
    fn gradient_to_add_to(&mut self, name: &str) -> View {
        let (view, written) = self.gradient(name, false);
        if !written {
            self.rows(Rows::Fill { y: view, value: 0.0 });
        }
        view
    }

    /// Global row of the first row that a value holds.
    fn first_row(&self, tensor: Tensor) -> u64 {
        let whole = if tensor.cut == Cut::Rows { tensor.rows * self.parts() } else { tensor.rows };
        let rows_of_sample = whole / self.batch.samples.max(1);
        let within = if tensor.cut == Cut::Rows { self.terms.part.index * tensor.rows } else { 0 };
        (self.batch.first_sample * rows_of_sample + within) as u64
    }

    fn scale(&self) -> f64 {
        1.0 / (self.terms.global_batch * self.terms.input.targets()) as f64
    }
}

/// The linear layer of a block that makes logits: the place of its node.
pub fn logits_node(block: &Block) -> Option<usize> {
    let read = block.nodes.iter().find_map(|node| match (&node.layer, node.inputs.first()) {
        (Layer::CrossEntropy(_), Some(Value::Node(read))) => Some(*read),
        _ => None,
    });
    read.filter(|read| matches!(&block.nodes[*read].layer, Layer::Linear(layer) if layer.split != Split::Row))
}

/// Elements that a row of so many logits has, so that each begins where a GPU's wide loads can: what is behind the logits is zero, and
/// so are as many rows behind those of the weight and numbers behind those of the bias.
pub fn padded(logits: usize, multiple: usize) -> usize {
    logits.next_multiple_of(multiple.max(1))
}

/// Dropout layers of a block that do something.
pub fn dropouts(block: &Block) -> u32 {
    let active = |node: &&model::Node| matches!(node.layer, model::Layer::Dropout { rate } if rate > 0.0);
    block.nodes.iter().filter(active).count() as u32
}
