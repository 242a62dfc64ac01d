//! Cross-entropy, whole or in parts of the classes.

use device::cuda::Threads;
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Result, Single, Typed, refused, state_of};
use crate::View;
use crate::op::Rows;

/// Scratch bytes: a loss of each row.
pub(super) fn scratch(op: &Rows) -> usize {
    match op {
        Rows::CrossEntropy { targets, .. } | Rows::CrossEntropyFinish { targets, .. } => 8 * targets.len,
        _ => 0,
    }
}

/// Runs cross-entropy.
pub(super) fn run(kernels: &Kernels, op: &Rows, context: &DeviceContext<'_>) -> Result<()> {
    let call = LaunchCall::new(kernels, context);
    match *op {
        Rows::CrossEntropy { logits, targets, loss, control, classes, scale } => {
            let (e, rows) = (context.memory.dtype(logits), targets.len);
            let stride = stride(logits, rows, classes);
            let call = call.view(logits, e, rows * stride, "logits")?.view(targets, Dtype::I32, rows, "targets")?;
            let call = call.scratch(0, 8 * rows)?.view(control, Dtype::F64, 4, "control")?;
            let call = call.word(rows).half(classes)?.half(stride)?.real(scale);
            // SAFETY: all have so many rows and classes.
            unsafe { call.launch(kernels.typed(Typed::Entropy, e)?, Threads::Blocks(rows as u64))? };
            add(kernels, loss, rows, scale, context)
        }
        Rows::CrossEntropyLargest { logits, largest, classes } => {
            let (e, rows) = (context.memory.dtype(logits), largest.len);
            let call = call.view(largest, state_of(e), rows, "the largest")?;
            let stride = stride(logits, rows, classes);
            let call = call.view(logits, e, rows * stride, "logits")?.word(rows).half(classes)?.half(stride)?;
            // SAFETY: as above.
            unsafe { call.launch(kernels.typed(Typed::EntropyLargest, e)?, Threads::Blocks(rows as u64)) }
        }
        Rows::CrossEntropySum { logits, targets, largest, sums, classes, first } => {
            let (e, rows) = (context.memory.dtype(logits), targets.len);
            let stride = stride(logits, rows, classes);
            let call = call.view(sums, state_of(e), 2 * rows, "sums")?.view(logits, e, rows * stride, "logits")?;
            let call = call.view(targets, Dtype::I32, rows, "targets")?;
            let call = call.view(largest, state_of(e), rows, "the largest")?;
            // SAFETY: as above.
            unsafe {
                let call = call.word(rows).half(classes)?.half(stride)?.word(first);
                call.launch(kernels.typed(Typed::EntropySum, e)?, Threads::Blocks(rows as u64))
            }
        }
        Rows::CrossEntropyFinish { logits, targets, largest, sums, loss, control, classes, first, scale, counts } => {
            let (e, rows) = (context.memory.dtype(logits), targets.len);
            let stride = stride(logits, rows, classes);
            let call = call.view(logits, e, rows * stride, "logits")?.scratch(0, 8 * rows)?;
            let call = call.view(targets, Dtype::I32, rows, "targets")?;
            let call = call.view(largest, state_of(e), rows, "the largest")?;
            let call = call.view(sums, state_of(e), 2 * rows, "sums")?;
            let call = call.view(control, Dtype::F64, 4, "control")?;
            let call = call.word(rows).half(classes)?.half(stride)?.word(first).real(scale);
            // SAFETY: as above.
            unsafe { call.launch(kernels.typed(Typed::EntropyFinish, e)?, Threads::Blocks(rows as u64))? };
            if counts { add(kernels, loss, rows, scale, context) } else { Ok(()) }
        }
        _ => refused(format!("{op:?} is of another module")),
    }
}

/// Elements of a row of logits: at least the classes.
fn stride(logits: View, rows: usize, classes: usize) -> usize {
    logits.len.checked_div(rows).unwrap_or(classes).max(classes)
}

/// Adds what rows left in the scratch memory to the loss, in their order.
fn add(kernels: &Kernels, loss: View, rows: usize, scale: f64, context: &DeviceContext<'_>) -> Result<()> {
    let call = LaunchCall::new(kernels, context).view(loss, Dtype::F64, 1, "the loss")?.scratch(0, 8 * rows)?;
    // SAFETY: the scratch has a loss of each row.
    unsafe { call.word(rows).real(scale).launch(kernels.single(Single::AddSum)?, Threads::Blocks(1)) }
}
