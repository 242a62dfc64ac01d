//! What changes parameters: the norm of all gradients, loss scaling, SGD, AdamW.

use device::cuda::{BLOCK_THREADS, Threads};
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Result, Single, Typed, refused, state_of};
use super::squares;
use crate::View;
use crate::op::Update;

/// Bytes of `Adam` of train.cu: eight f64.
pub(super) const NUMBERS: usize = 64;

/// Elements that each thread squares, at least, and blocks at most. The sum depends on the count alone, not on the device.
const EACH: usize = 16;
const BLOCKS: usize = 1024;

fn blocks(count: usize) -> usize {
    count.div_ceil(BLOCK_THREADS * EACH).clamp(1, BLOCKS)
}

/// Scratch bytes.
pub(super) fn scratch(op: &Update) -> usize {
    match op {
        Update::SumSquares { x, .. } => 8 * blocks(x.len),
        Update::AdamW { .. } => NUMBERS,
        _ => 0,
    }
}

/// Runs one update.
pub(super) fn run(kernels: &Kernels, op: &Update, context: &DeviceContext<'_>) -> Result<()> {
    let dtype = |view: View| context.memory.dtype(view);
    let begin = |control: View| LaunchCall::new(kernels, context).view(control, Dtype::F64, 4, "control");
    match *op {
        Update::SumSquares { x, control } => {
            let kernel = kernels.single(match dtype(x) {
                Dtype::F64 => Single::SquaresF64,
                Dtype::F32 => Single::SquaresF32,
                other => return refused(format!("no kernel squares {other}")),
            })?;
            let blocks = blocks(x.len);
            let call = LaunchCall::new(kernels, context).scratch(0, 8 * blocks)?.view(x, dtype(x), x.len, "x")?;
            // SAFETY: x has so many elements, and the scratch a sum of each block.
            unsafe { call.word(x.len).launch(kernel, Threads::Blocks(blocks as u64))? };
            squares::add(kernels, control, blocks, context)
        }
        // SAFETY: control has four numbers, here and below.
        Update::BeginNorm { control } => unsafe {
            begin(control)?.launch(kernels.single(Single::BeginNorm)?, Threads::One)
        },
        // SAFETY: as above.
        Update::Judge { control, dynamic } => unsafe {
            begin(control)?.flag(dynamic).launch(kernels.single(Single::Judge)?, Threads::One)
        },
        // SAFETY: as above.
        Update::EndStep { control } => unsafe {
            begin(control)?.launch(kernels.single(Single::EndStep)?, Threads::One)
        },
        Update::Sgd { parameters, gradients, velocity, copy, control, rate, momentum, clip } => {
            let (e, count) = (dtype(copy.unwrap_or(parameters)), parameters.len);
            let call = LaunchCall::new(kernels, context).view(parameters, state_of(e), count, "parameters")?;
            let call = call.view(gradients, state_of(e), count, "gradients")?;
            let call = call.maybe(velocity, state_of(e), count, "velocity")?.maybe(copy, e, count, "the copy")?;
            let call = call.view(control, Dtype::F64, 4, "control")?.word(count);
            let call = call.real(rate).real(momentum).real(clip.unwrap_or(f64::INFINITY));
            // SAFETY: all have so many elements.
            unsafe { call.launch(kernels.typed(Typed::Sgd, e)?, Threads::Elements(count as u64)) }
        }
        Update::AdamW { parameters, gradients, first, second, copy, control, .. } => {
            numbers(kernels, op, control, context)?;
            let (e, count) = (dtype(copy.unwrap_or(parameters)), parameters.len);
            let state = state_of(e);
            let call = LaunchCall::new(kernels, context).view(parameters, state, count, "parameters")?;
            let call = call.view(gradients, state, count, "gradients")?.view(first, state, count, "first")?;
            let call = call.view(second, state, count, "second")?.maybe(copy, e, count, "the copy")?;
            let call = call.scratch(0, NUMBERS)?.view(control, Dtype::F64, 4, "control")?.word(count);
            // SAFETY: all have so many elements.
            unsafe { call.launch(kernels.typed(Typed::Adam, e)?, Threads::Elements(count as u64)) }
        }
    }
}

/// Leaves in the scratch memory what is the same for all elements of a step.
pub(super) fn numbers(kernels: &Kernels, op: &Update, control: View, context: &DeviceContext<'_>) -> Result<()> {
    let Update::AdamW { rate, beta1, beta2, epsilon, decay, clip, .. } = *op else {
        return refused(format!("{op:?} is not AdamW"));
    };
    let call =
        LaunchCall::new(kernels, context).scratch(0, NUMBERS)?.view(control, Dtype::F64, 4, "control")?.step(1)?;
    let call = call.real(rate).real(beta1).real(beta2).real(epsilon).real(decay);
    // SAFETY: the scratch has room for the numbers.
    unsafe { call.real(clip.unwrap_or(f64::INFINITY)).launch(kernels.single(Single::AdamNumbers)?, Threads::One) }
}
