//! Products of f32 on AMX, which multiplies bf16 only: each number is the sum of three of bf16, and six of their nine
//! products are added up in f32.
//!
//! a = a0 + a1 + a2 is exact, each part the rest rounded to 8 bits: 24 bits in all. Left out are a1 b2, a2 b1 and a2 b2, at
//! most 2^-25 (1 + 2^-9) of |a b|: half of what rounding one product to f32 may cost. The sum over 32 of k is formed first and then
//! added, so that fewer roundings meet large sums than in a chain of fused multiply-adds. What differs from f32: parts
//! below 2^-126 count as zero (a number below 2^-102 has fewer bits than 24), and a product with an infinity or a number
//! past 3.39e38 is not a number.
//!
//! Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
//! computations" (2019); XLA calls the algorithm `BF16_BF16_F32_X6`.
//!
//! Along k, unit u of a step of 32 holds numbers u and u + 16, of both operands alike: sums do not mind, and packing needs
//! no shuffles.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::product::{Matrix, Size};
use super::ahead::{Ahead, Stream};
use super::pack::transpose;
use super::plan::{GROUP, even};
use super::{Job, Output, Range, Start, amx, ranges};

/// Along k, of one tile of units: 16 pairs.
const STEP: usize = 32;
/// Rows and columns of the result of one call of the kernel: 2 x 2 tiles.
const SIDE: usize = 32;
/// Numbers of bf16 that one of f32 becomes.
const PARTS: usize = 3;
/// Words of 32 bits of a tile: 16 rows of 64 bytes.
const TILE: usize = 256;
/// Words of a step of a panel: of each part, the tile of the first 16 rows (columns) and of the others.
const STEP_WORDS: usize = PARTS * 2 * TILE;
/// Groups of four multiplications in a step; the kernel fetches a line of each stream with each.
const GROUPS: usize = 6;

/// Most steps of a pass.
const PASS: usize = 16;
/// Most steps of one call: what is read again for each strip of columns, 48 KiB, is in the first cache or was just there.
const DEPTH: usize = 8;
/// Most items of a block: 768 KiB of the second cache.
const BLOCK: usize = 256;
/// Most items that are packed as a whole: 8 MiB.
const WHOLE: usize = 2720;
/// Blocks for each thread: a core that is slower than another, as one whose sibling works for somebody else, then takes
/// fewer.
const BLOCKS_A_THREAD: usize = 4;
/// Most blocks of a product.
const BLOCKS: usize = 1024;

/// Whether a product gains by it: a call computes 32 x 32 results, and packing is paid for by the other side.
pub(in super::super) fn suits(Size { m, n, k }: Size) -> bool {
    m >= SIDE && n >= SIDE && k >= SIDE
}

/// How one product is cut. The longer side is cut into blocks, which threads take one by one; every thread packs all of
/// the shorter side for itself, as much as fits.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Plan {
    size: Size,
    /// Whether blocks are rows.
    by_rows: bool,
    /// Steps along k in all.
    steps: usize,
    /// Steps of one pass: of what is packed.
    pass: usize,
    /// Steps of one call.
    depth: usize,
    /// Items of the shorter side that are packed at once.
    whole: usize,
    /// Items of a block.
    block: usize,
    /// Blocks of the longer side.
    blocks: usize,
}

impl Plan {
    /// For so many threads. Which sums are formed in which order does not depend on them.
    pub(in super::super) fn new(size: Size, threads: usize) -> Self {
        let Size { m, n, k } = size;
        let (by_rows, long, short) = if m > n { (true, m, n) } else { (false, n, m) };
        let steps = k.div_ceil(STEP);
        let pass = even(steps, PASS, 1);
        let most = if threads == 1 { BLOCK } else { (long / (threads * BLOCKS_A_THREAD)).clamp(SIDE, BLOCK) };
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
    pub(in super::super) fn threads(&self, threads: usize) -> usize {
        threads.min(self.blocks)
    }

    fn words(&self, items: usize) -> usize {
        items / SIDE * self.pass * STEP_WORDS
    }

    /// Scratch of a thread, in words.
    pub(in super::super) fn total(&self) -> usize {
        self.words(self.whole) + self.words(self.block) + self.size.n.next_multiple_of(SIDE)
    }

    fn short(&self) -> usize {
        if self.by_rows { self.size.n } else { self.size.m }
    }

    fn passes(&self) -> usize {
        self.steps.div_ceil(self.pass)
    }

    /// What is done for every block, one after another: passes over parts of the shorter side.
    fn stages(&self) -> usize {
        self.short().div_ceil(self.whole) * self.passes()
    }

    fn stage(&self, index: usize) -> Stage {
        let (first, step) = (index / self.passes() * self.whole, index % self.passes() * self.pass);
        Stage {
            whole: Range { first, len: self.whole.min(self.short() - first) },
            steps: Range { first: step, len: self.pass.min(self.steps - step) },
        }
    }

    /// A block of the longer side.
    fn block(&self, index: usize) -> Range {
        let long = if self.by_rows { self.size.m } else { self.size.n };
        let first = index * self.block;
        Range { first, len: self.block.min(long - first) }
    }
}

/// See [`Plan::stages`].
#[derive(Clone, Copy)]
struct Stage {
    whole: Range,
    steps: Range,
}

/// What the threads of a product tell each other: which task is the next, and which have ended.
///
/// Tasks are counted stage by stage, block by block. A task adds to what the stage before has left of its block, so it
/// waits for that: for a task with a lower number. A thread does its tasks by number; so whoever has the lowest can go on.
pub(in super::super) struct Tasks {
    next: AtomicUsize,
    /// Stages that have ended, of each block.
    ended: [AtomicUsize; BLOCKS],
}

impl Tasks {
    pub(in super::super) fn new() -> Self {
        Self { next: AtomicUsize::new(0), ended: [const { AtomicUsize::new(0) }; BLOCKS] }
    }

    /// Does tasks of `blocks` in each of `stages` until none is left. `prepare(stage, block)` comes before the wait,
    /// `compute(stage, block, next)` after it; `next` is the task of this thread that follows.
    fn work(
        &self,
        blocks: usize,
        stages: usize,
        mut prepare: impl FnMut(usize, usize),
        mut compute: impl FnMut(usize, usize, usize),
    ) {
        let take = || self.next.fetch_add(1, Ordering::Relaxed);
        let mut task = take();
        while task < blocks * stages {
            let (stage, block) = (task / blocks, task % blocks);
            prepare(stage, block);
            let next = take();
            self.wait(block, stage);
            compute(stage, block, next);
            self.ended[block].store(stage + 1, Ordering::Release);
            task = next;
        }
    }

    fn wait(&self, block: usize, stage: usize) {
        let mut turns = 0u32;
        while self.ended[block].load(Ordering::Acquire) < stage {
            turns += 1;
            // A thread that has lost its core gets it sooner.
            if turns.is_multiple_of(1024) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// A running product, on one of its threads.
struct Running<'a> {
    plan: Plan,
    tasks: &'a Tasks,
    a: Matrix<f32>,
    b: Matrix<f32>,
    c: Matrix<f32>,
    /// Padded.
    bias: Option<*const f32>,
    accumulate: bool,
    whole: *mut u32,
    block: *mut u32,
}

/// Takes part in a product: every one of its threads calls this with the same tasks, and scratch of its own.
///
/// # Safety
/// The CPU has AMX and AVX-512; the job's matrices are there, c overlaps none of them, and nobody else uses c.
pub(in super::super) unsafe fn run(job: &Job<f32>, plan: Plan, tasks: &Tasks, scratch: &mut [f32]) {
    assert!(scratch.len() >= plan.total(), "{} words of scratch, {} needed", scratch.len(), plan.total());
    let (whole, rest) = scratch.split_at_mut(plan.words(plan.whole));
    let (block, padded) = rest.split_at_mut(plan.words(plan.block));
    let (Output::Wide(c) | Output::Narrow(c)) = job.c;
    let bias = job.bias.map(|bias| {
        let n = job.size.n;
        padded[n..n.next_multiple_of(SIDE)].fill(0.0);
        // SAFETY: a bias has n columns.
        padded[..n].copy_from_slice(unsafe { std::slice::from_raw_parts(bias, n) });
        padded.as_ptr()
    });
    let running = Running {
        plan,
        tasks,
        a: job.a,
        b: job.b,
        c,
        bias,
        accumulate: job.accumulate,
        whole: whole.as_mut_ptr().cast(),
        block: block.as_mut_ptr().cast(),
    };
    // SAFETY: the caller's.
    unsafe {
        let _tiles = amx::Configured::new();
        running.all();
    }
}

impl Running<'_> {
    /// Along k.
    fn depth(&self, steps: Range) -> usize {
        (steps.len * STEP).min(self.plan.size.k - steps.first * STEP)
    }

    /// Packs rows of a, or columns of b.
    unsafe fn pack(&self, rows: bool, items: Range, steps: Range, out: *mut u32) {
        let (k, depth) = (steps.first * STEP, self.depth(steps));
        // SAFETY: items and steps lie inside.
        unsafe {
            if rows {
                let a = self.a.from(items.first, k);
                pack::<true>(Items { at: a.at, item: a.row, along: a.column }, items.len, depth, out);
            } else {
                let b = self.b.from(k, items.first);
                pack::<false>(Items { at: b.at, item: b.column, along: b.row }, items.len, depth, out);
            }
        }
    }

    /// What task `next` will pack, fetched while a task of `stage` and `block` is computed.
    fn ahead(&self, next: usize, stage: Stage, block: Range) -> Option<Ahead> {
        if next >= self.plan.blocks * self.plan.stages() {
            return None;
        }
        let Stage { steps, .. } = self.plan.stage(next / self.plan.blocks);
        let items = self.plan.block(next % self.plan.blocks);
        // Rows along k, as those of b are.
        let k = steps.first * STEP;
        // SAFETY: the part lies inside.
        let from = unsafe {
            if self.plan.by_rows { self.a.from(items.first, k).transposed() } else { self.b.from(k, items.first) }
        };
        let depths = stage.steps.len.div_ceil(self.plan.depth);
        let calls = stage.whole.len.div_ceil(SIDE) * block.len.div_ceil(SIDE) * depths;
        let lines = stage.steps.len.min(self.plan.depth) * GROUPS;
        Some(Ahead::new(from, self.depth(steps), items.len, lines * GROUP, calls))
    }

    /// # Safety
    /// As `run`; so for the rest.
    unsafe fn all(&self) {
        let Plan { blocks, by_rows, .. } = self.plan;
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
    }

    /// A block against what is packed of the other side.
    unsafe fn multiply(&self, Stage { whole, steps }: Stage, block: Range, mut ahead: Option<Ahead>) {
        let words = steps.len * STEP_WORDS;
        let (a, rows, b, columns) = match self.plan.by_rows {
            true => (self.block, block, self.whole, whole),
            false => (self.whole, whole, self.block, block),
        };
        // Columns that stay in the second cache while rows pass by.
        for part in ranges(columns.len, BLOCK) {
            for panel in ranges(rows.len, SIDE) {
                let a = a.wrapping_add(panel.first / SIDE * words);
                for depth in ranges(steps.len, self.plan.depth) {
                    for strip in ranges(part.len, SIDE) {
                        let (row, column) = (rows.first + panel.first, columns.first + part.first + strip.first);
                        let mut streams = [Stream::none(self.block); 2];
                        ahead.iter_mut().for_each(|ahead| ahead.fill(&mut streams));
                        let b = b.wrapping_add((part.first + strip.first) / SIDE * words + depth.first * STEP_WORDS);
                        let call = Call {
                            a: a.wrapping_add(depth.first * STEP_WORDS),
                            b,
                            steps: depth.len,
                            c: self.c.at.wrapping_add(row * self.c.row + column),
                            stride: self.c.row,
                            start: self.start(steps.first + depth.first, column),
                            ahead: streams,
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

/// One call of the kernel: 32 rows by 32 columns.
#[derive(Clone, Copy)]
struct Call {
    a: *const u32,
    b: *const u32,
    steps: usize,
    /// Rows `stride` apart.
    c: *mut f32,
    stride: usize,
    start: Start,
    ahead: [Stream; 2],
}

impl Call {
    /// Of a tile of which `rows` and `columns` are there; where it is not whole, by way of a whole one.
    unsafe fn run(&self, rows: usize, columns: usize) {
        // SAFETY: the tile's memory; copies are as large as what is there.
        unsafe {
            if (rows, columns) == (SIDE, SIDE) {
                return self.whole();
            }
            let mut whole = [0.0f32; SIDE * SIDE];
            if let Start::Add = self.start {
                for i in 0..rows {
                    let to = whole.as_mut_ptr().add(i * SIDE);
                    std::ptr::copy_nonoverlapping(self.c.add(i * self.stride), to, columns);
                }
            }
            Self { c: whole.as_mut_ptr(), stride: SIDE, ..*self }.whole();
            for i in 0..rows {
                std::ptr::copy_nonoverlapping(whole.as_ptr().add(i * SIDE), self.c.add(i * self.stride), columns);
            }
        }
    }

    /// From the smallest products to the largest.
    unsafe fn whole(&self) {
        // SAFETY: the caller's; what is only fetched may lie anywhere.
        unsafe {
            amx::begin(self.start, self.c, self.stride);
            let [first, second] = self.ahead;
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {row}*1]",
                "tileloadd tmm6, [{b} + {row}*1 + 4096]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row}*1 + 5120]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{first}]",
                "prefetcht1 [{second}]",
                "add {first}, {line}",
                "add {second}, {line}",
                "tileloadd tmm6, [{b} + {row}*1 + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row}*1 + 3072]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{first}]",
                "prefetcht1 [{second}]",
                "add {first}, {line}",
                "add {second}, {line}",
                "tileloadd tmm4, [{a} + {row}*1 + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 3072]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{first}]",
                "prefetcht1 [{second}]",
                "add {first}, {line}",
                "add {second}, {line}",
                "tileloadd tmm6, [{b} + {row}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {row}*1 + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{first}]",
                "prefetcht1 [{second}]",
                "add {first}, {line}",
                "add {second}, {line}",
                "tileloadd tmm4, [{a} + {row}*1 + 4096]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 5120]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{first}]",
                "prefetcht1 [{second}]",
                "add {first}, {line}",
                "add {second}, {line}",
                "tileloadd tmm4, [{a} + {row}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{first}]",
                "prefetcht1 [{second}]",
                "add {first}, {line}",
                "add {second}, {line}",
                "add {a}, {step}",
                "add {b}, {step}",
                "dec {steps}",
                "jnz 2b",
                a = inout(reg) self.a => _,
                b = inout(reg) self.b => _,
                steps = inout(reg) self.steps => _,
                row = in(reg) 64usize,
                step = const STEP_WORDS * 4,
                first = inout(reg) first.at => _,
                second = inout(reg) second.at => _,
                line = in(reg) first.step,
                options(nostack)
            );
            amx::end(self.c, self.stride);
        }
    }
}

/// An operand as items (rows of a, columns of b) of numbers along k.
#[derive(Clone, Copy)]
struct Items {
    at: *const f32,
    /// From item to item.
    item: usize,
    /// Along k.
    along: usize,
}

/// The lowest `count` bits.
fn lanes(count: usize) -> __mmask16 {
    if count >= 16 { __mmask16::MAX } else { (1 << count) - 1 }
}

impl Items {
    /// 16 items of which `items` exist by 16 numbers of which `depth` exist, from item `i` and number `p` on; what does not
    /// exist is zero. Vectors are items (`BY_ITEM`) or numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn block<const BY_ITEM: bool>(self, i: usize, p: usize, items: usize, depth: usize) -> [__m512i; 16] {
        let by_item = self.along == 1;
        let (vectors, each, apart) = if by_item { (items, depth, self.item) } else { (depth, items, self.along) };
        let from = self.at.wrapping_add(i * self.item + p * self.along);
        let mut block = [_mm512_setzero_si512(); 16];
        if vectors >= 16 && each >= 16 {
            for (r, vector) in block.iter_mut().enumerate() {
                // SAFETY: all of it exists.
                *vector = unsafe { _mm512_loadu_si512(from.add(r * apart).cast()) };
            }
        } else {
            for (r, vector) in block.iter_mut().enumerate().take(vectors) {
                // SAFETY: the mask leaves out what does not exist.
                *vector = unsafe { _mm512_maskz_loadu_epi32(lanes(each), from.add(r * apart).cast()) };
            }
        }
        if by_item == BY_ITEM { block } else { transpose(block) }
    }
}

/// Of each number, the part that is taken now, and what is left.
///
/// Rounded to 8 bits, halves away from zero: at most half a unit in the last place off, as by rounding to even, in two
/// instructions instead of five.
#[inline]
#[target_feature(enable = "avx512f")]
fn part(numbers: __m512i) -> (__m512i, __m512i) {
    let rounded = _mm512_add_epi32(numbers, _mm512_set1_epi32(0x8000));
    let rounded = _mm512_and_si512(rounded, _mm512_set1_epi32(0xffff_0000u32 as i32));
    let rest = _mm512_sub_ps(_mm512_castsi512_ps(numbers), _mm512_castsi512_ps(rounded));
    (rounded, _mm512_castps_si512(rest))
}

/// Units of numbers that are bf16 already: the first vector in the lower halves.
#[inline]
#[target_feature(enable = "avx512f")]
fn units(low: __m512i, high: __m512i) -> __m512i {
    let mask = _mm512_set1_epi32(0xffff_0000u32 as i32);
    // (high & mask) | (low >> 16)
    _mm512_ternarylogic_epi32::<0xec>(high, _mm512_srli_epi32::<16>(low), mask)
}

/// Packs `items` items of `depth` numbers: panels of 32 items, in them steps, in them the parts, of each two tiles. Rows of
/// tiles are items (`BY_ITEM`) or units.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; the source has these numbers; the target has room for whole panels and steps.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack<const BY_ITEM: bool>(from: Items, items: usize, depth: usize, out: *mut u32) {
    let steps = depth.div_ceil(STEP);
    for panel in ranges(items, SIDE) {
        for step in 0..steps {
            let p = step * STEP;
            let out = out.wrapping_add((panel.first / SIDE * steps + step) * STEP_WORDS);
            for half in 0..2 {
                let (i, items) = (panel.first + half * 16, panel.len.saturating_sub(half * 16));
                // SAFETY: the caller's.
                unsafe {
                    let low = from.block::<BY_ITEM>(i, p, items, depth - p);
                    let high = from.block::<BY_ITEM>(i, p + 16, items, (depth - p).saturating_sub(16));
                    for (r, (low, high)) in low.iter().zip(&high).enumerate() {
                        let row = out.add(half * TILE + r * 16);
                        let ((low, low_rest), (high, high_rest)) = (part(*low), part(*high));
                        _mm512_store_si512(row.cast(), units(low, high));
                        let ((low, low_rest), (high, high_rest)) = (part(low_rest), part(high_rest));
                        _mm512_store_si512(row.add(2 * TILE).cast(), units(low, high));
                        _mm512_store_si512(row.add(4 * TILE).cast(), units(low_rest, high_rest));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Every task is done once, and a block's stages one after another, also where one thread is slow.
    #[test]
    fn stages_of_a_block_follow_each_other() {
        for (blocks, stages, threads) in [(1, 5, 3), (2, 20, 2), (3, 7, 4), (5, 1, 2)] {
            let tasks = Tasks::new();
            let (done, busy) = ([const { AtomicUsize::new(0) }; 5], [const { AtomicUsize::new(0) }; 5]);
            let work = |thread: usize| {
                let compute = |stage: usize, block: usize, _: usize| {
                    assert_eq!(busy[block].fetch_add(1, Ordering::SeqCst), 0, "two threads on block {block}");
                    if thread == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    assert_eq!(done[block].fetch_add(1, Ordering::SeqCst), stage, "block {block}");
                    busy[block].fetch_sub(1, Ordering::SeqCst);
                };
                tasks.work(blocks, stages, |_, _| (), compute);
            };
            std::thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || work(thread)))));
            assert!(done[..blocks].iter().all(|done| done.load(Ordering::SeqCst) == stages), "{blocks} x {stages}");
        }
    }

    /// Blocks and stages cover a product once, however many threads there are, and scratch holds what they pack.
    #[test]
    fn plans_cover_the_product() {
        for (m, n, k) in [(32, 32, 32), (256, 3072, 768), (3072, 768, 256), (2048, 3000, 5000), (33, 300_000, 40)] {
            for threads in [1, 2, 7, 64] {
                let plan = Plan::new(Size { m, n, k }, threads);
                let long: usize = (0..plan.blocks).map(|index| plan.block(index).len).sum();
                let cells: usize = (0..plan.stages()).map(|i| plan.stage(i)).map(|s| s.whole.len * s.steps.len).sum();
                assert_eq!((long, cells), (m.max(n), m.min(n) * plan.steps), "{plan:?}");
                assert!(plan.blocks <= BLOCKS && plan.threads(threads) <= threads, "{plan:?}");
                let (whole, block) = (plan.whole.min(m.min(n)), plan.block.min(m.max(n)));
                let words = (whole.div_ceil(SIDE) + block.div_ceil(SIDE)) * plan.pass * STEP_WORDS + n;
                assert!(plan.total() >= words, "{plan:?}");
            }
        }
    }
}
