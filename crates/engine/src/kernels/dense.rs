//! Operations of [`Dense`].

pub(crate) mod attention;
pub(crate) mod matmul;
#[cfg(target_arch = "x86_64")]
pub(crate) mod packed;
mod product;
mod widened;

use terms::Dtype;

use crate::context::{Context, Matmul};
use crate::memory::Memory;
use crate::op::{Attention, Dense};
pub use matmul::{Multiplier, multiplier};
#[cfg(target_arch = "x86_64")]
pub use packed::Kernel;
pub(crate) use product::product;
pub use product::{Matrix, Size};
#[cfg(target_arch = "x86_64")]
pub(crate) use {
    matmul::{bf16x6_product, bf16x6_scratch, bf16x6_serves},
    packed::bf16x6::{Items, Operand, vectors_of},
};

/// A kernel of Rankmark: there is none for this processor.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {}

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Dense, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's.
    unsafe {
        match op {
            Dense::MatMul(op) => matmul::run(op, memory, context),
            Dense::AttentionForward(op) => attention::forward(op, memory, context),
            Dense::AttentionBackward { forward, d_output, d_qkv } => {
                attention::backward(forward, *d_output, *d_qkv, memory, context);
            }
        }
    }
}

/// Scratch bytes of one part, for elements of `bytes` bytes.
pub(crate) fn scratch_bytes(op: &Dense, bytes: usize, threads: usize) -> usize {
    match op {
        Dense::MatMul(op) => matmul::scratch_bytes(op, bytes, threads),
        Dense::AttentionForward(op) => attention::scratch_bytes(op, false, bytes),
        Dense::AttentionBackward { forward, .. } => attention::scratch_bytes(forward, true, bytes),
    }
}

/// See [`crate::flops`].
pub(crate) fn flops(op: &Dense) -> f64 {
    match op {
        Dense::MatMul(op) => {
            let [m, n, k] = op.padding;
            2.0 * (op.m - m) as f64 * (op.n - n) as f64 * (op.k - k) as f64
        }
        Dense::AttentionForward(op) => attention_flops(op),
        Dense::AttentionBackward { forward, .. } => 2.0 * attention_flops(forward),
    }
}

/// What runs an operation of this type.
pub(crate) fn multiplier_of(op: &Dense, precision: Dtype, matmul: Matmul) -> Multiplier {
    match op {
        Dense::MatMul(op) => matmul::multiplier_of(op, precision, matmul),
        Dense::AttentionForward(op) | Dense::AttentionBackward { forward: op, .. } => {
            attention::multiplier_of(op, precision)
        }
    }
}

/// Two products over the pairs of rows that see each other.
fn attention_flops(op: &Attention) -> f64 {
    let rows = op.sequence as f64;
    let pairs = if op.causal { rows * (rows + 1.0) / 2.0 } else { rows * rows };
    4.0 * (op.batch * op.heads * op.head_width) as f64 * pairs
}
