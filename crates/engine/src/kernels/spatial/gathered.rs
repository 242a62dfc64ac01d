//! Convolutions of f32 as one matrix product each, on AMX: of the pixels that outputs gather from (a row for each output
//! pixel, in it tap after tap the channels of a source pixel) and the weights. That matrix is never made, which would be
//! each image as many times as there are taps: the product packs what it needs of it right from the image.

use std::arch::x86_64::__m512i;

use super::pass::{Pass, PassAxis};
use crate::context::{Context, Matmul};
use crate::kernels::dense::{Items, Matrix, Operand, Size, bf16x6_product, bf16x6_scratch, bf16x6_serves, vectors_of};

/// Numbers of a vector: what lies together has a multiple of as many.
const LANES: usize = 16;

/// What stands for pixels outside of an image.
static NOTHING: [f32; LANES] = [0.0; LANES];

/// What a pass gathers, as a matrix of output pixels by taps and channels.
#[derive(Clone, Copy)]
struct Gathered<'a> {
    at: *const f32,
    pass: &'a Pass,
    /// Whether pixels are items; else taps and channels are.
    by_pixel: bool,
}

// SAFETY: an address; who may touch the memory is said where it is used.
unsafe impl Sync for Gathered<'_> {}

impl Operand for Gathered<'_> {
    #[inline(always)]
    fn by_item(self) -> bool {
        self.by_pixel
    }

    #[inline(always)]
    unsafe fn vectors(self, item: usize, number: usize, items: usize, depth: usize) -> [__m512i; 16] {
        let (pixel, column, pixels, columns) =
            if self.by_pixel { (item, number, items, depth) } else { (number, item, depth, items) };
        let Pass { y: rows, x: across, channels, .. } = self.pass;
        if pixels == 0 || columns == 0 {
            // SAFETY: the caller's; nothing is read.
            return unsafe { vectors_of(|_| NOTHING.as_ptr(), 0, 0) };
        }
        let (tap, channel) = (column / channels, column % channels);
        let (ty, tx) = (tap / across.taps, tap % across.taps);
        let (row, mut x) = (pixel / across.out, pixel % across.out);
        let (mut image, mut y) = (row / rows.out, row % rows.out);
        let place = |image: usize, y: usize, x: usize| match (rows.source(y, ty), across.source(x, tx)) {
            (Some(y), Some(x)) => {
                self.at.wrapping_add(((image * rows.size + y) * across.size + x) * channels + channel)
            }
            _ => NOTHING.as_ptr(),
        };
        // Pixels of one row that see no padding lie at equal distances.
        let last = x + LANES - 1;
        if last < across.out && [x, last].iter().all(|x| place(image, y, *x) != NOTHING.as_ptr()) {
            let (from, apart) = (place(image, y, x), across.step * channels);
            // SAFETY: as below.
            return unsafe { vectors_of(|r| from.wrapping_add(r * apart), pixels, LANES) };
        }
        let mut places = [NOTHING.as_ptr(); LANES];
        for at in places.iter_mut().take(pixels) {
            *at = place(image, y, x);
            x += 1;
            if x == across.out {
                (x, y) = (0, y + 1);
                if y == rows.out {
                    (y, image) = (0, image + 1);
                }
            }
        }
        // SAFETY: the caller's; columns come in whole vectors, as channels do.
        unsafe { vectors_of(|r| places[r], pixels, LANES) }
    }

    /// Each pixel is packed once a tap, and is near after the first.
    fn ahead(self, _: usize, _: usize) -> Option<Matrix<f32>> {
        None
    }
}

/// The weights of a backward pass, as a matrix of taps and source channels by output channels, which are its items. (Those
/// of a forward pass are a matrix as they lie.)
#[derive(Clone, Copy)]
struct Weights<'a> {
    at: *const f32,
    pass: &'a Pass,
}

// SAFETY: as above.
unsafe impl Sync for Weights<'_> {}

impl Operand for Weights<'_> {
    #[inline(always)]
    fn by_item(self) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn vectors(self, item: usize, number: usize, items: usize, depth: usize) -> [__m512i; 16] {
        let Pass { x: across, channels, weights, .. } = self.pass;
        let (tap, channel) = (number / channels, number % channels);
        let tap = self.pass.weight(tap / across.taps, tap % across.taps);
        let from = self.at.wrapping_add(tap + channel * weights.channel + item * weights.output);
        // SAFETY: the caller's; 16 numbers are of one tap, as channels come in whole vectors.
        unsafe { vectors_of(|r| from.wrapping_add(r * weights.channel), depth, items) }
    }

    /// What follows in memory is of other taps.
    fn ahead(self, _: usize, _: usize) -> Option<Matrix<f32>> {
        None
    }
}

/// Whether passes of this form are computed so: channels that lie together fill vectors, and outputs lie in order.
fn fits(pass: &Pass) -> bool {
    let whole = |axis: &PassAxis, size: usize| axis.place == (0, 1) && axis.out == size;
    let (height, width) = pass.image;
    pass.channels.is_multiple_of(LANES) && whole(&pass.y, height) && whole(&pass.x, width)
}

fn correlate_size(pass: &Pass) -> Size {
    Size { m: pass.rows() * pass.x.out, n: pass.outputs, k: pass.depth() }
}

fn gradient_size(pass: &Pass) -> Size {
    Size { m: pass.outputs, n: pass.depth(), k: pass.rows() * pass.x.out }
}

/// Whether [`correlate`] serves.
pub(super) fn correlate_serves(pass: &Pass, matmul: Matmul) -> bool {
    fits(pass) && bf16x6_serves(correlate_size(pass), matmul)
}

/// Whether [`gradient`] serves.
pub(super) fn gradient_serves(pass: &Pass, matmul: Matmul) -> bool {
    fits(pass) && bf16x6_serves(gradient_size(pass), matmul)
}

/// Scratch bytes of a part, if it serves.
pub(super) fn correlate_scratch(pass: &Pass, threads: usize) -> usize {
    if correlate_serves(pass, Matmul::Auto) { bf16x6_scratch(correlate_size(pass), threads) } else { 0 }
}

/// Scratch bytes of a part, if it serves.
pub(super) fn gradient_scratch(pass: &Pass, threads: usize) -> usize {
    if gradient_serves(pass, Matmul::Auto) { bf16x6_scratch(gradient_size(pass), threads) } else { 0 }
}

/// The kernels read and write by the shape alone.
fn check(pass: &Pass, x: &[f32], weight: &[f32], y: &[f32]) {
    assert_eq!(x.len(), pass.batch * pass.y.size * pass.x.size * pass.channels, "x of {pass:?}");
    assert_eq!(y.len(), pass.batch * pass.image.0 * pass.image.1 * pass.outputs, "y of {pass:?}");
    assert_eq!(weight.len(), pass.kernel * pass.kernel * pass.channels * pass.outputs, "weight of {pass:?}");
}

/// `y = x * weight`, or +=.
pub(super) fn correlate(
    pass: &Pass,
    x: &[f32],
    weight: &[f32],
    y: &mut [f32],
    accumulate: bool,
    context: &Context<'_>,
) {
    assert!(correlate_serves(pass, context.matmul), "{pass:?}");
    check(pass, x, weight, y);
    let (size, depth) = (correlate_size(pass), pass.depth());
    let a = Gathered { at: x.as_ptr(), pass, by_pixel: true };
    let c = Matrix::rows(y.as_mut_ptr(), pass.outputs);
    // SAFETY: it serves, and slices are as long as the pass says.
    unsafe {
        if (pass.weights.channel, pass.weights.output) == (1, depth) {
            let b = Items::columns(Matrix::rows(weight.as_ptr().cast_mut(), depth).transposed());
            bf16x6_product(size, a, b, c, accumulate, context);
        } else {
            bf16x6_product(size, a, Weights { at: weight.as_ptr(), pass }, c, accumulate, context);
        }
    }
}

/// Gradient of the weight of a forward pass.
pub(super) fn gradient(
    pass: &Pass,
    x: &[f32],
    dy: &[f32],
    d_weight: &mut [f32],
    accumulate: bool,
    context: &Context<'_>,
) {
    assert!(gradient_serves(pass, context.matmul), "{pass:?}");
    check(pass, x, d_weight, dy);
    let a = Items::rows(Matrix::rows(dy.as_ptr().cast_mut(), pass.outputs).transposed());
    let b = Gathered { at: x.as_ptr(), pass, by_pixel: false };
    let c = Matrix::rows(d_weight.as_mut_ptr(), pass.depth());
    // SAFETY: as above.
    unsafe { bf16x6_product(gradient_size(pass), a, b, c, accumulate, context) }
}
