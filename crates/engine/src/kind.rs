//! Kinds of work in a step: what a user asks who wants to know where the time of a step goes.

use crate::op::{Dense, Op, Rows, Spatial};

terms::named! {
    /// What a device does. Every operation is of one kind.
    pub enum Kind("kind") {
        /// Products of matrices, with what the library adds to them.
        Products = "products",
        /// Attention, forward and backward.
        Attention = "attention",
        /// Convolutions, forward and backward.
        Convolutions = "convolutions",
        /// Norms, activation functions, sums, embeddings, pooling: what reads and writes memory and computes little.
        ElementWise = "element_wise",
        /// The loss and its gradient.
        Loss = "loss",
        /// The update of parameters, with the norm of gradients.
        Update = "update",
        /// Waiting for exchanges: what of them does not overlap computation.
        Exchanges = "exchanges",
        /// What stands outside of operations: copies of the host's input.
        Other = "other",
    }
}

impl Kind {
    /// The kind of an operation.
    pub fn of(op: &Op) -> Self {
        match op {
            Op::Dense(Dense::MatMul(_)) => Self::Products,
            Op::Dense(Dense::AttentionForward(_) | Dense::AttentionBackward { .. }) => Self::Attention,
            Op::Rows(op) => Self::of_rows(op),
            Op::Spatial(op) => Self::of_spatial(op),
            Op::Update(_) => Self::Update,
        }
    }

    fn of_rows(op: &Rows) -> Self {
        match op {
            Rows::CrossEntropy { .. }
            | Rows::CrossEntropyLargest { .. }
            | Rows::CrossEntropySum { .. }
            | Rows::CrossEntropyFinish { .. } => Self::Loss,
            Rows::Fill { .. }
            | Rows::Convert { .. }
            | Rows::Add { .. }
            | Rows::ColumnSum { .. }
            | Rows::AddBias { .. }
            | Rows::NormForward { .. }
            | Rows::NormBackward { .. }
            | Rows::GeluForward { .. }
            | Rows::GeluBackward { .. }
            | Rows::ReluForward { .. }
            | Rows::ReluBackward { .. }
            | Rows::SwiGluForward { .. }
            | Rows::SwiGluBackward { .. }
            | Rows::Rotary { .. }
            | Rows::Dropout { .. }
            | Rows::EmbeddingForward { .. }
            | Rows::EmbeddingBackward { .. } => Self::ElementWise,
        }
    }

    fn of_spatial(op: &Spatial) -> Self {
        match op {
            Spatial::ConvForward { .. } | Spatial::ConvBackwardInput { .. } | Spatial::ConvBackwardWeight { .. } => {
                Self::Convolutions
            }
            Spatial::BatchNormSum { .. }
            | Spatial::BatchNormForward { .. }
            | Spatial::BatchNormBackwardSum { .. }
            | Spatial::BatchNormBackward { .. }
            | Spatial::BatchNormParameters { .. }
            | Spatial::MaxPoolForward { .. }
            | Spatial::MaxPoolBackward { .. }
            | Spatial::AveragePoolForward { .. }
            | Spatial::AveragePoolBackward { .. } => Self::ElementWise,
        }
    }
}

/// Nanoseconds of what a device did, by kind, in the order of [`Kind`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Nanoseconds of each kind that occurred.
    pub ns: std::collections::BTreeMap<Kind, u64>,
    /// From the first to the last point that was noted.
    pub span_ns: u64,
}
