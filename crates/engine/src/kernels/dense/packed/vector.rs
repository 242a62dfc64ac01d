//! Inner kernels of AVX-512: `fma` for f32, `vdpbf16ps` for pairs of bf16. Up to 14 rows by 32 columns stay in registers.

use std::arch::x86_64::*;

use super::{Start, Tile};

/// Most rows of one call: 28 sums, two vectors of b and one of a fill the 32 registers.
pub(super) const HEIGHT: usize = 14;

/// Units after which the next row of results is asked for.
const LINE: usize = 16;

/// The body for every row `$i` of `$rows`, written out: as a loop the compiler keeps the sums in memory.
macro_rules! each_row {
    ($rows:ident, $i:ident, $body:block) => { each_row!(@ $rows, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13) };
    (@ $rows:ident, $i:ident, $body:block, $($k:literal)*) => {
        $({ const $i: usize = $k; if $i < $rows $body })*
    };
}

macro_rules! kernel {
    ($name:ident, $feature:literal, $multiply:expr) => {
        pub(super) mod $name {
            use super::*;

            /// The sums of a tile of `tile.rows` <= 14 rows.
            ///
            /// # Safety
            /// The CPU has the instructions; the tile's memory is as its fields say.
            pub(in super::super) unsafe fn run(tile: &Tile) {
                // SAFETY: the caller's.
                unsafe {
                    match tile.rows {
                        1 => rows::<1>(tile),
                        2 => rows::<2>(tile),
                        3 => rows::<3>(tile),
                        4 => rows::<4>(tile),
                        5 => rows::<5>(tile),
                        6 => rows::<6>(tile),
                        7 => rows::<7>(tile),
                        8 => rows::<8>(tile),
                        9 => rows::<9>(tile),
                        10 => rows::<10>(tile),
                        11 => rows::<11>(tile),
                        12 => rows::<12>(tile),
                        13 => rows::<13>(tile),
                        _ => rows::<14>(tile),
                    }
                }
            }

            #[target_feature(enable = $feature)]
            unsafe fn rows<const ROWS: usize>(tile: &Tile) {
                let (row, unit) = (tile.a.row, tile.a.unit);
                // SAFETY: the caller's.
                unsafe {
                    let mut sums = begin::<ROWS>(tile);
                    // Every third row has a pointer; addressing modes reach the others.
                    let mut a = [0, 3, 6, 9, 12].map(|i: usize| tile.a.at.wrapping_add(i * row));
                    let mut b = tile.b;
                    for line in 0..tile.units.div_ceil(LINE) {
                        if line < ROWS {
                            // Nothing is touched: the address may lie anywhere.
                            let next = tile.next.wrapping_add(line * tile.stride);
                            _mm_prefetch::<_MM_HINT_ET0>(next.cast());
                            _mm_prefetch::<_MM_HINT_ET0>(next.wrapping_add(16).cast());
                        }
                        for _ in 0..(tile.units - line * LINE).min(LINE) {
                            let left = _mm512_loadu_si512(b.cast());
                            let right = _mm512_loadu_si512(b.add(16).cast());
                            each_row!(ROWS, I, {
                                let factor = _mm512_set1_epi32(a[I / 3].add((I % 3) * row).cast::<i32>().read());
                                sums[I][0] = $multiply(sums[I][0], factor, left);
                                sums[I][1] = $multiply(sums[I][1], factor, right);
                            });
                            a.iter_mut().for_each(|a| *a = a.wrapping_add(unit));
                            b = b.wrapping_add(32);
                        }
                    }
                    for (i, sums) in sums.iter().enumerate() {
                        let c = tile.c.add(i * tile.stride);
                        _mm512_storeu_ps(c, sums[0]);
                        _mm512_storeu_ps(c.add(16), sums[1]);
                    }
                }
            }

            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn begin<const ROWS: usize>(tile: &Tile) -> [[__m512; 2]; ROWS] {
                let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
                let (from, stride) = match tile.start {
                    Start::Zero => return sums,
                    Start::Add => (tile.c.cast_const(), tile.stride),
                    Start::Row(row) => (row, 0),
                };
                for (i, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: rows of the tile, or one row of 32.
                    unsafe {
                        *sums = [_mm512_loadu_ps(from.add(i * stride)), _mm512_loadu_ps(from.add(i * stride + 16))];
                    }
                }
                sums
            }
        }
    };
}

kernel!(fma, "avx512f", |sum, a, b| _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum));
kernel!(dot, "avx512f,avx512bf16", |sum, a: __m512i, b: __m512i| {
    // SAFETY: the same 512 bits.
    let bf16 = |bits| std::mem::transmute::<__m512i, __m512bh>(bits);
    _mm512_dpbf16_ps(sum, bf16(a), bf16(b))
});
