//! How a product is cut into blocks, and the scratch memory that follows from it.

use super::super::product::Size;
use super::pack::WIDTH;

/// Most units along k in one call of a kernel: a panel of b is then 32 KiB at most.
pub(super) const DEPTH: usize = 256;

/// Units from row to row of packed a; not a power of two, so that rows fall into different sets of the cache.
pub(super) const STRIDE: usize = DEPTH + 16;

/// Most rows of a packed block of a.
const ROWS: usize = 256;

/// Most rows whose unfinished sums are kept in scratch.
const OUTER_ROWS: usize = 1024;

/// Most units of a packed block of b: 3 MiB.
const BLOCK: usize = 3 << 18;

/// How one product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Plan {
    /// Units along k in all.
    pub(super) units: usize,
    /// Units of one pass: of a packed block of b.
    pub(super) pass: usize,
    /// Units of one call of a kernel.
    pub(super) depth: usize,
    /// Rows of a packed block of a.
    pub(super) rows: usize,
    /// Rows that one packed block of b is used for.
    pub(super) outer_rows: usize,
    /// Columns of a packed block of b.
    pub(super) columns: usize,
    narrow: bool,
}

/// The smallest multiple of `grain` such that as few of them cover `len` as of `most`.
fn even(len: usize, most: usize, grain: usize) -> usize {
    let count = len.div_ceil(most).max(1);
    len.div_ceil(count).max(1).next_multiple_of(grain)
}

impl Plan {
    /// Of a product whose elements are `per` to a unit; `narrow` results are rounded only when complete.
    pub(in super::super) fn new(size: Size, per: usize, narrow: bool) -> Self {
        let units = size.k.div_ceil(per);
        // Results in f32 are added to where they lie. Narrow ones, and AMX, which is through with a tile in few cycles,
        // want more of k at once.
        let pass = even(units, if per == 1 { DEPTH } else { 3 * DEPTH }, 16);
        let rows = even(size.m, ROWS, 32);
        let single = pass >= units;
        let outer_rows =
            if narrow && !single { even(size.m, OUTER_ROWS, 32).next_multiple_of(rows) } else { size.m.max(1) };
        let columns = even(size.n, BLOCK / pass, WIDTH);
        Self { units, pass, depth: even(pass, DEPTH, 16), rows, outer_rows, columns, narrow }
    }

    /// Whether one pass completes all sums.
    pub(super) fn single(&self) -> bool {
        self.pass >= self.units
    }

    /// Rows of a packed block of a, as kernels may read them: `rows` is a multiple of what a kernel writes at once.
    pub(super) fn padded_rows(&self) -> usize {
        self.rows
    }

    /// Rows of kept sums, as kernels may write them.
    pub(super) fn outer_padded(&self) -> usize {
        self.outer_rows.next_multiple_of(32)
    }

    /// Units of packed a.
    pub(super) fn a(&self) -> usize {
        self.pass.div_ceil(self.depth) * self.padded_rows() * STRIDE
    }

    /// Units of packed b.
    pub(super) fn b(&self) -> usize {
        self.columns * self.pass
    }

    /// Sums kept in scratch.
    pub(super) fn sums(&self) -> usize {
        match (self.narrow, self.single()) {
            (false, _) => 0,
            (true, true) => self.padded_rows() * WIDTH,
            (true, false) => self.columns * self.outer_padded(),
        }
    }

    /// All, in units of 4 bytes.
    pub(in super::super) fn total(&self) -> usize {
        self.a() + self.b() + self.sums() + self.columns
    }
}
