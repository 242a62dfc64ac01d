//! Sums over rows, column by column, in parts that are then added in order.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::grain;
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Number, Raw, versions};
use crate::memory::Memory;
use crate::op::Rows;

/// As [`Context::split`], and gives how many parts ran: parts 0, 1, ... of them left something in their area.
pub(super) fn split_counted(
    context: &Context<'_>,
    items: usize,
    grain: usize,
    work: impl Fn(usize, std::ops::Range<usize>) + Sync,
) -> usize {
    let parts = AtomicUsize::new(0);
    context.split(items, grain, |part, range| {
        work(part, range);
        parts.fetch_max(part + 1, Ordering::Relaxed);
    });
    parts.into_inner()
}

/// `y = sum over parts of their area's place..place + y.len()` (or +=), in the order of parts.
///
/// # Safety
/// Parts 0..parts have run and left `total` elements in their areas; none runs now.
pub(super) unsafe fn add_parts<S: Wide>(
    context: &Context<'_>,
    parts: usize,
    total: usize,
    place: usize,
    y: &mut [S],
    accumulate: bool,
) {
    if !accumulate {
        y.fill(S::ZERO);
    }
    for part in 0..parts {
        // SAFETY: the parts' own borrows ended with them.
        let area = unsafe { context.area::<S>(part, total) };
        for (y, x) in y.iter_mut().zip(&area[place..]) {
            *y += *x;
        }
    }
}

/// Rows that are added before they go into the sum: as many streams of memory, each read forward.
const TOGETHER: usize = 8;

versions! {
    fn add_rows<I, E: Number>(x: &[E], sums: &mut [E::Wide]) {
        let columns = sums.len();
        let mut groups = x.chunks_exact(TOGETHER * columns);
        for group in &mut groups {
            let rows: [&[E]; TOGETHER] = std::array::from_fn(|row| &group[row * columns..][..columns]);
            for (column, sum) in sums.iter_mut().enumerate() {
                let x = |row: usize| rows[row][column].load();
                *sum += ((x(0) + x(1)) + (x(2) + x(3))) + ((x(4) + x(5)) + (x(6) + x(7)));
            }
        }
        for row in groups.remainder().chunks_exact(columns) {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x.load();
            }
        }
    }
}

/// Runs `ColumnSum`.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::ColumnSum { x, y, rows, accumulate } = op else { unreachable!("{op:?} is of another module") };
    // SAFETY: the caller's promise.
    let (x, y) = unsafe { (Raw::<E>::new(memory, *x), memory.write::<E::Wide>(*y)) };
    let columns = y.len();
    assert_eq!(x.len(), rows * columns, "rows x columns");
    let parts = split_counted(context, *rows, grain(columns), |part, rows| {
        // SAFETY: nobody writes x; the area is this part's.
        let (x, sums) =
            unsafe { (x.slice(rows.start * columns..rows.end * columns), context.area::<E::Wide>(part, columns)) };
        sums.fill(E::Wide::ZERO);
        add_rows(x, sums);
    });
    // SAFETY: these parts left so much, and have ended.
    unsafe { add_parts(context, parts, columns, 0, y, *accumulate) };
}
