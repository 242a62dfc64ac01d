//! Gradient of the weight, tile by tile: sums over pixels stay in registers.

use std::ops::Range;

use super::super::Shared;
use super::super::pass::Pass;
use super::LANES;
use super::correlate::rows_within;
use super::image::{Chunk, Layout, copy, spread, widen};
use super::tile::{self, OUTPUTS};
use crate::context::Context;
use crate::element::Element;

/// Bytes of x and dy that a chunk copies: they stay in common second caches while all weights go by.
const CHUNK: usize = 3 << 19;

/// Pixels that one tile sums at a time: two vectors of x and half a line of dy for each fit the first cache, and a tile's
/// 16 sums are read and written once in this many products.
const PIXELS: usize = 224;

/// Channels of a tile.
const CHANNELS: usize = 2 * LANES;

/// How a gradient is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Threads share out channels of x, not outputs; always what there are more of, so that less is copied twice.
    by_channels: bool,
    x: Layout,
    /// Numbers of dy from pixel to pixel.
    dy: usize,
    /// Images and rows of a chunk, and of the pixels that a tile sums at a time.
    chunk: (usize, usize),
    block: (usize, usize),
    /// Numbers of scratch: x, dy.
    areas: [usize; 2],
}

impl Cut {
    fn of(pass: &Pass, threads: usize) -> Self {
        let by_channels = !pass.fold && pass.channels > pass.outputs;
        let (channels, outputs) = if by_channels {
            (share(pass.channels, CHANNELS, threads), pass.outputs)
        } else {
            (pass.channels, share(pass.outputs, OUTPUTS, threads))
        };
        let (pixel, dy) = (if pass.fold { channels } else { spread(channels) }, spread(outputs));
        let row = dy * pass.x.out;
        let size = |rows| Layout::copied(pass, rows, pixel).image + rows * row;
        let (images, rows) = rows_within(CHUNK / 4, pass, &size);
        let x = Layout::copied(pass, rows, pixel);
        let (columns, whole) = (pass.x.out.max(1), (pass.y.out * pass.x.out).max(1));
        let block = if 2 * whole <= PIXELS && rows == pass.y.out {
            (PIXELS / whole, rows)
        } else {
            (1, rows.min((PIXELS / columns).max(1)))
        };
        // Whole tiles are read, behind the last channel or output too.
        let areas = [images * x.image + CHANNELS, images * rows * row + OUTPUTS];
        Self { by_channels, x, dy, chunk: (images, rows), block, areas }
    }
}

/// The most items of one part, as [`Context::split`] cuts them.
fn share(items: usize, grain: usize, threads: usize) -> usize {
    let grains = items.div_ceil(grain);
    (grains.div_ceil(threads.min(grains).max(1)) * grain).min(items)
}

/// Scratch bytes of [`gradient`].
pub(in super::super) fn gradient_scratch(pass: &Pass, _bytes: usize, threads: usize) -> usize {
    Cut::of(pass, threads).areas.iter().sum::<usize>() * 4
}

/// Gradient of the weight; `pass` is the forward pass. Each part has its own outputs or channels, so that sums over
/// pixels have one order.
pub(in super::super) fn gradient<E: Element<Wide = f32>>(
    pass: &Pass,
    x: &[E],
    dy: &[E],
    d_weight: &mut [f32],
    accumulate: bool,
    context: &Context<'_>,
) {
    let cut = Cut::of(pass, context.threads);
    let (images, rows) = cut.chunk;
    let d_weight = Shared::new(d_weight);
    let (items, grain) = if cut.by_channels { (pass.channels, CHANNELS) } else { (pass.outputs, OUTPUTS) };
    context.split(items, grain, |part, range| {
        let (channels, outputs) = if cut.by_channels { (range, 0..pass.outputs) } else { (0..pass.channels, range) };
        // SAFETY: once a part; `gradient_scratch` counts the same numbers.
        let area = unsafe { context.area::<f32>(part, cut.areas.iter().sum()) };
        let (x_area, dy_area) = area.split_at_mut(cut.areas[0]);
        for image in (0..pass.batch).step_by(images) {
            for row in (0..pass.y.out).step_by(rows) {
                let chunk =
                    Chunk { images: image..(image + images).min(pass.batch), rows: row..(row + rows).min(pass.y.out) };
                let accumulate = accumulate || image > 0 || row > 0;
                // SAFETY: `serves` has found AVX-512; these outputs' and channels' weights are this part's alone.
                unsafe {
                    copy(pass, &cut.x, x, channels.clone(), &chunk, x_area);
                    copy_outputs(pass, &cut, dy, outputs.clone(), &chunk, dy_area);
                    let work = Work {
                        pass,
                        cut: &cut,
                        chunk: &chunk,
                        channels: channels.clone(),
                        outputs: outputs.clone(),
                        x: x_area.as_ptr(),
                        dy: dy_area.as_ptr(),
                        d_weight: d_weight.at(0),
                    };
                    work.run(accumulate);
                }
            }
        }
    });
}

/// Copies dy of a chunk: `[image][row][pixel][cut.dy]`.
#[target_feature(enable = "avx512f")]
fn copy_outputs<E: Element<Wide = f32>>(
    pass: &Pass,
    cut: &Cut,
    dy: &[E],
    outputs: Range<usize>,
    chunk: &Chunk,
    to: &mut [f32],
) {
    let (row, image) = (cut.dy * pass.x.out, cut.dy * pass.x.out * cut.chunk.1);
    for (index, image_from) in chunk.images.clone().enumerate() {
        let pixels = chunk.rows.len() * pass.x.out;
        let from = &dy[pass.output(image_from, chunk.rows.start, 0)..][..pixels * pass.outputs];
        let to = &mut to[index * image..][..chunk.rows.len() * row];
        for (from, to) in from.chunks_exact(pass.outputs).zip(to.chunks_exact_mut(cut.dy)) {
            widen(&from[outputs.clone()], &mut to[..outputs.len()]);
        }
    }
}

/// The copies of a chunk, and the weights of one part.
struct Work<'a> {
    pass: &'a Pass,
    cut: &'a Cut,
    chunk: &'a Chunk,
    channels: Range<usize>,
    outputs: Range<usize>,
    x: *const f32,
    dy: *const f32,
    d_weight: *mut f32,
}

impl Work<'_> {
    /// Adds the chunk's products to all weights of the part.
    ///
    /// # Safety
    /// AVX-512; the part's weights are this thread's alone.
    unsafe fn run(&self, accumulate: bool) {
        let numbers = if self.pass.fold { self.pass.run() } else { self.channels.len() };
        for channel in (0..numbers).step_by(CHANNELS) {
            for ty in 0..self.pass.y.taps {
                for tx in 0..self.pass.runs() {
                    // SAFETY: the caller's promise.
                    unsafe { self.tap((ty, tx), channel, (numbers - channel).min(CHANNELS), accumulate) };
                }
            }
        }
    }

    /// One tap's weights of one tile of channels: pixels outside, outputs inside, so that x stays in the first cache.
    ///
    /// # Safety
    /// As [`Work::run`].
    unsafe fn tap(&self, (ty, tx): (usize, usize), channel: usize, width: usize, accumulate: bool) {
        let Self { pass, cut, chunk, .. } = *self;
        let (tap_step, origin) = cut.x.taps(pass);
        let tap = origin.wrapping_add_signed(tap_step[0] * ty as isize + tap_step[1] * tx as isize);
        let (images, rows) = cut.block;
        let dy_step = [cut.dy * pass.x.out * cut.chunk.1, cut.dy * pass.x.out, cut.dy];
        let x_step = [cut.x.image, cut.x.row * cut.x.step[0], cut.x.pixel * cut.x.step[1]];
        let weight = pass.weight(ty, tx) + self.channels.start + channel;
        for image in (0..chunk.images.len()).step_by(images) {
            for row in (0..chunk.rows.len()).step_by(rows) {
                let accumulate = accumulate || image > 0 || row > 0;
                let pixels = [images.min(chunk.images.len() - image), rows.min(chunk.rows.len() - row), pass.x.out];
                let x = self.x.wrapping_add(cut.x.at(image, row, 0) + tap + channel);
                let dy = self.dy.wrapping_add(image * dy_step[0] + row * dy_step[1]);
                for output in (0..self.outputs.len()).step_by(OUTPUTS) {
                    let products = tile::Products {
                        dy: dy.wrapping_add(output),
                        x,
                        pixels,
                        dy_step,
                        x_step,
                        sums: self.d_weight.wrapping_add((self.outputs.start + output) * pass.depth() + weight),
                        sums_step: pass.depth(),
                        outputs: (self.outputs.len() - output).min(OUTPUTS),
                        width,
                        accumulate,
                    };
                    // SAFETY: pixels of the copies, which have room for whole tiles; the caller's promise.
                    unsafe { tile::products(if width > LANES { 2 } else { 1 }, &products) };
                }
            }
        }
    }
}
