//! Operations of [`Rows`].

use crate::context::Context;
use crate::memory::Memory;
use crate::op::Rows;

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let _ = (op, memory, context);
    todo!()
}

/// Scratch bytes of one part, for elements of `bytes` bytes.
pub(crate) fn scratch_bytes(op: &Rows, bytes: usize, threads: usize) -> usize {
    let _ = (op, bytes, threads);
    todo!()
}
