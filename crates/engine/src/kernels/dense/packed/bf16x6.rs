//! Products of f32 on AMX, which multiplies bf16 only: each number is the sum of three of bf16, and six of their nine
//! products are added up in f32.
//!
//! a = a0 + a1 + a2 is exact, each part what is left rounded to 8 bits: 24 bits in all. |a1| is at most 2^-8 |a| and |a2| at
//! most 2^-17 |a|. Left out are a1 b2, a2 b1 and a2 b2, at most 2^-24 (1 + 2^-10) |a b|: what rounding one product to f32
//! may cost. The sum over 32 of k is formed first and then added, so that fewer roundings meet large sums than in a chain of
//! fused multiply-additions. What differs from f32: what is below 2^-126 counts as zero, of a part as of a product of parts
//! (so of numbers below 2^-103, and of products below 2^-102, bits are lost: 18 times 2^-126 of a product at most), and a
//! product with an infinity or a number past 3.39e38 is not a number.
//!
//! Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
//! computations" (2019); XLA calls the algorithm `BF16_BF16_F32_X6`.
//!
//! Along k, unit u of a step of 32 holds numbers u and u + 16, of both operands alike: sums do not mind, and packing needs
//! no shuffles.

mod kernel;
mod pack;
mod tasks;

use super::super::product::{Matrix, Size};
use super::ahead::{Ahead, Stream};
use super::plan::{GROUP, even};
use super::{Range, Start, amx, far, ranges};
use kernel::KernelCall;
use pack::pack;
pub(crate) use pack::{Items, Operand, vectors_of};
pub use tasks::Tasks;

/// Along k, of one tile of units: 16 pairs.
const STEP: usize = 32;
/// Rows and columns of the result of one call of the kernel: 2 x 2 tiles.
pub const SIDE: usize = 32;
/// Numbers of bf16 that one of f32 becomes.
const PARTS: usize = 3;
/// Words of 32 bits of a tile: 16 rows of 64 bytes.
const TILE: usize = 256;
/// Words of a step of a panel: of each part, the tile of the first 16 rows (columns) and of the others.
pub const STEP_WORDS: usize = PARTS * 2 * TILE;
/// Groups of four multiplications in a step; the kernel fetches a line of each stream with each.
const GROUPS: usize = 6;

/// Most steps of one call: what is read again for each strip of columns, 48 KiB, is in the first cache or was just there.
/// And of a pass, but where [`TilePlan::new`] says why, so that little of the second cache is taken up.
pub const DEPTH: usize = 8;
/// Columns that are read again for each panel of rows.
const COLUMNS: usize = 256;
/// Bytes that the shorter side and a block may take together, to stay in the second cache.
const NEAR: usize = 7 << 18;
/// Most items of a block where they do; more only where there were more than [`BLOCKS`].
const BLOCK: usize = 128;
/// Most items of a block where they do not: each block reads all of the shorter side from further away.
const LARGE_BLOCK: usize = 256;
/// Most items that are packed as a whole: 4 MiB.
const WHOLE: usize = 2720;
/// Blocks for each thread. A slower core then takes fewer; a core is slow, for example, if its sibling has other work.
const BLOCKS_A_THREAD: usize = 4;
/// Most blocks of a product.
pub const BLOCKS: usize = 1024;

/// Whether a product gains by it: a call computes 32 x 32 results, and packing is paid for by the other side.
pub(in super::super) fn suits(Size { m, n, k }: Size) -> bool {
    m >= SIDE && n >= SIDE && k >= SIDE
}

/// How one product is cut. The longer side is cut into blocks, which threads take one by one; every thread packs all of
/// the shorter side for itself, as much as fits.
#[derive(Clone, Copy, Debug)]
pub struct TilePlan {
    size: Size,
    /// Whether blocks are rows.
    by_rows: bool,
    /// Steps along k in all.
    pub steps: usize,
    /// Steps of one pass: of what is packed.
    pub pass: usize,
    /// Steps of one call.
    depth: usize,
    /// Items of the shorter side that are packed at once.
    pub whole: usize,
    /// Items of a block.
    pub block: usize,
    /// Blocks of the longer side.
    pub blocks: usize,
}

impl TilePlan {
    /// For so many threads. Which sums are formed in which order does not depend on them.
    pub fn new(size: Size, threads: usize) -> Self {
        let Size { m, n, k } = size;
        let (by_rows, long, short) = if m > n { (true, m, n) } else { (false, n, m) };
        let steps = k.div_ceil(STEP);
        let near = |steps: usize| (short.next_multiple_of(SIDE) + BLOCK) * steps * STEP_WORDS / SIDE * 4 <= NEAR;
        // What would be added to pass by pass is better completed in one where it is in no cache.
        let pass = if size.many() && near(steps) { steps } else { even(steps, DEPTH, 1) };
        let block = if near(pass) { BLOCK } else { LARGE_BLOCK };
        let most = if threads == 1 { block } else { (long / (threads * BLOCKS_A_THREAD)).clamp(SIDE, block) };
        let block = even(long, most.max(long.div_ceil(BLOCKS)).next_multiple_of(SIDE), SIDE);
        Self {
            size,
            by_rows,
            steps,
            pass,
            depth: even(pass, DEPTH, 1),
            whole: even(short, WHOLE, SIDE),
            block,
            blocks: long.div_ceil(block),
        }
    }

    /// Threads that find a block.
    pub fn threads(&self, threads: usize) -> usize {
        threads.min(self.blocks)
    }

    /// Whether one call of the kernel completes each result.
    fn at_once(&self) -> bool {
        self.depth >= self.steps
    }

    fn words(&self, items: usize) -> usize {
        items / SIDE * self.pass * STEP_WORDS
    }

    /// Scratch of a thread, in words.
    pub fn total(&self) -> usize {
        self.words(self.whole) + self.words(self.block) + self.size.n.next_multiple_of(SIDE)
    }

    fn short(&self) -> usize {
        if self.by_rows { self.size.n } else { self.size.m }
    }

    fn passes(&self) -> usize {
        self.steps.div_ceil(self.pass)
    }

    /// What is done for every block, one after another: passes over parts of the shorter side.
    pub fn stages(&self) -> usize {
        self.short().div_ceil(self.whole) * self.passes()
    }

    /// What stage `index` works on.
    pub fn stage(&self, index: usize) -> Stage {
        let (first, step) = (index / self.passes() * self.whole, index % self.passes() * self.pass);
        Stage {
            whole: Range { first, len: self.whole.min(self.short() - first) },
            steps: Range { first: step, len: self.pass.min(self.steps - step) },
        }
    }

    /// A block of the longer side.
    pub fn block(&self, index: usize) -> Range {
        let long = if self.by_rows { self.size.m } else { self.size.n };
        let first = index * self.block;
        Range { first, len: self.block.min(long - first) }
    }
}

/// See [`TilePlan::stages`].
#[derive(Clone, Copy)]
pub struct Stage {
    /// Items of the shorter side.
    pub whole: Range,
    /// Steps along k.
    pub steps: Range,
}

/// A product.
#[derive(Clone, Copy)]
pub(in super::super) struct Product<A, B> {
    pub(in super::super) size: Size,
    /// The left operand: its items are rows.
    pub(in super::super) a: A,
    /// The right operand: its items are columns.
    pub(in super::super) b: B,
    /// Row-major.
    pub(in super::super) c: Matrix<f32>,
    /// What rows begin with; not with `accumulate`.
    pub(in super::super) bias: Option<*const f32>,
    /// Add to what c holds.
    pub(in super::super) accumulate: bool,
}

// SAFETY: addresses; who may touch the memory is said where they are used.
unsafe impl<A: Sync, B: Sync> Sync for Product<A, B> {}

/// A running product, on one of its threads.
struct TileProduct<'a, A, B> {
    plan: TilePlan,
    tasks: &'a Tasks,
    a: A,
    b: B,
    c: Matrix<f32>,
    /// Padded.
    bias: Option<*const f32>,
    accumulate: bool,
    /// See [`far`].
    far: bool,
    whole: *mut u32,
    block: *mut u32,
}

/// Takes part in a product: every one of its threads calls this with the same tasks, and scratch of its own.
///
/// # Safety
/// The CPU has AMX and AVX-512; the operands are there, c overlaps none of them, and nobody else uses c.
pub(in super::super) unsafe fn run<A: Operand, B: Operand>(
    product: &Product<A, B>,
    plan: TilePlan,
    tasks: &Tasks,
    scratch: &mut [f32],
) {
    assert!(scratch.len() >= plan.total(), "{} words of scratch, {} needed", scratch.len(), plan.total());
    let (whole, rest) = scratch.split_at_mut(plan.words(plan.whole));
    let (block, padded) = rest.split_at_mut(plan.words(plan.block));
    let Product { size, a, b, c, accumulate, .. } = *product;
    let bias = product.bias.map(|bias| {
        let n = size.n;
        padded[n..n.next_multiple_of(SIDE)].fill(0.0);
        // SAFETY: a bias has n columns.
        padded[..n].copy_from_slice(unsafe { std::slice::from_raw_parts(bias, n) });
        padded.as_ptr()
    });
    let running = TileProduct {
        plan,
        tasks,
        a,
        b,
        c,
        bias,
        accumulate,
        far: plan.at_once() && far(c, size.many(), accumulate),
        whole: whole.as_mut_ptr().cast(),
        block: block.as_mut_ptr().cast(),
    };
    // SAFETY: the caller's.
    unsafe {
        let _tiles = amx::Configured::new();
        running.all();
    }
}

impl<A: Operand, B: Operand> TileProduct<'_, A, B> {
    /// Numbers along k.
    fn numbers(&self, steps: Range) -> Range {
        let first = steps.first * STEP;
        Range { first, len: (steps.len * STEP).min(self.plan.size.k - first) }
    }

    /// Packs rows of a, or columns of b.
    unsafe fn pack(&self, rows: bool, items: Range, steps: Range, out: *mut u32) {
        let numbers = self.numbers(steps);
        // SAFETY: items and steps lie inside.
        unsafe {
            if rows {
                pack::<true>(self.a, items, numbers, out);
            } else {
                pack::<false>(self.b, items, numbers, out);
            }
        }
    }

    /// What task `next` will pack, fetched while a task of `stage` and `block` is computed.
    fn ahead(&self, next: usize, stage: Stage, block: Range) -> Option<Ahead> {
        if next >= self.plan.blocks * self.plan.stages() {
            return None;
        }
        let numbers = self.numbers(self.plan.stage(next / self.plan.blocks).steps);
        let items = self.plan.block(next % self.plan.blocks);
        let by_rows = self.plan.by_rows;
        let from =
            if by_rows { self.a.ahead(items.first, numbers.first) } else { self.b.ahead(items.first, numbers.first) };
        let depths = stage.steps.len.div_ceil(self.plan.depth);
        let calls = stage.whole.len.div_ceil(SIDE) * block.len.div_ceil(SIDE) * depths;
        let lines = stage.steps.len.min(self.plan.depth) * GROUPS;
        from.map(|from| Ahead::new(from, numbers.len, items.len, lines * GROUP, calls))
    }

    /// # Safety
    /// As `run`; so for the rest.
    unsafe fn all(&self) {
        let TilePlan { blocks, by_rows, .. } = self.plan;
        let mut packed = usize::MAX;
        let prepare = |index: usize, place: usize| {
            let stage = self.plan.stage(index);
            // SAFETY: stages and blocks lie inside, and inside of scratch by the plan.
            unsafe {
                if packed != index {
                    self.pack(!by_rows, stage.whole, stage.steps, self.whole);
                    packed = index;
                }
                self.pack(by_rows, self.plan.block(place), stage.steps, self.block);
            }
        };
        let compute = |index: usize, place: usize, next: usize| {
            let (stage, block) = (self.plan.stage(index), self.plan.block(place));
            // SAFETY: as above; the tasks see to it that nobody else uses the block of c.
            unsafe { self.multiply(stage, block, self.ahead(next, stage, block)) };
        };
        self.tasks.work(blocks, self.plan.stages(), prepare, compute);
        amx::fence_far_stores(self.far);
    }

    /// A block against what is packed of the other side.
    unsafe fn multiply(&self, Stage { whole, steps }: Stage, block: Range, mut ahead: Option<Ahead>) {
        let words = steps.len * STEP_WORDS;
        let (a, rows, b, columns) = match self.plan.by_rows {
            true => (self.block, block, self.whole, whole),
            false => (self.whole, whole, self.block, block),
        };
        // Columns that stay in the second cache while rows pass by.
        for part in ranges(columns.len, COLUMNS) {
            for panel in ranges(rows.len, SIDE) {
                let a = a.wrapping_add(panel.first / SIDE * words);
                for depth in ranges(steps.len, self.plan.depth) {
                    for strip in ranges(part.len, SIDE) {
                        let (row, column) = (rows.first + panel.first, columns.first + part.first + strip.first);
                        let b = b.wrapping_add((part.first + strip.first) / SIDE * words + depth.first * STEP_WORDS);
                        let call = KernelCall {
                            a: a.wrapping_add(depth.first * STEP_WORDS),
                            b,
                            steps: depth.len,
                            c: self.c.at.wrapping_add(row * self.c.row + column),
                            stride: self.c.row,
                            start: self.start(steps.first + depth.first, column),
                            far: self.far,
                            ahead: Ahead::streams(&mut ahead, Stream::none(self.block)),
                        };
                        // SAFETY: all inside by the plan.
                        unsafe { call.run(panel.len, strip.len) };
                    }
                }
            }
        }
    }

    /// What sums begin with.
    fn start(&self, step: usize, column: usize) -> Start {
        match self.bias {
            _ if step > 0 || self.accumulate => Start::Add,
            Some(bias) => Start::Row(bias.wrapping_add(column)),
            None => Start::Zero,
        }
    }
}
