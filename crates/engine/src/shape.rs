//! Operations without their buffers: what their time depends on.

use terms::Dtype;

use crate::buffer::View;
use crate::execute::flops;
use crate::op::{Dense, MatMul, Op, Rows, Spatial, Update};
use crate::program::Program;

/// What the time of an operation depends on: which kernel runs, over how much, on which elements. Operations with equal shapes
/// take equally long on the same machine, wherever their buffers lie.
///
/// | kernel | dims |
/// |---|---|
/// | `product_nn`, `product_nt`, `product_tn`, `product_tt` (t: that operand is stored transposed) | m, n, k, 1 if it adds to its result, bytes of an element of the result |
/// | `attention_forward`, `attention_backward` | batch, sequence, heads, key and value heads, head width, 1 if causal |
/// | `fill`, `add`, `relu_forward`, `relu_backward` | elements |
/// | `convert` | elements, bytes of an element of the result |
/// | `dropout` | elements, columns |
/// | `gelu_forward`, `gelu_backward` | elements, 1 if exact |
/// | `column_sum`, `add_bias` | rows, columns |
/// | `norm_forward`, `norm_backward` | rows, columns, 1 if there is a bias |
/// | `swiglu_forward`, `swiglu_backward` | rows, width |
/// | `rotary` | rows, heads, key and value heads, head width, sequence |
/// | `embedding_forward`, `embedding_backward` | rows, width, tokens of the table, 1 if there are positions, 1 if there are segments |
/// | `cross_entropy`, `cross_entropy_largest`, `cross_entropy_sum`, `cross_entropy_finish` | rows, columns of a row, classes |
/// | `conv_forward`, `conv_backward_input`, `conv_backward_weight` | batch, inputs, outputs, kernel, stride, padding, height, width |
/// | `batch_norm_sum`, `batch_norm_forward`, `batch_norm_backward_sum`, `batch_norm_backward` | rows, channels, 1 if there is a residual (forward) or a mask (backward sum) |
/// | `batch_norm_parameters` | channels |
/// | `max_pool_forward`, `max_pool_backward`, `average_pool_forward`, `average_pool_backward` | batch, channels, kernel, stride, padding, height, width |
/// | `sum_squares` | elements |
/// | `sgd` | elements, 1 if there is momentum, bytes of an element of the copy (0: no copy) |
/// | `adamw` | elements, bytes of an element of the copy (0: no copy) |
/// | `begin_norm`, `judge`, `end_step` | none |
#[derive(Clone, Debug, PartialEq)]
pub struct OperationShape {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Sizes, as the table of [`OperationShape`] says.
    pub dims: Vec<u64>,
    /// Type of the elements that the kernel computes with; of an update, that of the masters.
    pub dtype: Dtype,
    /// Floating-point operations of its products ([`flops`]).
    pub flops: f64,
    /// Bytes that it reads and writes, each operand once; what it changes in place counts twice.
    pub bytes: u64,
}

impl OperationShape {
    /// The shape of an operation of this program.
    pub fn of(program: &Program, op: &Op) -> Self {
        let (kernel, dims, decides) = match op {
            Op::Dense(op) => dense(program, op),
            Op::Rows(op) => rows(program, op),
            Op::Spatial(op) => spatial(op),
            Op::Update(op) => update(program, op),
        };
        let dims = dims.into_iter().map(|size| size as u64).collect();
        Self { kernel, dims, dtype: program.dtype(decides), flops: flops(op), bytes: bytes(program, op) }
    }
}

/// Bytes that an operation reads and writes: each view once, and what it changes in place once more.
pub fn bytes(program: &Program, op: &Op) -> u64 {
    let mut all = 0;
    op.for_each_view(&mut |view| all += view_bytes(program, view));
    all + changed(op).into_iter().flatten().map(|view| view_bytes(program, view)).sum::<u64>()
}

/// Bytes of the largest view of an operation: what an epilogue ([`is_epilogue`]) does not read again.
pub fn largest_view(program: &Program, op: &Op) -> u64 {
    let mut largest = 0;
    op.for_each_view(&mut |view| largest = largest.max(view_bytes(program, view)));
    largest
}

fn view_bytes(program: &Program, view: View) -> u64 {
    view.len as u64 * program.dtype(view).bytes()
}

/// What an operation changes where it is: it is read and written.
fn changed(op: &Op) -> [Option<View>; 3] {
    match *op {
        Op::Dense(Dense::MatMul(MatMul { c, accumulate: true, .. })) => [Some(c), None, None],
        Op::Update(Update::AdamW { parameters, first, second, .. }) => [Some(parameters), Some(first), Some(second)],
        Op::Update(Update::Sgd { parameters, velocity, .. }) => [Some(parameters), velocity, None],
        Op::Rows(Rows::CrossEntropy { logits, .. } | Rows::CrossEntropyFinish { logits, .. }) => {
            [Some(logits), None, None]
        }
        Op::Rows(Rows::AddBias { x, .. } | Rows::Rotary { qkv: x, .. }) => [Some(x), None, None],
        _ => [None; 3],
    }
}

/// Whether a product on a GPU computes `op` as it writes its result: no launch, no second reading.
pub fn is_epilogue(product: &Op, op: &Op) -> bool {
    match (product, op) {
        (Op::Dense(Dense::MatMul(product)), Op::Rows(Rows::GeluForward { x, .. })) => product.c == *x,
        (Op::Dense(Dense::MatMul(product)), Op::Rows(Rows::GeluBackward { dy, .. })) => product.c == *dy,
        _ => false,
    }
}

/// Kernel, sizes, and the view whose elements decide the type.
type ShapeParts = (&'static str, Vec<usize>, View);

fn dense(program: &Program, op: &Dense) -> ShapeParts {
    let (name, attention) = match op {
        Dense::MatMul(op) => {
            let name = match (op.a_transposed, op.b_transposed) {
                (false, false) => "product_nn",
                (false, true) => "product_nt",
                (true, false) => "product_tn",
                (true, true) => "product_tt",
            };
            let of_result = program.dtype(op.c).bytes() as usize;
            return (name, vec![op.m, op.n, op.k, usize::from(op.accumulate), of_result], op.a);
        }
        Dense::AttentionForward(attention) => ("attention_forward", attention),
        Dense::AttentionBackward { forward, .. } => ("attention_backward", forward),
    };
    let crate::op::Attention { batch, sequence, heads, kv_heads, head_width, causal, .. } = *attention;
    (name, vec![batch, sequence, heads, kv_heads, head_width, usize::from(causal)], attention.qkv)
}

fn rows(program: &Program, op: &Rows) -> ShapeParts {
    let matrix = |x: View, columns: usize| vec![x.len / columns.max(1), columns];
    match *op {
        Rows::Fill { y, .. } => ("fill", vec![y.len], y),
        Rows::Convert { x, y } => ("convert", vec![y.len, program.dtype(y).bytes() as usize], x),
        Rows::Add { y, .. } => ("add", vec![y.len], y),
        Rows::ColumnSum { x, rows, .. } => ("column_sum", vec![rows, x.len / rows.max(1)], x),
        Rows::AddBias { x, bias } => ("add_bias", matrix(x, bias.len), x),
        Rows::NormForward { ref norm, .. } => ("norm_forward", normalised(norm), norm.x),
        Rows::NormBackward { ref norm, .. } => ("norm_backward", normalised(norm), norm.x),
        Rows::GeluForward { x, exact, .. } => ("gelu_forward", vec![x.len, usize::from(exact)], x),
        Rows::GeluBackward { x, exact, .. } => ("gelu_backward", vec![x.len, usize::from(exact)], x),
        Rows::ReluForward { x, .. } => ("relu_forward", vec![x.len], x),
        Rows::ReluBackward { y, .. } => ("relu_backward", vec![y.len], y),
        Rows::SwiGluForward { x, y, width } => ("swiglu_forward", matrix(y, width), x),
        Rows::SwiGluBackward { x, dy, width, .. } => ("swiglu_backward", matrix(dy, width), x),
        Rows::Rotary { qkv, sequence, heads, kv_heads, head_width, .. } => {
            let of_row = (heads + 2 * kv_heads) * head_width;
            ("rotary", vec![qkv.len / of_row.max(1), heads, kv_heads, head_width, sequence], qkv)
        }
        Rows::Dropout { x, columns, .. } => ("dropout", vec![x.len, columns], x),
        Rows::EmbeddingForward { table, positions, segments, y, width, .. } => {
            ("embedding_forward", embedded([table, y], [positions, segments], width), y)
        }
        Rows::EmbeddingBackward { dy, d_table, d_positions, d_segments, width, .. } => {
            ("embedding_backward", embedded([d_table, dy], [d_positions, d_segments], width), dy)
        }
        Rows::CrossEntropy { logits, targets, classes, .. } => {
            ("cross_entropy", loss(logits, targets.len, classes), logits)
        }
        Rows::CrossEntropyLargest { logits, largest, classes } => {
            ("cross_entropy_largest", loss(logits, largest.len, classes), logits)
        }
        Rows::CrossEntropySum { logits, targets, classes, .. } => {
            ("cross_entropy_sum", loss(logits, targets.len, classes), logits)
        }
        Rows::CrossEntropyFinish { logits, targets, classes, .. } => {
            ("cross_entropy_finish", loss(logits, targets.len, classes), logits)
        }
    }
}

fn normalised(norm: &crate::op::Norm) -> Vec<usize> {
    vec![norm.rows, norm.columns, usize::from(norm.bias.is_some())]
}

fn embedded([table, y]: [View; 2], [positions, segments]: [Option<View>; 2], width: usize) -> Vec<usize> {
    let width_or_one = width.max(1);
    let has = |view: Option<View>| usize::from(view.is_some());
    vec![y.len / width_or_one, width, table.len / width_or_one, has(positions), has(segments)]
}

fn loss(logits: View, rows: usize, classes: usize) -> Vec<usize> {
    vec![rows, logits.len / rows.max(1), classes]
}

fn spatial(op: &Spatial) -> ShapeParts {
    let convolved = |shape: &model::Conv2d, batch: usize| {
        let model::Conv2d { inputs, outputs, kernel, stride, padding, height, width } = *shape;
        vec![batch, inputs, outputs, kernel, stride, padding, height, width]
    };
    let pooled = |shape: &model::Pool, batch: usize| {
        let model::Pool { channels, kernel, stride, padding, height, width } = *shape;
        vec![batch, channels, kernel, stride, padding, height, width]
    };
    let normalised = |x: View, channels: usize, more: bool| vec![x.len / channels.max(1), channels, usize::from(more)];
    match op {
        Spatial::ConvForward { shape, batch, x, .. } => ("conv_forward", convolved(shape, *batch), *x),
        Spatial::ConvBackwardInput { shape, batch, dy, .. } => ("conv_backward_input", convolved(shape, *batch), *dy),
        Spatial::ConvBackwardWeight { shape, batch, x, .. } => ("conv_backward_weight", convolved(shape, *batch), *x),
        Spatial::BatchNormSum { x, channels, .. } => ("batch_norm_sum", normalised(*x, *channels, false), *x),
        Spatial::BatchNormForward { x, channels, residual, .. } => {
            ("batch_norm_forward", normalised(*x, *channels, residual.is_some()), *x)
        }
        Spatial::BatchNormBackwardSum { x, y, channels, .. } => {
            ("batch_norm_backward_sum", normalised(*x, *channels, y.is_some()), *x)
        }
        Spatial::BatchNormBackward { x, channels, .. } => ("batch_norm_backward", normalised(*x, *channels, false), *x),
        Spatial::BatchNormParameters { d_gain, .. } => ("batch_norm_parameters", vec![d_gain.len], *d_gain),
        Spatial::MaxPoolForward { shape, batch, x, .. } => ("max_pool_forward", pooled(shape, *batch), *x),
        Spatial::MaxPoolBackward { shape, batch, dy, .. } => ("max_pool_backward", pooled(shape, *batch), *dy),
        Spatial::AveragePoolForward { shape, batch, x, .. } => ("average_pool_forward", pooled(shape, *batch), *x),
        Spatial::AveragePoolBackward { shape, batch, dy, .. } => ("average_pool_backward", pooled(shape, *batch), *dy),
    }
}

fn update(program: &Program, op: &Update) -> ShapeParts {
    let copied = |copy: Option<View>| copy.map_or(0, |copy| program.dtype(copy).bytes() as usize);
    match *op {
        Update::SumSquares { x, .. } => ("sum_squares", vec![x.len], x),
        Update::BeginNorm { control } => ("begin_norm", Vec::new(), control),
        Update::Judge { control, .. } => ("judge", Vec::new(), control),
        Update::EndStep { control } => ("end_step", Vec::new(), control),
        Update::Sgd { parameters, velocity, copy, .. } => {
            ("sgd", vec![parameters.len, usize::from(velocity.is_some()), copied(copy)], parameters)
        }
        Update::AdamW { parameters, copy, .. } => ("adamw", vec![parameters.len, copied(copy)], parameters),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Category, Lifetime};

    #[test]
    fn a_product_counts_what_it_adds_to_twice() {
        let mut program = Program::default();
        let mut buffer = |dtype, len| program.buffer(Category::Activation, Lifetime::Step, dtype, len);
        let (a, b) = (buffer(Dtype::Bf16, 2 * 5), buffer(Dtype::Bf16, 5 * 3));
        let c = buffer(Dtype::F32, 2 * 3);
        let product = MatMul {
            a,
            b,
            c,
            bias: None,
            m: 2,
            n: 3,
            k: 5,
            a_transposed: true,
            b_transposed: false,
            accumulate: false,
            padding: [0; 3],
        };
        let once = OperationShape::of(&program, &Op::Dense(Dense::MatMul(product.clone())));
        assert_eq!((once.kernel, once.dims.as_slice(), once.dtype), ("product_tn", &[2, 3, 5, 0, 4][..], Dtype::Bf16));
        assert_eq!((once.flops, once.bytes), (60.0, 2 * 10 + 2 * 15 + 4 * 6));
        let adding = Op::Dense(Dense::MatMul(MatMul { accumulate: true, ..product }));
        assert_eq!(OperationShape::of(&program, &adding).bytes, once.bytes + 4 * 6);
        assert_eq!(largest_view(&program, &adding), 30);
    }

    #[test]
    fn an_update_is_told_by_its_masters_and_its_copy() {
        let mut program = Program::default();
        let mut state = || program.buffer(Category::Parameter, Lifetime::Persistent, Dtype::F32, 8);
        let [parameters, gradients, first, second] = [state(), state(), state(), state()];
        let copy = program.buffer(Category::Parameter, Lifetime::Persistent, Dtype::Bf16, 8);
        let control = program.buffer(Category::Scalar, Lifetime::Persistent, Dtype::F64, 4);
        let adamw = Update::AdamW {
            parameters,
            gradients,
            first,
            second,
            copy: Some(copy),
            control,
            rate: 1e-3,
            beta1: 0.9,
            beta2: 0.99,
            epsilon: 1e-8,
            decay: 0.0,
            clip: None,
        };
        let shape = OperationShape::of(&program, &Op::Update(adamw));
        assert_eq!((shape.kernel, shape.dims.as_slice(), shape.dtype), ("adamw", &[8, 2][..], Dtype::F32));
        assert_eq!(shape.bytes, 7 * 8 * 4 + 8 * 2 + 4 * 8);
    }
}
