//! The words of the benchmark: primitives, orders, sizes and algorithms.

use terms::Named as _;

terms::named! {
    /// A product of matrices, or attention, and the operation that the ranks of a model need with it. Shapes: `m`, `n` and
    /// `k` are those of the whole problem, d is the number of ranks.
    pub(crate) enum Primitive("primitive") {
        /// `all_gather(A[m/d, k]) x B[k, n]`, or `all_gather(A[m/d, k] x B[k, n])`: a layer cut by columns.
        TpColumnwise = "tp_columnwise",
        /// `reduce_scatter(A[m, k/d] x B[k/d, n])`: a layer cut by rows.
        TpRowwise = "tp_rowwise",
        /// `all_reduce(A[m, k] x B[k, n])`: a gradient and its exchange.
        DpAllReduce = "dp_all_reduce",
        /// Attention of `m` tokens in `n` heads of width `k`, with the sequence cut over the ranks.
        CpRing = "cp_ring",
        /// `m` tokens of width `k` go to the experts of each and come back with width `n`.
        EpAllToAll = "ep_all_to_all",
    }
}

impl Primitive {
    const fn doc(self) -> &'static str {
        match self {
            Self::TpColumnwise => "all_gather(A[m/d, k]) x B[k, n]: a layer cut by columns",
            Self::TpRowwise => "reduce_scatter(A[m, k/d] x B[k/d, n]): a layer cut by rows",
            Self::DpAllReduce => "all_reduce(A[m, k] x B[k, n]): a gradient and its exchange",
            Self::CpRing => "attention of m tokens in n heads of width k, the sequence cut over the ranks",
            Self::EpAllToAll => "m tokens of width k go to the experts of each and come back with width n",
        }
    }
}

/// Every primitive, and what it computes.
pub fn primitives() -> Vec<(&'static str, &'static str)> {
    Primitive::ALL.iter().map(|primitive| (primitive.name(), primitive.doc())).collect()
}

terms::named! {
    /// Whether `tp_columnwise` gathers the product's operand or its result.
    pub(crate) enum Order("order") {
        /// The operand: each rank multiplies all rows.
        Before = "AG_before",
        /// The result: each rank multiplies its own rows.
        After = "AG_after",
    }
}

terms::named! {
    /// How much of the problem one rank computes.
    pub(crate) enum Size("size") {
        /// One rank's share.
        Sharded = "sharded",
        /// The whole problem.
        Unsharded = "unsharded",
    }
}

terms::named! {
    /// How GPUs multiply f32.
    pub enum Products("matmul") {
        /// In f32.
        Auto = "auto",
        /// By tensor cores that round the operands.
        Tf32 = "tf32",
    }
}

terms::named! {
    /// What the elements of operands are.
    pub(crate) enum Drawn("data") {
        /// Small whole numbers, whose sums are exact.
        Exact = "exact",
        /// Any number of the type in (-1, 1), and any byte of integers: what the power that a product takes depends on.
        Random = "random",
    }
}

terms::named! {
    /// How communication is cut, so that it overlaps computation.
    pub(crate) enum Algorithm("algorithm") {
        /// Collectives of chunks. Each overlaps the computation of another.
        CollectiveChunks = "collective_chunks",
        /// Blocks that go around the ring of ranks.
        RingP2p = "ring_p2p",
    }
}
