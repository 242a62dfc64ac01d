//! Pooling: a thread for each pixel that is written, and several of its channels.

use device::cuda::{BLOCK_THREADS, Threads};
use model::Pool;
use terms::Dtype;

use super::super::launch::{LaunchCall, Result, refused};
use super::{Packed, SpatialRun};
use crate::View;
use crate::op::Spatial;

/// Pixels and channels of an image, and where windows begin, are counted in 32 bits.
const MOST: usize = i32::MAX as usize;

/// Runs one of them.
pub(super) fn run(run: &SpatialRun<'_>, op: &Spatial) -> Result<()> {
    match op {
        Spatial::MaxPoolForward { shape, batch, x, y, index } => {
            let pooled = Pooled::new(run, shape, *batch, [*x, *y], Some(*index))?;
            let call = pooled.output(run, *y, "y")?.view(*index, Dtype::I32, pooled.outputs, "the index")?;
            let call = call.view(*x, pooled.dtype, pooled.inputs, "x")?;
            // SAFETY: all have the lengths of this shape.
            unsafe { pooled.launch(run, call, Packed::MaxPool, pooled.outputs) }
        }
        Spatial::MaxPoolBackward { shape, batch, dy, index, dx } => {
            let pooled = Pooled::new(run, shape, *batch, [*dx, *dy], Some(*index))?;
            let call = pooled.input(run, *dx, "dx")?.view(*dy, pooled.dtype, pooled.outputs, "dy")?;
            let call = call.view(*index, Dtype::I32, pooled.outputs, "the index")?;
            // SAFETY: as above.
            unsafe { pooled.launch(run, call, Packed::MaxPoolGradient, pooled.inputs) }
        }
        Spatial::AveragePoolForward { shape, batch, x, y } => {
            let pooled = Pooled::new(run, shape, *batch, [*x, *y], None)?;
            let call = pooled.output(run, *y, "y")?.view(*x, pooled.dtype, pooled.inputs, "x")?;
            // SAFETY: as above.
            unsafe { pooled.launch(run, call, Packed::AveragePool, pooled.outputs) }
        }
        Spatial::AveragePoolBackward { shape, batch, dy, dx } => {
            let pooled = Pooled::new(run, shape, *batch, [*dx, *dy], None)?;
            let call = pooled.input(run, *dx, "dx")?.view(*dy, pooled.dtype, pooled.outputs, "dy")?;
            // SAFETY: as above.
            unsafe { pooled.launch(run, call, Packed::AveragePoolGradient, pooled.inputs) }
        }
        _ => refused(format!("{op:?} is of another module")),
    }
}

/// A pooling whose sizes a kernel takes.
struct Pooled<'a> {
    shape: &'a Pool,
    batch: usize,
    dtype: Dtype,
    /// Channels that a thread takes at once.
    pack: usize,
    /// Elements of x, and of y.
    inputs: usize,
    outputs: usize,
}

impl<'a> Pooled<'a> {
    fn new(
        run: &SpatialRun<'_>,
        shape: &'a Pool,
        batch: usize,
        [input, output]: [View; 2],
        index: Option<View>,
    ) -> Result<Self> {
        check(shape)?;
        let ((height, width), channels) = (shape.output(), shape.channels);
        let dtype = run.dtype(input);
        let pack = run.pack(dtype, channels, &[input, output, index.unwrap_or(input)]);
        let (inputs, outputs) = (shape.height * shape.width * channels, height * width * channels);
        Ok(Self { shape, batch, dtype, pack, inputs: batch * inputs, outputs: batch * outputs })
    }

    fn input<'b>(&self, run: &SpatialRun<'b>, view: View, what: &str) -> Result<LaunchCall<'b>> {
        run.call().view(view, self.dtype, self.inputs, what)
    }

    fn output<'b>(&self, run: &SpatialRun<'b>, view: View, what: &str) -> Result<LaunchCall<'b>> {
        run.call().view(view, self.dtype, self.outputs, what)
    }

    /// Adds the sizes, and launches with blocks of one image each that write so many elements.
    ///
    /// # Safety
    /// As [`LaunchCall::launch`].
    unsafe fn launch(&self, run: &SpatialRun<'_>, call: LaunchCall<'_>, which: Packed, written: usize) -> Result<()> {
        let (shape, (height, width)) = (self.shape, self.shape.output());
        let call = call.half(self.batch)?.half(shape.channels / self.pack)?.half(shape.height)?.half(shape.width)?;
        let call = call.half(height)?.half(width)?.half(shape.kernel)?.half(shape.stride)?.half(shape.padding)?;
        let groups = written / self.batch.max(1) / self.pack;
        let blocks = self.batch * groups.div_ceil(BLOCK_THREADS);
        // The kernel divides numbers of blocks in 32 bits.
        if blocks > MOST {
            return refused(format!("{shape:?} of {} images takes {blocks} blocks, more than {MOST}", self.batch));
        }
        // SAFETY: the caller's.
        unsafe { run.packed(call, which, (self.dtype, self.pack), Threads::Blocks(blocks as u64)) }
    }
}

/// Refuses what the kernels could not count, and windows that hold nothing but border.
fn check(shape: &Pool) -> Result<()> {
    let Pool { channels, kernel, stride, padding, height, width } = *shape;
    if stride == 0 || channels == 0 || padding >= kernel {
        return refused(format!("{shape:?} has no channels, no step, or windows that hold nothing but border"));
    }
    let reach = height.max(width).saturating_add(kernel.saturating_mul(2)).saturating_add(stride);
    if reach > MOST {
        return refused(format!("{shape:?} has images or windows of more than {MOST} rows and columns"));
    }
    if height.min(width) + 2 * padding < kernel {
        return refused(format!("{shape:?} has windows that are larger than its images"));
    }
    let (out_height, out_width) = shape.output();
    for pixels in [height * width, out_height * out_width] {
        if pixels.checked_mul(channels).is_none_or(|elements| elements > MOST) {
            return refused(format!("{shape:?} has images of more than {MOST} elements"));
        }
    }
    Ok(())
}
