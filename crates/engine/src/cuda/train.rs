//! Operations of a training step on a device: everything that works row by row or element by element, attention, batch norm and pooling,
//! the loss, and updates.
//! Each computes what the host's kernel of the same operation computes, and gives the same bits every time.

mod attention;
mod elementwise;
mod embedding;
mod launch;
mod loss;
mod norm;
mod spatial;
mod squares;
mod update;
mod widen;

use std::sync::Arc;

use device::cuda::Gpu;
use terms::Dtype;

use super::ProductError;
use crate::op::{Attention, Norm, Op, Rows};
use crate::{Memory, View};
use attention::AttentionKernels;
pub use attention::{ATTENTION, ATTENTION_PLAIN, AttentionKernel};
pub use embedding::sorted_rows;
use launch::Kernels;
pub use launch::{DeviceContext, NORM, TRAIN};
pub use spatial::SPATIAL;
use spatial::SpatialKernels;
pub use squares::Squares;

/// The kernels, loaded on a device.
#[derive(Debug)]
pub struct Train {
    kernels: Kernels,
    attention: AttentionKernels,
    spatial: SpatialKernels,
}

impl Train {
    /// Loads them.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(gpu: &Arc<Gpu>) -> Result<Self, ProductError> {
        let (attention, spatial) = (AttentionKernels::new(gpu)?, SpatialKernels::default());
        Ok(Self { kernels: Kernels::load(gpu)?, attention, spatial })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        self.kernels.gpu()
    }

    /// Makes the tables that an operation reads, and loads the kernels that it needs besides, so that its first run allocates nothing.
    ///
    /// # Errors
    /// What the driver says.
    pub fn prepare(&self, op: &Op, context: &DeviceContext<'_>) -> Result<(), ProductError> {
        match op {
            Op::Rows(op @ Rows::Rotary { .. }) => elementwise::angles_of(&self.kernels, op, context).map(|_| ()),
            Op::Dense(op) => self.attention.prepare(op, self.gpu(), context.memory),
            Op::Spatial(op) => self.spatial.prepare(op, self.gpu()),
            _ => Ok(()),
        }
    }

    /// Gives one operation to the context's stream. Its views may overlap as its documentation allows.
    ///
    /// # Errors
    /// What the driver says; refused for views of other lengths or types than the operation needs, and for too little scratch memory;
    /// unsupported for products, for convolutions, and for attention that no kernel has.
    pub fn run(&self, op: &Op, context: &DeviceContext<'_>) -> Result<(), ProductError> {
        let kernels = &self.kernels;
        match op {
            Op::Rows(op) => match op {
                Rows::NormForward { .. } | Rows::NormBackward { .. } | Rows::ColumnSum { .. } => {
                    norm::run(kernels, op, context)
                }
                Rows::EmbeddingForward { .. } | Rows::EmbeddingBackward { .. } => embedding::run(kernels, op, context),
                Rows::CrossEntropy { .. }
                | Rows::CrossEntropyLargest { .. }
                | Rows::CrossEntropySum { .. }
                | Rows::CrossEntropyFinish { .. } => loss::run(kernels, op, context),
                _ => elementwise::run(kernels, op, context),
            },
            Op::Update(op) => update::run(kernels, op, context),
            Op::Dense(op) => attention::run(kernels, &self.attention, op, context),
            Op::Spatial(op) => spatial::run(kernels, &self.spatial, op, context),
        }
    }

    /// Which kernels run an attention whose elements have this type.
    ///
    /// # Errors
    /// Refused or unsupported, as [`Train::run`] then says.
    pub fn attention_kernel(&self, op: &Attention, dtype: Dtype) -> Result<AttentionKernel, ProductError> {
        self.attention.choose(op, dtype)
    }

    /// A residual and the norm that follows it at once: `total = x + residual`, rounded, and `y` = the norm of that. The backward pass is
    /// that of the norm, with `total` as its input.
    ///
    /// # Errors
    /// As [`Train::run`].
    pub fn residual_norm(
        &self,
        norm: &Norm,
        [residual, total, y]: [View; 3],
        context: &DeviceContext<'_>,
    ) -> Result<(), ProductError> {
        norm::forward(&self.kernels, norm, y, Some([residual, total]), context)
    }

    /// Prepares the sum of squares of many views of f32 or f64 at once, in one region.
    ///
    /// # Errors
    /// What the driver says; refused for views of several types or regions.
    pub fn squares(&self, views: &[View], memory: &Memory) -> Result<Squares, ProductError> {
        squares::load(&self.kernels, views, memory)
    }

    /// Adds the sum of squares of all these views to `control[2]`, as [`crate::op::Update::SumSquares`] does with each.
    ///
    /// # Errors
    /// As [`Train::run`].
    pub fn sum_squares(
        &self,
        squares: &Squares,
        control: View,
        context: &DeviceContext<'_>,
    ) -> Result<(), ProductError> {
        squares::run(&self.kernels, squares, control, context)
    }

    /// Bytes of scratch memory that an operation takes, for elements of so many bytes.
    pub fn scratch_bytes(op: &Op, bytes: usize) -> usize {
        let state = bytes.max(4);
        match op {
            Op::Rows(op) => norm::scratch(op, state) + embedding::scratch(op, state) + loss::scratch(op),
            Op::Update(op) => update::scratch(op),
            Op::Dense(op) => attention::scratch(op, state),
            Op::Spatial(op) => spatial::scratch(op, state),
        }
    }
}
