//! Convolutions as matrix products, for every CPU and type: source pixels of one tap are gathered into scratch, widened,
//! and multiplied by that tap's weights. No whole im2col matrix is made: taps add up in the output.

use std::any::TypeId;
use std::ops::Range;

use gemm_common::Parallelism;

use super::pass::Pass;
use super::{SharedElements, wide_bytes};
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::kernels::dense::{Matrix, Size, product};

/// Pixels of a block: its matrices stay in the second cache for common widths, and one product is long enough to pay.
const BLOCK: usize = 256;

/// Rows of output pixels in a block.
fn block_rows(pass: &Pass) -> usize {
    BLOCK.div_ceil(pass.x.out.max(1)).min(pass.rows().max(1))
}

/// Numbers of scratch: gathered pixels, output pixels, weights of one tap (where they are to be widened).
fn correlate_areas(pass: &Pass, narrow: bool) -> [usize; 3] {
    let pixels = block_rows(pass) * pass.x.out;
    let weights = if narrow { pass.run() * pass.outputs } else { 0 };
    [pixels * pass.run(), pixels * pass.outputs, weights]
}

/// Scratch bytes of [`correlate`].
pub(super) fn correlate_scratch(pass: &Pass, bytes: usize, _threads: usize) -> usize {
    correlate_areas(pass, bytes < 4).iter().sum::<usize>() * wide_bytes(bytes)
}

/// Whether elements are what arithmetic is done in.
fn is_wide<E: Element>() -> bool {
    TypeId::of::<E>() == TypeId::of::<E::Wide>()
}

/// Gathers the source pixels of run `(ty, tx)` for rows of output pixels: `to[pixel][run]`.
fn gather<E: Element>(pass: &Pass, x: &[E], rows: Range<usize>, (ty, tx): (usize, usize), to: &mut [E::Wide]) {
    let channels = pass.channels;
    let mut targets = to.chunks_exact_mut(channels);
    for row in rows {
        let (image, oy) = (row / pass.y.out, row % pass.y.out);
        let line = pass.y.source(oy, ty).map(|y| (image * pass.y.size + y) * pass.x.size);
        for ox in 0..pass.x.out {
            for tx in if pass.fold { 0..pass.x.taps } else { tx..tx + 1 } {
                let target = targets.next().expect("room for all pixels");
                match line.zip(pass.x.source(ox, tx)) {
                    Some((line, column)) => {
                        let source = &x[(line + column) * channels..][..channels];
                        target.iter_mut().zip(source).for_each(|(to, from)| *to = from.widen());
                    }
                    None => target.fill(E::Wide::ZERO),
                }
            }
        }
    }
}

/// One pass: `y = x * weight`, or +=. Outputs of other passes are left alone.
pub fn correlate<E: Element>(pass: &Pass, x: &[E], weight: &[E], y: &mut [E], accumulate: bool, context: &Context<'_>) {
    let areas = correlate_areas(pass, !is_wide::<E>());
    let y = SharedElements::new(y);
    context.split(pass.rows(), 1, |part, rows| {
        // SAFETY: once a part; `correlate_scratch` counts the same numbers.
        let area = unsafe { context.area::<E::Wide>(part, areas.iter().sum()) };
        let (columns, area) = area.split_at_mut(areas[0]);
        let (sums, weights) = area.split_at_mut(areas[1]);
        for first in rows.clone().step_by(block_rows(pass)) {
            let block = first..(first + block_rows(pass)).min(rows.end);
            let sums = &mut sums[..block.len() * pass.x.out * pass.outputs];
            sums.fill(E::Wide::ZERO);
            for ty in 0..pass.y.taps {
                for tx in 0..pass.runs() {
                    gather(pass, x, block.clone(), (ty, tx), columns);
                    add_tap(pass, weight, pass.weight(ty, tx), columns, weights, sums);
                }
            }
            // SAFETY: rows of output pixels are this part's alone.
            unsafe { store(pass, block, sums, &y, accumulate) };
        }
    });
}

/// `sums[pixel][output] += columns[pixel][run] weight[run][output]`.
fn add_tap<E: Element>(
    pass: &Pass,
    weight: &[E],
    first: usize,
    columns: &[E::Wide],
    widened: &mut [E::Wide],
    sums: &mut [E::Wide],
) {
    let (run, outputs, strides) = (pass.run(), pass.outputs, pass.weights);
    let size = Size { m: sums.len() / outputs.max(1), n: outputs, k: run };
    let b = if is_wide::<E>() {
        let at = weight[first..].as_ptr().cast_mut().cast();
        Matrix { at, row: strides.channel, column: strides.output }
    } else {
        for (k, to) in widened.chunks_exact_mut(outputs).enumerate() {
            let from = weight[first + k * strides.channel..].iter().step_by(strides.output);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widen());
        }
        Matrix::rows(widened.as_mut_ptr(), outputs)
    };
    let (a, c) = (Matrix::rows(columns.as_ptr().cast_mut(), run), Matrix::rows(sums.as_mut_ptr(), outputs));
    // SAFETY: `columns` and `sums` hold `size` numbers; of b, the last number is the last weight of this tap.
    unsafe { product(size, c, a, b, E::Wide::ONE, true, Parallelism::None) };
}

/// Writes rows of output pixels, each to its place.
///
/// # Safety
/// No other thread uses these rows of y.
unsafe fn store<E: Element>(
    pass: &Pass,
    rows: Range<usize>,
    sums: &[E::Wide],
    y: &SharedElements<E>,
    accumulate: bool,
) {
    let mut pixels = sums.chunks_exact(pass.outputs);
    for row in rows {
        for ox in 0..pass.x.out {
            let first = pass.output(row / pass.y.out, row % pass.y.out, ox);
            // SAFETY: the caller's; the pass lies inside the output image.
            let to = unsafe { y.part(first, pass.outputs) };
            for (to, sum) in to.iter_mut().zip(pixels.next().expect("a sum for each pixel")) {
                *to = E::narrow(if accumulate { to.widen() + *sum } else { *sum });
            }
        }
    }
}

/// Numbers of scratch: gathered pixels, and dy of the block (where it is to be widened).
fn gradient_areas(pass: &Pass, narrow: bool) -> [usize; 2] {
    let pixels = block_rows(pass) * pass.x.out;
    [pixels * pass.run(), if narrow { pixels * pass.outputs } else { 0 }]
}

/// Scratch bytes of [`gradient`].
pub(super) fn gradient_scratch(pass: &Pass, bytes: usize, _threads: usize) -> usize {
    gradient_areas(pass, bytes < 4).iter().sum::<usize>() * wide_bytes(bytes)
}

/// Gradient of the weight; `pass` is the forward pass. Each part has its own outputs, so that sums over pixels have one
/// order.
pub fn gradient<E: Element>(
    pass: &Pass,
    x: &[E],
    dy: &[E],
    d_weight: &mut [E::Wide],
    accumulate: bool,
    context: &Context<'_>,
) {
    let areas = gradient_areas(pass, !is_wide::<E>());
    let d_weight = SharedElements::new(d_weight);
    context.split(pass.outputs, 1, |part, outputs| {
        // SAFETY: once a part; `gradient_scratch` counts the same numbers.
        let area = unsafe { context.area::<E::Wide>(part, areas.iter().sum()) };
        let (columns, widened) = area.split_at_mut(areas[0]);
        for first in (0..pass.rows()).step_by(block_rows(pass)) {
            let block = first..(first + block_rows(pass)).min(pass.rows());
            let pixels = block.len() * pass.x.out;
            let dy = &dy[first * pass.x.out * pass.outputs..][..pixels * pass.outputs];
            let dy = if is_wide::<E>() {
                dy.as_ptr().cast()
            } else {
                widened.iter_mut().zip(dy).for_each(|(to, from)| *to = from.widen());
                widened.as_ptr()
            };
            for ty in 0..pass.y.taps {
                for tx in 0..pass.runs() {
                    gather(pass, x, block.clone(), (ty, tx), columns);
                    let size = Size { m: outputs.len(), n: pass.run(), k: pixels };
                    // SAFETY: inside dy, columns and this part's rows of the gradient.
                    unsafe {
                        let a = Matrix::rows(dy.add(outputs.start).cast_mut(), pass.outputs).transposed();
                        let b = Matrix::rows(columns.as_mut_ptr(), pass.run());
                        let c = d_weight.at(outputs.start * pass.depth() + pass.weight(ty, tx));
                        let c = Matrix::rows(c, pass.depth());
                        product(size, c, a, b, E::Wide::ONE, accumulate || first > 0, Parallelism::None);
                    }
                }
            }
        }
    });
}
