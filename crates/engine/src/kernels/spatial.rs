//! Operations of [`Spatial`].

use crate::context::Context;
use crate::memory::Memory;
use crate::op::Spatial;

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    let _ = (op, memory, context);
    todo!()
}

/// Scratch bytes of one part, for elements of `bytes` bytes.
pub(crate) fn scratch_bytes(op: &Spatial, bytes: usize, threads: usize) -> usize {
    let _ = (op, bytes, threads);
    todo!()
}

/// See [`crate::flops`].
pub(crate) fn flops(op: &Spatial) -> f64 {
    let _ = op;
    todo!()
}
