//! Products of operands that the caller packs and keeps: what attention is made of.
//!
//! The left operand is rows of units, [`STRIDE`] apart; sums of f32 with that stride are such rows already. The right one
//! is panels of 32 columns. All extents are padded: columns to 32, units to 16, and AMX writes 32 rows.

use super::ahead::Stream;
use super::pack::{WIDTH, pack_a, pack_b};
use super::plan::{DEPTH, STRIDE};
use super::{Kernel, Left, OperandLayout, Start, Tile, Unit, amx, call, panels};
use crate::kernels::dense::product::Matrix;

/// Most units of one product.
pub(in super::super) const MOST_UNITS: usize = DEPTH;

/// What a thread needs while it uses a kernel.
pub(in super::super) struct Session {
    kernel: Kernel,
    _tiles: Option<amx::Configured>,
}

/// Units that hold `len` elements, padded.
pub(in super::super) fn units<E: Unit>(len: usize) -> usize {
    len.div_ceil(E::PER).next_multiple_of(16)
}

/// Units of a right operand.
pub(in super::super) fn right_len<E: Unit>(depth: usize, columns: usize) -> usize {
    units::<E>(depth) * columns.next_multiple_of(WIDTH)
}

/// Packs a left operand of `rows` rows (rounded up to 16 they are written) and `depth` elements.
///
/// # Safety
/// The CPU has a kernel for E; the source is there, and the target has room.
pub(in super::super) unsafe fn left<E: Unit>(a: Matrix<E>, rows: usize, depth: usize, out: &mut [f32]) {
    debug_assert!(out.len() >= (rows.next_multiple_of(16) - 1) * STRIDE + units::<E>(depth));
    // SAFETY: the caller's.
    unsafe { pack_a(a, rows, depth, out.as_mut_ptr().cast(), STRIDE, units::<E>(depth)) };
}

/// Packs a right operand of `depth` elements along k, padded to `padded` units, and `columns` columns.
///
/// # Safety
/// As `left`.
pub(in super::super) unsafe fn right<E: Unit>(
    b: Matrix<E>,
    columns: usize,
    depth: usize,
    padded: usize,
    out: &mut [f32],
) {
    let size = padded * WIDTH;
    for (panel, out) in out.chunks_exact_mut(size).take(columns.div_ceil(WIDTH)).enumerate() {
        let j = panel * WIDTH;
        // SAFETY: the caller's.
        unsafe { pack_b(b.from(0, j), WIDTH.min(columns - j), depth, out.as_mut_ptr().cast(), padded) };
    }
}

/// A right operand: some of the units of all of its panels.
#[derive(Clone, Copy)]
pub(in super::super) struct Right {
    /// First panel, first unit.
    at: *const f32,
    /// Units of a whole panel.
    padded: usize,
}

impl Right {
    /// Panels of `padded` units each, from unit `unit` and panel `panel` on.
    pub(in super::super) fn new(packed: &[f32], padded: usize, unit: usize, panel: usize) -> Self {
        Self { at: packed[(panel * padded + unit) * WIDTH..].as_ptr(), padded }
    }
}

impl Session {
    /// # Safety
    /// The CPU has the kernel.
    pub(in super::super) unsafe fn new(kernel: Kernel) -> Self {
        // SAFETY: AMX is there if it is the kernel.
        Self { kernel, _tiles: (kernel == Kernel::Amx).then(|| unsafe { amx::Configured::new() }) }
    }

    /// `c = a b` or `c += a b`, with `columns` a multiple of 32 and `units` of 16.
    ///
    /// # Safety
    /// The operands are packed; c has `rows` rows, rounded up to 32 for AMX, `c.row` apart.
    pub(in super::super) unsafe fn multiply(
        &self,
        (rows, columns, units): (usize, usize, usize),
        a: *const f32,
        b: Right,
        c: Matrix<f32>,
        add: bool,
    ) {
        for rows in panels(self.kernel, rows) {
            for j in (0..columns).step_by(WIDTH) {
                // SAFETY: the caller's.
                unsafe {
                    let tile = Tile {
                        a: Left { at: a.add(rows.first * STRIDE).cast(), layout: OperandLayout::Rows },
                        b: b.at.add(j * b.padded).cast(),
                        units,
                        rows: rows.len,
                        c: c.at.add(rows.first * c.row + j),
                        next: std::ptr::null(),
                        ahead: [Stream::none(a.cast()); 3],
                        far: false,
                        stride: c.row,
                        start: if add { Start::Add } else { Start::Zero },
                    };
                    call(self.kernel, &tile);
                }
            }
        }
    }
}

/// Sums rounded to E, in the layout of a left operand: for f32 they are that already, and stay where they are.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; both have `rows` rows, `STRIDE` apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(in super::super) unsafe fn rounded<E: Unit>(
    sums: &mut [f32],
    rows: usize,
    columns: usize,
    room: *mut f32,
) -> *mut E {
    if E::PER == 1 {
        return sums.as_mut_ptr().cast();
    }
    for (i, row) in sums.chunks(STRIDE).take(rows).enumerate() {
        // SAFETY: the caller's.
        let to = unsafe { std::slice::from_raw_parts_mut(room.add(i * STRIDE).cast::<E>(), columns) };
        to.iter_mut().zip(row).for_each(|(to, from)| *to = E::narrow(*from));
    }
    room.cast()
}
