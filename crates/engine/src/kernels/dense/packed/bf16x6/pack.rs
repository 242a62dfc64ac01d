//! Packing: numbers of f32 into three parts of bf16 each, in the order in which the kernel reads them.

use std::arch::x86_64::*;

use super::super::pack::transpose;
use super::super::ranges;
use super::{SIDE, STEP, STEP_WORDS, TILE};

/// An operand as items (rows of a, columns of b) of numbers along k.
#[derive(Clone, Copy)]
pub(super) struct Items {
    pub(super) at: *const f32,
    /// From item to item.
    pub(super) item: usize,
    /// Along k.
    pub(super) along: usize,
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
                *vector = unsafe { _mm512_maskz_loadu_epi32(lanes(each), from.wrapping_add(r * apart).cast()) };
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
pub(super) unsafe fn pack<const BY_ITEM: bool>(from: Items, items: usize, depth: usize, out: *mut u32) {
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
