//! Which views an operation names.

use crate::buffer::View;
use crate::op::{Dense, Op, Rows, Spatial, Update};

type Visit<'a> = &'a mut dyn FnMut(View);

fn each<const N: usize>(visit: Visit<'_>, views: [View; N]) {
    views.into_iter().for_each(visit);
}

fn maybe<const N: usize>(visit: Visit<'_>, views: [Option<View>; N]) {
    views.into_iter().flatten().for_each(visit);
}

impl Op {
    /// Visits every view that it reads or writes.
    pub fn for_each_view(&self, visit: &mut dyn FnMut(View)) {
        match self {
            Self::Dense(op) => dense(op, visit),
            Self::Rows(op) => rows(op, visit),
            Self::Spatial(op) => spatial(op, visit),
            Self::Update(op) => update(op, visit),
        }
    }
}

fn dense(op: &Dense, visit: Visit<'_>) {
    match op {
        Dense::MatMul(op) => {
            each(visit, [op.a, op.b, op.c]);
            maybe(visit, [op.bias]);
        }
        Dense::AttentionForward(op) => each(visit, [op.qkv, op.output, op.log_sum]),
        Dense::AttentionBackward { forward, d_output, d_qkv } => {
            each(visit, [forward.qkv, forward.output, forward.log_sum, *d_output, *d_qkv]);
        }
    }
}

fn rows(op: &Rows, visit: Visit<'_>) {
    match op {
        Rows::Fill { y, .. } => each(visit, [*y]),
        Rows::Rotary { qkv, .. } => each(visit, [*qkv]),
        Rows::Convert { x, y }
        | Rows::ColumnSum { x, y, .. }
        | Rows::GeluForward { x, y, .. }
        | Rows::ReluForward { x, y }
        | Rows::SwiGluForward { x, y, .. }
        | Rows::Dropout { x, y, .. } => each(visit, [*x, *y]),
        Rows::AddBias { x, bias } => each(visit, [*x, *bias]),
        Rows::Add { a, b, y } => each(visit, [*a, *b, *y]),
        Rows::NormForward { norm, y } => {
            each(visit, [norm.x, norm.gain, norm.statistics, *y]);
            maybe(visit, [norm.bias]);
        }
        Rows::NormBackward { norm, dy, dx, d_gain, d_bias, .. } => {
            each(visit, [norm.x, norm.gain, norm.statistics, *dy, *dx, *d_gain]);
            maybe(visit, [norm.bias, *d_bias]);
        }
        Rows::GeluBackward { x: value, dy, dx, .. }
        | Rows::ReluBackward { y: value, dy, dx }
        | Rows::SwiGluBackward { x: value, dy, dx, .. } => each(visit, [*value, *dy, *dx]),
        Rows::EmbeddingForward { tokens, table, positions, segments, y, .. } => {
            each(visit, [*tokens, *table, *y]);
            maybe(visit, [*positions, *segments]);
        }
        Rows::EmbeddingBackward { tokens, dy, d_table, d_positions, d_segments, .. } => {
            each(visit, [*tokens, *dy, *d_table]);
            maybe(visit, [*d_positions, *d_segments]);
        }
        Rows::CrossEntropy { logits, targets, loss, control, .. } => each(visit, [*logits, *targets, *loss, *control]),
        Rows::CrossEntropyLargest { logits, largest, .. } => each(visit, [*logits, *largest]),
        Rows::CrossEntropySum { logits, targets, largest, sums, .. } => {
            each(visit, [*logits, *targets, *largest, *sums]);
        }
        Rows::CrossEntropyFinish { logits, targets, largest, sums, loss, control, .. } => {
            each(visit, [*logits, *targets, *largest, *sums, *loss, *control]);
        }
    }
}

fn spatial(op: &Spatial, visit: Visit<'_>) {
    match op {
        Spatial::ConvForward { x, weight, y, .. } => each(visit, [*x, *weight, *y]),
        Spatial::ConvBackwardInput { dy, weight, dx, .. } => each(visit, [*dy, *weight, *dx]),
        Spatial::ConvBackwardWeight { x, dy, d_weight, .. } => each(visit, [*x, *dy, *d_weight]),
        Spatial::BatchNormSum { x, partial, .. } => each(visit, [*x, *partial]),
        Spatial::BatchNormForward { x, partial, gain, bias, residual, y, statistics, .. } => {
            each(visit, [*x, *partial, *gain, *bias, *y, *statistics]);
            maybe(visit, [*residual]);
        }
        Spatial::BatchNormBackwardSum { x, y, dy, statistics, partial, .. } => {
            each(visit, [*x, *dy, *statistics, *partial]);
            maybe(visit, [*y]);
        }
        Spatial::BatchNormBackward { x, dy, statistics, gain, partial, dx, .. } => {
            each(visit, [*x, *dy, *statistics, *gain, *partial, *dx]);
        }
        Spatial::BatchNormParameters { partial, d_gain, d_bias, .. } => each(visit, [*partial, *d_gain, *d_bias]),
        Spatial::MaxPoolForward { x, y, index, .. } => each(visit, [*x, *y, *index]),
        Spatial::MaxPoolBackward { dy, index, dx, .. } => each(visit, [*dy, *index, *dx]),
        Spatial::AveragePoolForward { x, y, .. } => each(visit, [*x, *y]),
        Spatial::AveragePoolBackward { dy, dx, .. } => each(visit, [*dy, *dx]),
    }
}

fn update(op: &Update, visit: Visit<'_>) {
    match op {
        Update::SumSquares { x, control } => each(visit, [*x, *control]),
        Update::BeginNorm { control } | Update::Judge { control, .. } | Update::EndStep { control } => {
            each(visit, [*control]);
        }
        Update::Sgd { parameters, gradients, velocity, copy, control, .. } => {
            each(visit, [*parameters, *gradients, *control]);
            maybe(visit, [*velocity, *copy]);
        }
        Update::AdamW { parameters, gradients, first, second, copy, control, .. } => {
            each(visit, [*parameters, *gradients, *first, *second, *control]);
            maybe(visit, [*copy]);
        }
    }
}
