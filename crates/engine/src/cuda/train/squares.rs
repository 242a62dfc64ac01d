//! The sum of squares of many views at once: the gradients of a step are some hundred views, and a launch for each would cost more than
//! reading them.

use std::sync::Arc;

use device::cuda::Threads;
use device::{Region, Slice};
use terms::Dtype;

use super::launch::{DeviceContext, Kernels, LaunchCall, Result, Single, refused};
use crate::{Memory, View};

/// Elements of a view that a block squares.
const PART: usize = 16 * 1024;

/// Views whose squares are summed at once, cut into parts: their places are on the device.
#[derive(Debug)]
pub struct Squares {
    /// From the first element of all views to the last.
    all: Slice,
    dtype: Dtype,
    /// `Part` of train.cu: first element and elements, two u64 each.
    parts: Slice,
    count: usize,
}

impl Squares {
    /// Scratch bytes that a view of so many elements takes.
    pub fn bytes_of(len: usize) -> usize {
        8 * len.div_ceil(PART)
    }

    /// Scratch bytes.
    pub fn scratch_bytes(&self) -> usize {
        8 * self.count
    }
}

/// Cuts views into parts, in their order, and brings the list to the device.
pub(super) fn load(kernels: &Kernels, views: &[View], memory: &Memory) -> Result<Squares> {
    let Some(first) = views.first() else { return refused("no views to square".to_owned()) };
    let dtype = memory.dtype(*first);
    let bytes = dtype.bytes() as usize;
    let slices: Vec<Slice> = views.iter().map(|view| memory.slice(*view)).collect();
    let region = slices[0].region();
    let fits = |(view, slice): (&View, &Slice)| memory.dtype(*view) == dtype && Arc::ptr_eq(slice.region(), region);
    if !views.iter().zip(&slices).all(fits) {
        return refused("views to square are of several types, or in several regions".to_owned());
    }
    let begin = slices.iter().map(Slice::offset).min().unwrap_or(0);
    let end = slices.iter().map(|slice| slice.offset() + slice.len()).max().unwrap_or(0);
    let Some(all) = region.slice(begin, end - begin) else { return refused("views outside of a region".to_owned()) };
    let mut list = Vec::new();
    for slice in &slices {
        let (from, count) = ((slice.offset() - begin) / bytes, slice.len() / bytes);
        for at in (0..count).step_by(PART) {
            list.push([from + at, PART.min(count - at)].map(|number| (number as u64).to_ne_bytes()).concat());
        }
    }
    let count = list.len();
    let parts = Region::cuda(kernels.gpu(), 16 * count.max(1))?.whole();
    parts.slice(0, 16 * count).unwrap_or_else(|| parts.clone()).write(&list.concat())?;
    Ok(Squares { all, dtype, parts, count })
}

/// Adds the sum of all squares to `control[2]`.
pub(super) fn run(kernels: &Kernels, squares: &Squares, control: View, context: &DeviceContext<'_>) -> Result<()> {
    let kernel = kernels.single(match squares.dtype {
        Dtype::F64 => Single::SquaresOfPartsF64,
        Dtype::F32 => Single::SquaresOfPartsF32,
        other => return refused(format!("no kernel squares {other}")),
    })?;
    let Squares { all, parts, count, .. } = squares;
    let call = LaunchCall::new(kernels, context).scratch(0, squares.scratch_bytes())?.slice(all, all.len(), "views")?;
    let call = call.slice(parts, 16 * count, "parts")?.word(*count);
    // SAFETY: `load` made parts that lie in `all`, and the scratch has a sum of each.
    unsafe { call.launch(kernel, Threads::Blocks(*count as u64))? };
    add(kernels, control, *count, context)
}

/// Adds the sums that blocks left in the scratch memory to `control[2]`, in their order.
pub(super) fn add(kernels: &Kernels, control: View, count: usize, context: &DeviceContext<'_>) -> Result<()> {
    if control.len != 4 {
        return refused(format!("control has {} numbers, and needs 4", control.len));
    }
    let call = LaunchCall::new(kernels, context).view(control.part(2, 1), Dtype::F64, 1, "control")?;
    let call = call.scratch(0, 8 * count)?.word(count).real(1.0);
    // SAFETY: the scratch has so many sums.
    unsafe { call.launch(kernels.single(Single::AddSum)?, Threads::Blocks(1)) }
}
