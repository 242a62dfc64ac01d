//! Attention in tiles, as FlashAttention (Dao et al., 2022; Dao, 2023): scores exist a tile at a time, the forward pass
//! leaves the log of each row's sum of exponentials, and the backward pass computes the scores again.

mod backward;
mod forward;
#[cfg(target_arch = "x86_64")]
mod fused;
mod softmax;

use half::{bf16, f16};
use terms::Dtype;

use super::matmul::Multiplier;
use super::product::Matrix;
use super::{Kernel, widened};
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

/// Which of our kernels runs this attention, of operands of this type, if any.
fn kernel(op: &Attention, precision: Dtype) -> Option<Kernel> {
    #[cfg(target_arch = "x86_64")]
    match precision {
        Dtype::F32 => fused::kernel::<f32>(op),
        Dtype::Bf16 => fused::kernel::<bf16>(op),
        _ => None,
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (op, precision);
        None
    }
}

/// What runs this attention, of operands of this type.
pub(super) fn multiplier_of(op: &Attention, precision: Dtype) -> Multiplier {
    kernel(op, precision).map_or(Multiplier::Fma, |kernel| kernel.multiplier())
}

/// Runs the forward pass.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn forward(op: &Attention, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's; the CPU has the kernel.
    unsafe { forward_by(kernel(op, memory.dtype(op.qkv)), op, memory, context) }
}

/// Runs the forward pass by this kernel, or without ours.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
pub unsafe fn forward_by(kernel: Option<Kernel>, op: &Attention, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's.
    unsafe {
        match (kernel, memory.dtype(op.qkv)) {
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::F32) => fused::forward::<f32>(kernel, op, memory, context),
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::Bf16) => fused::forward::<bf16>(kernel, op, memory, context),
            (None, Dtype::F32) => forward::run::<f32>(op, memory, context),
            (None, Dtype::F64) => forward::run::<f64>(op, memory, context),
            (None, Dtype::Bf16) => forward::run::<bf16>(op, memory, context),
            (None, Dtype::F16) => forward::run::<f16>(op, memory, context),
            (_, other) => panic!("no attention of {other} by {kernel:?}"),
        }
    }
}

/// Runs the backward pass.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn backward(op: &Attention, d_output: View, d_qkv: View, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's; the CPU has the kernel.
    unsafe { backward_by(kernel(op, memory.dtype(op.qkv)), op, d_output, d_qkv, memory, context) }
}

/// Runs the backward pass by this kernel, or without ours.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
pub unsafe fn backward_by(
    kernel: Option<Kernel>,
    op: &Attention,
    d_output: View,
    d_qkv: View,
    memory: &Memory,
    context: &Context<'_>,
) {
    // SAFETY: the caller's.
    unsafe {
        match (kernel, memory.dtype(op.qkv)) {
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::F32) => fused::backward::<f32>(kernel, op, d_output, d_qkv, memory, context),
            #[cfg(target_arch = "x86_64")]
            (Some(kernel), Dtype::Bf16) => fused::backward::<bf16>(kernel, op, d_output, d_qkv, memory, context),
            (None, Dtype::F32) => backward::run::<f32>(op, d_output, d_qkv, memory, context),
            (None, Dtype::F64) => backward::run::<f64>(op, d_output, d_qkv, memory, context),
            (None, Dtype::Bf16) => backward::run::<bf16>(op, d_output, d_qkv, memory, context),
            (None, Dtype::F16) => backward::run::<f16>(op, d_output, d_qkv, memory, context),
            (_, other) => panic!("no attention of {other} by {kernel:?}"),
        }
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

/// The matrix in the wide type: itself, or widened into `room` of `rows x columns`.
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
    W::from_f64(1.0 / (op.head_width as f64).sqrt())
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
