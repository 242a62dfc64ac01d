//! Packing: operands copied into the order in which the kernels read them, in units of 32 bits.
//!
//! A unit is one f32, or two bf16 that follow each other along k (what `vdpbf16ps` and `tdpbf16ps` multiply at once). In
//! these units both types are packed alike. Missing columns, rows and the odd end of k become zeros.

use std::arch::x86_64::*;

use half::bf16;

use super::super::product::Matrix;
use crate::element::Element;

/// Columns of a packed panel of b.
pub(super) const WIDTH: usize = 32;

/// A type that is packed in units of 32 bits.
pub trait Unit: Element<Wide = f32> {
    /// Elements of a unit.
    const PER: usize;

    /// 16 units that lie one after another; only `valid` elements of them exist.
    ///
    /// # Safety
    /// The CPU has AVX-512 F, BW and VL; `valid` elements are readable.
    unsafe fn along(at: *const Self, valid: usize) -> __m512i;

    /// A unit of each of 16 columns: elements that lie `stride` apart are one unit. `columns` and `depth` of them exist.
    ///
    /// # Safety
    /// As `along`.
    unsafe fn across(at: *const Self, stride: usize, columns: usize, depth: usize) -> __m512i;
}

/// The lowest `count` bits.
fn bits(count: usize) -> u32 {
    if count >= 32 { u32::MAX } else { (1 << count) - 1 }
}

impl Unit for f32 {
    const PER: usize = 1;

    #[inline(always)]
    unsafe fn along(at: *const Self, valid: usize) -> __m512i {
        // SAFETY: the mask leaves out what does not exist.
        unsafe { _mm512_maskz_loadu_epi32(bits(valid) as __mmask16, at.cast()) }
    }

    #[inline(always)]
    unsafe fn across(at: *const Self, _: usize, columns: usize, _: usize) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_maskz_loadu_epi32(bits(columns) as __mmask16, at.cast()) }
    }
}

impl Unit for bf16 {
    const PER: usize = 2;

    #[inline(always)]
    unsafe fn along(at: *const Self, valid: usize) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_maskz_loadu_epi16(bits(valid), at.cast()) }
    }

    #[inline(always)]
    unsafe fn across(at: *const Self, stride: usize, columns: usize, depth: usize) -> __m512i {
        let mask = bits(columns) as __mmask16;
        let second = if depth > 1 { mask } else { 0 };
        // SAFETY: as above; the second row is not touched where it does not exist.
        unsafe {
            let low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at.cast()));
            let high = _mm256_maskz_loadu_epi16(second, at.wrapping_add(stride).cast());
            _mm512_or_si512(low, _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(high)))
        }
    }
}

/// The 16 x 16 transpose.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose(r: [__m512i; 16]) -> [__m512i; 16] {
    let mut t = r;
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    let mut u = t;
    for g in 0..4 {
        u[4 * g] = _mm512_unpacklo_epi64(t[4 * g], t[4 * g + 2]);
        u[4 * g + 1] = _mm512_unpackhi_epi64(t[4 * g], t[4 * g + 2]);
        u[4 * g + 2] = _mm512_unpacklo_epi64(t[4 * g + 1], t[4 * g + 3]);
        u[4 * g + 3] = _mm512_unpackhi_epi64(t[4 * g + 1], t[4 * g + 3]);
    }
    // Lane l of u[4 g + c] holds column 4 l + c of rows 4 g .. 4 g + 4.
    let mut out = u;
    for c in 0..4 {
        let (even, odd) = (_mm512_shuffle_i32x4::<0x88>(u[c], u[4 + c]), _mm512_shuffle_i32x4::<0xdd>(u[c], u[4 + c]));
        let (even2, odd2) =
            (_mm512_shuffle_i32x4::<0x88>(u[8 + c], u[12 + c]), _mm512_shuffle_i32x4::<0xdd>(u[8 + c], u[12 + c]));
        out[c] = _mm512_shuffle_i32x4::<0x88>(even, even2);
        out[8 + c] = _mm512_shuffle_i32x4::<0xdd>(even, even2);
        out[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd, odd2);
        out[12 + c] = _mm512_shuffle_i32x4::<0xdd>(odd, odd2);
    }
    out
}

/// Copies `rows` rows of `depth` elements of a (column stride or row stride 1) to rows of units, `stride` units apart;
/// `units` of each are written.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VL; the source has these elements; the target has `rows` rounded up to 16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn pack_a<E: Unit>(
    a: Matrix<E>,
    rows: usize,
    depth: usize,
    out: *mut u32,
    stride: usize,
    units: usize,
) {
    // SAFETY: all addresses lie inside the source by `rows` and `depth`, and inside the target by its size.
    unsafe {
        if a.column == 1 {
            for i in 0..rows {
                for q in (0..units).step_by(16) {
                    let valid = depth.saturating_sub(q * E::PER);
                    let value = E::along(a.at.wrapping_add(i * a.row + q * E::PER), valid);
                    _mm512_storeu_si512(out.add(i * stride + q).cast(), value);
                }
            }
            return;
        }
        for q in (0..units).step_by(16) {
            for i in (0..rows).step_by(16) {
                let mut block = [_mm512_setzero_si512(); 16];
                for (r, row) in block.iter_mut().enumerate() {
                    let p = (q + r) * E::PER;
                    if p < depth {
                        *row = E::across(a.at.add(i + p * a.column), a.column, rows - i, depth - p);
                    }
                }
                for (r, row) in transpose(block).into_iter().enumerate() {
                    _mm512_storeu_si512(out.add((i + r) * stride + q).cast(), row);
                }
            }
        }
    }
}

/// Copies `rows` <= 16 rows of `depth` elements of a transposed a (row stride 1) as they lie: `units` groups of 16 units, of
/// which one is each row's.
///
/// # Safety
/// As `pack_a`; the target has `units` groups.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn pack_a_across<E: Unit>(a: Matrix<E>, rows: usize, depth: usize, out: *mut u32, units: usize) {
    for q in 0..units {
        let p = q * E::PER;
        // SAFETY: as in `pack_a`.
        unsafe {
            let value = E::across(a.at.add(p * a.column), a.column, rows, depth - p);
            _mm512_storeu_si512(out.add(q * 16).cast(), value);
        }
    }
}

/// Copies a panel of `columns` <= 32 columns and `depth` elements of b to rows of 32 units, `units` (a multiple of 16) of
/// them.
///
/// # Safety
/// As `pack_a`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn pack_b<E: Unit>(b: Matrix<E>, columns: usize, depth: usize, out: *mut u32, units: usize) {
    // SAFETY: as in `pack_a`.
    unsafe {
        if b.column == 1 {
            for q in 0..units {
                let p = q * E::PER;
                for j in [0, 16] {
                    let mut value = _mm512_setzero_si512();
                    if p < depth && j < columns {
                        value = E::across(b.at.add(p * b.row + j), b.row, columns - j, depth - p);
                    }
                    _mm512_storeu_si512(out.add(q * WIDTH + j).cast(), value);
                }
            }
            return;
        }
        for q in (0..units).step_by(16) {
            // Both halves of a row one after the other: their lines are fetched in pairs.
            for j in [0, 16] {
                let mut block = [_mm512_setzero_si512(); 16];
                let (from, valid) = (b.at.wrapping_add(j * b.column + q * E::PER), depth.saturating_sub(q * E::PER));
                for (r, row) in block.iter_mut().enumerate() {
                    if j + r < columns {
                        *row = E::along(from.wrapping_add(r * b.column), valid);
                    }
                }
                for (r, row) in transpose(block).into_iter().enumerate() {
                    _mm512_storeu_si512(out.add((q + r) * WIDTH + j).cast(), row);
                }
            }
        }
    }
}
