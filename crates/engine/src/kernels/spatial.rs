//! Operations of [`Spatial`]: convolution, batch norm and pooling over images with channels next to each other
//! (NHWC).

mod batch_norm;
mod convolution;
#[cfg(target_arch = "x86_64")]
pub(crate) mod direct;
#[cfg(target_arch = "x86_64")]
mod gathered;
mod lanes;
mod pass;
mod pooling;
pub(crate) mod portable;

use half::{bf16, f16};
use terms::Dtype;

use crate::context::{Context, Matmul};
use crate::kernels::dense::Multiplier;
use crate::memory::Memory;
use crate::op::Spatial;
pub use convolution::Convolved;
pub use pass::Pass;

/// Memory that several threads write to, each to its own elements.
struct SharedElements<T>(*mut T);

// SAFETY: who uses the pointer keeps its threads to disjoint elements (see each use).
unsafe impl<T: Send> Sync for SharedElements<T> {}

impl<T> SharedElements<T> {
    fn new(slice: &mut [T]) -> Self {
        Self(slice.as_mut_ptr())
    }

    /// Where element `first` lies, which may be behind the end.
    fn at(&self, first: usize) -> *mut T {
        self.0.wrapping_add(first)
    }

    /// Elements `first..first + len`.
    ///
    /// # Safety
    /// Inside the slice that this was made of, which is still borrowed, and no other thread uses these elements.
    #[expect(clippy::mut_from_ref, reason = "disjoint by thread")]
    unsafe fn part(&self, first: usize, len: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at(first), len) }
    }
}

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    let view = match op {
        Spatial::ConvForward { x, .. }
        | Spatial::ConvBackwardWeight { x, .. }
        | Spatial::BatchNormSum { x, .. }
        | Spatial::BatchNormForward { x, .. }
        | Spatial::BatchNormBackwardSum { x, .. }
        | Spatial::BatchNormBackward { x, .. }
        | Spatial::MaxPoolForward { x, .. }
        | Spatial::AveragePoolForward { x, .. } => *x,
        Spatial::ConvBackwardInput { dy, .. }
        | Spatial::MaxPoolBackward { dy, .. }
        | Spatial::AveragePoolBackward { dy, .. } => *dy,
        Spatial::BatchNormParameters { d_gain, .. } => *d_gain,
    };
    // SAFETY: the caller's promise is what each of these asks for.
    unsafe {
        match memory.dtype(view) {
            Dtype::F32 => run_as::<f32>(op, memory, context),
            Dtype::F64 => run_as::<f64>(op, memory, context),
            Dtype::Bf16 => run_as::<bf16>(op, memory, context),
            Dtype::F16 => run_as::<f16>(op, memory, context),
            other => panic!("activations are not of type {other}"),
        }
    }
}

/// # Safety
/// As [`run`].
unsafe fn run_as<E: convolution::Convolved>(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise is what each of these asks for.
    unsafe {
        match op {
            Spatial::ConvForward { .. } | Spatial::ConvBackwardInput { .. } | Spatial::ConvBackwardWeight { .. } => {
                convolution::run::<E>(op, memory, context);
            }
            Spatial::BatchNormSum { .. }
            | Spatial::BatchNormForward { .. }
            | Spatial::BatchNormBackwardSum { .. }
            | Spatial::BatchNormBackward { .. }
            | Spatial::BatchNormParameters { .. } => batch_norm::run::<E>(op, memory, context),
            Spatial::MaxPoolForward { .. }
            | Spatial::MaxPoolBackward { .. }
            | Spatial::AveragePoolForward { .. }
            | Spatial::AveragePoolBackward { .. } => pooling::run::<E>(op, memory, context),
        }
    }
}

/// Scratch bytes of one part, for elements of `bytes` bytes.
pub(crate) fn scratch_bytes(op: &Spatial, bytes: usize, threads: usize) -> usize {
    convolution::scratch_bytes(op, bytes, threads)
        .or_else(|| batch_norm::scratch_bytes(op, bytes))
        .or_else(|| pooling::scratch_bytes(op, bytes))
        .unwrap_or(0)
}

/// See [`crate::multiplier_of`].
pub(crate) fn multiplier_of(op: &Spatial, precision: Dtype, matmul: Matmul) -> Multiplier {
    convolution::multiplier_of(op, precision, matmul)
}

/// Bytes of the type that arithmetic on elements of `bytes` bytes is done in.
fn wide_bytes(bytes: usize) -> usize {
    bytes.max(4)
}

/// See [`crate::flops`].
pub(crate) fn flops(op: &Spatial) -> f64 {
    convolution::flops(op)
}
