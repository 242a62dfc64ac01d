//! How a product is cut into blocks, and the scratch memory that follows from it.

use super::super::product::Size;
use super::pack::WIDTH;

/// Most units along k in one call of a kernel: 14 rows of f32, or 32 rows of pairs of bf16, are then well inside of the
/// first cache.
pub(super) const DEPTH: usize = 384;

/// Units after which kernels fetch the next lines of what is used later: a line of a row.
pub const GROUP: usize = 16;

/// Units from row to row of packed a; not a power of two, so that rows fall into different sets of the cache.
pub(in super::super) const STRIDE: usize = DEPTH + 16;

/// Most units of one pass of bf16: sums that are complete after one pass need no memory of the result's size.
const PASS: usize = 1536;

/// Most rows of a packed block of a.
const ROWS: usize = 2048;

/// Most units of a packed block of a, and most kept sums: 8 MiB.
const BLOCK_A: usize = 2 << 20;

/// Most units of a packed block of b: 768 KiB.
const BLOCK_B: usize = 3 << 16;

/// How one product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct BlockPlan {
    /// Units along k in all.
    pub(super) units: usize,
    /// Units of one pass: of a packed block.
    pub(super) pass: usize,
    /// Units of one call of a kernel.
    pub(super) depth: usize,
    /// Rows of a packed block of a; a multiple of what kernels write at once.
    pub(super) rows: usize,
    /// Columns of a packed block of b.
    pub(super) columns: usize,
    /// Columns of the result, as kernels write them.
    padded_columns: usize,
    narrow: bool,
    /// Whether a is packed block by block ahead of its use; else panel by panel. Transposing takes long, but the kernels of
    /// f32 need no rows.
    pub(super) ahead: bool,
}

/// The smallest multiple of `grain` such that as few of them cover `len` as of `most`.
pub(super) fn even(len: usize, most: usize, grain: usize) -> usize {
    let count = len.div_ceil(most).max(1);
    len.div_ceil(count).max(1).next_multiple_of(grain)
}

impl BlockPlan {
    /// The plan of a product with `per` elements in a unit. `narrow` results are rounded only when complete; a may be
    /// stored transposed.
    pub(in super::super) fn new(size: Size, per: usize, narrow: bool, a_transposed: bool) -> Self {
        let units = size.k.div_ceil(per);
        let pass = even(units, if per == 1 { DEPTH } else { PASS }, 16);
        let padded_columns = size.n.next_multiple_of(WIDTH);
        let wide = if narrow && pass < units { pass.max(padded_columns) } else { pass };
        let rows = even(size.m, (BLOCK_A / wide).clamp(32, ROWS), 32);
        let columns = even(size.n, (BLOCK_B / pass).max(WIDTH), WIDTH);
        Self {
            units,
            pass,
            depth: even(pass, DEPTH, 16),
            rows,
            columns,
            padded_columns,
            narrow,
            ahead: a_transposed && per > 1,
        }
    }

    /// Whether one pass completes all sums.
    pub(super) fn single(&self) -> bool {
        self.pass >= self.units
    }

    /// Whether one call of a kernel completes each result.
    pub(super) fn at_once(&self) -> bool {
        self.depth >= self.units
    }

    /// Rows of a that are packed at once.
    pub(super) fn packed_rows(&self) -> usize {
        if self.ahead { self.rows } else { 32 }
    }

    /// Units of packed a.
    pub(super) fn a(&self) -> usize {
        self.pass.div_ceil(self.depth) * self.packed_rows() * STRIDE
    }

    /// Units of packed b.
    pub(super) fn b(&self) -> usize {
        self.columns * self.pass
    }

    /// Sums kept in scratch.
    pub(super) fn sums(&self) -> usize {
        match (self.narrow, self.single()) {
            (false, _) => 0,
            (true, true) => self.columns * 32,
            (true, false) => self.rows * self.padded_columns,
        }
    }

    /// All, in units of 4 bytes.
    pub(in super::super) fn total(&self) -> usize {
        self.a() + self.b() + self.sums() + self.padded_columns
    }
}
