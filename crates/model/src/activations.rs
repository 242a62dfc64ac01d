//! Published formulas of activation memory, to hold plans of real programs against (Korthikanti et al., "Reducing
//! Activation Recomputation in Large Transformer Models", arXiv 2205.05198, table 2). They count bytes of one pre-norm layer with
//! 16-bit activations and 1-byte dropout masks; s is the sequence, b the micro-batch, h the width, a the heads, t the
//! tensor-parallel size.

/// Dimensions of the formulas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerActivations {
    /// s.
    pub sequence: usize,
    /// b.
    pub batch: usize,
    /// h.
    pub width: usize,
    /// a.
    pub heads: usize,
    /// t.
    pub tensor: usize,
}

impl LayerActivations {
    fn sbh(&self) -> f64 {
        self.sequence as f64 * self.batch as f64 * self.width as f64
    }

    /// Scores over features, `5 a s / h`: what attention that keeps no matrix of scores does not have.
    fn scores(&self) -> f64 {
        5.0 * self.heads as f64 * self.sequence as f64 / self.width as f64
    }

    /// Bytes with tensor parallelism: `sbh (10 + 24/t + 5 a s / (h t))`; at t = 1 `sbh (34 + 5 a s / h)`.
    pub fn tensor_parallel(&self) -> f64 {
        let t = self.tensor as f64;
        self.sbh() * (10.0 + 24.0 / t + self.scores() / t)
    }

    /// Bytes with sequence parallelism too: `sbh / t (34 + 5 a s / h)`.
    pub fn sequence_parallel(&self) -> f64 {
        self.sbh() / self.tensor as f64 * (34.0 + self.scores())
    }

    /// The same where scores are computed again, or never kept: `34 sbh / t`.
    pub fn without_scores(&self) -> f64 {
        34.0 * self.sbh() / self.tensor as f64
    }

    /// Bytes of full recomputation, which keeps the layer's input alone: `2 sbh`.
    pub fn recomputed(&self) -> f64 {
        2.0 * self.sbh()
    }
}
