//! Source pixels as the tiles want them: copied with their padding, or where they lie.

use std::any::TypeId;
use std::arch::x86_64::*;
use std::ops::Range;

use super::super::pass::{Pass, PassAxis};
use super::LANES;
use crate::element::Element;

/// Output pixels that are worked on together: these rows of these images.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub images: Range<usize>,
    pub rows: Range<usize>,
}

/// Where source pixels lie: that of image i, stored row y, stored column x is at `i image + y row + x pixel`. With one tap,
/// only the pixels are stored that are gathered, else all from the first to the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub image: usize,
    pub row: usize,
    pub pixel: usize,
    /// Stored rows and columns from one output to the next.
    pub step: [usize; 2],
}

/// Stored pixels of `outputs` outputs.
fn stored(axis: &PassAxis, outputs: usize) -> usize {
    match (outputs, axis.taps) {
        (0, _) | (_, 0) => 0,
        (_, 1) => outputs,
        (_, taps) => (outputs - 1) * axis.step + taps,
    }
}

/// Stored pixels from one output to the next.
fn step(axis: &PassAxis) -> usize {
    if axis.taps == 1 { 1 } else { axis.step }
}

impl Layout {
    /// The layout of copies of `rows` rows of output pixels an image, `pixel` numbers from pixel to pixel.
    pub(super) fn copied(pass: &Pass, rows: usize, pixel: usize) -> Self {
        let row = stored(&pass.x, pass.x.out) * pixel;
        Self { image: stored(&pass.y, rows) * row, row, pixel, step: [step(&pass.y), step(&pass.x)] }
    }

    /// The layout of the source itself, where the pass is flat.
    pub(super) fn in_place(pass: &Pass) -> Self {
        let row = pass.x.size * pass.channels;
        Self { image: pass.y.size * row, row, pixel: pass.channels, step: [1, 1] }
    }

    /// Where the source of the output at (row, column) of the image begins: its lowest row and column.
    pub(super) fn at(&self, image: usize, row: usize, column: usize) -> usize {
        image * self.image + row * self.step[0] * self.row + column * self.step[1] * self.pixel
    }

    /// From one tap to the next, and where tap (0, 0) lies against the lowest row and column.
    pub(super) fn taps(&self, pass: &Pass) -> ([isize; 2], usize) {
        let last = |axis: &PassAxis| if axis.toward < 0 { axis.taps.saturating_sub(1) } else { 0 };
        let steps = [pass.y.toward * self.row as isize, pass.x.toward * self.pixel as isize];
        (steps, last(&pass.y) * self.row + last(&pass.x) * self.pixel)
    }
}

/// Numbers from pixel to pixel: whole vectors, and an odd number of them, so that neighbours fall into different sets of
/// the first cache.
pub(super) fn spread(channels: usize) -> usize {
    (channels.div_ceil(LANES) | 1) * LANES
}

/// Copies the source pixels of a chunk, `channels` of them, with padding.
#[target_feature(enable = "avx512f")]
pub(super) fn copy<E: Element<Wide = f32>>(
    pass: &Pass,
    layout: &Layout,
    x: &[E],
    channels: Range<usize>,
    chunk: &Chunk,
    to: &mut [f32],
) {
    let rows = stored(&pass.y, chunk.rows.len());
    let every = |axis: &PassAxis| if axis.taps == 1 { axis.step } else { 1 };
    for (index, image) in chunk.images.clone().enumerate() {
        for row in 0..rows {
            let line = &mut to[index * layout.image + row * layout.row..][..layout.row];
            let y = pass.y.lowest(chunk.rows.start) + (row * every(&pass.y)) as isize;
            if !(0..pass.y.size as isize).contains(&y) {
                line.fill(0.0);
                continue;
            }
            let from = (image * pass.y.size + y as usize) * pass.x.size * pass.channels;
            let from = &x[from..][..pass.x.size * pass.channels];
            copy_line(pass, layout, from, channels.clone(), every(&pass.x), line);
        }
    }
}

/// Copies one row of source pixels, those columns that are gathered.
#[target_feature(enable = "avx512f")]
fn copy_line<E: Element<Wide = f32>>(
    pass: &Pass,
    layout: &Layout,
    from: &[E],
    channels: Range<usize>,
    every: usize,
    line: &mut [f32],
) {
    let columns = line.len() / layout.pixel;
    let lowest = pass.x.lowest(0);
    // Stored columns that are not padding.
    let first = (-lowest).max(0).unsigned_abs().div_ceil(every).min(columns);
    let end = (pass.x.size as isize - lowest).max(0).unsigned_abs().div_ceil(every).clamp(first, columns);
    line[..first * layout.pixel].fill(0.0);
    line[end * layout.pixel..].fill(0.0);
    if first == end {
        return;
    }
    let source = (lowest + (first * every) as isize) as usize;
    let line = &mut line[first * layout.pixel..end * layout.pixel];
    if every == 1 && channels.len() == pass.channels && layout.pixel == pass.channels {
        return widen(&from[source * pass.channels..][..line.len()], line);
    }
    for (index, to) in line.chunks_exact_mut(layout.pixel).enumerate() {
        let from = &from[(source + index * every) * pass.channels..][..pass.channels];
        widen(&from[channels.clone()], &mut to[..channels.len()]);
    }
}

/// Copies numbers; with vectors by hand, because the calls of `memcpy` that compilers make of such loops cost more than
/// short copies.
#[target_feature(enable = "avx512f")]
pub(super) fn widen<E: Element<Wide = f32>>(from: &[E], to: &mut [f32]) {
    assert_eq!(from.len(), to.len());
    if TypeId::of::<E>() == TypeId::of::<f32>() {
        let mut done = 0;
        while done < from.len() {
            let mask = ((1u32 << (from.len() - done).min(LANES)) - 1) as __mmask16;
            // SAFETY: as many numbers as there are of both; E is f32.
            unsafe {
                let numbers = _mm512_maskz_loadu_ps(mask, from.as_ptr().cast::<f32>().add(done));
                _mm512_mask_storeu_ps(to.as_mut_ptr().add(done), mask, numbers);
            }
            done += LANES;
        }
        return;
    }
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.widen();
    }
}
