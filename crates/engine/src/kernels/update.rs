//! Operations of [`Update`].

use crate::context::Context;
use crate::memory::Memory;
use crate::op::Update;

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(crate) unsafe fn run(op: &Update, memory: &Memory, context: &Context<'_>) {
    let _ = (op, memory, context);
    todo!()
}
