//! A pass of convolution, tile by tile.

use std::any::TypeId;
use std::ops::Range;

use super::super::SharedElements;
use super::super::pass::Pass;
use super::image::{Chunk, Layout, copy, spread};
use super::tile::{self, HALF};
use super::{LANES, pack};
use crate::context::Context;
use crate::element::Element;

/// Bytes of weights that are packed at once, and stay in the second cache with a chunk of pixels. With more, threads
/// share out panels of weights instead of pixels, and pack one at a time.
const WEIGHTS: usize = 5 << 18;

/// Bytes of source pixels that a chunk copies: a quarter of common second caches, or, against one panel of many weights,
/// as much as lets a panel serve many pixels.
const CHUNK: usize = 1 << 18;
const GROUP: usize = 3 << 19;

/// With this many channels, pixels that lie a power of two apart would fall into few sets of the first cache.
const CONFLICT: usize = 512;

/// How a pass is cut.
#[derive(Clone, Copy, Debug)]
struct PassCut {
    /// Threads share out panels of weights, not rows of pixels.
    by_panels: bool,
    /// Pixels are read where they lie.
    in_place: bool,
    layout: Layout,
    /// Images and rows of a chunk.
    images: usize,
    rows: usize,
    /// Numbers of scratch: packed weights, copied pixels.
    areas: [usize; 2],
}

impl PassCut {
    fn new(pass: &Pass, bytes: usize, threads: usize) -> Self {
        let panel = pass.depth() * pack::panel(pass);
        let panels = pack::panels(pass);
        let by_panels = panel * panels * 4 > WEIGHTS && panels >= threads;
        let in_place = bytes == 4 && pass.is_flat() && pass.channels < CONFLICT;
        let pixel = if pass.channels < 256 { pass.channels } else { spread(pass.channels) };
        let size = |rows| Layout::copied(pass, rows, pixel).image;
        let (images, rows) =
            if by_panels { rows_within(GROUP / 4, pass, &size) } else { (1, rows_within(CHUNK / 4, pass, &size).1) };
        let copied = Layout::copied(pass, rows, pixel);
        Self {
            by_panels,
            in_place,
            layout: if in_place { Layout::in_place(pass) } else { copied },
            images,
            rows,
            areas: [panel * if by_panels { 1 } else { panels }, if in_place { 0 } else { images * copied.image }],
        }
    }
}

/// Images, and rows of one, with a source of at most `most` numbers, but at least one row.
pub(super) fn rows_within(most: usize, pass: &Pass, size: &impl Fn(usize) -> usize) -> (usize, usize) {
    let whole = size(pass.y.out).max(1);
    if whole <= most {
        // Groups of about equal size.
        let groups = (pass.batch * whole).div_ceil(most).max(1);
        return (pass.batch.div_ceil(groups).max(1), pass.y.out);
    }
    let fitting = (1..=pass.y.out).rev().find(|rows| size(*rows) <= most).unwrap_or(1);
    (1, pass.y.out.div_ceil(pass.y.out.div_ceil(fitting)))
}

/// Scratch bytes of [`correlate`].
pub(in super::super) fn correlate_scratch(pass: &Pass, bytes: usize, threads: usize) -> usize {
    PassCut::new(pass, bytes, threads).areas.iter().sum::<usize>() * 4
}

/// One pass: `y = x * weight`, or +=. Outputs of other passes are left alone.
pub(in super::super) fn correlate<E: Element<Wide = f32>>(
    pass: &Pass,
    x: &[E],
    weight: &[E],
    y: &mut [E],
    accumulate: bool,
    context: &Context<'_>,
) {
    let cut = PassCut::new(pass, size_of::<E>(), context.threads);
    let y = SharedElements::new(y);
    let size = pass.depth() * pack::panel(pass);
    let (items, panels) = if cut.by_panels { (pack::panels(pass), 1) } else { (pass.rows(), pack::panels(pass)) };
    context.split(items, 1, |part, range| {
        // SAFETY: once a part; `correlate_scratch` counts the same numbers.
        let area = unsafe { context.area::<f32>(part, cut.areas.iter().sum()) };
        let (packed, copied) = area.split_at_mut(cut.areas[0]);
        // SAFETY: `serves` has found AVX-512; rows or panels of y are this part's alone.
        unsafe {
            if cut.by_panels {
                for chunk in chunks(pass, &cut, 0..pass.rows()) {
                    let source = sources(pass, &cut, x, &chunk, copied);
                    for panel in range.clone() {
                        pack::pack(pass, weight, panel, packed);
                        tiles(&ChunkWork { pass, cut: &cut, source, chunk: &chunk, panel, y: &y, accumulate }, packed);
                    }
                }
            } else {
                for panel in 0..panels {
                    pack::pack(pass, weight, panel, &mut packed[panel * size..][..size]);
                }
                for chunk in chunks(pass, &cut, range.clone()) {
                    let source = sources(pass, &cut, x, &chunk, copied);
                    for panel in 0..panels {
                        let packed = &packed[panel * size..][..size];
                        tiles(&ChunkWork { pass, cut: &cut, source, chunk: &chunk, panel, y: &y, accumulate }, packed);
                    }
                }
            }
        }
    });
}

/// Cuts rows of output pixels (of all images) into chunks: of whole images, or of rows of one image.
fn chunks(pass: &Pass, cut: &PassCut, rows: Range<usize>) -> impl Iterator<Item = Chunk> + use<> {
    let (height, images, most) = (pass.y.out, cut.images, cut.rows);
    let mut next = rows.start;
    std::iter::from_fn(move || {
        if next >= rows.end {
            return None;
        }
        let (image, row) = (next / height, next % height);
        let chunk = if row == 0 && most == height && rows.end - next >= height {
            let count = ((rows.end - next) / height).min(images);
            Chunk { images: image..image + count, rows: 0..height }
        } else {
            Chunk { images: image..image + 1, rows: row..(row + most).min(height).min(row + rows.end - next) }
        };
        next += chunk.images.len() * chunk.rows.len();
        Some(chunk)
    })
}

/// Where the chunk's first pixel gathers from, tap (0, 0): in the copy, which this makes, or where the source lies.
#[target_feature(enable = "avx512f")]
fn sources<E: Element<Wide = f32>>(
    pass: &Pass,
    cut: &PassCut,
    x: &[E],
    chunk: &Chunk,
    copied: &mut [f32],
) -> *const f32 {
    if cut.in_place {
        assert_eq!(TypeId::of::<E>(), TypeId::of::<f32>(), "only f32 is read in place");
        return x[cut.layout.at(chunk.images.start, chunk.rows.start, 0)..].as_ptr().cast();
    }
    copy(pass, &cut.layout, x, 0..pass.channels, chunk, copied);
    copied.as_ptr()
}

/// One chunk of pixels times one panel of weights.
struct ChunkWork<'a, E> {
    pass: &'a Pass,
    cut: &'a PassCut,
    source: *const f32,
    chunk: &'a Chunk,
    panel: usize,
    y: &'a SharedElements<E>,
    accumulate: bool,
}

/// Pixels of a row that one half of a tile sums.
#[derive(Clone, Copy)]
struct Half {
    source: *const f32,
    output: usize,
    count: usize,
}

/// Sums all pixels of a chunk, two halves of equal length at a time where there are two.
///
/// # Safety
/// AVX-512; the chunk's outputs of this panel are this thread's alone.
unsafe fn tiles<E: Element<Wide = f32>>(work: &ChunkWork<'_, E>, packed: &[f32]) {
    let ChunkWork { pass, cut, chunk, .. } = *work;
    let columns = pass.x.out;
    if columns == 0 {
        return;
    }
    let each = columns.div_ceil(columns.div_ceil(HALF));
    let (_, origin) = cut.layout.taps(pass);
    let mut held: Option<Half> = None;
    for (index, image) in chunk.images.clone().enumerate() {
        for (line, row) in chunk.rows.clone().enumerate() {
            for column in (0..columns).step_by(each) {
                let half = Half {
                    source: work.source.wrapping_add(cut.layout.at(index, line, column) + origin),
                    output: pass.output(image, row, column) + work.panel * pack::panel(pass),
                    count: each.min(columns - column),
                };
                // SAFETY: halves of this chunk; the caller's promise.
                unsafe {
                    match held.take() {
                        None if half.count == each => held = Some(half),
                        Some(first) if first.count == half.count => tile(work, packed, &[first, half]),
                        before => {
                            held = before;
                            tile(work, packed, &[half]);
                        }
                    }
                }
            }
        }
    }
    if let Some(half) = held {
        // SAFETY: as above.
        unsafe { tile(work, packed, &[half]) };
    }
}

/// Sums one tile: one or two halves.
///
/// # Safety
/// As [`tiles`].
unsafe fn tile<E: Element<Wide = f32>>(work: &ChunkWork<'_, E>, packed: &[f32], halves: &[Half]) {
    let ChunkWork { pass, cut, y, .. } = *work;
    let (first, last) = (halves[0], halves[halves.len() - 1]);
    let width = (pass.outputs - work.panel * pack::panel(pass)).min(pack::panel(pass));
    let apart = pass.x.place.1 * pass.outputs;
    let (tap_step, _) = cut.layout.taps(pass);
    let mut pixels = tile::Pixels {
        source: [first.source, last.source],
        step: cut.layout.step[1] * cut.layout.pixel,
        taps: [pass.y.taps, pass.runs()],
        tap_step,
        run: pass.run(),
        weights: packed.as_ptr(),
        sums: [first, last].map(|half| y.at(half.output).cast()),
        sums_step: apart,
        width,
        accumulate: work.accumulate,
    };
    let vectors = pack::vectors(pass.outputs);
    if TypeId::of::<E>() == TypeId::of::<f32>() {
        // SAFETY: sources, weights and sums lie inside their memory by how they were cut; sums are this thread's.
        return unsafe { tile::pixels(halves.len(), first.count, vectors, &pixels) };
    }
    // Narrow types: sums in f32 on the stack, then to their places.
    let mut sums = [[[0.0f32; 2 * LANES]; HALF]; 2];
    let outputs = |half: &Half, pixel: usize| {
        // SAFETY: inside y, this thread's alone.
        unsafe { y.part(half.output + pixel * apart, width) }
    };
    if work.accumulate {
        for (half, sums) in halves.iter().zip(&mut sums) {
            for (pixel, sums) in sums.iter_mut().take(half.count).enumerate() {
                sums.iter_mut().zip(outputs(half, pixel)).for_each(|(to, from)| *to = from.widen());
            }
        }
    }
    let [low, high] = &mut sums;
    pixels.sums = [low.as_mut_ptr().cast(), high.as_mut_ptr().cast()];
    pixels.sums_step = 2 * LANES;
    // SAFETY: as above, with sums on the stack.
    unsafe { tile::pixels(halves.len(), first.count, vectors, &pixels) };
    for (half, sums) in halves.iter().zip(&sums) {
        for (pixel, sums) in sums.iter().take(half.count).enumerate() {
            outputs(half, pixel).iter_mut().zip(sums).for_each(|(to, from)| *to = E::narrow(*from));
        }
    }
}
