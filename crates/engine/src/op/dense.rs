//! Matrix products and attention.

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
    /// How many of m, n and k are padding: zeros, which count as no work.
    pub padding: [usize; 3],
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

/// Matrix products and attention: `kernels::dense`.
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
