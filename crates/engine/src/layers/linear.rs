//! How tensor parallelism changes a linear layer, and its backward pass.

use model::{Block, Linear, Split};

use super::{Cut, Emit, Gradients, Tensor, logits_node, padded};
use crate::op::{Dense, MatMul, Op, Rows};

/// A linear layer as one part computes it.
pub(super) struct LinearShape {
    /// Input features of this part.
    pub(super) inputs: usize,
    /// Output features of this part.
    pub(super) outputs: usize,
    /// Columns of zeros behind them: only logits have some.
    pub(super) padding: usize,
    /// How the product is cut, before any sum over the parts.
    pub(super) output: Cut,
    /// Whether an input that is cut by rows is put together first.
    pub(super) gathers: bool,
    /// Whether the product is a share of a sum over the parts.
    pub(super) sums: bool,
}

impl Emit<'_> {
    pub(super) fn linear_shape(&self, block: &Block, index: usize, layer: &Linear, x: Tensor) -> LinearShape {
        let shape = self.unpadded_shape(layer, x);
        match logits_node(block) == Some(index) {
            true => LinearShape { padding: padded(shape.outputs, self.terms.logits_multiple) - shape.outputs, ..shape },
            false => shape,
        }
    }

    fn unpadded_shape(&self, layer: &Linear, x: Tensor) -> LinearShape {
        let part = self.terms.part;
        let (inputs, outputs) = (layer.inputs, layer.width());
        let whole = LinearShape { inputs, outputs, padding: 0, output: x.cut, gathers: false, sums: false };
        if part.of == 1 {
            return whole;
        }
        match layer.split {
            Split::Whole => whole,
            Split::Column => {
                let outputs = layer.outputs.iter().map(|run| part.range(*run).len()).sum();
                LinearShape { outputs, output: Cut::Columns, gathers: x.cut == Cut::Rows, ..whole }
            }
            Split::Row => {
                let inputs = part.range(layer.inputs).len();
                LinearShape { inputs, output: Cut::Whole, sums: true, ..whole }
            }
        }
    }

    /// The parameter that a linear layer multiplies with.
    pub(super) fn weight_name(block: &Block, index: usize, layer: &Linear) -> String {
        layer.tied.clone().unwrap_or_else(|| Self::name(block, index, "weight"))
    }

    /// Emits the backward pass: `dW += dy^T x`, `db += sum of rows of dy`, `dx += dy W`.
    pub(super) fn linear_backward(
        &mut self,
        block: &Block,
        index: usize,
        layer: &Linear,
        x: Tensor,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let shape = self.linear_shape(block, index, layer, x);
        // Its rows' own share of a sum over the parts, where it is cut by rows.
        let bias_partial = dy.cut == Cut::Rows;
        if layer.bias {
            self.bias_backward(&Self::name(block, index, "bias"), dy, bias_partial);
        }
        let dy = if shape.sums { self.gathered(dy) } else { dy };
        let x_whole = if shape.gathers { self.gathered(x) } else { x };
        let name = Self::weight_name(block, index, layer);
        let weight = self.parameters.padded(&name, self.parameters.value(&name));
        let outputs = shape.outputs + shape.padding;
        // A weight that is whole on every part but saw some of the rows only.
        let partial = layer.split == Split::Whole && x.cut == Cut::Rows;
        let (d_weight, accumulate) = self.gradient(&name, partial);
        let d_weight = self.parameters.padded(&name, d_weight);
        self.run(Op::Dense(Dense::MatMul(MatMul {
            a: dy.view,
            b: x_whole.view,
            c: d_weight,
            bias: None,
            m: outputs,
            n: shape.inputs,
            k: x_whole.rows,
            a_transposed: true,
            b_transposed: false,
            accumulate,
            padding: [shape.padding, 0, 0],
        })));
        let value = block.nodes[index].inputs[0];
        if !gradients.wants(value) {
            return;
        }
        let product = |c, accumulate| {
            Op::Dense(Dense::MatMul(MatMul {
                a: dy.view,
                b: weight,
                c,
                bias: None,
                m: x_whole.rows,
                n: shape.inputs,
                k: outputs,
                a_transposed: false,
                b_transposed: false,
                accumulate,
                padding: [0, 0, shape.padding],
            }))
        };
        if shape.output == Cut::Columns && self.parts() > 1 && layer.split == Split::Column {
            // A share of a sum over the parts: summed before it is added to anything.
            let view = self.activation(x_whole.rows, shape.inputs);
            self.run(product(view, false));
            let partial = Tensor { view, rows: x_whole.rows, columns: shape.inputs, cut: Cut::Whole };
            let dx = self.summed(partial, x.cut);
            gradients.give(self, value, dx);
        } else {
            let (dx, accumulate) = gradients.target(self, value, x);
            self.run(product(dx.view, accumulate));
        }
    }

    fn bias_backward(&mut self, name: &str, dy: Tensor, partial: bool) {
        let (y, accumulate) = self.gradient(name, partial);
        let y = self.parameters.padded(name, y);
        self.rows(Rows::ColumnSum { x: dy.view, y, rows: dy.rows, accumulate });
    }
}
