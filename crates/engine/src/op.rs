//! Operations as data: coarse kernels, each with the views that it reads and writes.
//!
//! `E` is the type that activations have (f32, f64, bf16, f16), `S` the type of state: `E::Wide` (f32 or f64), which
//! parameter gradients, statistics and losses have. All matrices are row-major and dense. Unless a line says otherwise,
//! views of one operation do not overlap. An output is overwritten, or added to where `accumulate` says so.
//!
//! Every operation gives the same bits for the same input and the same number of threads.

mod dense;
mod rows;
mod spatial;
mod update;

pub use dense::{Attention, Dense, MatMul};
pub use rows::{Norm, Rows};
pub use spatial::Spatial;
pub(crate) use update::SCALE;
pub use update::Update;

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

impl From<Dense> for Op {
    fn from(op: Dense) -> Self {
        Self::Dense(op)
    }
}

impl From<Rows> for Op {
    fn from(op: Rows) -> Self {
        Self::Rows(op)
    }
}

impl From<Spatial> for Op {
    fn from(op: Spatial) -> Self {
        Self::Spatial(op)
    }
}

impl From<Update> for Op {
    fn from(op: Update) -> Self {
        Self::Update(op)
    }
}
