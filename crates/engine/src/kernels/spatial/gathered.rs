//! Convolutions of f32 as one matrix product each, on AMX: of the pixels that outputs gather from (a row for each output
//! pixel, in it tap after tap the channels of a source pixel) and the weights. That matrix is never made, which would be
//! each image as many times as there are taps: the product packs what it needs of it right from the image.

use std::arch::x86_64::__m512i;

use super::pass::{Axis, Pass};
use crate::context::{Context, Matmul};
use crate::kernels::dense::{Items, Matrix, Operand, Size, parts, parts_scratch, parts_serve, vectors_of};

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

/// Quotient and remainder: of 32 bits, which takes a third of the time that 64 bits take.
#[inline(always)]
fn divided(number: usize, by: usize) -> (usize, usize) {
    let (number, by) = (number as u32, by as u32);
    ((number / by) as usize, (number % by) as usize)
}

/// Where tap `tap` of output 0 lies.
#[inline(always)]
fn tapped(axis: &Axis, tap: usize) -> isize {
    axis.first + axis.toward * tap as isize
}

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
        let (tap, channel) = divided(column, *channels);
        let (ty, tx) = divided(tap, across.taps);
        let (row, mut x) = divided(pixel, across.out);
        let (mut image, mut y) = divided(row, rows.out);
        let (first_y, first_x) = (tapped(rows, ty), tapped(across, tx));
        let place = |image: usize, y: usize, x: usize| {
            let (y, x) = (first_y + (y * rows.step) as isize, first_x + (x * across.step) as isize);
            let inside = (y as usize) < rows.size && (x as usize) < across.size;
            // What lies outside wraps around to somewhere, and is not read.
            let pixel = (image * rows.size).wrapping_add(y as usize).wrapping_mul(across.size).wrapping_add(x as usize);
            let at = self.at.wrapping_add(pixel.wrapping_mul(*channels).wrapping_add(channel));
            if inside { at } else { NOTHING.as_ptr() }
        };
        // Pixels of one row that see no padding lie at equal distances.
        let inside = |axis: &Axis, first: isize, from: usize, last: usize| {
            first + (from * axis.step) as isize >= 0 && first + ((last * axis.step) as isize) < axis.size as isize
        };
        let last = x + LANES - 1;
        if last < across.out && inside(rows, first_y, y, y) && inside(across, first_x, x, last) {
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

/// The weights of a pass, as a matrix of taps and source channels by output channels, which are its items.
#[derive(Clone, Copy)]
struct Weights<'a> {
    at: *const f32,
    pass: &'a Pass,
}

// SAFETY: as above.
unsafe impl Sync for Weights<'_> {}

impl Weights<'_> {
    fn place(self, output: usize, number: usize) -> *const f32 {
        let Pass { x: across, channels, weights, .. } = self.pass;
        let (tap, channel) = divided(number, *channels);
        let (ty, tx) = divided(tap, across.taps);
        self.at.wrapping_add(self.pass.weight(ty, tx) + channel * weights.channel + output * weights.output)
    }
}

impl Operand for Weights<'_> {
    #[inline(always)]
    fn by_item(self) -> bool {
        self.pass.weights.channel == 1
    }

    #[inline(always)]
    unsafe fn vectors(self, item: usize, number: usize, items: usize, depth: usize) -> [__m512i; 16] {
        let weights = self.pass.weights;
        let (vectors, each, apart) =
            if self.by_item() { (items, depth, weights.output) } else { (depth, items, weights.channel) };
        let from = self.place(item, number);
        // SAFETY: the caller's; 16 numbers are of one tap, as channels come in whole vectors.
        unsafe { vectors_of(|r| from.wrapping_add(r * apart), vectors, each) }
    }

    fn ahead(self, _: usize, _: usize) -> Option<Matrix<f32>> {
        None
    }
}

/// Whether passes of this form are computed so: channels that lie together fill vectors, outputs lie in order, and what is
/// gathered is counted in 32 bits.
fn fits(pass: &Pass) -> bool {
    let whole = |axis: &Axis, size: usize| axis.place == (0, 1) && axis.out == size;
    let (height, width) = pass.image;
    let gathered = pass.rows() * pass.x.out;
    pass.channels.is_multiple_of(LANES)
        && whole(&pass.y, height)
        && whole(&pass.x, width)
        && u32::try_from(gathered.max(pass.depth())).is_ok()
}

fn correlated(pass: &Pass) -> Size {
    Size { m: pass.rows() * pass.x.out, n: pass.outputs, k: pass.depth() }
}

fn gradient_of(pass: &Pass) -> Size {
    Size { m: pass.outputs, n: pass.depth(), k: pass.rows() * pass.x.out }
}

/// Whether [`correlate`] serves.
pub(super) fn correlates(pass: &Pass, matmul: Matmul) -> bool {
    fits(pass) && parts_serve(correlated(pass), matmul)
}

/// Whether [`gradient`] serves.
pub(super) fn has_gradient(pass: &Pass, matmul: Matmul) -> bool {
    fits(pass) && parts_serve(gradient_of(pass), matmul)
}

/// Scratch bytes of a part, if it serves.
pub(super) fn correlate_scratch(pass: &Pass, threads: usize) -> usize {
    if correlates(pass, Matmul::Auto) { parts_scratch(correlated(pass), threads) } else { 0 }
}

/// Scratch bytes of a part, if it serves.
pub(super) fn gradient_scratch(pass: &Pass, threads: usize) -> usize {
    if has_gradient(pass, Matmul::Auto) { parts_scratch(gradient_of(pass), threads) } else { 0 }
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
    assert!(correlates(pass, context.matmul), "{pass:?}");
    let a = Gathered { at: x.as_ptr(), pass, by_pixel: true };
    let b = Weights { at: weight.as_ptr(), pass };
    // SAFETY: it serves; slices are as long as the shape says, which the caller has checked.
    unsafe { parts(correlated(pass), a, b, Matrix::rows(y.as_mut_ptr(), pass.outputs), accumulate, context) }
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
    assert!(has_gradient(pass, context.matmul), "{pass:?}");
    let a = Items::rows(Matrix::rows(dy.as_ptr().cast_mut(), pass.outputs).transposed());
    let b = Gathered { at: x.as_ptr(), pass, by_pixel: false };
    // SAFETY: as above.
    unsafe { parts(gradient_of(pass), a, b, Matrix::rows(d_weight.as_mut_ptr(), pass.depth()), accumulate, context) }
}
