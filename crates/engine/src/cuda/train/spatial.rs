//! Batch norm and pooling by the kernels of spatial.cu, which a program without them does not load.

mod batch_norm;
mod pooling;

use std::sync::{Arc, OnceLock};

use device::cuda::{Gpu, Kernel, Threads};
use terms::Dtype;

use super::launch::{Call, DeviceContext, Kernels, Result, TYPES, kernels, refused};
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

/// All of them, loaded when an operation first needs one.
#[derive(Debug, Default)]
pub(super) struct SpatialKernels {
    /// Each of [`PACKED`] for each type, one channel and several; then each of [`OF_STATE`] for each of [`STATES`].
    held: OnceLock<Vec<Kernel>>,
}

impl SpatialKernels {
    /// Loads what the operation needs.
    pub(super) fn prepare(&self, op: &Spatial, gpu: &Arc<Gpu>) -> Result<()> {
        if op.is_convolution() { Ok(()) } else { self.load(gpu).map(|_| ()) }
    }

    fn load(&self, gpu: &Arc<Gpu>) -> Result<&Vec<Kernel>> {
        const COUNT: usize = PACKED.len() * TYPES.len() * 2 + OF_STATE.len() * STATES.len();
        if let Some(loaded) = self.held.get() {
            return Ok(loaded);
        }
        let both = |stem: &str, dtype: Dtype| [1, wide(dtype)].map(|channels| format!("{stem}_{dtype}_{channels}"));
        let packed = PACKED.iter().flat_map(|stem| TYPES.into_iter().flat_map(|dtype| both(stem, dtype)));
        let of_state = OF_STATE.iter().flat_map(|stem| STATES.map(|dtype| format!("{stem}_{dtype}")));
        let names: Vec<String> = packed.chain(of_state).collect();
        let names: [&str; COUNT] = std::array::from_fn(|at| names[at].as_str());
        let loaded = gpu.load(SPATIAL, names)?;
        Ok(self.held.get_or_init(|| loaded.into_iter().collect()))
    }

    /// A kernel for elements of a type, of which a thread takes one channel or several.
    fn packed(&self, gpu: &Arc<Gpu>, which: Packed, dtype: Dtype, is_wide: bool) -> Result<&Kernel> {
        let known = TYPES.iter().position(|known| *known == dtype);
        let Some(place) = known else { return refused(format!("no kernel computes with {dtype}")) };
        Ok(&self.load(gpu)?[(which as usize * TYPES.len() + place) * 2 + usize::from(is_wide)])
    }

    /// A kernel for statistics of a type.
    fn of_state(&self, gpu: &Arc<Gpu>, which: OfState, dtype: Dtype) -> Result<&Kernel> {
        let known = STATES.iter().position(|known| *known == dtype);
        let Some(place) = known else { return refused(format!("no kernel has statistics of {dtype}")) };
        Ok(&self.load(gpu)?[PACKED.len() * TYPES.len() * 2 + which as usize * STATES.len() + place])
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
    let run = Run { kernels, spatial, context };
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
struct Run<'a> {
    kernels: &'a Kernels,
    spatial: &'a SpatialKernels,
    context: &'a DeviceContext<'a>,
}

impl<'a> Run<'a> {
    fn dtype(&self, view: View) -> Dtype {
        self.context.memory.dtype(view)
    }

    fn call(&self) -> Call<'a> {
        Call::new(self.kernels, self.context)
    }

    /// Channels that a thread takes at once: several where rows are whole groups of them, and where all of these views begin at one.
    fn pack(&self, dtype: Dtype, channels: usize, views: &[View]) -> usize {
        let pack = wide(dtype);
        let fits = |view: &View| self.context.is_aligned(*view, pack * self.dtype(*view).bytes() as usize);
        if channels.is_multiple_of(pack) && views.iter().all(fits) { pack } else { 1 }
    }

    /// # Safety
    /// As [`Call::launch`].
    unsafe fn packed(
        &self,
        call: Call<'_>,
        which: Packed,
        (dtype, pack): (Dtype, usize),
        threads: Threads,
    ) -> Result<()> {
        let kernel = self.spatial.packed(self.kernels.gpu(), which, dtype, pack > 1)?;
        // SAFETY: the caller's.
        unsafe { call.launch(kernel, threads) }
    }

    /// # Safety
    /// As [`Call::launch`].
    unsafe fn of_state(&self, call: Call<'_>, which: OfState, dtype: Dtype, threads: Threads) -> Result<()> {
        let kernel = self.spatial.of_state(self.kernels.gpu(), which, dtype)?;
        // SAFETY: the caller's.
        unsafe { call.launch(kernel, threads) }
    }
}
