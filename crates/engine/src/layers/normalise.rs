//! Norms, forward and backward.

use model::{BatchNorm, Block, Norm, Value};

use super::{Cut, Emit, Gradients, Saved, Tensor};
use crate::buffer::{Category, Lifetime, View};
use crate::op::{self, Op, Rows, Spatial};
use crate::program::{Axis, ExchangeKind};
use terms::Dtype;

impl Emit<'_> {
    pub(super) fn norm_forward(
        &mut self,
        block: &Block,
        index: usize,
        layer: &Norm,
        x: Tensor,
    ) -> (Tensor, Option<View>) {
        let y = self.like(x);
        let statistics = self.statistic(2 * x.rows);
        let norm = self.norm(block, index, layer, x, statistics);
        self.rows(Rows::NormForward { norm, y: y.view });
        (y, Some(statistics))
    }

    fn norm(&self, block: &Block, index: usize, layer: &Norm, x: Tensor, statistics: View) -> op::Norm {
        op::Norm {
            x: x.view,
            gain: self.parameters.value(&Self::name(block, index, "weight")),
            bias: layer.centred.then(|| self.parameters.value(&Self::name(block, index, "bias"))),
            statistics,
            rows: x.rows,
            columns: x.columns,
            epsilon: layer.epsilon,
        }
    }

    pub(super) fn norm_backward(
        &mut self,
        block: &Block,
        index: usize,
        layer: &Norm,
        saved: &Saved,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let value = block.nodes[index].inputs[0];
        let x = saved.value(value);
        let statistics = saved.aside[index].expect("a norm keeps its statistics");
        let norm = self.norm(block, index, layer, x, statistics);
        let partial = x.cut == Cut::Rows;
        let (d_gain, accumulate_parameters) = self.gradient(&Self::name(block, index, "weight"), partial);
        let d_bias = layer.centred.then(|| self.gradient(&Self::name(block, index, "bias"), partial));
        debug_assert!(d_bias.is_none_or(|(_, written)| written == accumulate_parameters));
        let (dx, accumulate) = gradients.target(self, value, x);
        self.rows(Rows::NormBackward {
            norm,
            dy: dy.view,
            dx: dx.view,
            accumulate,
            d_gain,
            d_bias: d_bias.map(|(view, _)| view),
            accumulate_parameters,
        });
    }

    /// Sums over all replicas where they count together: partials in between, as `parallel` joins them.
    fn joined(&mut self, partial: View) -> View {
        if self.terms.batch_norm_replicas > 1 {
            self.exchange(Axis::Data, ExchangeKind::Sum, partial, partial);
        }
        partial
    }

    pub(super) fn batch_norm_forward(
        &mut self,
        block: &Block,
        index: usize,
        layer: &BatchNorm,
        x: Tensor,
        residual: Option<Tensor>,
    ) -> (Tensor, Option<View>) {
        let channels = layer.channels;
        let partial = self.partial(channels);
        let statistics = self.statistic(2 * channels);
        self.run(Op::Spatial(Spatial::BatchNormSum { x: x.view, partial, channels }));
        let partial = self.joined(partial);
        let y = self.like(x);
        self.run(Op::Spatial(Spatial::BatchNormForward {
            x: x.view,
            partial,
            count: x.rows * self.terms.batch_norm_replicas,
            gain: self.parameters.value(&Self::name(block, index, "weight")),
            bias: self.parameters.value(&Self::name(block, index, "bias")),
            residual: residual.map(|residual| residual.view),
            y: y.view,
            statistics,
            channels,
            epsilon: layer.epsilon,
            relu: layer.relu,
        }));
        (y, Some(statistics))
    }

    fn partial(&mut self, channels: usize) -> View {
        self.program.buffer(Category::Activation, Lifetime::Step, Dtype::F64, 2 * channels)
    }

    /// `dy` may be changed: with ReLU it is masked, and then is the residual's gradient.
    pub(super) fn batch_norm_backward(
        &mut self,
        block: &Block,
        index: usize,
        layer: &BatchNorm,
        saved: &Saved,
        dy: Tensor,
        gradients: &mut Gradients,
    ) {
        let inputs = &block.nodes[index].inputs;
        let (value, residual): (Value, Option<Value>) = (inputs[0], inputs.get(1).copied());
        let x = saved.value(value);
        let y = layer.relu.then(|| saved.values[index].view);
        let channels = layer.channels;
        let statistics = saved.aside[index].expect("batch norm keeps its statistics");
        let partial = self.partial(channels);
        let sum = Spatial::BatchNormBackwardSum { x: x.view, y, dy: dy.view, statistics, partial, channels };
        self.run(Op::Spatial(sum));
        let (d_gain, accumulate) = self.gradient(&Self::name(block, index, "weight"), false);
        let (d_bias, also) = self.gradient(&Self::name(block, index, "bias"), false);
        debug_assert_eq!(accumulate, also);
        self.run(Op::Spatial(Spatial::BatchNormParameters { partial, d_gain, d_bias, accumulate }));
        let partial = self.joined(partial);
        // The residual's gradient lies in dy: nothing may be written over it.
        let dx = if residual.is_some() { self.like(x) } else { Tensor { view: dy.view, ..x } };
        self.run(Op::Spatial(Spatial::BatchNormBackward {
            x: x.view,
            dy: dy.view,
            statistics,
            gain: self.parameters.value(&Self::name(block, index, "weight")),
            partial,
            count: x.rows * self.terms.batch_norm_replicas,
            dx: dx.view,
            channels,
        }));
        gradients.give(self, value, dx);
        if let Some(residual) = residual {
            gradients.give(self, residual, dy);
        }
    }
}
