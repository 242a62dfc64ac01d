//! Gradient of the weight, tile by tile: sums over pixels stay in registers.

use std::ops::Range;

use super::super::SharedElements;
use super::super::pass::Pass;
use super::LANES;
use super::correlate::rows_within;
use super::image::{Chunk, Layout, copy, widen};
use super::tile::{self, OUTPUTS};
use crate::context::Context;
use crate::element::Element;

/// Bytes of x and dy that a chunk copies: they stay in common second caches while all weights go by.
const CHUNK: usize = 3 << 19;

/// Pixels that one tile sums at a time: two vectors of x and a line of dy for each fit the first cache, and a tile's sums
/// are read and written once in this many products.
const PIXELS: usize = 196;

/// Channels of a panel of x: what one tile multiplies. A panel's pixels lie next to each other, so that no cache or page
/// is touched for channels of other tiles.
const CHANNELS: usize = 2 * LANES;

/// Outputs that one thread takes at least.
const GRAIN: usize = 16;

/// How a gradient is cut.
#[derive(Clone, Copy, Debug)]
struct GradientCut {
    /// Threads share out channels of x, not outputs; always what there are more of, so that less is copied twice.
    by_channels: bool,
    /// Layout of a panel of x.
    x: Layout,
    /// Images and rows of a chunk, and of the pixels that a tile sums at a time.
    chunk: (usize, usize),
    block: (usize, usize),
    /// Numbers of a panel of x, and of a tile of dy: `[image][row][pixel][LANES]`.
    panel: usize,
    tile: usize,
    /// Numbers of scratch: x, dy.
    areas: [usize; 2],
}

impl GradientCut {
    fn new(pass: &Pass, threads: usize) -> Self {
        let by_channels = !pass.fold && pass.channels > pass.outputs;
        let (channels, outputs) = if by_channels {
            (share(pass.channels, CHANNELS, threads), pass.outputs)
        } else {
            (pass.channels, share(pass.outputs, GRAIN, threads))
        };
        // Folded taps are runs of a row as it lies.
        let (panels, pixel) = match (pass.fold, channels) {
            (true, _) => (1, channels),
            (false, ..=LANES) => (1, LANES),
            (false, _) => (channels.div_ceil(CHANNELS), CHANNELS),
        };
        let (tiles, row) = (outputs.div_ceil(OUTPUTS), LANES * pass.x.out);
        let size = |rows| panels * Layout::copied(pass, rows, pixel).image + tiles * rows * row;
        let (images, rows) = rows_within(CHUNK / 4, pass, &size);
        let x = Layout::copied(pass, rows, pixel);
        let (columns, whole) = (pass.x.out.max(1), (pass.y.out * pass.x.out).max(1));
        let block = if 2 * whole <= PIXELS && rows == pass.y.out {
            (PIXELS / whole, rows)
        } else {
            (1, rows.min((PIXELS / columns).max(1)))
        };
        let (panel, tile) = (images * x.image, images * rows * row);
        // Of folded taps, whole vectors are read behind the last pixel too.
        let areas = [panels * panel + if pass.fold { CHANNELS } else { 0 }, tiles * tile];
        Self { by_channels, x, chunk: (images, rows), block, panel, tile, areas }
    }
}

/// The most items of one part, as [`Context::split`] cuts them.
fn share(items: usize, grain: usize, threads: usize) -> usize {
    let grains = items.div_ceil(grain);
    (grains.div_ceil(threads.min(grains).max(1)) * grain).min(items)
}

/// Outputs of tile after tile: as few tiles as registers allow, of about equal size.
fn tiles(outputs: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let (end, each) = (outputs.end, outputs.len().div_ceil(outputs.len().div_ceil(OUTPUTS).max(1)).max(1));
    outputs.clone().step_by(each).map(move |first| first..(first + each).min(end))
}

/// Scratch bytes of [`gradient`].
pub(in super::super) fn gradient_scratch(pass: &Pass, _bytes: usize, threads: usize) -> usize {
    GradientCut::new(pass, threads).areas.iter().sum::<usize>() * 4
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
    let cut = GradientCut::new(pass, context.threads);
    let (images, rows) = cut.chunk;
    let d_weight = SharedElements::new(d_weight);
    let (items, grain) = if cut.by_channels { (pass.channels, CHANNELS) } else { (pass.outputs, GRAIN) };
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
                    copy_channels(pass, &cut, x, channels.clone(), &chunk, x_area);
                    copy_outputs(pass, &cut, dy, &outputs, &chunk, dy_area);
                    let (x, dy, d_weight) = (x_area.as_ptr(), dy_area.as_ptr(), d_weight.at(0));
                    let (channels, outputs) = (channels.clone(), outputs.clone());
                    GradientWork { pass, cut: &cut, chunk: &chunk, channels, outputs, x, dy, d_weight }.run(accumulate);
                }
            }
        }
    });
}

/// Copies x of a chunk, panel after panel.
#[target_feature(enable = "avx512f")]
fn copy_channels<E: Element<Wide = f32>>(
    pass: &Pass,
    cut: &GradientCut,
    x: &[E],
    channels: Range<usize>,
    chunk: &Chunk,
    to: &mut [f32],
) {
    if pass.fold {
        return copy(pass, &cut.x, x, channels, chunk, to);
    }
    for (first, to) in channels.clone().step_by(CHANNELS).zip(to.chunks_exact_mut(cut.panel)) {
        copy(pass, &cut.x, x, first..(first + CHANNELS).min(channels.end), chunk, to);
    }
}

/// Copies dy of a chunk, tile after tile.
#[target_feature(enable = "avx512f")]
fn copy_outputs<E: Element<Wide = f32>>(
    pass: &Pass,
    cut: &GradientCut,
    dy: &[E],
    outputs: &Range<usize>,
    chunk: &Chunk,
    to: &mut [f32],
) {
    let image = LANES * pass.x.out * cut.chunk.1;
    for (index, number) in chunk.images.clone().enumerate() {
        let pixels = chunk.rows.len() * pass.x.out;
        let from = &dy[pass.output(number, chunk.rows.start, 0)..][..pixels * pass.outputs];
        for (tile, outputs) in tiles(outputs).enumerate() {
            let to = &mut to[tile * cut.tile + index * image..][..pixels * LANES];
            for (from, to) in from.chunks_exact(pass.outputs).zip(to.chunks_exact_mut(LANES)) {
                widen(&from[outputs.clone()], &mut to[..outputs.len()]);
            }
        }
    }
}

/// The copies of a chunk, and the weights of one part.
struct GradientWork<'a> {
    pass: &'a Pass,
    cut: &'a GradientCut,
    chunk: &'a Chunk,
    channels: Range<usize>,
    outputs: Range<usize>,
    x: *const f32,
    dy: *const f32,
    d_weight: *mut f32,
}

impl GradientWork<'_> {
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
    /// As [`GradientWork::run`].
    unsafe fn tap(&self, (ty, tx): (usize, usize), channel: usize, width: usize, accumulate: bool) {
        let Self { pass, cut, chunk, .. } = *self;
        let (tap_step, origin) = cut.x.taps(pass);
        let tap = origin.wrapping_add_signed(tap_step[0] * ty as isize + tap_step[1] * tx as isize);
        let panel = if pass.fold { channel } else { channel / CHANNELS * cut.panel };
        let (images, rows) = cut.block;
        let dy_step = [LANES * pass.x.out * cut.chunk.1, LANES * pass.x.out, LANES];
        let x_step = [cut.x.image, cut.x.row * cut.x.step[0], cut.x.pixel * cut.x.step[1]];
        let weight = pass.weight(ty, tx) + self.channels.start + channel;
        for image in (0..chunk.images.len()).step_by(images) {
            for row in (0..chunk.rows.len()).step_by(rows) {
                let accumulate = accumulate || image > 0 || row > 0;
                let pixels = [images.min(chunk.images.len() - image), rows.min(chunk.rows.len() - row), pass.x.out];
                let x = self.x.wrapping_add(panel + cut.x.at(image, row, 0) + tap);
                let dy = self.dy.wrapping_add(image * dy_step[0] + row * dy_step[1]);
                for (index, outputs) in tiles(&self.outputs).enumerate() {
                    let products = tile::Products {
                        dy: dy.wrapping_add(index * cut.tile),
                        x,
                        pixels,
                        dy_step,
                        x_step,
                        sums: self.d_weight.wrapping_add(outputs.start * pass.depth() + weight),
                        sums_step: pass.depth(),
                        width,
                        accumulate,
                    };
                    let vectors = if width > LANES { 2 } else { 1 };
                    // SAFETY: pixels of the copies, which have room for whole vectors; the caller's promise.
                    unsafe { tile::products(outputs.len(), vectors, &products) };
                }
            }
        }
    }
}
