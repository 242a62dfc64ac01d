//! The forward pass: one part takes some heads of some samples.

use gemm_common::Parallelism;

use super::softmax::{RunningSoftmax, Window, accumulate};
use super::{COLUMNS, Exponential, Packed, ROWS, columns, is_narrow, row_mut, scale, take, visible, wide};
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::kernels::dense::product::{Matrix, Size, product};
use crate::memory::Memory;
use crate::op::Attention;

/// Elements of the wide type that a part takes.
pub(super) fn scratch(op: &Attention, narrow: bool) -> usize {
    let (rows, columns) = (op.sequence.min(ROWS), op.sequence.min(COLUMNS));
    let copies = if narrow { 2 * op.sequence + rows } else { 0 };
    rows * columns + (rows + copies) * op.head_width + 2 * rows
}

/// What all parts share.
struct ForwardPass<'a, E: Element> {
    op: &'a Attention,
    qkv: Packed<E>,
    output: Matrix<E>,
    log_sum: Matrix<E::Wide>,
}

/// A part's scratch.
struct Tiles<'a, W> {
    scores: &'a mut [W],
    output: &'a mut [W],
    largest: &'a mut [W],
    sum: &'a mut [W],
    key: &'a mut [W],
    value: &'a mut [W],
    query: &'a mut [W],
}

impl<'a, W> Tiles<'a, W> {
    fn new(op: &Attention, narrow: bool, mut rest: &'a mut [W]) -> Self {
        let (rows, width) = (op.sequence.min(ROWS), op.head_width);
        let copy = if narrow { op.sequence * width } else { 0 };
        Self {
            scores: take(&mut rest, rows * op.sequence.min(COLUMNS)),
            output: take(&mut rest, rows * width),
            largest: take(&mut rest, rows),
            sum: take(&mut rest, rows),
            key: take(&mut rest, copy),
            value: take(&mut rest, copy),
            query: take(&mut rest, if narrow { rows * width } else { 0 }),
        }
    }
}

/// Runs it.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Element<Wide: Exponential>>(op: &Attention, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's.
    let pass = unsafe {
        ForwardPass::<E> {
            op,
            qkv: Packed::new(op, memory.read::<E>(op.qkv).as_ptr().cast_mut()),
            output: Matrix::rows(memory.write::<E>(op.output).as_mut_ptr(), op.heads * op.head_width),
            log_sum: Matrix::rows(memory.write::<E::Wide>(op.log_sum).as_mut_ptr(), op.sequence),
        }
    };
    let pass = &pass;
    context.split(op.batch * op.heads, 1, |part, items| {
        // SAFETY: one thread a part.
        let area = unsafe { context.area(part, scratch(op, is_narrow::<E>())) };
        let mut tiles = Tiles::new(op, is_narrow::<E>(), area);
        for item in items {
            // SAFETY: heads of samples are written by the part that has them.
            unsafe { pass.head(item / op.heads, item % op.heads, &mut tiles) };
        }
    });
}

impl<E: Element<Wide: Exponential>> ForwardPass<'_, E> {
    /// One head of one sample.
    ///
    /// # Safety
    /// Nobody else writes its output; so for the rest.
    unsafe fn head(&self, sample: usize, head: usize, tiles: &mut Tiles<'_, E::Wide>) {
        let Attention { sequence, head_width: width, heads, kv_heads, .. } = *self.op;
        let kv_head = head / (heads / kv_heads);
        // SAFETY: the sample's rows and the head's columns lie inside.
        unsafe {
            let key = wide(self.qkv.key(sample, kv_head), sequence, width, tiles.key);
            let value = wide(self.qkv.value(sample, kv_head), sequence, width, tiles.value);
            for first in (0..sequence).step_by(ROWS) {
                let rows = ROWS.min(sequence - first);
                let query = wide(self.qkv.query(sample, head).from(first, 0), rows, width, tiles.query);
                self.rows(first, rows, query, key, value, tiles);
                self.finish(sample, head, first, rows, tiles);
            }
        }
    }

    /// Unnormalised output, largest score and sum of some rows.
    unsafe fn rows(
        &self,
        first: usize,
        rows: usize,
        query: Matrix<E::Wide>,
        key: Matrix<E::Wide>,
        value: Matrix<E::Wide>,
        tiles: &mut Tiles<'_, E::Wide>,
    ) {
        let width = self.op.head_width;
        let end = columns(self.op, first + rows);
        for column in (0..end).step_by(COLUMNS) {
            let count = COLUMNS.min(end - column);
            let scores = &mut tiles.scores[..rows * count];
            let tile = Matrix::rows(scores.as_mut_ptr(), count);
            let output = Matrix::rows(tiles.output.as_mut_ptr(), width);
            // SAFETY: tiles of the head's rows and columns.
            unsafe {
                let size = Size { m: rows, n: count, k: width };
                let across = key.from(column, 0).transposed();
                product(size, tile, query, across, E::Wide::ONE, false, Parallelism::None);
                let mut running = RunningSoftmax {
                    largest: tiles.largest,
                    sum: tiles.sum,
                    output: tiles.output,
                    width,
                    first: column == 0,
                };
                let window =
                    Window { stride: count, columns: count, padded: count, visible: visible(self.op, first, column) };
                accumulate(scores, window, scale(self.op), &mut running);
                let size = Size { m: rows, n: width, k: count };
                product(size, output, tile, value.from(column, 0), E::Wide::ONE, column > 0, Parallelism::None);
            }
        }
    }

    /// Divides by the sum, and writes output and log of the sum.
    unsafe fn finish(&self, sample: usize, head: usize, first: usize, rows: usize, tiles: &Tiles<'_, E::Wide>) {
        let Attention { sequence, head_width: width, heads, .. } = *self.op;
        for i in 0..rows {
            // SAFETY: this head's rows.
            let (output, log_sum) = unsafe {
                let output = self.output.from(sample * sequence + first, head * width);
                (row_mut(output, i, width), self.log_sum.from(sample * heads + head, first + i).at)
            };
            let factor = E::Wide::ONE / tiles.sum[i];
            let from = &tiles.output[i * width..(i + 1) * width];
            output.iter_mut().zip(from).for_each(|(to, from)| *to = E::narrow(*from * factor));
            // SAFETY: as above.
            unsafe { log_sum.write(tiles.largest[i] + tiles.sum[i].logarithm()) };
        }
    }
}
