//! Runs operations: each family in its own kernels.

use terms::Dtype;

use crate::context::{Context, Matmul};
use crate::kernels;
use crate::kernels::dense::Multiplier;
use crate::memory::Memory;
use crate::op::Op;

/// Runs one operation to its end.
///
/// # Safety
/// The operation's views overlap only as its documentation allows, and nobody else uses their memory meanwhile.
pub unsafe fn execute(op: &Op, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise is what each of these asks for.
    unsafe {
        match op {
            Op::Dense(op) => kernels::dense::run(op, memory, context),
            Op::Rows(op) => kernels::rows::run(op, memory, context),
            Op::Spatial(op) => kernels::spatial::run(op, memory, context),
            Op::Update(op) => kernels::update::run(op, memory, context),
        }
    }
}

/// Scratch bytes that one part of this operation takes on `threads` threads; `bytes` are those of one element.
pub fn scratch_bytes(op: &Op, bytes: usize, threads: usize) -> usize {
    match op {
        Op::Dense(op) => kernels::dense::scratch_bytes(op, bytes, threads),
        Op::Rows(op) => kernels::rows::scratch_bytes(op, bytes, threads),
        Op::Spatial(op) => kernels::spatial::scratch_bytes(op, bytes, threads),
        Op::Update(_) => 0,
    }
}

/// What multiplies in this operation, with activations of this type, on this CPU.
pub fn multiplier_of(op: &Op, precision: Dtype, matmul: Matmul) -> Multiplier {
    match op {
        Op::Dense(op) => kernels::dense::multiplier_of(op, precision, matmul),
        Op::Spatial(op) => kernels::spatial::multiplier_of(op, precision, matmul),
        Op::Rows(_) | Op::Update(_) => Multiplier::Fma,
    }
}

/// Floating-point operations of the products in this operation, a multiplication and an addition counted as two. What
/// is not a product (norms, activations, updates) counts nothing, as in MFU.
pub fn flops(op: &Op) -> f64 {
    match op {
        Op::Dense(op) => kernels::dense::flops(op),
        Op::Spatial(op) => kernels::spatial::flops(op),
        Op::Rows(_) | Op::Update(_) => 0.0,
    }
}
