//! Packing: numbers of f32 into three parts of bf16 each, in the order in which the kernel reads them.

use std::arch::x86_64::*;

use super::super::super::product::Matrix;
use super::super::pack::transpose;
use super::super::{Range, ranges};
use super::{SIDE, STEP, STEP_WORDS, TILE};

/// An operand of f32 as items (rows of a, columns of b) of numbers along k, in whatever order they lie.
pub(crate) trait Operand: Copy + Sync {
    /// Whether 16 numbers that lie together are an item's; else they are one number of each of 16 items.
    fn by_item(self) -> bool;

    /// 16 items from `item` on by 16 numbers from `number` on, as 16 vectors of what lies together; zero for what is beyond
    /// the `items` and the `depth` numbers that are left from there: more than 16, fewer, or none.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VL; what exists is readable.
    unsafe fn vectors(self, item: usize, number: usize, items: usize, depth: usize) -> [__m512i; 16];

    /// These items and numbers along k as they lie, if it is worth fetching them before they are packed: a matrix with
    /// numbers as its rows.
    fn ahead(self, item: usize, number: usize) -> Option<Matrix<f32>>;
}

/// An operand that is a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Items {
    at: *const f32,
    /// Numbers from item to item.
    item: usize,
    /// Numbers from one to the next along k.
    along: usize,
}

// SAFETY: an address; who may touch the memory is said where it is used.
unsafe impl Sync for Items {}

impl Items {
    /// Rows of a.
    pub(crate) fn rows(a: Matrix<f32>) -> Self {
        Self { at: a.at, item: a.row, along: a.column }
    }

    /// Columns of b.
    pub(crate) fn columns(b: Matrix<f32>) -> Self {
        Self::rows(b.transposed())
    }
}

/// The lowest `count` bits.
fn lanes(count: usize) -> __mmask16 {
    if count >= 16 { __mmask16::MAX } else { (1 << count) - 1 }
}

impl Operand for Items {
    fn by_item(self) -> bool {
        self.along == 1
    }

    #[inline(always)]
    unsafe fn vectors(self, item: usize, number: usize, items: usize, depth: usize) -> [__m512i; 16] {
        let (vectors, each, apart) =
            if self.by_item() { (items, depth, self.item) } else { (depth, items, self.along) };
        let from = self.at.wrapping_add(item * self.item + number * self.along);
        // SAFETY: the caller's.
        unsafe { vectors_of(|r| from.wrapping_add(r * apart), vectors, each) }
    }

    fn ahead(self, item: usize, number: usize) -> Option<Matrix<f32>> {
        let at = self.at.wrapping_add(item * self.item + number * self.along).cast_mut();
        Some(Matrix { at, row: self.along, column: self.item })
    }
}

/// `vectors` vectors of `each` numbers, vector r from `at(r)` on; at most 16 of each, and zero for what is missing.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; what exists is readable.
#[inline(always)]
pub(crate) unsafe fn vectors_of(at: impl Fn(usize) -> *const f32, vectors: usize, each: usize) -> [__m512i; 16] {
    // SAFETY: the CPU has it.
    let mut block = [unsafe { _mm512_setzero_si512() }; 16];
    if vectors >= 16 && each >= 16 {
        for (r, vector) in block.iter_mut().enumerate() {
            // SAFETY: all of it exists.
            *vector = unsafe { _mm512_loadu_si512(at(r).cast()) };
        }
    } else {
        for (r, vector) in block.iter_mut().enumerate().take(vectors) {
            // SAFETY: the mask leaves out what does not exist.
            *vector = unsafe { _mm512_maskz_loadu_epi32(lanes(each), at(r).cast()) };
        }
    }
    block
}

/// 16 items by 16 numbers of an operand as [`Operand::vectors`], as vectors of an item each (`BY_ITEM`) or of a number each.
///
/// # Safety
/// As [`Operand::vectors`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn block<const BY_ITEM: bool>(
    from: impl Operand,
    item: usize,
    number: usize,
    items: usize,
    depth: usize,
) -> [__m512i; 16] {
    // SAFETY: the caller's.
    let vectors = unsafe { from.vectors(item, number, items, depth) };
    if from.by_item() == BY_ITEM { vectors } else { transpose(vectors) }
}

/// The part of each number that is taken now, and what is left.
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

/// Packs items of numbers along k: panels of 32 items, in them steps, in them the parts, of each two tiles. Rows of tiles
/// are items (`BY_ITEM`) or units.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; the source has these numbers; the target has room for whole panels and steps.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn pack<const BY_ITEM: bool>(from: impl Operand, items: Range, numbers: Range, out: *mut u32) {
    let steps = numbers.len.div_ceil(STEP);
    for panel in ranges(items.len, SIDE) {
        for step in 0..steps {
            let (p, depth) = (numbers.first + step * STEP, numbers.len - step * STEP);
            let out = out.wrapping_add((panel.first / SIDE * steps + step) * STEP_WORDS);
            for half in 0..2 {
                let (i, items) = (items.first + panel.first + half * 16, panel.len.saturating_sub(half * 16));
                // SAFETY: the caller's.
                unsafe {
                    let low = block::<BY_ITEM>(from, i, p, items, depth);
                    let high = block::<BY_ITEM>(from, i, p + 16, items, depth.saturating_sub(16));
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
