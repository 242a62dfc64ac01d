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
/// Most steps of all panels of a packed block of b: 768 KiB of the second cache.
const BLOCK_B: usize = 128;
/// Most steps of all panels of a packed block of a: 8 MiB.
const BLOCK_A: usize = 1365;

/// Whether a product gains by it: a call computes 32 x 32 results, and packing is paid for by the other side.
pub(in super::super) fn suits(Size { m, n, k }: Size) -> bool {
    m >= SIDE && n >= SIDE && k >= SIDE
}

/// How one product is cut.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Plan {
    /// Steps along k in all.
    steps: usize,
    /// Steps of one pass: of a packed block.
    pass: usize,
    /// Steps of one call.
    depth: usize,
    rows: usize,
    columns: usize,
    padded_columns: usize,
}

impl Plan {
    pub(in super::super) fn new(size: Size) -> Self {
        let steps = size.k.div_ceil(STEP);
        let pass = even(steps, PASS, 1);
        Self {
            steps,
            pass,
            depth: even(pass, DEPTH, 1),
            rows: even(size.m, (BLOCK_A / pass).max(1) * SIDE, SIDE),
            columns: even(size.n, (BLOCK_B / pass).max(1) * SIDE, SIDE),
            padded_columns: size.n.next_multiple_of(SIDE),
        }
    }

    fn a(&self) -> usize {
        self.rows / SIDE * self.pass * STEP_WORDS
    }

    fn b(&self) -> usize {
        self.columns / SIDE * self.pass * STEP_WORDS
    }

    /// Scratch, in words.
    pub(in super::super) fn total(&self) -> usize {
        self.a() + self.b() + self.padded_columns
    }
}

/// A running product.
struct Block {
    size: Size,
    a: Matrix<f32>,
    b: Matrix<f32>,
    c: Matrix<f32>,
    /// Padded.
    bias: Option<*const f32>,
    accumulate: bool,
    plan: Plan,
    packed_a: *mut u32,
    packed_b: *mut u32,
}

/// Runs a product on the calling thread.
///
/// # Safety
/// The CPU has AMX and AVX-512; the job's matrices are there, c overlaps none of them, and nobody else uses c.
pub(super) unsafe fn run(job: &Job<f32>, scratch: &mut [f32]) {
    let plan = Plan::new(job.size);
    assert!(scratch.len() >= plan.total(), "{} words of scratch, {} needed", scratch.len(), plan.total());
    let (a, rest) = scratch.split_at_mut(plan.a());
    let (b, padded) = rest.split_at_mut(plan.b());
    let (Output::Wide(c) | Output::Narrow(c)) = job.c;
    let Size { n, .. } = job.size;
    let bias = job.bias.map(|bias| {
        padded[n..plan.padded_columns].fill(0.0);
        // SAFETY: a bias has n columns.
        padded[..n].copy_from_slice(unsafe { std::slice::from_raw_parts(bias, n) });
        padded.as_ptr()
    });
    let block = Block {
        size: job.size,
        a: job.a,
        b: job.b,
        c,
        bias,
        accumulate: job.accumulate,
        plan,
        packed_a: a.as_mut_ptr().cast(),
        packed_b: b.as_mut_ptr().cast(),
    };
    // SAFETY: the caller's.
    unsafe {
        let _tiles = amx::Configured::new();
        block.all();
    }
}

/// A block of b against a block of a.
#[derive(Clone, Copy)]
struct Cut {
    rows: Range,
    steps: Range,
    columns: Range,
}

impl Block {
    /// In the order in which they are computed.
    fn cuts(&self) -> impl Iterator<Item = Cut> {
        let (Size { m, n, .. }, plan) = (self.size, self.plan);
        ranges(m, plan.rows).flat_map(move |rows| {
            let all = ranges(plan.steps, plan.pass);
            all.flat_map(move |steps| ranges(n, plan.columns).map(move |columns| Cut { rows, steps, columns }))
        })
    }

    /// Along k.
    fn depth(&self, steps: Range) -> usize {
        (steps.len * STEP).min(self.size.k - steps.first * STEP)
    }

    /// The part of b that the cut `next` needs, fetched while `cut` is computed.
    fn ahead(&self, cut: &Cut, next: &Cut) -> Ahead {
        // SAFETY: the part lies inside.
        let from = unsafe { self.b.from(next.steps.first * STEP, next.columns.first) };
        let depths = cut.steps.len.div_ceil(self.plan.depth);
        let calls = cut.rows.len.div_ceil(SIDE) * cut.columns.len.div_ceil(SIDE) * depths;
        let lines = cut.steps.len.min(self.plan.depth) * GROUPS;
        Ahead::new(from, self.depth(next.steps), next.columns.len, lines * GROUP, calls)
    }

    /// # Safety
    /// As `run`; so for the rest.
    unsafe fn all(&self) {
        let mut next = self.cuts().skip(1);
        for cut in self.cuts() {
            let Cut { rows, steps, columns } = cut;
            // SAFETY: ranges lie inside, and inside of scratch by the plan.
            unsafe {
                if columns.first == 0 {
                    let a = self.a.from(rows.first, steps.first * STEP);
                    let items = Items { at: a.at, item: a.row, along: a.column };
                    pack::<true>(items, rows.len, self.depth(steps), self.packed_a);
                }
                let b = self.b.from(steps.first * STEP, columns.first);
                let items = Items { at: b.at, item: b.column, along: b.row };
                pack::<false>(items, columns.len, self.depth(steps), self.packed_b);
                let mut ahead = next.next().map(|next| self.ahead(&cut, &next));
                for panel in ranges(rows.len, SIDE) {
                    self.panel(&cut, panel, &mut ahead);
                }
            }
        }
    }

    /// 32 rows, against a block of b.
    unsafe fn panel(&self, cut: &Cut, panel: Range, ahead: &mut Option<Ahead>) {
        let Cut { rows, steps, columns } = *cut;
        let words = steps.len * STEP_WORDS;
        let a = self.packed_a.wrapping_add(panel.first / SIDE * words);
        let c = self.c.at.wrapping_add((rows.first + panel.first) * self.c.row + columns.first);
        for part in ranges(steps.len, self.plan.depth) {
            for strip in ranges(columns.len, SIDE) {
                let mut streams = [Stream::none(self.packed_b); 2];
                ahead.iter_mut().for_each(|b| b.fill(&mut streams));
                let call = Call {
                    a: a.wrapping_add(part.first * STEP_WORDS),
                    b: self.packed_b.wrapping_add(strip.first / SIDE * words + part.first * STEP_WORDS),
                    steps: part.len,
                    c: c.wrapping_add(strip.first),
                    stride: self.c.row,
                    start: self.start(steps.first + part.first, columns.first + strip.first),
                    ahead: streams,
                };
                // SAFETY: all inside by the plan.
                unsafe { call.run(panel.len, strip.len) };
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
