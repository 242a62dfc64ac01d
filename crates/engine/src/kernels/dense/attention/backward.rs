//! The backward pass: one part takes some key and value heads of some samples, with all query heads that read them, so that
//! gradients of keys and values are summed by one thread.
//!
//! With p the probabilities and d the gradient of the output: `dV = p' d`, `dp = d V'`, `ds = p (dp - rowsum(d O)) scale`,
//! `dQ = ds K`, `dK = ds' Q` (Dao, 2023, section 2.3).

use gemm_common::Parallelism;

use super::softmax::{Window, differentiate, dot};
use super::{COLUMNS, Exponential, Packed, ROWS, columns, is_narrow, row, row_mut, scale, take, visible, wide};
use crate::buffer::View;
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::kernels::dense::product::{Matrix, Size, product};
use crate::kernels::dense::widened;
use crate::memory::Memory;
use crate::op::Attention;

/// Elements of the wide type that a part takes.
pub(super) fn scratch(op: &Attention, narrow: bool) -> usize {
    let (rows, columns) = (op.sequence.min(ROWS), op.sequence.min(COLUMNS));
    let copies = if narrow { 7 * op.sequence * op.head_width } else { 0 };
    2 * rows * columns + rows + copies
}

/// What all parts share.
struct BackwardPass<'a, E: Element> {
    op: &'a Attention,
    qkv: Packed<E>,
    d_qkv: Packed<E>,
    output: Matrix<E>,
    d_output: Matrix<E>,
    log_sum: Matrix<E::Wide>,
}

/// A part's scratch: two tiles, and narrow types' operands and sums in the wide type.
struct Tiles<'a, W> {
    scores: &'a mut [W],
    d_scores: &'a mut [W],
    delta: &'a mut [W],
    query: &'a mut [W],
    key: &'a mut [W],
    value: &'a mut [W],
    d_output: &'a mut [W],
    d_query: &'a mut [W],
    d_key: &'a mut [W],
    d_value: &'a mut [W],
}

impl<'a, W> Tiles<'a, W> {
    fn new(op: &Attention, narrow: bool, mut rest: &'a mut [W]) -> Self {
        let (rows, columns) = (op.sequence.min(ROWS), op.sequence.min(COLUMNS));
        let copy = if narrow { op.sequence * op.head_width } else { 0 };
        Self {
            scores: take(&mut rest, rows * columns),
            d_scores: take(&mut rest, rows * columns),
            delta: take(&mut rest, rows),
            query: take(&mut rest, copy),
            key: take(&mut rest, copy),
            value: take(&mut rest, copy),
            d_output: take(&mut rest, copy),
            d_query: take(&mut rest, copy),
            d_key: take(&mut rest, copy),
            d_value: take(&mut rest, copy),
        }
    }
}

/// One head's operands and gradients, in the wide type.
#[derive(Clone, Copy)]
struct Head<W> {
    query: Matrix<W>,
    key: Matrix<W>,
    value: Matrix<W>,
    d_output: Matrix<W>,
    d_query: Matrix<W>,
    d_key: Matrix<W>,
    d_value: Matrix<W>,
    log_sum: Matrix<W>,
}

/// Runs it.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Element<Wide: Exponential>>(
    op: &Attention,
    d_output: View,
    d_qkv: View,
    memory: &Memory,
    context: &Context<'_>,
) {
    let width = op.heads * op.head_width;
    // SAFETY: the caller's.
    let pass = unsafe {
        BackwardPass::<E> {
            op,
            qkv: Packed::new(op, memory.read::<E>(op.qkv).as_ptr().cast_mut()),
            d_qkv: Packed::new(op, memory.write::<E>(d_qkv).as_mut_ptr()),
            output: Matrix::rows(memory.read::<E>(op.output).as_ptr().cast_mut(), width),
            d_output: Matrix::rows(memory.read::<E>(d_output).as_ptr().cast_mut(), width),
            log_sum: Matrix::rows(memory.read::<E::Wide>(op.log_sum).as_ptr().cast_mut(), op.sequence),
        }
    };
    let pass = &pass;
    context.split(op.batch * op.kv_heads, 1, |part, items| {
        // SAFETY: one thread a part.
        let area = unsafe { context.area(part, scratch(op, is_narrow::<E>())) };
        let mut tiles = Tiles::new(op, is_narrow::<E>(), area);
        for item in items {
            // SAFETY: heads of samples are written by the part that has them.
            unsafe { pass.group(item / op.kv_heads, item % op.kv_heads, &mut tiles) };
        }
    });
}

/// Where sums of a gradient are made: at their place, or in `room`.
fn sums<E: Element>(place: Matrix<E>, width: usize, room: &mut [E::Wide]) -> Matrix<E::Wide> {
    if is_narrow::<E>() {
        Matrix::rows(room.as_mut_ptr(), width)
    } else {
        Matrix { at: place.at.cast(), row: place.row, column: place.column }
    }
}

impl<E: Element<Wide: Exponential>> BackwardPass<'_, E> {
    /// One key and value head of one sample.
    ///
    /// # Safety
    /// Nobody else writes the gradients of its heads; so for the rest.
    unsafe fn group(&self, sample: usize, kv_head: usize, tiles: &mut Tiles<'_, E::Wide>) {
        let Attention { sequence, head_width: width, heads, kv_heads, .. } = *self.op;
        let group = heads / kv_heads;
        let (key_place, value_place) = (self.d_qkv.key(sample, kv_head), self.d_qkv.value(sample, kv_head));
        // SAFETY: the sample's rows and the heads' columns lie inside; copies have room for a head.
        unsafe {
            let key = wide(self.qkv.key(sample, kv_head), sequence, width, tiles.key);
            let value = wide(self.qkv.value(sample, kv_head), sequence, width, tiles.value);
            let (d_key, d_value) = (sums(key_place, width, tiles.d_key), sums(value_place, width, tiles.d_value));
            for i in 0..sequence {
                row_mut(d_key, i, width).fill(E::Wide::ZERO);
                row_mut(d_value, i, width).fill(E::Wide::ZERO);
            }
            for head in kv_head * group..(kv_head + 1) * group {
                let query_place = self.d_qkv.query(sample, head);
                let d_output = self.d_output.from(sample * sequence, head * width);
                let operands = Head {
                    query: wide(self.qkv.query(sample, head), sequence, width, tiles.query),
                    key,
                    value,
                    d_output: wide(d_output, sequence, width, tiles.d_output),
                    d_query: sums(query_place, width, tiles.d_query),
                    d_key,
                    d_value,
                    log_sum: self.log_sum.from(sample * heads + head, 0),
                };
                for first in (0..sequence).step_by(ROWS) {
                    let rows = ROWS.min(sequence - first);
                    self.delta(sample, head, first, &mut tiles.delta[..rows]);
                    self.rows(first, rows, &operands, tiles);
                }
                self.store(operands.d_query, query_place);
            }
            self.store(d_key, key_place);
            self.store(d_value, value_place);
        }
    }

    /// `rowsum(d_output output)` of some rows.
    unsafe fn delta(&self, sample: usize, head: usize, first: usize, delta: &mut [E::Wide]) {
        let Attention { sequence, head_width: width, .. } = *self.op;
        let (i, j) = (sample * sequence + first, head * width);
        for (r, delta) in delta.iter_mut().enumerate() {
            // SAFETY: this head's rows.
            let (output, d_output) =
                unsafe { (row(self.output.from(i, j), r, width), row(self.d_output.from(i, j), r, width)) };
            *delta = dot(output, d_output);
        }
    }

    /// What some rows add to all gradients.
    unsafe fn rows(&self, first: usize, rows: usize, head: &Head<E::Wide>, tiles: &mut Tiles<'_, E::Wide>) {
        let width = self.op.head_width;
        let one = E::Wide::ONE;
        let end = columns(self.op, first + rows);
        for column in (0..end).step_by(COLUMNS) {
            let count = COLUMNS.min(end - column);
            let (scores, d_scores) = (&mut tiles.scores[..rows * count], &mut tiles.d_scores[..rows * count]);
            let tile = Matrix::rows(scores.as_mut_ptr(), count);
            let d_tile = Matrix::rows(d_scores.as_mut_ptr(), count);
            // SAFETY: tiles of the head's rows and columns.
            unsafe {
                let (query, d_output) = (head.query.from(first, 0), head.d_output.from(first, 0));
                let (key, value) = (head.key.from(column, 0), head.value.from(column, 0));
                let size = Size { m: rows, n: count, k: width };
                product(size, tile, query, key.transposed(), one, false, Parallelism::None);
                product(size, d_tile, d_output, value.transposed(), one, false, Parallelism::None);
                let log_sum = row(head.log_sum.from(0, first), 0, rows);
                let window =
                    Window { stride: count, columns: count, padded: count, visible: visible(self.op, first, column) };
                differentiate(scores, d_scores, window, scale(self.op), log_sum, tiles.delta);
                let size = Size { m: count, n: width, k: rows };
                product(size, head.d_value.from(column, 0), tile.transposed(), d_output, one, true, Parallelism::None);
                product(size, head.d_key.from(column, 0), d_tile.transposed(), query, one, true, Parallelism::None);
                let size = Size { m: rows, n: width, k: count };
                product(size, head.d_query.from(first, 0), d_tile, key, one, column > 0, Parallelism::None);
            }
        }
    }

    /// Rounds sums that were not made at their place.
    unsafe fn store(&self, sums: Matrix<E::Wide>, place: Matrix<E>) {
        if !is_narrow::<E>() {
            return;
        }
        let width = self.op.head_width;
        for i in 0..self.op.sequence {
            // SAFETY: this head's rows.
            unsafe { widened::narrow(row(sums, i, width), row_mut(place, i, width)) };
        }
    }
}
