//! Operations of [`Update`]: what changes parameters. Each reads and writes every array once; the copy that is computed
//! with is written while its master lies in the cache.

mod control;
mod optimizer;

use crate::context::Context;
use crate::kernels::simd::typed;
use crate::memory::Memory;
use crate::op::Update;

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Update, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise is what each of these asks for.
    unsafe {
        match op {
            Update::SumSquares { .. } | Update::BeginNorm { .. } | Update::Judge { .. } | Update::EndStep { .. } => {
                control::run(op, memory, context);
            }
            Update::Sgd { parameters, copy, .. } | Update::AdamW { parameters, copy, .. } => {
                let computed = memory.dtype(copy.unwrap_or(*parameters));
                typed!(computed, E => optimizer::run::<E>(op, memory, context));
            }
        }
    }
}
