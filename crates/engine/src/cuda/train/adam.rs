//! AdamW of many tensors at once: the parameters of a step lie in a few dozen units, and a launch for each would leave the device idle
//! between them.

use device::cuda::Threads;
use device::{Region, Slice};
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Result, Typed, refused, state_of};
use super::update::{NUMBERS, numbers};
use crate::op::Update;
use crate::{Memory, View};

/// Elements of a tensor that a block updates.
const PART: usize = 16 * 1024;
/// What is read and written of each element: parameters, gradients, both moments, and the copy that is computed with.
const ARRAYS: usize = 5;
/// Bytes of `AdamPart` of train.cu: the first element in each array, and how many.
const ENTRY: usize = 8 * (ARRAYS + 1);

/// Tensors that are updated at once, cut into parts: their places are on the device.
#[derive(Debug)]
pub struct Adam {
    /// The first of the updates: they differ in their views alone.
    op: Update,
    /// What is computed with.
    dtype: Dtype,
    /// Memory of each array, from its first element of all tensors to the last; None for the copy, where there is none.
    arrays: [Option<Slice>; ARRAYS],
    parts: Slice,
    count: usize,
}

/// The views of an update, and whether it may be given with another one: everything else of both is the same.
fn views(op: &Update) -> Option<[Option<View>; ARRAYS]> {
    match *op {
        Update::AdamW { parameters, gradients, first, second, copy, .. } => {
            Some([Some(parameters), Some(gradients), Some(first), Some(second), copy])
        }
        _ => None,
    }
}

/// Whether two updates are given at once: both are AdamW with the same numbers, and their tensors lie in the same regions.
pub(in crate::cuda) fn are_one(one: &Update, other: &Update, memory: &Memory) -> bool {
    let (Some(own), Some(of_other)) = (views(one), views(other)) else { return false };
    let mut moved = other.clone();
    if let (Update::AdamW { parameters, gradients, first, second, copy, .. }, [Some(p), Some(g), Some(m), Some(v), c]) =
        (&mut moved, own)
    {
        (*parameters, *gradients, *first, *second, *copy) = (p, g, m, v, c);
    }
    let lies = |view: Option<View>| view.map(|view| (memory.slice(view).region().id(), memory.dtype(view)));
    moved == *one && own.into_iter().zip(of_other).all(|(own, other)| lies(own) == lies(other))
}

/// Cuts tensors into parts, in their order, and brings the list to the device.
pub(super) fn load(kernels: &Kernels, ops: &[Update], memory: &Memory) -> Result<Adam> {
    let Some(op) = ops.first() else { return refused("no tensors to update".to_owned()) };
    if !ops.iter().all(|other| are_one(op, other, memory)) {
        return refused("updates differ in more than their tensors, or these lie in several regions".to_owned());
    }
    let Some([Some(parameters), .., copy]) = views(op) else { return refused(format!("{op:?} is not AdamW")) };
    let dtype = memory.dtype(copy.unwrap_or(parameters));
    let all: Vec<[Option<Slice>; ARRAYS]> =
        ops.iter().filter_map(views).map(|views| views.map(|view| view.map(|view| memory.slice(view)))).collect();
    let arrays = std::array::from_fn(|array| spanned(all.iter().filter_map(|slices| slices[array].as_ref())));
    let mut list = Vec::new();
    for slices in &all {
        let bytes = |array: usize| if array + 1 == ARRAYS { dtype } else { state_of(dtype) }.bytes() as usize;
        let from: [usize; ARRAYS] = std::array::from_fn(|array| match (&slices[array], &arrays[array]) {
            (Some(slice), Some(all)) => (slice.offset() - all.offset()) / bytes(array),
            _ => 0,
        });
        let counts: [Option<usize>; ARRAYS] =
            std::array::from_fn(|array| slices[array].as_ref().map(|slice| slice.len() / bytes(array)));
        let count = counts[0].unwrap_or(0);
        if counts.into_iter().flatten().any(|other| other != count) {
            return refused(format!("tensors of an update have {counts:?} elements"));
        }
        for at in (0..count).step_by(PART) {
            let entry = from.map(|from| from + at).into_iter().chain([PART.min(count - at)]);
            list.extend(entry.flat_map(|number| (number as u64).to_ne_bytes()));
        }
    }
    let count = list.len() / ENTRY;
    let parts = Region::cuda(kernels.gpu(), list.len().max(ENTRY))?.whole();
    parts.slice(0, list.len()).unwrap_or_else(|| parts.clone()).write(&list)?;
    Ok(Adam { op: op.clone(), dtype, arrays, parts, count })
}

/// From the first to the last of some slices of a region.
fn spanned<'a>(slices: impl Iterator<Item = &'a Slice> + Clone) -> Option<Slice> {
    let begin = slices.clone().map(Slice::offset).min()?;
    let end = slices.clone().map(|slice| slice.offset() + slice.len()).max()?;
    slices.last()?.region().slice(begin, end - begin)
}

/// Updates all of them.
pub(super) fn run(kernels: &Kernels, adam: &Adam, context: &DeviceContext<'_>) -> Result<()> {
    let Adam { op, dtype, arrays, parts, count } = adam;
    let Update::AdamW { control, .. } = *op else { return refused(format!("{op:?} is not AdamW")) };
    numbers(kernels, op, control, context)?;
    let mut call = LaunchCall::new(kernels, context);
    for array in arrays {
        call = match array {
            Some(slice) => call.slice(slice, slice.len(), "tensors")?,
            None => call.word(0),
        };
    }
    let call = call.scratch(0, NUMBERS)?.view(control, Dtype::F64, 4, "control")?;
    let call = call.slice(parts, ENTRY * count, "parts")?.word(*count);
    // SAFETY: `load` made parts that lie in the arrays, each of the type that the kernel has for it.
    unsafe { call.launch(kernels.typed(Typed::AdamOfParts, *dtype)?, Threads::Blocks(*count as u64)) }
}
