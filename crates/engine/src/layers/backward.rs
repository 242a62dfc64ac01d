//! The backward pass of a block.

use model::{Attention, Block, Conv2d, Embedding, Layer, Node, Pool, Rotary, Value};

use super::{Emit, Gradients, Saved, Tensor, dropouts};
use crate::op::{Dense, Op, Rows, Spatial};

impl Emit<'_> {
    /// Emits the backward pass of a block: `d_output` is the gradient of its output (None for the last block, which ends
    /// with the loss) and may be overwritten. Gives the gradient of its input, where `wants_input`.
    pub fn backward(
        &mut self,
        block: &Block,
        saved: &Saved,
        d_output: Option<Tensor>,
        wants_input: bool,
    ) -> Option<Tensor> {
        let mut gradients = Gradients::new(wants_input);
        let last = Value::Node(block.nodes.len() - 1);
        if let Some(d_output) = d_output {
            gradients.give(self, last, d_output);
        }
        let mut dropout = self.first_dropout + dropouts(block);
        for (index, node) in block.nodes.iter().enumerate().rev() {
            if let Layer::Dropout { rate } = node.layer
                && rate > 0.0
            {
                dropout -= 1;
            }
            self.node_backward(block, index, node, saved, &mut gradients, dropout);
        }
        gradients.take(Value::Input)
    }

    fn node_backward(
        &mut self,
        block: &Block,
        index: usize,
        node: &Node,
        saved: &Saved,
        gradients: &mut Gradients,
        dropout: u32,
    ) {
        let own = Value::Node(index);
        if matches!(node.layer, Layer::CrossEntropy(_)) {
            // The forward pass left the gradient where the logits were.
            return gradients.give(self, node.inputs[0], saved.value(node.inputs[0]));
        }
        // These change the gradient of their output in place, or may.
        let changes = matches!(
            node.layer,
            Layer::Gelu { .. } | Layer::Relu | Layer::Rotary(_) | Layer::BatchNorm(_) | Layer::Dropout { .. }
        );
        let dy = if changes { gradients.take_to_change(self, own) } else { gradients.take(own) };
        let Some(dy) = dy else { return };
        match &node.layer {
            Layer::Embedding(layer) => self.embedding_backward(block, index, layer, dy),
            Layer::Linear(layer) => {
                self.linear_backward(block, index, layer, saved.value(node.inputs[0]), dy, gradients);
            }
            Layer::Norm(layer) => self.norm_backward(block, index, layer, saved, dy, gradients),
            Layer::BatchNorm(layer) => self.batch_norm_backward(block, index, layer, saved, dy, gradients),
            Layer::Gelu { exact } => {
                let x = saved.value(node.inputs[0]).view;
                self.rows(Rows::GeluBackward { x, dy: dy.view, dx: dy.view, exact: *exact });
                gradients.give(self, node.inputs[0], dy);
            }
            Layer::Relu => {
                let y = saved.values[index].view;
                self.rows(Rows::ReluBackward { y, dy: dy.view, dx: dy.view });
                gradients.give(self, node.inputs[0], dy);
            }
            Layer::SwiGlu { .. } => self.swiglu_backward(node, saved, dy, gradients),
            Layer::Rotary(layer) => self.rotary_backward(node, layer, dy, gradients),
            Layer::Attention(layer) => self.attention_backward(layer, index, node, saved, dy, gradients),
            Layer::Dropout { rate } => {
                if *rate > 0.0 {
                    self.drop(dy.view, dy, *rate, dropout);
                }
                gradients.give(self, node.inputs[0], dy);
            }
            Layer::Add => {
                gradients.give(self, node.inputs[0], dy);
                gradients.give(self, node.inputs[1], dy);
            }
            Layer::Conv2d(layer) => self.conv_backward(block, index, layer, saved, dy, gradients),
            Layer::MaxPool(shape) => self.max_pool_backward(shape, index, node, saved, dy, gradients),
            Layer::AveragePool(shape) => self.average_pool_backward(shape, node, saved, dy, gradients),
            Layer::CrossEntropy(_) => unreachable!("handled above"),
        }
    }

    fn embedding_backward(&mut self, block: &Block, index: usize, layer: &Embedding, dy: Tensor) {
        // Every part's tokens may stand in any row.
        let dy = self.gathered(dy);
        let d_table = self.gradient_to_add_to(&Self::name(block, index, "tokens"));
        let extra = |emit: &mut Self, name: &str, size: usize| {
            (size > 0).then(|| emit.gradient_to_add_to(&Self::name(block, index, name)))
        };
        let d_positions = extra(self, "positions", layer.positions);
        let d_segments = extra(self, "segments", layer.segments);
        self.rows(Rows::EmbeddingBackward {
            tokens: self.batch.tokens.expect("the first block has tokens"),
            dy: dy.view,
            d_table,
            d_positions,
            d_segments,
            width: layer.width,
            sequence: self.terms.input.rows(),
            first: self.terms.part.range(layer.vocabulary).start,
        });
    }

    fn swiglu_backward(&mut self, node: &Node, saved: &Saved, dy: Tensor, gradients: &mut Gradients) {
        let x = saved.value(node.inputs[0]);
        let dx = self.like(x);
        self.rows(Rows::SwiGluBackward { x: x.view, dy: dy.view, dx: dx.view, width: dy.columns });
        gradients.give(self, node.inputs[0], dx);
    }

    fn rotary_backward(&mut self, node: &Node, layer: &Rotary, dy: Tensor, gradients: &mut Gradients) {
        self.rotate(layer, dy.view, true);
        gradients.give(self, node.inputs[0], dy);
    }

    fn attention_backward(
        &mut self,
        layer: &Attention,
        index: usize,
        node: &Node,
        saved: &Saved,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let qkv = saved.value(node.inputs[0]);
        let log_sum = saved.aside[index].expect("attention keeps its log-sums");
        let forward = self.attention(layer, qkv.view, saved.values[index].view, log_sum);
        let d_qkv = self.like(qkv);
        self.run(Op::Dense(Dense::AttentionBackward { forward, d_output: dy.view, d_qkv: d_qkv.view }));
        gradients.give(self, node.inputs[0], d_qkv);
    }

    fn conv_backward(
        &mut self,
        block: &Block,
        index: usize,
        shape: &Conv2d,
        saved: &Saved,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let value = block.nodes[index].inputs[0];
        let x = saved.value(value);
        let batch = self.batch.samples;
        let name = Self::name(block, index, "weight");
        let (d_weight, accumulate) = self.gradient(&name, false);
        self.run(Op::Spatial(Spatial::ConvBackwardWeight {
            shape: shape.clone(),
            batch,
            x: x.view,
            dy: dy.view,
            d_weight,
            accumulate,
        }));
        if !gradients.wants(value) {
            return;
        }
        let weight = self.parameters.value(&name);
        let (dx, accumulate) = gradients.target(self, value, x);
        self.run(Op::Spatial(Spatial::ConvBackwardInput {
            shape: shape.clone(),
            batch,
            dy: dy.view,
            weight,
            dx: dx.view,
            accumulate,
        }));
    }

    fn max_pool_backward(
        &mut self,
        shape: &Pool,
        index: usize,
        node: &Node,
        saved: &Saved,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let dx = self.like(saved.value(node.inputs[0]));
        let (index, batch) = (saved.aside[index].expect("max pooling keeps its indices"), self.batch.samples);
        let op = Spatial::MaxPoolBackward { shape: shape.clone(), batch, dy: dy.view, index, dx: dx.view };
        self.run(Op::Spatial(op));
        gradients.give(self, node.inputs[0], dx);
    }

    fn average_pool_backward(
        &mut self,
        shape: &Pool,
        node: &Node,
        saved: &Saved,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let dx = self.like(saved.value(node.inputs[0]));
        let batch = self.batch.samples;
        self.run(Op::Spatial(Spatial::AveragePoolBackward { shape: shape.clone(), batch, dy: dy.view, dx: dx.view }));
        gradients.give(self, node.inputs[0], dx);
    }
}
