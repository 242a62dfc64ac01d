//! Embeddings: rows of a table, and the sums of their gradients.

use super::grain;
use crate::context::Context;
use crate::kernels::simd::{Number, Raw, versions};
use crate::memory::Memory;
use crate::op::Rows;

/// Row of the table that a token has; None if the token is another part's.
fn row_of(token: i32, first: usize, count: usize) -> Option<usize> {
    usize::try_from(token).ok()?.checked_sub(first).filter(|row| *row < count)
}

versions! {
    fn sum_row<I, E: Number>(y: &mut [E], table: &[E], position: &[E], segment: &[E]) {
        // Rounded once, whatever is added.
        for (((y, table), position), segment) in y.iter_mut().zip(table).zip(position).zip(segment) {
            *y = E::store(table.load() + position.load() + segment.load());
        }
    }
}

versions! {
    fn sum_two<I, E: Number>(y: &mut [E], a: &[E], b: &[E]) {
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = E::store(a.load() + b.load());
        }
    }
}

/// `y = sum of the rows that there are`.
fn combine<E: Number>(y: &mut [E], rows: [Option<&[E]>; 3]) {
    match rows {
        [Some(a), Some(b), Some(c)] => sum_row(y, a, b, c),
        [Some(a), Some(b), None] | [Some(a), None, Some(b)] | [None, Some(a), Some(b)] => sum_two(y, a, b),
        [Some(a), None, None] | [None, Some(a), None] | [None, None, Some(a)] => y.copy_from_slice(a),
        [None, None, None] => y.fill(E::default()),
    }
}

/// Runs `EmbeddingForward`.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn forward<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::EmbeddingForward { tokens, table, positions, segments, y, width, sequence, first } = op else {
        unreachable!("{op:?} is of another module")
    };
    let width = *width;
    // SAFETY: the caller's promise; parts write disjoint rows.
    let (tokens, table, positions, segments, y) = unsafe {
        let read = |view| memory.read::<E>(view);
        (memory.read::<i32>(*tokens), read(*table), positions.map(read), segments.map(read), Raw::<E>::new(memory, *y))
    };
    assert_eq!(y.len(), tokens.len() * width, "a row a token");
    context.split(tokens.len(), grain(width), |_, rows| {
        for row in rows {
            // SAFETY: as above.
            let y = unsafe { y.slice_mut(row * width..(row + 1) * width) };
            let embedded = row_of(tokens[row], *first, table.len() / width).map(|at| &table[at * width..][..width]);
            let position = positions.map(|positions| &positions[row % sequence * width..][..width]);
            combine(y, [embedded, position, segments.map(|segments| &segments[..width])]);
        }
    });
}

versions! {
    fn add_to<I, E: Number>(sums: &mut [E::Wide], dy: &[E]) {
        for (sum, dy) in sums.iter_mut().zip(dy) {
            *sum += dy.load();
        }
    }
}

/// Columns that a part's share is a multiple of: whole cache lines of every type.
const COLUMNS: usize = 64;

/// Runs `EmbeddingBackward`. Tokens repeat, so parts of rows would race: each part adds all rows, in their order, in
/// its own columns. The result does not depend on the number of threads.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn backward<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::EmbeddingBackward { tokens, dy, d_table, d_positions, d_segments, width, sequence, first } = op else {
        unreachable!("{op:?} is of another module")
    };
    let width = *width;
    // SAFETY: the caller's promise; parts change disjoint columns.
    let (tokens, dy, table, others) = unsafe {
        let raw = |view| Raw::<E::Wide>::new(memory, view);
        (memory.read::<i32>(*tokens), memory.read::<E>(*dy), raw(*d_table), [d_positions.map(raw), d_segments.map(raw)])
    };
    assert_eq!(dy.len(), tokens.len() * width, "a row a token");
    let grain = if tokens.len() * width < 2 * super::GRAIN { width } else { COLUMNS };
    context.split(width, grain, |_, columns| {
        let add = |sums: Raw<E::Wide>, at: usize, dy: &[E]| {
            // SAFETY: as above.
            add_to(unsafe { sums.slice_mut(at * width + columns.start..at * width + columns.end) }, dy);
        };
        for (row, token) in tokens.iter().enumerate() {
            let dy = &dy[row * width + columns.start..row * width + columns.end];
            if let Some(at) = row_of(*token, *first, table.len() / width) {
                add(table, at, dy);
            }
            if let Some(positions) = others[0] {
                add(positions, row % sequence, dy);
            }
            if let Some(segments) = others[1] {
                add(segments, 0, dy);
            }
        }
    });
}
