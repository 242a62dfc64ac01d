//! The inner loops: tiles of sums in registers.

use std::arch::x86_64::*;

use super::LANES;

/// Output pixels of a half tile at most: two halves of 7 pixels by two vectors of outputs take 28 registers, the weights
/// two and a source number one of 32. Widths of 7 times a power of two are what image models have.
pub(super) const HALF: usize = 7;

/// Sums of one or two runs of pixels, times up to two vectors of outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pixels {
    /// Source of the first pixel of each half, tap (0, 0).
    pub source: [*const f32; 2],
    /// Numbers from one pixel's source to the next's.
    pub step: usize,
    /// Taps: rows and runs in a row.
    pub taps: [usize; 2],
    /// Numbers from one tap's source to the next's, in both directions.
    pub tap_step: [isize; 2],
    /// Products of a tap.
    pub run: usize,
    /// Packed weights, `[taps][run][vectors x 16]`.
    pub weights: *const f32,
    /// Where the sums of the first pixel of each half go.
    pub sums: [*mut f32; 2],
    /// Numbers from one pixel's sums to the next's.
    pub sums_step: usize,
    /// Outputs.
    pub width: usize,
    /// Add to what `sums` hold.
    pub accumulate: bool,
}

/// The outputs of vector `vector` among `width`.
fn mask(width: usize, vector: usize) -> __mmask16 {
    let lanes = width.saturating_sub(vector * LANES).min(LANES);
    ((1u32 << lanes) - 1) as __mmask16
}

/// # Safety
/// AVX-512; `pixels` points to memory of its dimensions.
#[target_feature(enable = "avx512f")]
unsafe fn sum<const HALVES: usize, const COUNT: usize, const VECTORS: usize>(pixels: &Pixels) {
    let mut sums = [[[_mm512_setzero_ps(); VECTORS]; COUNT]; HALVES];
    // SAFETY: the caller's promise: all addresses are those of `Pixels`' dimensions.
    unsafe {
        if pixels.accumulate {
            for (half, sums) in sums.iter_mut().enumerate() {
                for (pixel, sums) in sums.iter_mut().enumerate() {
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        let from = pixels.sums[half].add(pixel * pixels.sums_step + vector * LANES);
                        *sum = _mm512_maskz_loadu_ps(mask(pixels.width, vector), from);
                    }
                }
            }
        }
        let mut weights = pixels.weights;
        for row in 0..pixels.taps[0] as isize {
            for column in 0..pixels.taps[1] as isize {
                let tap = row * pixels.tap_step[0] + column * pixels.tap_step[1];
                let mut source = pixels.source.map(|source| source.offset(tap));
                for _ in 0..pixels.run {
                    let loaded: [_; VECTORS] =
                        std::array::from_fn(|vector| _mm512_loadu_ps(weights.add(vector * LANES)));
                    for (half, sums) in sums.iter_mut().enumerate() {
                        for (pixel, sums) in sums.iter_mut().enumerate() {
                            let x = _mm512_set1_ps(*source[half].add(pixel * pixels.step));
                            for (sum, weight) in sums.iter_mut().zip(loaded) {
                                *sum = _mm512_fmadd_ps(x, weight, *sum);
                            }
                        }
                    }
                    source = source.map(|source| source.add(1));
                    weights = weights.add(VECTORS * LANES);
                }
            }
        }
        for (half, sums) in sums.iter().enumerate() {
            for (pixel, sums) in sums.iter().enumerate() {
                for (vector, sum) in sums.iter().enumerate() {
                    let to = pixels.sums[half].add(pixel * pixels.sums_step + vector * LANES);
                    _mm512_mask_storeu_ps(to, mask(pixels.width, vector), *sum);
                }
            }
        }
    }
}

/// Sums `count` pixels (at most [`HALF`]) in each of `halves` halves, times `vectors` vectors (1 or 2).
///
/// # Safety
/// AVX-512; `pixels` points to memory of its dimensions.
pub(super) unsafe fn pixels(halves: usize, count: usize, vectors: usize, pixels: &Pixels) {
    macro_rules! table {
        ($($count:literal)*) => {
            match (halves, count, vectors) {
                $(
                    (1, $count, 1) => sum::<1, $count, 1>(pixels),
                    (1, $count, 2) => sum::<1, $count, 2>(pixels),
                    (2, $count, 1) => sum::<2, $count, 1>(pixels),
                    (2, $count, 2) => sum::<2, $count, 2>(pixels),
                )*
                _ => unreachable!("no tile of {halves} x {count} x {vectors}"),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { table!(1 2 3 4 5 6 7) }
}

/// Outputs of a tile of the weight's gradient at most: by two vectors of channels they take 28 registers.
pub(super) const OUTPUTS: usize = 14;

/// Products over pixels: `sums[output][channel] = sum over pixels of dy[pixel][output] x[pixel][channel]`, for
/// up to [`OUTPUTS`] outputs and one or two vectors of channels. Pixels stand in images of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Products {
    /// dy of the first pixel, first output.
    pub dy: *const f32,
    /// x of the first pixel, first channel. Whole vectors of each pixel may be read.
    pub x: *const f32,
    /// Images, rows, pixels of a row.
    pub pixels: [usize; 3],
    /// Numbers of dy from image to image, row to row, pixel to pixel.
    pub dy_step: [usize; 3],
    /// Numbers of x from image to image, row to row, pixel to pixel.
    pub x_step: [usize; 3],
    /// Where the sums of the first output go.
    pub sums: *mut f32,
    /// Numbers from one output's sums to the next's.
    pub sums_step: usize,
    /// Channels.
    pub width: usize,
    /// Add to what `sums` hold.
    pub accumulate: bool,
}

/// # Safety
/// AVX-512; `products` points to memory of its dimensions.
#[target_feature(enable = "avx512f")]
unsafe fn multiply<const COUNT: usize, const VECTORS: usize>(products: &Products) {
    let mut sums = [[_mm512_setzero_ps(); VECTORS]; COUNT];
    // SAFETY: the caller's promise: all addresses are those of `Products`' dimensions.
    unsafe {
        for image in 0..products.pixels[0] {
            for row in 0..products.pixels[1] {
                let mut dy = products.dy.add(image * products.dy_step[0] + row * products.dy_step[1]);
                let mut x = products.x.add(image * products.x_step[0] + row * products.x_step[1]);
                for _ in 0..products.pixels[2] {
                    let loaded: [_; VECTORS] = std::array::from_fn(|vector| _mm512_loadu_ps(x.add(vector * LANES)));
                    for (output, sums) in sums.iter_mut().enumerate() {
                        let dy = _mm512_set1_ps(*dy.add(output));
                        for (sum, x) in sums.iter_mut().zip(loaded) {
                            *sum = _mm512_fmadd_ps(dy, x, *sum);
                        }
                    }
                    dy = dy.add(products.dy_step[2]);
                    x = x.add(products.x_step[2]);
                }
            }
        }
        for (output, sums) in sums.iter().enumerate() {
            for (vector, sum) in sums.iter().enumerate() {
                let (at, mask) = (vector * LANES, mask(products.width, vector));
                let to = products.sums.add(output * products.sums_step + at);
                let before = if products.accumulate { mask } else { 0 };
                _mm512_mask_storeu_ps(to, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(before, to), *sum));
            }
        }
    }
}

/// Multiplies and adds up, for `count` outputs (at most [`OUTPUTS`]) and `vectors` vectors of channels (1 or 2).
///
/// # Safety
/// AVX-512; `products` points to memory of its dimensions.
pub(super) unsafe fn products(count: usize, vectors: usize, products: &Products) {
    macro_rules! table {
        ($($count:literal)*) => {
            match (count, vectors) {
                $(
                    ($count, 1) => multiply::<$count, 1>(products),
                    ($count, 2) => multiply::<$count, 2>(products),
                )*
                _ => unreachable!("no tile of {count} x {vectors}"),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { table!(1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}
