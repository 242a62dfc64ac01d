//! Attention in tiles, as FlashAttention (Dao et al., 2022; Dao, 2023): scores exist a tile at a time, the forward pass
//! leaves the log of each row's sum of exponentials, and the backward pass computes the scores again.

mod backward;
mod forward;
#[cfg(target_arch = "x86_64")]
pub(super) mod fused;
mod softmax;

use half::{bf16, f16};
use terms::Dtype;

use super::matmul::Multiplier;
use super::product::Matrix;
use super::widened;
use crate::buffer::View;
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::memory::Memory;
use crate::op::Attention;
use softmax::Exponential;

/// Rows of a tile of scores.
const ROWS: usize = 64;

/// Columns of a tile of scores: a multiple of `ROWS`, so that of a tile that begins before a row tile's end every row sees
/// something.
const COLUMNS: usize = 512;

/// Runs the forward pass.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn forward(op: &Attention, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's.
    unsafe {
        match memory.dtype(op.qkv) {
            Dtype::F32 => forward_by_cpu::<f32>(op, memory, context),
            Dtype::F64 => forward::run::<f64>(op, memory, context),
            Dtype::Bf16 => forward_by_cpu::<bf16>(op, memory, context),
            Dtype::F16 => forward::run::<f16>(op, memory, context),
            other => panic!("no attention of {other}"),
        }
    }
}

/// Runs the backward pass.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn backward(op: &Attention, d_output: View, d_qkv: View, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's.
    unsafe {
        match memory.dtype(op.qkv) {
            Dtype::F32 => backward_by_cpu::<f32>(op, d_output, d_qkv, memory, context),
            Dtype::F64 => backward::run::<f64>(op, d_output, d_qkv, memory, context),
            Dtype::Bf16 => backward_by_cpu::<bf16>(op, d_output, d_qkv, memory, context),
            Dtype::F16 => backward::run::<f16>(op, d_output, d_qkv, memory, context),
            other => panic!("no attention of {other}"),
        }
    }
}

/// A type that some CPUs have kernels for.
#[cfg(target_arch = "x86_64")]
trait OwnKernels: super::packed::Unit {}
#[cfg(target_arch = "x86_64")]
impl<E: super::packed::Unit> OwnKernels for E {}
/// A type that some CPUs have kernels for: not this one.
#[cfg(not(target_arch = "x86_64"))]
trait OwnKernels: Element<Wide = f32> {}
#[cfg(not(target_arch = "x86_64"))]
impl<E: Element<Wide = f32>> OwnKernels for E {}

/// With our kernels where the CPU has them.
unsafe fn forward_by_cpu<E: OwnKernels>(op: &Attention, memory: &Memory, context: &Context<'_>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = fused::kernel::<E>(op) {
        // SAFETY: the caller's.
        return unsafe { fused::forward::<E>(kernel, op, memory, context) };
    }
    // SAFETY: the caller's.
    unsafe { forward::run::<E>(op, memory, context) }
}

/// With our kernels where the CPU has them.
unsafe fn backward_by_cpu<E: OwnKernels>(
    op: &Attention,
    d_output: View,
    d_qkv: View,
    memory: &Memory,
    context: &Context<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = fused::kernel::<E>(op) {
        // SAFETY: the caller's.
        return unsafe { fused::backward::<E>(kernel, op, d_output, d_qkv, memory, context) };
    }
    // SAFETY: the caller's.
    unsafe { backward::run::<E>(op, d_output, d_qkv, memory, context) }
}

/// What runs this attention, of operands of this type.
pub(super) fn multiplier_of(op: &Attention, precision: Dtype) -> Multiplier {
    #[cfg(target_arch = "x86_64")]
    let found = match precision {
        Dtype::F32 => fused::kernel::<f32>(op),
        Dtype::Bf16 => fused::kernel::<bf16>(op),
        _ => None,
    };
    #[cfg(target_arch = "x86_64")]
    let found = found.map(|kernel| kernel.multiplier());
    #[cfg(not(target_arch = "x86_64"))]
    let found = {
        let _ = (op, precision);
        None
    };
    found.unwrap_or(Multiplier::Fma)
}

/// Both passes without our kernels, whatever the CPU has.
///
/// # Safety
/// As [`crate::execute`].
#[cfg(test)]
pub(super) unsafe fn portable<E: Element<Wide: Exponential>>(
    op: &Attention,
    d_output: View,
    d_qkv: View,
    memory: &Memory,
    context: &Context<'_>,
) {
    // SAFETY: the caller's.
    unsafe {
        forward::run::<E>(op, memory, context);
        backward::run::<E>(op, d_output, d_qkv, memory, context);
    }
}

/// Scratch bytes of a part, for elements of `bytes` bytes: of the way that takes most.
pub(super) fn scratch_bytes(op: &Attention, backward: bool, bytes: usize) -> usize {
    let narrow = bytes < 4;
    let len = if backward { backward::scratch(op, narrow) } else { forward::scratch(op, narrow) };
    #[cfg(target_arch = "x86_64")]
    let len = len.max(match (bytes, backward) {
        (2, false) => fused::forward_scratch::<bf16>(op),
        (2, true) => fused::backward_scratch::<bf16>(op),
        (4, false) => fused::forward_scratch::<f32>(op),
        (4, true) => fused::backward_scratch::<f32>(op),
        _ => 0,
    });
    len * bytes.max(4)
}

/// Where the heads of packed qkv lie, and of its gradient.
#[derive(Clone, Copy)]
struct Packed<E> {
    at: *mut E,
    sequence: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
}

// SAFETY: an address; who may touch the memory is said where it is used.
unsafe impl<E: Sync> Sync for Packed<E> {}

impl<E: Element> Packed<E> {
    fn new(op: &Attention, at: *mut E) -> Self {
        let Attention { sequence, heads, kv_heads, head_width, .. } = *op;
        Self { at, sequence, heads, kv_heads, head_width }
    }

    /// Head `index` of all of a row, rows of this sample.
    fn head(self, sample: usize, index: usize) -> Matrix<E> {
        let stride = (self.heads + 2 * self.kv_heads) * self.head_width;
        let first = sample * self.sequence * stride + index * self.head_width;
        Matrix::rows(self.at.wrapping_add(first), stride)
    }

    fn query(self, sample: usize, head: usize) -> Matrix<E> {
        self.head(sample, head)
    }

    fn key(self, sample: usize, kv_head: usize) -> Matrix<E> {
        self.head(sample, self.heads + kv_head)
    }

    fn value(self, sample: usize, kv_head: usize) -> Matrix<E> {
        self.head(sample, self.heads + self.kv_heads + kv_head)
    }
}

/// Whether E is narrower than what arithmetic on it is done in.
fn is_narrow<E: Element>() -> bool {
    E::DTYPE != E::Wide::DTYPE
}

/// Row `i` of a row-major matrix.
///
/// # Safety
/// It lies inside, and nobody writes to it while the slice lives.
unsafe fn row<'a, E>(matrix: Matrix<E>, i: usize, len: usize) -> &'a [E] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(matrix.at.add(i * matrix.row), len) }
}

/// Row `i` of a row-major matrix, to be written.
///
/// # Safety
/// It lies inside, and nobody else uses it while the slice lives.
unsafe fn row_mut<'a, E>(matrix: Matrix<E>, i: usize, len: usize) -> &'a mut [E] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(matrix.at.add(i * matrix.row), len) }
}

/// The same matrix in the wide type: itself, or widened into `room` of `rows x columns`.
///
/// # Safety
/// As `row`, for each.
unsafe fn wide<E: Element>(from: Matrix<E>, rows: usize, columns: usize, room: &mut [E::Wide]) -> Matrix<E::Wide> {
    if !is_narrow::<E>() {
        return Matrix { at: from.at.cast(), row: from.row, column: from.column };
    }
    for (i, to) in room.chunks_exact_mut(columns).take(rows).enumerate() {
        // SAFETY: the caller's.
        widened::widen(unsafe { row(from, i, columns) }, to);
    }
    Matrix::rows(room.as_mut_ptr(), columns)
}

/// 1 / sqrt(width of a head).
fn scale<W: Wide>(op: &Attention) -> W {
    W::of(1.0 / (op.head_width as f64).sqrt())
}

/// Columns that the first row of a tile sees of columns from `first_column` on; each further row sees one more. None: all.
fn visible(op: &Attention, first_row: usize, first_column: usize) -> Option<usize> {
    op.causal.then(|| first_row + 1 - first_column)
}

/// Columns that rows up to `end` see.
fn columns(op: &Attention, end: usize) -> usize {
    if op.causal { end } else { op.sequence }
}

/// Takes the first `len` elements.
fn take<'a, W>(rest: &mut &'a mut [W], len: usize) -> &'a mut [W] {
    rest.split_off_mut(..len).expect("scratch is as large as `scratch` says")
}
