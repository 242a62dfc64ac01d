//! Pooling. Gradients are gathered, not scattered: each input pixel looks at the windows that hold it, so that threads
//! never write to one place, and sums have one order.

use std::ops::Range;

use model::Pool;

use super::lanes::lanes;
use super::{SharedElements, wide_bytes};
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::memory::Memory;
use crate::op::Spatial;

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Element>(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's: views of one operation do not overlap, and nobody else uses them.
    unsafe {
        match op {
            Spatial::MaxPoolForward { shape, batch, x, y, index } => {
                max_forward(shape, *batch, memory.read::<E>(*x), memory.write(*y), memory.write(*index), context);
            }
            Spatial::MaxPoolBackward { shape, batch, dy, index, dx } => {
                max_backward(shape, *batch, memory.read::<E>(*dy), memory.read(*index), memory.write(*dx), context);
            }
            Spatial::AveragePoolForward { shape, batch, x, y } => {
                average_forward(shape, *batch, memory.read::<E>(*x), memory.write(*y), context);
            }
            Spatial::AveragePoolBackward { shape, batch, dy, dx } => {
                average_backward(shape, *batch, memory.read::<E>(*dy), memory.write(*dx), context);
            }
            other => unreachable!("{other:?} is not a pooling"),
        }
    }
}

/// Scratch bytes of one part: the sums of one pixel. None for what is not a pooling.
pub(super) fn scratch_bytes(op: &Spatial, bytes: usize) -> Option<usize> {
    match op {
        Spatial::MaxPoolForward { .. } => Some(0),
        Spatial::MaxPoolBackward { shape, .. }
        | Spatial::AveragePoolForward { shape, .. }
        | Spatial::AveragePoolBackward { shape, .. } => Some(shape.channels * wide_bytes(bytes)),
        _ => None,
    }
}

/// The kernels go by the shape alone.
fn check<X, Y>(shape: &Pool, batch: usize, x: &[X], y: &[Y]) {
    let (height, width) = shape.output();
    assert_eq!(x.len(), batch * shape.height * shape.width * shape.channels, "x of {shape:?}");
    assert_eq!(y.len(), batch * height * width * shape.channels, "y of {shape:?}");
    assert!(shape.padding < shape.kernel, "{shape:?}: windows that hold nothing but border");
}

/// The pixels of window `out` along one axis.
fn window(shape: &Pool, out: usize, size: usize) -> Range<usize> {
    let (first, border) = (out * shape.stride, shape.padding);
    first.saturating_sub(border)..(first + shape.kernel).saturating_sub(border).min(size)
}

/// The windows that hold pixel `at` along one axis of `out` windows.
fn windows(shape: &Pool, at: usize, out: usize) -> Range<usize> {
    let at = at + shape.padding;
    let first = (at + 1).saturating_sub(shape.kernel).div_ceil(shape.stride);
    first..(at / shape.stride + 1).min(out)
}

fn max_forward<E: Element>(shape: &Pool, batch: usize, x: &[E], y: &mut [E], index: &mut [i32], context: &Context<'_>) {
    check(shape, batch, x, y);
    assert_eq!(y.len(), index.len(), "an index for each output");
    assert!(i32::try_from(shape.height * shape.width).is_ok(), "{shape:?}: more pixels than an index counts");
    let ((height, width), channels) = (shape.output(), shape.channels);
    let (y, index) = (SharedElements::new(y), SharedElements::new(index));
    context.split(batch * height, 1, |_, rows| {
        for row in rows {
            let (image, oy) = (row / height, row % height);
            let image = &x[image * shape.height * shape.width * channels..][..shape.height * shape.width * channels];
            for ox in 0..width {
                let at = (row * width + ox) * channels;
                // SAFETY: parts have different rows.
                let (y, index) = unsafe { (y.part(at, channels), index.part(at, channels)) };
                let mut first = true;
                for iy in window(shape, oy, shape.height) {
                    for ix in window(shape, ox, shape.width) {
                        let pixel = iy * shape.width + ix;
                        let x = &image[pixel * channels..][..channels];
                        if std::mem::take(&mut first) {
                            y.copy_from_slice(x);
                            index.fill(pixel as i32);
                        } else {
                            take_larger(x, pixel as i32, y, index);
                        }
                    }
                }
            }
        }
    });
}

fn max_backward<E: Element>(shape: &Pool, batch: usize, dy: &[E], index: &[i32], dx: &mut [E], context: &Context<'_>) {
    check(shape, batch, dx, dy);
    assert_eq!(dy.len(), index.len(), "an index for each output");
    backward(shape, batch, dx, context, |pixel, _, window, sums| {
        let window = window * sums.len()..(window + 1) * sums.len();
        add_where(&dy[window.clone()], &index[window], pixel as i32, sums);
    });
}

fn average_forward<E: Element>(shape: &Pool, batch: usize, x: &[E], y: &mut [E], context: &Context<'_>) {
    check(shape, batch, x, y);
    let ((height, width), channels) = (shape.output(), shape.channels);
    let y = SharedElements::new(y);
    context.split(batch * height, 1, |part, rows| {
        // SAFETY: once a part; `scratch_bytes` counts the same numbers.
        let sums = unsafe { context.area::<E::Wide>(part, channels) };
        for row in rows {
            let (image, oy) = (row / height, row % height);
            for ox in 0..width {
                let (lines, columns) = (window(shape, oy, shape.height), window(shape, ox, shape.width));
                sums.fill(E::Wide::ZERO);
                for iy in lines.clone() {
                    for ix in columns.clone() {
                        let pixel = (image * shape.height + iy) * shape.width + ix;
                        add_scaled(&x[pixel * channels..][..channels], E::Wide::ONE, sums);
                    }
                }
                let share = E::Wide::ONE / E::Wide::from_f64((lines.len() * columns.len()) as f64);
                // SAFETY: parts have different rows.
                let y = unsafe { y.part((row * width + ox) * channels, channels) };
                store(sums, share, y);
            }
        }
    });
}

fn average_backward<E: Element>(shape: &Pool, batch: usize, dy: &[E], dx: &mut [E], context: &Context<'_>) {
    check(shape, batch, dx, dy);
    backward(shape, batch, dx, context, |_, pixels, window, sums| {
        let share = E::Wide::ONE / E::Wide::from_f64(pixels as f64);
        add_scaled(&dy[window * sums.len()..][..sums.len()], share, sums);
    });
}

/// Sums up, for each input pixel, over the windows that hold it: `add(pixel of the image, pixels of the window, window of
/// the batch, sums)`.
fn backward<E: Element>(
    shape: &Pool,
    batch: usize,
    dx: &mut [E],
    context: &Context<'_>,
    add: impl Fn(usize, usize, usize, &mut [E::Wide]) + Sync,
) {
    let ((height, width), channels) = (shape.output(), shape.channels);
    let dx = SharedElements::new(dx);
    context.split(batch * shape.height, 1, |part, rows| {
        // SAFETY: once a part; `scratch_bytes` counts the same numbers.
        let sums = unsafe { context.area::<E::Wide>(part, channels) };
        for row in rows {
            let (image, iy) = (row / shape.height, row % shape.height);
            for ix in 0..shape.width {
                sums.fill(E::Wide::ZERO);
                for oy in windows(shape, iy, height) {
                    for ox in windows(shape, ix, width) {
                        let pixels = window(shape, oy, shape.height).len() * window(shape, ox, shape.width).len();
                        add(iy * shape.width + ix, pixels, (image * height + oy) * width + ox, sums);
                    }
                }
                // SAFETY: parts have different rows.
                let dx = unsafe { dx.part((row * shape.width + ix) * channels, channels) };
                store(sums, E::Wide::ONE, dx);
            }
        }
    });
}

lanes! {
    /// Takes what is larger, or not a number, as PyTorch does; the first of equals stays.
    fn take_larger<E: Element>(x: &[E], pixel: i32, y: &mut [E], index: &mut [i32]) {
        for ((x, y), index) in x.iter().zip(y).zip(index) {
            let (new, old) = (x.widen(), y.widen());
            #[expect(clippy::eq_op, reason = "what is not a number differs from itself")]
            let takes = new > old || new != new;
            *y = if takes { *x } else { *y };
            *index = if takes { pixel } else { *index };
        }
    }

    fn add_where<E: Element>(dy: &[E], index: &[i32], pixel: i32, sums: &mut [E::Wide]) {
        for ((dy, index), sum) in dy.iter().zip(index).zip(sums) {
            *sum += if *index == pixel { dy.widen() } else { E::Wide::ZERO };
        }
    }

    fn add_scaled<E: Element>(x: &[E], scale: E::Wide, sums: &mut [E::Wide]) {
        for (x, sum) in x.iter().zip(sums) {
            *sum += x.widen() * scale;
        }
    }

    fn store<E: Element>(sums: &[E::Wide], scale: E::Wide, to: &mut [E]) {
        for (sum, to) in sums.iter().zip(to) {
            *to = E::narrow(*sum * scale);
        }
    }
}
