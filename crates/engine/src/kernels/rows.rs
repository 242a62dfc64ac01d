//! Operations of [`Rows`]: what works row by row or element by element.

mod activation;
mod dropout;
mod elementwise;
mod embedding;
mod loss;
mod norm;
mod rotary;
mod sums;

use crate::context::Context;
use crate::kernels::simd::typed;
use crate::memory::Memory;
use crate::op::Rows;
pub use dropout::philox;

/// Elements of work that are worth another thread: some microseconds of arithmetic, as waking one takes.
const GRAIN: usize = 16 * 1024;

/// How many rows of these columns are worth another thread.
fn grain(columns: usize) -> usize {
    (GRAIN / columns.max(1)).max(1)
}

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Rows, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise is what each of these asks for.
    unsafe {
        match op {
            Rows::Fill { .. } | Rows::Convert { .. } | Rows::Add { .. } | Rows::AddBias { .. } => {
                elementwise::run(op, memory, context);
            }
            Rows::ColumnSum { x, .. } => typed!(memory.dtype(*x), E => sums::run::<E>(op, memory, context)),
            Rows::NormForward { norm, .. } | Rows::NormBackward { norm, .. } => {
                typed!(memory.dtype(norm.x), E => norm::run::<E>(op, memory, context));
            }
            Rows::GeluForward { x, .. }
            | Rows::GeluBackward { x, .. }
            | Rows::ReluForward { x, .. }
            | Rows::ReluBackward { y: x, .. }
            | Rows::SwiGluForward { x, .. }
            | Rows::SwiGluBackward { x, .. } => {
                typed!(memory.dtype(*x), E => activation::run::<E>(op, memory, context));
            }
            Rows::Rotary { qkv, .. } => typed!(memory.dtype(*qkv), E => rotary::run::<E>(op, memory, context)),
            Rows::Dropout { x, .. } => typed!(memory.dtype(*x), E => dropout::run::<E>(op, memory, context)),
            Rows::EmbeddingForward { table, .. } => {
                typed!(memory.dtype(*table), E => embedding::forward::<E>(op, memory, context));
            }
            Rows::EmbeddingBackward { dy, .. } => {
                typed!(memory.dtype(*dy), E => embedding::backward::<E>(op, memory, context));
            }
            Rows::CrossEntropy { logits, .. }
            | Rows::CrossEntropyLargest { logits, .. }
            | Rows::CrossEntropySum { logits, .. }
            | Rows::CrossEntropyFinish { logits, .. } => {
                typed!(memory.dtype(*logits), E => loss::run::<E>(op, memory, context));
            }
        }
    }
}

/// Scratch bytes of one part, for elements of `bytes` bytes.
pub(crate) fn scratch_bytes(op: &Rows, bytes: usize, threads: usize) -> usize {
    // However many parts there are, each has an area of its own.
    let _ = threads;
    let state = bytes.max(size_of::<f32>());
    match op {
        Rows::ColumnSum { y, .. } => y.len * state,
        Rows::NormBackward { norm, d_bias, .. } => norm.columns * state * (1 + usize::from(d_bias.is_some())),
        Rows::Rotary { head_width, .. } => 3 * (head_width / 2) * size_of::<f64>(),
        Rows::CrossEntropy { .. } | Rows::CrossEntropyFinish { .. } => size_of::<f64>(),
        _ => 0,
    }
}
