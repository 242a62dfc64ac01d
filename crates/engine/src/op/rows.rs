//! What works row by row or element by element.

use crate::buffer::View;

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
        /// Base of the frequencies: base^(-2i/head_width).
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
    /// logits by their gradient, `scale x loss scale x (p - onehot)`. Rows of logits may be longer than the classes, here and in the
    /// next three: what is behind them is read by nobody, and becomes zero with the gradient.
    CrossEntropy {
        /// E, `[rows, at least classes]`.
        logits: View,
        /// I32, `[rows]`.
        targets: View,
        /// F64, 1.
        loss: View,
        /// F64, `[4]`: the first is the loss scale (see [`crate::op::Update`]).
        control: View,
        /// Columns.
        classes: usize,
        /// 1 / rows of the global batch.
        scale: f64,
    },
    /// Softmax and cross-entropy in parts of the classes, step 1: `largest[row]` of these classes.
    CrossEntropyLargest {
        /// E, `[rows, at least classes]`.
        logits: View,
        /// S, `[rows]`.
        largest: View,
        /// Columns of this part.
        classes: usize,
    },
    /// Softmax and cross-entropy in parts of the classes, step 2, after the maximum over parts: `sums[row] = sum exp(logit -
    /// largest)`, `sums[rows + row]` = the target's logit minus largest if it is of this part, else zero.
    CrossEntropySum {
        /// E, `[rows, at least classes]`.
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
    /// Softmax and cross-entropy in parts of the classes, step 3, after the sum over parts: as [`Rows::CrossEntropy`]. The loss
    /// is added by the part that `counts`, once.
    CrossEntropyFinish {
        /// E, `[rows, at least classes]`.
        logits: View,
        /// I32, `[rows]`.
        targets: View,
        /// S, `[rows]`.
        largest: View,
        /// S, `[2 rows]`.
        sums: View,
        /// F64, 1.
        loss: View,
        /// F64, `[4]`: the first is the loss scale.
        control: View,
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
