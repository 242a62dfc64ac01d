//! Operations as data: coarse kernels, each with the views that it reads and writes.
//!
//! `E` is the type that activations have (f32, f64, bf16, f16), `S` the type of state: `E::Wide` (f32 or f64), which
//! parameter gradients, statistics and losses have. All matrices are row-major and dense. Unless a line says otherwise,
//! views of one operation do not overlap. An output is overwritten, or added to where `accumulate` says so.
//!
//! Every operation gives the same bits for the same input and the same number of threads.

use crate::buffer::View;

/// One matrix product: `c[m,n] = op(a) op(b) + bias`, or `+=` with `accumulate`.
#[derive(Clone, Debug, PartialEq)]
pub struct MatMul {
    /// E, `[m,k]`, or `[k,m]` if transposed.
    pub a: View,
    /// E, `[k,n]`, or `[n,k]` if transposed.
    pub b: View,
    /// E or S, `[m,n]`.
    pub c: View,
    /// E, `[n]`, added to every row.
    pub bias: Option<View>,
    /// Rows of c.
    pub m: usize,
    /// Columns of c.
    pub n: usize,
    /// Products in each sum.
    pub k: usize,
    /// a is stored transposed.
    pub a_transposed: bool,
    /// b is stored transposed.
    pub b_transposed: bool,
    /// Add to what c holds.
    pub accumulate: bool,
}

/// Attention over `batch` samples of `sequence` rows; scale 1/sqrt(head_width). No `sequence x sequence` matrix is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// E, `[batch x sequence, (heads + 2 kv_heads) head_width]`, packed q | k | v.
    pub qkv: View,
    /// E, `[batch x sequence, heads x head_width]`.
    pub output: View,
    /// S, `[batch x heads x sequence]`: log of the sum of exponentials of each row's scores.
    pub log_sum: View,
    /// Samples.
    pub batch: usize,
    /// Rows of a sample.
    pub sequence: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_width: usize,
    /// Whether a row sees only itself and what came before.
    pub causal: bool,
}

/// Matrix products and attention: `kernels::matmul`, `kernels::attention`.
#[derive(Clone, Debug, PartialEq)]
pub enum Dense {
    /// A matrix product.
    MatMul(MatMul),
    /// Writes `output` and `log_sum`.
    AttentionForward(Attention),
    /// Reads all of the forward pass and `d_output` (E, as output); writes `d_qkv` (E, as qkv) whole.
    AttentionBackward {
        /// The forward pass.
        forward: Attention,
        /// Gradient of the output.
        d_output: View,
        /// Gradient of qkv.
        d_qkv: View,
    },
}

/// LayerNorm (`bias` given, centred) or RMSNorm (no bias, not centred) of each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// E, `[rows, columns]`.
    pub x: View,
    /// E, `[columns]`.
    pub gain: View,
    /// E, `[columns]`; None for RMSNorm.
    pub bias: Option<View>,
    /// S, `[rows, 2]`: mean (zero for RMSNorm) and 1/sqrt(variance or mean square + epsilon).
    pub statistics: View,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Added to the variance.
    pub epsilon: f64,
}

/// Everything that works row by row or element by element: `kernels::rows`, `kernels::embedding`, `kernels::loss`,
/// `kernels::dropout`.
#[derive(Clone, Debug, PartialEq)]
pub enum Rows {
    /// `y[i] = value`, y of any type.
    Fill {
        /// Overwritten.
        y: View,
        /// With what.
        value: f64,
    },
    /// `y = x`, converted where the types differ.
    Convert {
        /// Read.
        x: View,
        /// Overwritten.
        y: View,
    },
    /// `y = a + b`, all of one type; y may be a or b.
    Add {
        /// Read.
        a: View,
        /// Read.
        b: View,
        /// Overwritten.
        y: View,
    },
    /// `y[j] = sum over rows of x[row][j]` (or +=). x is E, y is S. Bias gradients.
    ColumnSum {
        /// E, `[rows, columns]`.
        x: View,
        /// S, `[columns]`.
        y: View,
        /// Rows.
        rows: usize,
        /// Add to what y holds.
        accumulate: bool,
    },
    /// Adds `bias[columns]` (E) to every row of x (E), in place.
    AddBias {
        /// E, `[rows, columns]`.
        x: View,
        /// E, `[columns]`.
        bias: View,
    },
    /// Writes `y` (E) and the statistics.
    NormForward {
        /// What is normalised.
        norm: Norm,
        /// E, `[rows, columns]`.
        y: View,
    },
    /// Gradients of the input and of gain and bias.
    NormBackward {
        /// The forward pass.
        norm: Norm,
        /// E, `[rows, columns]`.
        dy: View,
        /// E, `[rows, columns]`; may be dy when not accumulating.
        dx: View,
        /// Add to what dx holds.
        accumulate: bool,
        /// S, `[columns]`.
        d_gain: View,
        /// S, `[columns]`.
        d_bias: Option<View>,
        /// Add to what d_gain and d_bias hold.
        accumulate_parameters: bool,
    },
    /// GELU; y may be x.
    GeluForward {
        /// E.
        x: View,
        /// E.
        y: View,
        /// By erf if true, by tanh if false.
        exact: bool,
    },
    /// `dx = dy gelu'(x)`; dx may be dy.
    GeluBackward {
        /// E: input of the forward pass.
        x: View,
        /// E.
        dy: View,
        /// E.
        dx: View,
        /// By erf if true.
        exact: bool,
    },
    /// `y = max(x, 0)`; y may be x.
    ReluForward {
        /// E.
        x: View,
        /// E.
        y: View,
    },
    /// `dx = dy where y > 0`; dx may be dy.
    ReluBackward {
        /// E: output of the forward pass.
        y: View,
        /// E.
        dy: View,
        /// E.
        dx: View,
    },
    /// `y = silu(gate) up`, x = `[rows, gate | up]` with `width` columns each.
    SwiGluForward {
        /// E, `[rows, 2 width]`.
        x: View,
        /// E, `[rows, width]`.
        y: View,
        /// Columns of y.
        width: usize,
    },
    /// Gradient of that; dx may not be dy.
    SwiGluBackward {
        /// E, `[rows, 2 width]`.
        x: View,
        /// E, `[rows, width]`.
        dy: View,
        /// E, `[rows, 2 width]`.
        dx: View,
        /// Columns of dy.
        width: usize,
    },
    /// Turns queries and keys of packed qkv, in place; row r has position `r mod sequence`. `inverse` turns back, which is
    /// also the backward pass.
    Rotary {
        /// E, `[rows, (heads + 2 kv_heads) head_width]`.
        qkv: View,
        /// Rows of a sample.
        sequence: usize,
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Features of a head; pairs are (i, i + head_width/2).
        head_width: usize,
        /// Of the frequencies: base^(-2i/head_width).
        base: f64,
        /// Turn back.
        inverse: bool,
    },
    /// `y = x / (1 - rate)` or zero; y may be x; the backward pass is the same operation on gradients. Whether an element
    /// is zero depends on (seed, step, node, global row, column) alone.
    Dropout {
        /// E, `[rows, columns]`.
        x: View,
        /// E.
        y: View,
        /// Columns.
        columns: usize,
        /// Global row of row 0: (index of the sample in the global batch) x rows a sample + row in the sample.
        first_row: u64,
        /// Which dropout of the model.
        node: u32,
        /// Probability of a zero.
        rate: f64,
    },
    /// `y[r] = table[token] (+ positions[r mod sequence]) (+ segments[0])`; tokens outside of `first..first + count` (another
    /// part's) contribute zero.
    EmbeddingForward {
        /// I32, `[rows]`.
        tokens: View,
        /// E, `[count, width]`.
        table: View,
        /// E, `[at least sequence, width]`.
        positions: Option<View>,
        /// E, `[segments, width]`.
        segments: Option<View>,
        /// E, `[rows, width]`.
        y: View,
        /// Columns of y.
        width: usize,
        /// Rows of a sample.
        sequence: usize,
        /// First token of the table.
        first: usize,
    },
    /// Adds to the gradients of table, positions, segments. Deterministic.
    EmbeddingBackward {
        /// I32, `[rows]`.
        tokens: View,
        /// E, `[rows, width]`.
        dy: View,
        /// S, `[count, width]`.
        d_table: View,
        /// S.
        d_positions: Option<View>,
        /// S.
        d_segments: Option<View>,
        /// Columns of dy.
        width: usize,
        /// Rows of a sample.
        sequence: usize,
        /// First token of the table.
        first: usize,
    },
    /// Softmax and cross-entropy at once: adds `scale x sum over rows of -log p[target]` to `loss` and overwrites the
    /// logits by their gradient, `scale x loss scale x (p - onehot)`.
    CrossEntropy {
        /// E, `[rows, classes]`.
        logits: View,
        /// I32, `[rows]`.
        targets: View,
        /// F64, 1.
        loss: View,
        /// Columns.
        classes: usize,
        /// 1 / rows of the global batch.
        scale: f64,
    },
    /// The same in parts of the classes, 1: `largest[row]` of these classes.
    CrossEntropyLargest {
        /// E, `[rows, classes]`.
        logits: View,
        /// S, `[rows]`.
        largest: View,
        /// Columns of this part.
        classes: usize,
    },
    /// 2, after the maximum over parts: `sums[row] = sum exp(logit - largest)`, `sums[rows + row]` = the target's logit
    /// minus largest if it is of this part, else zero.
    CrossEntropySum {
        /// E, `[rows, classes]`.
        logits: View,
        /// I32, `[rows]`.
        targets: View,
        /// S, `[rows]`.
        largest: View,
        /// S, `[2 rows]`.
        sums: View,
        /// Columns of this part.
        classes: usize,
        /// First class of this part.
        first: usize,
    },
    /// 3, after the sum over parts: as [`Rows::CrossEntropy`]. The loss is added by the part that `counts`, once.
    CrossEntropyFinish {
        /// E, `[rows, classes]`.
        logits: View,
        /// I32, `[rows]`.
        targets: View,
        /// S, `[rows]`.
        largest: View,
        /// S, `[2 rows]`.
        sums: View,
        /// F64, 1.
        loss: View,
        /// Columns of this part.
        classes: usize,
        /// First class of this part.
        first: usize,
        /// 1 / rows of the global batch.
        scale: f64,
        /// Whether this part adds to the loss.
        counts: bool,
    },
}

/// Convolution and what goes with it, NHWC: `kernels::convolution`, `kernels::batch_norm`, `kernels::pooling`.
#[derive(Clone, Debug, PartialEq)]
pub enum Spatial {
    /// Writes y.
    ConvForward {
        /// Dimensions.
        shape: model::Conv2d,
        /// Images.
        batch: usize,
        /// E, `[batch, height, width, inputs]`.
        x: View,
        /// E, `[outputs, kernel, kernel, inputs]`.
        weight: View,
        /// E, `[batch, height', width', outputs]`.
        y: View,
    },
    /// Gradient of the input.
    ConvBackwardInput {
        /// Dimensions.
        shape: model::Conv2d,
        /// Images.
        batch: usize,
        /// E, as y.
        dy: View,
        /// E.
        weight: View,
        /// E, as x.
        dx: View,
        /// Add to what dx holds.
        accumulate: bool,
    },
    /// Gradient of the weight.
    ConvBackwardWeight {
        /// Dimensions.
        shape: model::Conv2d,
        /// Images.
        batch: usize,
        /// E.
        x: View,
        /// E, as y.
        dy: View,
        /// S, as weight.
        d_weight: View,
        /// Add to what d_weight holds.
        accumulate: bool,
    },
    /// `partial[0..c]` = sum and `[c..2c]` = sum of squares of each channel over the rows, in f64 so that their difference
    /// gives the variance; partials of all parts are added.
    BatchNormSum {
        /// E, `[rows, channels]`.
        x: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Columns.
        channels: usize,
    },
    /// From the summed partials over `count` rows: statistics (S, `[2 channels]`: mean, 1/sqrt(variance + epsilon)), and
    /// `y = (x - mean) rstd gain + bias (+ residual)`, then ReLU where asked for. y may be the residual.
    BatchNormForward {
        /// E, `[rows, channels]`.
        x: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Rows that the partials are sums over, of all parts.
        count: usize,
        /// E, `[channels]`.
        gain: View,
        /// E, `[channels]`.
        bias: View,
        /// E, `[rows, channels]`.
        residual: Option<View>,
        /// E, `[rows, channels]`.
        y: View,
        /// S, `[2 channels]`.
        statistics: View,
        /// Columns.
        channels: usize,
        /// Added to the variance.
        epsilon: f64,
        /// Whether ReLU follows.
        relu: bool,
    },
    /// Masks dy in place where ReLU cut (y <= 0; then dy is also the residual's gradient), and
    /// `partial[0..c] = sum dy`, `[c..2c] = sum dy x_hat`, over these rows: this part's d_bias and d_gain.
    BatchNormBackwardSum {
        /// E.
        x: View,
        /// E: output of the forward pass, where ReLU followed.
        y: Option<View>,
        /// E, changed in place.
        dy: View,
        /// S.
        statistics: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Columns.
        channels: usize,
    },
    /// From the partials summed over all parts: `dx`, which may be dy.
    BatchNormBackward {
        /// E.
        x: View,
        /// E, masked.
        dy: View,
        /// S.
        statistics: View,
        /// E.
        gain: View,
        /// F64, `[2 channels]`.
        partial: View,
        /// Rows that the partials are sums over.
        count: usize,
        /// E.
        dx: View,
        /// Columns.
        channels: usize,
    },
    /// `d_gain = partial[c..2c]`, `d_bias = partial[0..c]` of this part's own sums (or +=).
    BatchNormParameters {
        /// F64, `[2 channels]`.
        partial: View,
        /// S.
        d_gain: View,
        /// S.
        d_bias: View,
        /// Add.
        accumulate: bool,
    },
    /// Largest of each window, and where it was (I32: index into one sample's pixels, the first of equals).
    MaxPoolForward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        x: View,
        /// E.
        y: View,
        /// I32, as y.
        index: View,
    },
    /// dx is overwritten.
    MaxPoolBackward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        dy: View,
        /// I32.
        index: View,
        /// E.
        dx: View,
    },
    /// Mean of each window.
    AveragePoolForward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        x: View,
        /// E.
        y: View,
    },
    /// dx is overwritten.
    AveragePoolBackward {
        /// The window.
        shape: model::Pool,
        /// Images.
        batch: usize,
        /// E.
        dy: View,
        /// E.
        dx: View,
    },
}

/// What changes parameters: `kernels::optimizer`. `control` is F64, `[4]`: loss scale, good steps since it changed, the sum
/// of squares of all gradients, whether the update is skipped (1) because a gradient is not finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// Adds the sum of squares of x (S) to `control[2]`.
    SumSquares {
        /// S.
        x: View,
        /// F64, `[4]`.
        control: View,
    },
    /// Sets `control[2]` to zero.
    BeginNorm {
        /// F64, `[4]`.
        control: View,
    },
    /// With `dynamic`: sets `control[3]` by whether `control[2]` is finite, and the next loss scale: halved when it is
    /// not, doubled after 2000 good steps. Leaves the scale of *this* step in effect until `EndStep`.
    Judge {
        /// F64, `[4]`.
        control: View,
        /// Whether loss scaling is on.
        dynamic: bool,
    },
    /// `g = gradient x min(1, clip / norm) / loss scale` (norm over all gradients, unscaled); momentum as PyTorch's SGD:
    /// `v = momentum v + g` (first step: v = g), `p -= rate v`. Without momentum `p -= rate g`. Writes the compute copy.
    Sgd {
        /// S, masters.
        parameters: View,
        /// S.
        gradients: View,
        /// S; None without momentum.
        velocity: Option<View>,
        /// E: the copy that is computed with; None where E is S and masters are computed with.
        copy: Option<View>,
        /// F64, `[4]`.
        control: View,
        /// Learning rate.
        rate: f64,
        /// Momentum.
        momentum: f64,
        /// Largest norm of all gradients; None for no clipping.
        clip: Option<f64>,
    },
    /// AdamW as PyTorch's: decoupled weight decay `p -= rate decay p`, bias correction by the context's step (from 1).
    AdamW {
        /// S, masters.
        parameters: View,
        /// S.
        gradients: View,
        /// S.
        first: View,
        /// S.
        second: View,
        /// E, or None.
        copy: Option<View>,
        /// F64, `[4]`.
        control: View,
        /// Learning rate.
        rate: f64,
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// Weight decay.
        decay: f64,
        /// Largest norm; None for no clipping.
        clip: Option<f64>,
    },
    /// Applies the next loss scale.
    EndStep {
        /// F64, `[4]`.
        control: View,
    },
}

/// An operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Matrix products and attention.
    Dense(Dense),
    /// Row by row, element by element.
    Rows(Rows),
    /// Convolution and what goes with it.
    Spatial(Spatial),
    /// What changes parameters.
    Update(Update),
}
