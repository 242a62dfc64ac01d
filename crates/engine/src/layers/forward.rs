//! The forward pass of a block.

use model::{Attention, Block, Conv2d, Embedding, Layer, Linear, Node, Pool, Rotary, Value};
use terms::Dtype;

use super::{Cut, Emit, Saved, Tensor};
use crate::buffer::{Category, Lifetime, View};
use crate::op::{self, Dense, Op, Rows, Spatial};
use crate::program::{Axis, ExchangeKind};

/// Whether a layer's backward pass reads what its forward pass gave: nobody may overwrite it.
fn keeps_output(layer: &Layer) -> bool {
    match layer {
        Layer::Relu | Layer::Attention(_) => true,
        Layer::BatchNorm(layer) => layer.relu,
        _ => false,
    }
}

/// Whether a layer's backward pass reads its input.
fn keeps_input(layer: &Layer) -> bool {
    matches!(
        layer,
        Layer::Linear(_)
            | Layer::Norm(_)
            | Layer::Gelu { .. }
            | Layer::SwiGlu { .. }
            | Layer::Attention(_)
            | Layer::Conv2d(_)
            | Layer::BatchNorm(_)
    )
}

/// Whether a layer's output is its input.
fn passes(layer: &Layer) -> bool {
    matches!(layer, Layer::Dropout { rate } if *rate <= 0.0)
}

/// What a value is before the layers that do nothing.
fn source(block: &Block, mut value: Value) -> Value {
    while let Value::Node(node) = value
        && passes(&block.nodes[node].layer)
    {
        value = block.nodes[node].inputs[0];
    }
    value
}

impl Emit<'_> {
    /// Emits the forward pass of a block and gives what its backward pass needs.
    pub fn forward(&mut self, block: &Block, input: Option<Tensor>) -> Saved {
        let count = block.nodes.len();
        let mut saved = Saved { input, values: Vec::with_capacity(count), aside: Vec::with_capacity(count) };
        let mut dropout = self.first_dropout;
        for (index, node) in block.nodes.iter().enumerate() {
            let (value, aside) = self.node_forward(block, index, &saved, &mut dropout);
            debug_assert_eq!(saved.values.len(), index, "{}", node.name);
            saved.values.push(value);
            saved.aside.push(aside);
        }
        saved
    }

    fn node_forward(
        &mut self,
        block: &Block,
        index: usize,
        saved: &Saved,
        dropout: &mut u32,
    ) -> (Tensor, Option<View>) {
        let node = &block.nodes[index];
        if let Layer::Embedding(layer) = &node.layer {
            return (self.embedding_forward(block, index, layer), None);
        }
        let x = saved.value(node.inputs[0]);
        match &node.layer {
            Layer::Linear(layer) => (self.linear_forward(block, index, layer, x), None),
            Layer::Norm(layer) => self.norm_forward(block, index, layer, x),
            Layer::Gelu { exact } => {
                let y = self.like(x);
                self.rows(Rows::GeluForward { x: x.view, y: y.view, exact: *exact });
                (y, None)
            }
            Layer::Relu => {
                let y = if self.may_overwrite(block, node, 0) { x } else { self.like(x) };
                self.rows(Rows::ReluForward { x: x.view, y: y.view });
                (y, None)
            }
            Layer::SwiGlu { .. } => {
                let width = x.columns / 2;
                let y = Tensor { view: self.activation(x.rows, width), columns: width, ..x };
                self.rows(Rows::SwiGluForward { x: x.view, y: y.view, width });
                (y, None)
            }
            Layer::Rotary(layer) => (self.rotary_forward(block, node, layer, x), None),
            Layer::Attention(layer) => self.attention_forward(layer, x),
            Layer::Dropout { rate } => (self.dropout_forward(block, node, *rate, x, dropout), None),
            Layer::Add => (self.add_forward(block, node, saved), None),
            Layer::Conv2d(layer) => (self.conv_forward(block, index, layer, x), None),
            Layer::BatchNorm(layer) => {
                let residual = node.inputs.get(1).map(|value| saved.value(*value));
                self.batch_norm_forward(block, index, layer, x, residual)
            }
            Layer::MaxPool(shape) => self.max_pool_forward(shape, x),
            Layer::AveragePool(shape) => (self.average_pool_forward(shape, x), None),
            Layer::CrossEntropy(layer) => (self.loss_forward(layer.classes, x), None),
            Layer::Embedding(_) => unreachable!("handled above"),
        }
    }

    /// A new value of the same shape and cut.
    pub(super) fn like(&mut self, tensor: Tensor) -> Tensor {
        Tensor { view: self.activation(tensor.rows, tensor.columns), ..tensor }
    }

    /// Whether a node may write its output over one of its inputs: nobody else reads it, forward or backward.
    pub(super) fn may_overwrite(&self, block: &Block, node: &Node, input: usize) -> bool {
        let value = source(block, node.inputs[input]);
        let Value::Node(producer) = value else { return false };
        let reading = block.nodes.iter().filter(|node| !passes(&node.layer)).flat_map(|node| &node.inputs);
        let readers = reading.filter(|other| source(block, **other) == value).count();
        readers == 1 && !keeps_output(&block.nodes[producer].layer) && !keeps_input(&node.layer)
    }

    fn embedding_forward(&mut self, block: &Block, index: usize, layer: &Embedding) -> Tensor {
        let sequence = self.terms.input.rows();
        let rows = self.batch.samples * sequence;
        let range = self.terms.part.range(layer.vocabulary);
        let view = self.activation(rows, layer.width);
        // Positions are whole on every part, and must be added once.
        let counts = self.terms.part.index == 0;
        let extra = |emit: &Self, name: &str, size: usize| {
            (size > 0 && counts).then(|| emit.parameters.value(&Self::name(block, index, name)))
        };
        let positions = extra(self, "positions", layer.positions);
        let segments = extra(self, "segments", layer.segments);
        self.rows(Rows::EmbeddingForward {
            tokens: self.batch.tokens.expect("the first block has tokens"),
            table: self.parameters.value(&Self::name(block, index, "tokens")),
            positions,
            segments,
            y: view,
            width: layer.width,
            sequence,
            first: range.start,
        });
        let partial = Tensor { view, rows, columns: layer.width, cut: Cut::Whole };
        let cut = self.between();
        self.summed(partial, cut)
    }

    fn linear_forward(&mut self, block: &Block, index: usize, layer: &Linear, x: Tensor) -> Tensor {
        let shape = self.linear_shape(block, index, layer, x);
        let x = if shape.gathers { self.gathered(x) } else { x };
        let outputs = shape.outputs + shape.padding;
        let view = self.activation(x.rows, outputs);
        let value = |emit: &Self, name: &str| emit.parameters.padded(name, emit.parameters.value(name));
        let bias = layer.bias.then(|| value(self, &Self::name(block, index, "bias")));
        let bias_inside = if shape.sums { None } else { bias };
        let weight = value(self, &Self::weight_name(block, index, layer));
        self.run(Op::Dense(Dense::MatMul(op::MatMul {
            a: x.view,
            b: weight,
            c: view,
            bias: bias_inside,
            m: x.rows,
            n: outputs,
            k: shape.inputs,
            a_transposed: false,
            b_transposed: true,
            accumulate: false,
            padding: [0, shape.padding, 0],
        })));
        let y = Tensor { view, rows: x.rows, columns: shape.outputs, cut: shape.output };
        if !shape.sums {
            return y;
        }
        let cut = self.between();
        let y = self.summed(y, cut);
        if let Some(bias) = bias {
            self.rows(Rows::AddBias { x: y.view, bias });
        }
        y
    }

    fn rotary_forward(&mut self, block: &Block, node: &Node, layer: &Rotary, x: Tensor) -> Tensor {
        let y = if self.may_overwrite(block, node, 0) {
            x
        } else {
            let y = self.like(x);
            self.rows(Rows::Convert { x: x.view, y: y.view });
            y
        };
        self.rotate(layer, y.view, false);
        y
    }

    pub(super) fn rotate(&mut self, layer: &Rotary, qkv: View, inverse: bool) {
        let parts = self.parts();
        self.rows(Rows::Rotary {
            qkv,
            sequence: self.terms.input.rows(),
            heads: layer.heads / parts,
            kv_heads: layer.kv_heads / parts,
            head_width: layer.head_width,
            base: layer.base,
            inverse,
        });
    }

    fn attention_forward(&mut self, layer: &Attention, x: Tensor) -> (Tensor, Option<View>) {
        let columns = layer.heads / self.parts() * layer.head_width;
        let view = self.activation(x.rows, columns);
        let log_sum = self.statistic(x.rows * layer.heads / self.parts());
        let attention = self.attention(layer, x.view, view, log_sum);
        self.run(Op::Dense(Dense::AttentionForward(attention)));
        (Tensor { view, rows: x.rows, columns, cut: x.cut }, Some(log_sum))
    }

    pub(super) fn attention(&self, layer: &Attention, qkv: View, output: View, log_sum: View) -> op::Attention {
        op::Attention {
            qkv,
            output,
            log_sum,
            batch: self.batch.samples,
            sequence: self.terms.input.rows(),
            heads: layer.heads / self.parts(),
            kv_heads: layer.kv_heads / self.parts(),
            head_width: layer.head_width,
            causal: layer.causal,
        }
    }

    fn dropout_forward(&mut self, block: &Block, node: &Node, rate: f64, x: Tensor, dropout: &mut u32) -> Tensor {
        if rate <= 0.0 {
            return x;
        }
        let y = if self.may_overwrite(block, node, 0) { x } else { self.like(x) };
        self.drop(x.view, y, rate, *dropout);
        *dropout += 1;
        y
    }

    /// Emits a dropout. Forward and backward it is one operation.
    pub(super) fn drop(&mut self, x: View, y: Tensor, rate: f64, node: u32) {
        let first_row = self.first_row(y);
        self.rows(Rows::Dropout { x, y: y.view, columns: y.columns, first_row, node, rate });
    }

    fn add_forward(&mut self, block: &Block, node: &Node, saved: &Saved) -> Tensor {
        let (a, b) = (saved.value(node.inputs[0]), saved.value(node.inputs[1]));
        let y = if self.may_overwrite(block, node, 0) {
            a
        } else if self.may_overwrite(block, node, 1) {
            b
        } else {
            self.like(a)
        };
        self.rows(Rows::Add { a: a.view, b: b.view, y: y.view });
        y
    }

    fn conv_forward(&mut self, block: &Block, index: usize, shape: &Conv2d, x: Tensor) -> Tensor {
        let (height, width) = shape.output();
        let batch = self.batch.samples;
        let rows = batch * height * width;
        let view = self.activation(rows, shape.outputs);
        let weight = self.parameters.value(&Self::name(block, index, "weight"));
        self.run(Op::Spatial(Spatial::ConvForward { shape: shape.clone(), batch, x: x.view, weight, y: view }));
        Tensor { view, rows, columns: shape.outputs, cut: Cut::Whole }
    }

    fn max_pool_forward(&mut self, shape: &Pool, x: Tensor) -> (Tensor, Option<View>) {
        let (height, width) = shape.output();
        let batch = self.batch.samples;
        let rows = batch * height * width;
        let view = self.activation(rows, shape.channels);
        let index = self.program.buffer(Category::Activation, Lifetime::Step, Dtype::I32, rows * shape.channels);
        self.run(Op::Spatial(Spatial::MaxPoolForward { shape: shape.clone(), batch, x: x.view, y: view, index }));
        (Tensor { view, rows, columns: shape.channels, cut: Cut::Whole }, Some(index))
    }

    fn average_pool_forward(&mut self, shape: &Pool, x: Tensor) -> Tensor {
        let (height, width) = shape.output();
        let batch = self.batch.samples;
        let rows = batch * height * width;
        let view = self.activation(rows, shape.channels);
        self.run(Op::Spatial(Spatial::AveragePoolForward { shape: shape.clone(), batch, x: x.view, y: view }));
        Tensor { view, rows, columns: shape.channels, cut: Cut::Whole }
    }

    /// Overwrites the logits by their gradient.
    fn loss_forward(&mut self, all: usize, logits: Tensor) -> Tensor {
        let targets = self.batch.targets.expect("the last block has targets");
        let (view, classes, scale, loss) = (logits.view, logits.columns, self.scale(), self.terms.loss);
        let control = self.terms.control;
        if logits.cut != Cut::Columns {
            self.rows(Rows::CrossEntropy { logits: view, targets, loss, control, classes, scale });
            return logits;
        }
        let first = self.terms.part.range(all).start;
        let largest = self.statistic(logits.rows);
        let sums = self.statistic(2 * logits.rows);
        self.rows(Rows::CrossEntropyLargest { logits: view, largest, classes });
        self.exchange(Axis::Tensor, ExchangeKind::Max, largest, largest);
        self.rows(Rows::CrossEntropySum { logits: view, targets, largest, sums, classes, first });
        self.exchange(Axis::Tensor, ExchangeKind::Sum, sums, sums);
        let counts = self.terms.part.index == 0;
        let finish = Rows::CrossEntropyFinish {
            logits: view,
            targets,
            largest,
            sums,
            loss,
            control,
            classes,
            first,
            scale,
            counts,
        };
        self.rows(finish);
        logits
    }
}
