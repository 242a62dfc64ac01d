//! Inner kernels of AVX-512: `fma` for f32, `vdpbf16ps` for pairs of bf16. Up to 14 rows by 32 columns stay in registers.

use std::arch::x86_64::*;

use super::plan::{GROUP, STRIDE};
use super::{OperandLayout, Start, Tile};

/// Most rows of one call: 28 sums, two vectors of b and one of a fill the 32 registers.
pub(super) const HEIGHT: usize = 14;

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
                    match tile.a.layout {
                        OperandLayout::Rows => of_height::<STRIDE, 1>(tile),
                        OperandLayout::Across => of_height::<1, 16>(tile),
                    }
                }
            }

            unsafe fn of_height<const ROW: usize, const UNIT: usize>(tile: &Tile) {
                // SAFETY: the caller's.
                unsafe {
                    match tile.rows {
                        1 => rows::<1, ROW, UNIT>(tile),
                        2 => rows::<2, ROW, UNIT>(tile),
                        3 => rows::<3, ROW, UNIT>(tile),
                        4 => rows::<4, ROW, UNIT>(tile),
                        5 => rows::<5, ROW, UNIT>(tile),
                        6 => rows::<6, ROW, UNIT>(tile),
                        7 => rows::<7, ROW, UNIT>(tile),
                        8 => rows::<8, ROW, UNIT>(tile),
                        9 => rows::<9, ROW, UNIT>(tile),
                        10 => rows::<10, ROW, UNIT>(tile),
                        11 => rows::<11, ROW, UNIT>(tile),
                        12 => rows::<12, ROW, UNIT>(tile),
                        13 => rows::<13, ROW, UNIT>(tile),
                        _ => rows::<14, ROW, UNIT>(tile),
                    }
                }
            }

            /// Where units and rows lie is known to the compiler, so that one pointer reaches all of a: each addition to
            /// another takes a turn of the two ports that multiply.
            #[target_feature(enable = $feature)]
            unsafe fn rows<const ROWS: usize, const ROW: usize, const UNIT: usize>(tile: &Tile) {
                // SAFETY: the caller's.
                unsafe {
                    let mut sums = begin::<ROWS>(tile);
                    let (mut a, mut b) = (tile.a.at, tile.b);
                    for group in 0..tile.units.div_ceil(GROUP) {
                        if group < ROWS {
                            // Nothing is touched: the address may lie anywhere.
                            let next = tile.next.wrapping_add(group * tile.stride);
                            _mm_prefetch::<_MM_HINT_ET0>(next.cast());
                            _mm_prefetch::<_MM_HINT_ET0>(next.wrapping_add(16).cast());
                        }
                        for stream in &tile.ahead {
                            _mm_prefetch::<_MM_HINT_T1>(stream.at.wrapping_add(group * stream.step).cast());
                        }
                        let units = (tile.units - group * GROUP).min(GROUP);
                        let mut multiply = |a: *const u32, b: *const u32| {
                            let left = _mm512_loadu_si512(b.cast());
                            let right = _mm512_loadu_si512(b.add(16).cast());
                            each_row!(ROWS, I, {
                                let factor = _mm512_set1_epi32(a.add(I * ROW).cast::<i32>().read());
                                sums[I][0] = $multiply(sums[I][0], factor, left);
                                sums[I][1] = $multiply(sums[I][1], factor, right);
                            });
                        };
                        for _ in 0..units / 4 {
                            multiply(a, b);
                            multiply(a.add(UNIT), b.add(32));
                            multiply(a.add(2 * UNIT), b.add(64));
                            multiply(a.add(3 * UNIT), b.add(96));
                            (a, b) = (a.add(4 * UNIT), b.add(128));
                        }
                        for _ in 0..units % 4 {
                            multiply(a, b);
                            (a, b) = (a.add(UNIT), b.add(32));
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
