//! Batch norm and pooling by the kernels of spatial.cu, which a program without them does not load.

mod batch_norm;
mod pooling;

use std::sync::Arc;

use device::cuda::{Gpu, Kernel, Threads};
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Lazy, Result, TYPES, kernels, refused, state_of};
use crate::View;
use crate::cuda::ProductError;
use crate::op::Spatial;

/// kernels/spatial.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const SPATIAL: &str = include_str!("../../../kernels/spatial.ptx");

kernels! {
    /// Kernels that each type has twice: for one channel a thread, and for several.
    Packed in PACKED:
    Sums = "batch_norm_sums", GradientSums = "batch_norm_gradient_sums", Normalise = "batch_norm",
    NormGradient = "batch_norm_gradient", MaxPool = "max_pool", MaxPoolGradient = "max_pool_gradient",
    AveragePool = "average_pool", AveragePoolGradient = "average_pool_gradient",
}

kernels! {
    /// Kernels by the type of statistics.
    OfState in OF_STATE:
    AddChunks = "batch_norm_add", Statistics = "batch_norm_statistics", Means = "batch_norm_means",
    Parameters = "batch_norm_parameters",
}

/// Types of statistics.
const STATES: [Dtype; 2] = [Dtype::F64, Dtype::F32];

/// Channels that a thread takes at once: 16 bytes of f64 and f32, 8 of 16-bit types, whose arithmetic takes registers of f32.
fn wide(dtype: Dtype) -> usize {
    if dtype == Dtype::F64 { 2 } else { 4 }
}

/// All kernels of spatial operations, loaded when an operation first needs one.
#[derive(Debug, Default)]
pub(super) struct SpatialKernels {
    /// Each of [`PACKED`], for one channel and for several, of each of [`TYPES`].
    packed: [Lazy; TYPES.len()],
    /// Each of [`OF_STATE`], of each of [`STATES`].
    of_state: [Lazy; STATES.len()],
}

impl SpatialKernels {
    /// Loads what an operation on this type needs.
    pub(super) fn prepare(&self, op: &Spatial, dtype: Dtype, gpu: &Arc<Gpu>) -> Result<()> {
        if op.is_convolution() {
            return Ok(());
        }
        self.packed(gpu, Packed::Sums, dtype, false)?;
        self.of_state(gpu, OfState::AddChunks, state_of(dtype)).map(|_| ())
    }

    /// A kernel for elements of a type, of which a thread takes one channel or several.
    fn packed(&self, gpu: &Arc<Gpu>, which: Packed, dtype: Dtype, is_wide: bool) -> Result<&Kernel> {
        let known = TYPES.iter().position(|known| *known == dtype);
        let Some(place) = known else { return refused(format!("no kernel computes with {dtype}")) };
        let both = |stem: &&str| [1, wide(dtype)].map(|channels| format!("{stem}_{dtype}_{channels}"));
        let names = || PACKED.iter().flat_map(both).collect();
        Ok(&self.packed[place].get(gpu, SPATIAL, names)?[which as usize * 2 + usize::from(is_wide)])
    }

    /// A kernel for statistics of a type.
    fn of_state(&self, gpu: &Arc<Gpu>, which: OfState, dtype: Dtype) -> Result<&Kernel> {
        let known = STATES.iter().position(|known| *known == dtype);
        let Some(place) = known else { return refused(format!("no kernel has statistics of {dtype}")) };
        let names = || OF_STATE.iter().map(|stem| format!("{stem}_{dtype}")).collect();
        Ok(&self.of_state[place].get(gpu, SPATIAL, names)?[which as usize])
    }
}

/// Scratch bytes, for state of so many bytes.
pub(super) fn scratch(op: &Spatial, state: usize) -> usize {
    batch_norm::scratch(op, state)
}

/// Runs batch norm and pooling.
pub(super) fn run(
    kernels: &Kernels,
    spatial: &SpatialKernels,
    op: &Spatial,
    context: &DeviceContext<'_>,
) -> Result<()> {
    let run = SpatialRun { kernels, spatial, context };
    match op {
        Spatial::MaxPoolForward { .. }
        | Spatial::MaxPoolBackward { .. }
        | Spatial::AveragePoolForward { .. }
        | Spatial::AveragePoolBackward { .. } => pooling::run(&run, op),
        _ if op.is_convolution() => Err(ProductError::Unsupported(format!("no kernel of this module runs {op:?}"))),
        _ => batch_norm::run(&run, op),
    }
}

/// What an operation runs with.
struct SpatialRun<'a> {
    kernels: &'a Kernels,
    spatial: &'a SpatialKernels,
    context: &'a DeviceContext<'a>,
}

impl<'a> SpatialRun<'a> {
    fn dtype(&self, view: View) -> Dtype {
        self.context.memory.dtype(view)
    }

    fn call(&self) -> LaunchCall<'a> {
        LaunchCall::new(self.kernels, self.context)
    }

    /// Channels that a thread takes at once: several where rows are whole groups of them, and where all of these views begin at one.
    fn pack(&self, dtype: Dtype, channels: usize, views: &[View]) -> usize {
        let pack = wide(dtype);
        let fits = |view: &View| self.context.is_aligned(*view, pack * self.dtype(*view).bytes() as usize);
        if channels.is_multiple_of(pack) && views.iter().all(fits) { pack } else { 1 }
    }

    /// # Safety
    /// As [`LaunchCall::launch`].
    unsafe fn packed(
        &self,
        call: LaunchCall<'_>,
        which: Packed,
        (dtype, pack): (Dtype, usize),
        threads: Threads,
    ) -> Result<()> {
        let kernel = self.spatial.packed(self.kernels.gpu(), which, dtype, pack > 1)?;
        // SAFETY: the caller's.
        unsafe { call.launch(kernel, threads) }
    }

    /// # Safety
    /// As [`LaunchCall::launch`].
    unsafe fn of_state(&self, call: LaunchCall<'_>, which: OfState, dtype: Dtype, threads: Threads) -> Result<()> {
        let kernel = self.spatial.of_state(self.kernels.gpu(), which, dtype)?;
        // SAFETY: the caller's.
        unsafe { call.launch(kernel, threads) }
    }
}
