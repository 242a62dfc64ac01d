//! What kernels fetch into the second cache while they multiply: the operands that are packed next. Packing would wait for
//! memory otherwise (weights of a model are in no cache when they are used), as long as it copies.

use super::super::product::Matrix;
use super::pack::Unit;
pub use super::plan::GROUP;

/// Bytes of a line of the cache.
pub const LINE: usize = 64;

/// Lines that one call of a kernel fetches, one every 16 units.
#[derive(Clone, Copy)]
pub struct Stream {
    /// The first line.
    pub at: *const u8,
    /// Bytes from one to the next.
    pub step: usize,
}

impl Stream {
    /// Nothing: the line that is given, which is in the cache, again and again.
    pub fn none(near: *const u32) -> Self {
        Self { at: near.cast(), step: 0 }
    }
}

/// A part of a matrix, handed out in streams of `lines` lines, evenly over the calls that are left.
pub struct Ahead {
    /// Where the next stream begins.
    at: *const u8,
    step: usize,
    /// From stream to stream, and how many follow each other so before the next run of them begins.
    apart: usize,
    part: usize,
    parts: usize,
    /// The first stream of the run, and from run to run.
    run: *const u8,
    stride: usize,
    left: usize,
    /// Calls, and how much of a stream is due, in as many parts.
    calls: usize,
    due: usize,
    all: usize,
}

impl Ahead {
    /// The first `rows` rows and `columns` columns of a matrix, for `calls` calls of `units` units. The elements of a
    /// row, or those of a column, lie one after another.
    pub fn new<E: Unit>(matrix: Matrix<E>, rows: usize, columns: usize, units: usize, calls: usize) -> Self {
        let (runs, stride, length) = match matrix.column {
            1 => (rows, matrix.row * size_of::<E>(), columns),
            _ => (columns, matrix.column * size_of::<E>(), rows),
        };
        let lines = units.div_ceil(GROUP);
        let of_run = (length * size_of::<E>()).div_ceil(LINE);
        // Along runs, or a line of each of several: whichever fetches less of what is not asked for.
        let (along, across) = (runs * of_run.div_ceil(lines), of_run * runs.div_ceil(lines));
        let (step, apart, parts, run, left) = if along <= across {
            (LINE, lines * LINE, of_run.div_ceil(lines), stride, along)
        } else {
            (stride, LINE, of_run, lines * stride, across)
        };
        let at = matrix.at.cast_const().cast();
        Self { at, step, apart, part: 0, parts, run: at, stride: run, left, calls, due: 0, all: left }
    }

    /// The streams of the next call; `none` where there are fewer.
    ///
    /// Given back, not written to memory: what is copied there after being written in parts waits until all stores before
    /// it have reached the cache, among them the results of the call before.
    #[inline(always)]
    pub fn streams<const N: usize>(ahead: &mut Option<Self>, none: Stream) -> [Stream; N] {
        let Some(ahead) = ahead else { return [none; N] };
        ahead.due += ahead.all;
        let streams = std::array::from_fn(|_| ahead.stream().unwrap_or(none));
        while ahead.stream().is_some() {}
        streams
    }

    /// The next stream, if one is due.
    #[inline]
    fn stream(&mut self) -> Option<Stream> {
        if self.due < self.calls || self.left == 0 {
            return None;
        }
        self.due -= self.calls;
        let stream = Stream { at: self.at, step: self.step };
        self.advance();
        Some(stream)
    }

    fn advance(&mut self) {
        self.left -= 1;
        self.part += 1;
        self.at = self.at.wrapping_add(self.apart);
        if self.part == self.parts {
            self.run = self.run.wrapping_add(self.stride);
            (self.at, self.part) = (self.run, 0);
        }
    }
}
