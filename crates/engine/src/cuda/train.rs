//! Operations of a training step on a device: everything that works row by row or element by element, attention, batch norm and pooling,
//! the loss, and updates.
//! Each computes what the host's kernel of the same operation computes, and gives the same bits every time.

mod adam;
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
use crate::op::{Attention, Norm, Op, Rows, Update};
use crate::{Memory, View};
pub use adam::Adam;
pub(super) use adam::are_one;
use attention::AttentionKernels;
pub use attention::{ATTENTION, ATTENTION_GRADIENT, ATTENTION_PLAIN, AttentionKernel, PartLimits, QueryGradients};
pub use embedding::sorted_rows;
pub use launch::{DeviceContext, NORM, TRAIN};
use launch::{Kernels, Single, TYPES, Typed, WholeRows};
pub use spatial::SPATIAL;
use spatial::SpatialKernels;
pub use squares::Squares;

/// The kernels of a device. Each text is loaded in parts, when the first kernel of a part is needed.
#[derive(Debug)]
pub struct Train {
    kernels: Kernels,
    attention: AttentionKernels,
    spatial: SpatialKernels,
}

impl Train {
    /// None is loaded yet.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(gpu: &Arc<Gpu>) -> Result<Self, ProductError> {
        let (attention, spatial) = (AttentionKernels::new(gpu)?, SpatialKernels::default());
        Ok(Self { kernels: Kernels::new(gpu), attention, spatial })
    }

    /// Bounds what attention's backward pass writes to scratch memory, from now on. [`Self::scratch_bytes`] has room for the default.
    #[must_use]
    pub fn with_part_limits(mut self, limits: PartLimits) -> Self {
        self.attention.limit(limits);
        self
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        self.kernels.gpu()
    }

    /// Makes the tables that an operation reads, and loads the kernels that it needs, so that its first run neither allocates nor waits for
    /// the driver's compiler.
    ///
    /// # Errors
    /// What the driver says.
    pub fn prepare(&self, op: &Op, context: &DeviceContext<'_>) -> Result<(), ProductError> {
        self.load_for(op, context.memory)?;
        match op {
            Op::Rows(op @ Rows::Rotary { .. }) => elementwise::angles_of(&self.kernels, op, context).map(|_| ()),
            Op::Dense(op) => self.attention.prepare(op, self.gpu(), context.memory),
            _ => Ok(()),
        }
    }

    /// Loads the kernels of an operation that is not attention.
    fn load_for(&self, op: &Op, memory: &Memory) -> Result<(), ProductError> {
        // Of all floats that it names, the narrowest is what it computes with.
        let mut narrowest: Option<Dtype> = None;
        op.for_each_view(&mut |view| {
            let dtype = memory.dtype(view);
            let is_narrower = |known: Dtype| dtype.bytes() < known.bytes();
            if TYPES.contains(&dtype) && narrowest.is_none_or(is_narrower) {
                narrowest = Some(dtype);
            }
        });
        let Some(dtype) = narrowest else { return Ok(()) };
        match op {
            Op::Rows(op) => {
                if matches!(op, Rows::NormForward { .. } | Rows::NormBackward { .. }) {
                    self.kernels.whole_rows(WholeRows::NormByWarp, dtype)?;
                }
                self.kernels.single(Single::AddSum)?;
                self.kernels.typed(Typed::Fill, dtype).map(|_| ())
            }
            Op::Update(Update::AdamW { .. } | Update::Sgd { .. }) => {
                self.kernels.single(Single::AdamNumbers)?;
                self.kernels.typed(Typed::Adam, dtype).map(|_| ())
            }
            Op::Update(_) => self.kernels.single(Single::AddSum).map(|_| ()),
            Op::Spatial(op) => self.spatial.prepare(op, dtype, self.gpu()),
            Op::Dense(_) => Ok(()),
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

    /// Prepares updates by AdamW that differ in their tensors alone, each array of them in one region.
    ///
    /// # Errors
    /// What the driver says; refused for updates that differ otherwise.
    pub fn adam(&self, ops: &[Update], memory: &Memory) -> Result<Adam, ProductError> {
        adam::load(&self.kernels, ops, memory)
    }

    /// Updates all these tensors, as [`crate::op::Update::AdamW`] does with each.
    ///
    /// # Errors
    /// As [`Train::run`].
    pub fn update_all(&self, adam: &Adam, context: &DeviceContext<'_>) -> Result<(), ProductError> {
        adam::run(&self.kernels, adam, context)
    }

    /// Bytes of scratch memory that an operation takes, for elements of so many bytes.
    pub fn scratch_bytes(op: &Op, bytes: usize) -> usize {
        let state = bytes.max(4);
        match op {
            Op::Rows(op) => norm::scratch(op, state) + embedding::scratch(op, state) + loss::scratch(op),
            Op::Update(op) => update::scratch(op),
            Op::Dense(op) => attention::scratch(op, bytes),
            Op::Spatial(op) => spatial::scratch(op, state),
        }
    }
}
