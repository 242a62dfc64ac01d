//! Attention of f32 and bf16 by our own kernels: keys and values are packed once a head, and tiles of scores are operands
//! where they are.

use super::softmax::{RunningSoftmax, Window, accumulate, differentiate, dot};
use super::{Packed, ROWS, columns, row, row_mut, scale, take, visible};
use crate::buffer::View;
use crate::context::Context;
use crate::kernels::dense::packed::strip::{MOST_UNITS, Right, Session, left, right, right_len, rounded, units};
use crate::kernels::dense::packed::{Kernel, STRIDE, Unit};
use crate::kernels::dense::product::Matrix;
use crate::memory::Memory;
use crate::op::Attention;

/// Columns of a tile of scores: a multiple of `ROWS`, and few enough to be an operand.
const COLUMNS: usize = 256;

/// f32 of a tile of scores, or of another left operand of as many rows.
const TILE: usize = ROWS * STRIDE;

/// Rounded up to whole panels.
fn padded(len: usize) -> usize {
    len.next_multiple_of(32)
}

/// The kernel for this type and size, if the CPU has one.
pub(super) fn kernel<E: Unit>(op: &Attention) -> Option<Kernel> {
    // The fastest of those that multiply operands that the caller packs.
    let kernel = Kernel::all::<E>().iter().copied().find(|kernel| *kernel != Kernel::Bf16x6);
    kernel.filter(|_| units::<E>(op.head_width) <= MOST_UNITS)
}

/// f32 that a part of the forward pass takes.
pub(super) fn forward_scratch<E: Unit>(op: &Attention) -> usize {
    let (sequence, width) = (padded(op.sequence), op.head_width);
    let packed = right_len::<E>(width, sequence) + right_len::<E>(sequence, width);
    packed + (1 + E::PER) * TILE + ROWS * padded(width) + 2 * ROWS
}

/// f32 that a part of the backward pass takes.
pub(super) fn backward_scratch<E: Unit>(op: &Attention) -> usize {
    let (sequence, width) = (padded(op.sequence), op.head_width);
    let packed = 2 * right_len::<E>(width, sequence) + right_len::<E>(sequence, width);
    let tiles = 2 * TILE + 2 * E::PER * TILE + COLUMNS * STRIDE + 2 * right_len::<E>(ROWS, width);
    packed + tiles + (ROWS + 2 * sequence) * padded(width) + ROWS
}

/// The tiles of columns that some rows see: the first column of each, and what of it there is.
fn windows(op: &Attention, first: usize, rows: usize) -> impl Iterator<Item = (usize, Window)> {
    let end = columns(op, first + rows);
    (0..end).step_by(COLUMNS).map(move |column| {
        let columns = COLUMNS.min(end - column);
        let visible = visible(op, first, column);
        (column, Window { stride: STRIDE, columns, padded: padded(columns), visible })
    })
}

/// What all parts of the forward pass share.
struct Forward<'a, E> {
    op: &'a Attention,
    qkv: Packed<E>,
    output: Matrix<E>,
    log_sum: Matrix<f32>,
}

/// A part's scratch in the forward pass.
struct ForwardTiles<'a> {
    key: &'a mut [f32],
    value: &'a mut [f32],
    query: &'a mut [f32],
    scores: &'a mut [f32],
    narrow: &'a mut [f32],
    output: &'a mut [f32],
    largest: &'a mut [f32],
    sum: &'a mut [f32],
}

impl<'a> ForwardTiles<'a> {
    fn new<E: Unit>(op: &Attention, mut rest: &'a mut [f32]) -> Self {
        let (sequence, width) = (padded(op.sequence), op.head_width);
        Self {
            key: take(&mut rest, right_len::<E>(width, sequence)),
            value: take(&mut rest, right_len::<E>(sequence, width)),
            query: take(&mut rest, TILE),
            scores: take(&mut rest, TILE),
            narrow: take(&mut rest, (E::PER - 1) * TILE),
            output: take(&mut rest, ROWS * padded(width)),
            largest: take(&mut rest, ROWS),
            sum: take(&mut rest, ROWS),
        }
    }
}

/// The forward pass.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
pub(super) unsafe fn forward<E: Unit>(kernel: Kernel, op: &Attention, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's.
    let pass = unsafe {
        Forward::<E> {
            op,
            qkv: Packed::new(op, memory.read::<E>(op.qkv).as_ptr().cast_mut()),
            output: Matrix::rows(memory.write::<E>(op.output).as_mut_ptr(), op.heads * op.head_width),
            log_sum: Matrix::rows(memory.write::<f32>(op.log_sum).as_mut_ptr(), op.sequence),
        }
    };
    let pass = &pass;
    context.split(op.batch * op.heads, 1, |part, items| {
        // SAFETY: one thread a part; the CPU has the kernel; heads are written by the part that has them.
        unsafe {
            let mut tiles = ForwardTiles::new::<E>(op, context.area(part, forward_scratch::<E>(op)));
            let session = Session::new(kernel);
            for item in items {
                pass.head(&session, item / op.heads, item % op.heads, &mut tiles);
            }
        }
    });
}

impl<E: Unit> Forward<'_, E> {
    /// One head of one sample.
    ///
    /// # Safety
    /// Nobody else writes its output; so for the rest.
    unsafe fn head(&self, session: &Session, sample: usize, head: usize, tiles: &mut ForwardTiles<'_>) {
        let Attention { sequence, head_width: width, heads, kv_heads, .. } = *self.op;
        let kv_head = head / (heads / kv_heads);
        // SAFETY: the sample's rows and the head's columns lie inside.
        unsafe {
            let key = self.qkv.key(sample, kv_head).transposed();
            right(key, sequence, width, units::<E>(width), tiles.key);
            right(self.qkv.value(sample, kv_head), width, sequence, units::<E>(padded(sequence)), tiles.value);
            for first in (0..sequence).step_by(ROWS) {
                let rows = ROWS.min(sequence - first);
                left(self.qkv.query(sample, head).from(first, 0), rows, width, tiles.query);
                self.rows(session, first, rows, tiles);
                self.finish(sample, head, first, rows, tiles);
            }
        }
    }

    /// Unnormalised output, largest score and sum of some rows.
    unsafe fn rows(&self, session: &Session, first: usize, rows: usize, tiles: &mut ForwardTiles<'_>) {
        let Attention { sequence, head_width, .. } = *self.op;
        let (deep, width) = (units::<E>(head_width), padded(head_width));
        for (column, window) in windows(self.op, first, rows) {
            let mut running = RunningSoftmax {
                largest: tiles.largest,
                sum: tiles.sum,
                output: tiles.output,
                width,
                first: column == 0,
            };
            // SAFETY: tiles of the head's rows and columns, all padded.
            unsafe {
                let scores = Matrix::rows(tiles.scores.as_mut_ptr(), STRIDE);
                let key = Right::new(tiles.key, deep, 0, column / 32);
                session.multiply((rows, window.padded, deep), tiles.query.as_ptr(), key, scores, false);
                accumulate(&mut tiles.scores[..rows * STRIDE], window, scale(self.op), &mut running);
                let p = rounded::<E>(tiles.scores, rows, window.padded, tiles.narrow.as_mut_ptr());
                let value = Right::new(tiles.value, units::<E>(padded(sequence)), column / E::PER, 0);
                let output = Matrix::rows(tiles.output.as_mut_ptr(), width);
                session.multiply((rows, width, window.padded / E::PER), p.cast(), value, output, column > 0);
            }
        }
    }

    /// Divides by the sum, and writes output and log of the sum.
    unsafe fn finish(&self, sample: usize, head: usize, first: usize, rows: usize, tiles: &ForwardTiles<'_>) {
        let Attention { sequence, head_width: width, heads, .. } = *self.op;
        for i in 0..rows {
            // SAFETY: this head's rows.
            unsafe {
                let output = row_mut(self.output.from(sample * sequence + first, head * width), i, width);
                scaled(&tiles.output[i * padded(width)..], 1.0 / tiles.sum[i], output);
                let log_sum = self.log_sum.from(sample * heads + head, first + i).at;
                log_sum.write(tiles.largest[i] + tiles.sum[i].ln());
            }
        }
    }
}

/// What all parts of the backward pass share.
struct Backward<'a, E> {
    op: &'a Attention,
    qkv: Packed<E>,
    d_qkv: Packed<E>,
    output: Matrix<E>,
    d_output: Matrix<E>,
    log_sum: Matrix<f32>,
}

/// A part's scratch in the backward pass. `_left` and `_right` say as which operand a matrix is packed.
struct BackwardTiles<'a> {
    key_across: &'a mut [f32],
    value_across: &'a mut [f32],
    key: &'a mut [f32],
    query_left: &'a mut [f32],
    d_output_left: &'a mut [f32],
    query_right: &'a mut [f32],
    d_output_right: &'a mut [f32],
    scores: &'a mut [f32],
    d_scores: &'a mut [f32],
    narrow: &'a mut [f32],
    d_narrow: &'a mut [f32],
    turned: &'a mut [f32],
    d_query: &'a mut [f32],
    d_key: &'a mut [f32],
    d_value: &'a mut [f32],
    delta: &'a mut [f32],
}

impl<'a> BackwardTiles<'a> {
    fn new<E: Unit>(op: &Attention, mut rest: &'a mut [f32]) -> Self {
        let (sequence, width) = (padded(op.sequence), op.head_width);
        let narrow = (E::PER - 1) * TILE;
        Self {
            key_across: take(&mut rest, right_len::<E>(width, sequence)),
            value_across: take(&mut rest, right_len::<E>(width, sequence)),
            key: take(&mut rest, right_len::<E>(sequence, width)),
            query_left: take(&mut rest, TILE),
            d_output_left: take(&mut rest, TILE),
            query_right: take(&mut rest, right_len::<E>(ROWS, width)),
            d_output_right: take(&mut rest, right_len::<E>(ROWS, width)),
            scores: take(&mut rest, TILE),
            d_scores: take(&mut rest, TILE),
            narrow: take(&mut rest, narrow),
            d_narrow: take(&mut rest, narrow),
            turned: take(&mut rest, COLUMNS * STRIDE),
            d_query: take(&mut rest, ROWS * padded(width)),
            d_key: take(&mut rest, sequence * padded(width)),
            d_value: take(&mut rest, sequence * padded(width)),
            delta: take(&mut rest, ROWS),
        }
    }
}

/// The backward pass; formulas as in `backward`.
///
/// # Safety
/// As [`crate::execute`]; the CPU has the kernel.
pub(super) unsafe fn backward<E: Unit>(
    kernel: Kernel,
    op: &Attention,
    d_output: View,
    d_qkv: View,
    memory: &Memory,
    context: &Context<'_>,
) {
    let width = op.heads * op.head_width;
    // SAFETY: the caller's.
    let pass = unsafe {
        Backward::<E> {
            op,
            qkv: Packed::new(op, memory.read::<E>(op.qkv).as_ptr().cast_mut()),
            d_qkv: Packed::new(op, memory.write::<E>(d_qkv).as_mut_ptr()),
            output: Matrix::rows(memory.read::<E>(op.output).as_ptr().cast_mut(), width),
            d_output: Matrix::rows(memory.read::<E>(d_output).as_ptr().cast_mut(), width),
            log_sum: Matrix::rows(memory.read::<f32>(op.log_sum).as_ptr().cast_mut(), op.sequence),
        }
    };
    let pass = &pass;
    context.split(op.batch * op.kv_heads, 1, |part, items| {
        // SAFETY: one thread a part; the CPU has the kernel; heads are written by the part that has them.
        unsafe {
            let mut tiles = BackwardTiles::new::<E>(op, context.area(part, backward_scratch::<E>(op)));
            let session = Session::new(kernel);
            for item in items {
                pass.group(&session, item / op.kv_heads, item % op.kv_heads, &mut tiles);
            }
        }
    });
}

impl<E: Unit> Backward<'_, E> {
    /// One key and value head of one sample, with all query heads that read it.
    ///
    /// # Safety
    /// Nobody else writes the gradients of its heads; so for the rest.
    unsafe fn group(&self, session: &Session, sample: usize, kv_head: usize, tiles: &mut BackwardTiles<'_>) {
        let Attention { sequence, head_width: width, heads, kv_heads, .. } = *self.op;
        let group = heads / kv_heads;
        // SAFETY: the sample's rows and the heads' columns lie inside.
        unsafe {
            let (key, value) = (self.qkv.key(sample, kv_head), self.qkv.value(sample, kv_head));
            right(key.transposed(), sequence, width, units::<E>(width), tiles.key_across);
            right(value.transposed(), sequence, width, units::<E>(width), tiles.value_across);
            right(key, width, sequence, units::<E>(padded(sequence)), tiles.key);
            tiles.d_key.fill(0.0);
            tiles.d_value.fill(0.0);
            for head in kv_head * group..(kv_head + 1) * group {
                for first in (0..sequence).step_by(ROWS) {
                    let rows = ROWS.min(sequence - first);
                    self.begin(sample, head, first, rows, tiles);
                    self.rows(session, sample * heads + head, first, rows, tiles);
                    store(tiles.d_query, self.d_qkv.query(sample, head).from(first, 0), rows, width);
                }
            }
            store(tiles.d_key, self.d_qkv.key(sample, kv_head), sequence, width);
            store(tiles.d_value, self.d_qkv.value(sample, kv_head), sequence, width);
        }
    }

    /// Packs some rows of query and gradient of the output; `delta = rowsum(d_output output)`.
    unsafe fn begin(&self, sample: usize, head: usize, first: usize, rows: usize, tiles: &mut BackwardTiles<'_>) {
        let Attention { sequence, head_width: width, .. } = *self.op;
        let (i, j) = (sample * sequence + first, head * width);
        // SAFETY: this head's rows.
        unsafe {
            let query = self.qkv.query(sample, head).from(first, 0);
            let (output, d_output) = (self.output.from(i, j), self.d_output.from(i, j));
            left(query, rows, width, tiles.query_left);
            left(d_output, rows, width, tiles.d_output_left);
            right(query, width, rows, units::<E>(ROWS), tiles.query_right);
            right(d_output, width, rows, units::<E>(ROWS), tiles.d_output_right);
            dots(output, d_output, width, &mut tiles.delta[..rows]);
        }
    }

    /// What some rows add to all gradients.
    unsafe fn rows(&self, session: &Session, log_row: usize, first: usize, rows: usize, tiles: &mut BackwardTiles<'_>) {
        let Attention { sequence, head_width, .. } = *self.op;
        let (deep, width) = (units::<E>(head_width), padded(head_width));
        for (column, window) in windows(self.op, first, rows) {
            // SAFETY: tiles of the head's rows and columns, all padded.
            unsafe {
                let scores = Matrix::rows(tiles.scores.as_mut_ptr(), STRIDE);
                let d_scores = Matrix::rows(tiles.d_scores.as_mut_ptr(), STRIDE);
                let size = (rows, window.padded, deep);
                let key = Right::new(tiles.key_across, deep, 0, column / 32);
                session.multiply(size, tiles.query_left.as_ptr(), key, scores, false);
                let value = Right::new(tiles.value_across, deep, 0, column / 32);
                session.multiply(size, tiles.d_output_left.as_ptr(), value, d_scores, false);
                let (p, d) = (&mut tiles.scores[..rows * STRIDE], &mut tiles.d_scores[..rows * STRIDE]);
                let log_sum = row(self.log_sum.from(log_row, first), 0, rows);
                differentiate(p, d, window, scale(self.op), log_sum, tiles.delta);
                let p = rounded::<E>(p, rows, window.padded, tiles.narrow.as_mut_ptr());
                let d = rounded::<E>(d, rows, window.padded, tiles.d_narrow.as_mut_ptr());
                let d_query = Matrix::rows(tiles.d_query.as_mut_ptr(), width);
                let key = Right::new(tiles.key, units::<E>(padded(sequence)), column / E::PER, 0);
                session.multiply((rows, width, window.padded / E::PER), d.cast(), key, d_query, column > 0);
                // Tiles turned: what adds to each key and value.
                let below = (window.padded, width, units::<E>(rows));
                for (tile, operand, sums) in
                    [(p, &*tiles.d_output_right, &mut *tiles.d_value), (d, &*tiles.query_right, &mut *tiles.d_key)]
                {
                    let tile = Matrix::rows(tile, STRIDE * E::PER).transposed();
                    left(tile, window.padded, rows, tiles.turned);
                    let operand = Right::new(operand, units::<E>(ROWS), 0, 0);
                    let sums = Matrix::rows(sums[column * width..].as_mut_ptr(), width);
                    session.multiply(below, tiles.turned.as_ptr(), operand, sums, true);
                }
            }
        }
    }
}

/// Rounds sums, rows of whole panels, to where they belong.
unsafe fn store<E: Unit>(sums: &[f32], place: Matrix<E>, rows: usize, width: usize) {
    for (i, sums) in sums.chunks(padded(width)).take(rows).enumerate() {
        // SAFETY: this head's rows.
        unsafe { scaled(sums, 1.0, row_mut(place, i, width)) };
    }
}

/// `to = factor from`, rounded.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL, as for every kernel.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn scaled<E: Unit>(from: &[f32], factor: f32, to: &mut [E]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = E::narrow(*from * factor));
}

/// Products of each row of a with its row of b.
///
/// # Safety
/// As `scaled`; the rows lie inside.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn dots<E: Unit>(a: Matrix<E>, b: Matrix<E>, width: usize, out: &mut [f32]) {
    for (i, out) in out.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *out = unsafe { dot(row(a, i, width), row(b, i, width)) };
    }
}
