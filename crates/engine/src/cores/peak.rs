//! The peak that MFU is a share of: multiplications and additions in registers, measured on the cores that the rank uses,
//! by the instructions that its products are made of.
//!
//! A data sheet's figure holds at a clock that the machine may not have today. So the peak is what a loop reaches that
//! does nothing but multiply and add: enough independent accumulators to hide the latency of one (4 cycles, 2 a cycle:
//! 8; 12 leaves room and fits into 16 registers), on all threads at once, in the same ranks as the case.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

use terms::Dtype;

use super::run_on;
use crate::Multiplier;
use crate::kernels::simd::{Isa, Portable};

/// Accumulators in flight.
const CHAINS: usize = 12;
/// Rounds of a burst: one to ten milliseconds.
const ROUNDS: u64 = 1 << 18;
/// Bursts, of which the fastest counts: a burst in which a thread lost its core says nothing of the core.
const BURSTS: usize = 8;

/// A loop that multiplies and adds, and what it is.
#[derive(Clone, Copy)]
pub struct Loop {
    /// Instructions and element type of the loop.
    pub name: &'static str,
    /// Operations of a round, a multiplication and an addition counted as two.
    pub flops: f64,
    /// Runs so many rounds, and gives the sum of its accumulators.
    pub run: fn(u64) -> f64,
}

/// Operations a second of `threads` threads at once, thread t on core `first + t` (around) of these; and which loop ran.
pub fn measure(
    (precision, multiplier): (Dtype, Multiplier),
    threads: usize,
    first: usize,
    cores: &[u32],
) -> (f64, &'static str) {
    let chosen = choose(precision, multiplier);
    let barrier = Barrier::new(threads);
    let burst = |thread: usize| {
        let core = cores.get((first + thread) % cores.len().max(1)).copied();
        run_on(core.as_slice());
        let mut rates = [0.0_f64; BURSTS];
        for rate in &mut rates {
            barrier.wait();
            let begin = Instant::now();
            std::hint::black_box((chosen.run)(std::hint::black_box(ROUNDS)));
            *rate = chosen.flops * ROUNDS as f64 / begin.elapsed().as_secs_f64();
        }
        rates
    };
    let rates: Vec<[f64; BURSTS]> = std::thread::scope(|scope| {
        let burst = &burst;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || burst(thread))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    // All threads in the same burst: a core that is fast only while others rest is not counted as fast.
    let peak = (0..BURSTS).map(|burst| rates.iter().map(|of| of[burst]).sum::<f64>()).fold(0.0, f64::max);
    (peak, chosen.name)
}

/// Operations a second of one thread, wherever it runs; measured once a process. For estimates, not for shares of a peak: many
/// cores at once may be slower.
pub fn of_one_core(kind: (Dtype, Multiplier)) -> f64 {
    static KNOWN: Mutex<Vec<((Dtype, Multiplier), f64)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, rate)) = known.iter().find(|(known, _)| *known == kind) {
        return *rate;
    }
    let (rate, _) = measure(kind, 1, 0, &[]);
    known.push((kind, rate));
    rate
}

/// The widest loop of this processor in which products of the precision can run: f16 is computed in f32 everywhere,
/// bf16 where there is no instruction for it.
#[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "one way to multiply"))]
pub fn choose(precision: Dtype, multiplier: Multiplier) -> Loop {
    #[cfg(target_arch = "x86_64")]
    if let Some(found) = x86::choose(precision, multiplier) {
        return found;
    }
    portable(precision)
}

/// The loop in plain code, for processors without vectors that this module knows.
#[doc(hidden)]
pub fn portable(precision: Dtype) -> Loop {
    match precision {
        Dtype::F64 => Loop { name: "portable f64", flops: (2 * CHAINS * 4) as f64, run: portable_f64 },
        _ => Loop { name: "portable f32", flops: (2 * CHAINS * 8) as f64, run: portable_f32 },
    }
}

/// Plain code that compilers turn into the target's vectors. Fused where kernels are: Arm of 64 bits does both
/// operations in one instruction, and two instructions would give half of its peak.
macro_rules! portable {
    ($name:ident, $element:ty, $lanes:literal) => {
        fn $name(rounds: u64) -> f64 {
            let (factor, term) = std::hint::black_box((0.999_9 as $element, 0.000_1 as $element));
            let mut chains = [[1.0 as $element; $lanes]; CHAINS];
            for _ in 0..rounds {
                for chain in &mut chains {
                    for lane in chain {
                        *lane = Portable::fma(*lane, factor, term);
                    }
                }
            }
            chains.iter().flatten().map(|lane| f64::from(*lane)).sum()
        }
    };
}

portable!(portable_f32, f32, 8);
portable!(portable_f64, f64, 4);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::Multiplier;
    use terms::Dtype;

    use super::{CHAINS, Loop};

    pub(super) fn choose(precision: Dtype, multiplier: Multiplier) -> Option<Loop> {
        let wide = is_x86_feature_detected!("avx512f");
        let narrow = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let of = |name, lanes: usize, run| Some(Loop { name, flops: (2 * CHAINS * lanes) as f64, run });
        match precision {
            _ if multiplier == Multiplier::AmxBf16 => Some(Loop { name: "AMX bf16", flops: TILES, run: run_amx }),
            _ if multiplier == Multiplier::Bf16x6 => {
                Some(Loop { name: "AMX bf16, six products for one of f32", flops: TILES / 6.0, run: run_amx })
            }
            // Each of 16 lanes takes two products of bf16.
            Dtype::Bf16 if wide && is_x86_feature_detected!("avx512bf16") => of("AVX-512 bf16", 32, run_bf16),
            Dtype::F64 if wide => of("AVX-512 f64", 8, run_wide_f64),
            Dtype::F64 if narrow => of("AVX2 f64", 4, run_narrow_f64),
            Dtype::F64 => None,
            _ if wide => of("AVX-512 f32", 16, run_wide_f32),
            _ if narrow => of("AVX2 f32", 8, run_narrow_f32),
            _ => None,
        }
    }

    /// A loop over one vector type, and the safe function that [`choose`] gives away only where it may run.
    macro_rules! vectors {
        ($outer:ident, $inner:ident, $features:literal, $set:ident, $element:ty, $fma:ident, $add:ident, $sum:expr) => {
            fn $outer(rounds: u64) -> f64 {
                // SAFETY: `choose` has asked the processor for these features.
                unsafe { $inner(rounds) }
            }

            #[target_feature(enable = $features)]
            fn $inner(rounds: u64) -> f64 {
                let factor = $set(std::hint::black_box(0.999_9 as $element));
                let term = $set(std::hint::black_box(0.000_1 as $element));
                let mut chains = [$set(1.0); CHAINS];
                for _ in 0..rounds {
                    for chain in &mut chains {
                        *chain = $fma(*chain, factor, term);
                    }
                }
                let sum = chains.into_iter().reduce(|a, b| $add(a, b)).unwrap_or($set(0.0));
                $sum(sum)
            }
        };
    }

    vectors!(run_wide_f32, wide_f32, "avx512f", _mm512_set1_ps, f32, _mm512_fmadd_ps, _mm512_add_ps, |sum| f64::from(
        _mm512_reduce_add_ps(sum)
    ));
    vectors!(
        run_wide_f64,
        wide_f64,
        "avx512f",
        _mm512_set1_pd,
        f64,
        _mm512_fmadd_pd,
        _mm512_add_pd,
        _mm512_reduce_add_pd
    );
    vectors!(run_narrow_f32, narrow_f32, "avx2,fma", _mm256_set1_ps, f32, _mm256_fmadd_ps, _mm256_add_ps, |sum| {
        f64::from(_mm256_cvtss_f32(sum))
    });
    vectors!(run_narrow_f64, narrow_f64, "avx2,fma", _mm256_set1_pd, f64, _mm256_fmadd_pd, _mm256_add_pd, |sum| {
        _mm256_cvtsd_f64(sum)
    });

    /// Operations of a round of AMX: four products of 16 x 32 by 32 x 16.
    const TILES: f64 = (4 * 2 * 16 * 16 * 32) as f64;

    /// What `ldtilecfg` reads: eight tiles of 16 rows of 64 bytes.
    #[repr(C, align(64))]
    struct Tiles {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        row_bytes: [u16; 16],
        rows: [u8; 16],
    }

    /// Numbers of bf16 that differ: with ones the tiles take less power than products do, and keep a higher clock.
    #[repr(C, align(64))]
    struct TileNumbers([u16; 512]);

    fn run_amx(rounds: u64) -> f64 {
        let mut tiles = Tiles { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        tiles.row_bytes[..8].fill(64);
        tiles.rows[..8].fill(16);
        // Of both signs, from a quarter to one.
        let number = |i: usize| (((i * 0x9e37) & 0x8000) | (0x3e80 + (i * 0x6b) % 0x100)) as u16;
        let numbers = TileNumbers(std::array::from_fn(number));
        let mut sums = [0.0_f32; 256];
        // SAFETY: the engine has AMX, so there are the instructions and the permission; they read `tiles` and `numbers` and
        // write `sums`, and the tiles are given back.
        unsafe {
            std::arch::asm!(
                "ldtilecfg [{tiles}]",
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "tileloadd tmm4, [{numbers} + {row}*1]",
                "tileloadd tmm5, [{numbers} + {row}*1]",
                "tileloadd tmm6, [{numbers} + {row}*1]",
                "tileloadd tmm7, [{numbers} + {row}*1]",
                "2:",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "dec {rounds}",
                "jnz 2b",
                "tilestored [{sums} + {row}*1], tmm3",
                "tilerelease",
                tiles = in(reg) &raw const tiles,
                numbers = in(reg) &raw const numbers,
                sums = in(reg) &raw mut sums,
                row = in(reg) 64usize,
                rounds = inout(reg) rounds.max(1) => _,
                options(nostack)
            );
        }
        sums.iter().map(|sum| f64::from(*sum)).sum()
    }

    fn run_bf16(rounds: u64) -> f64 {
        // SAFETY: `choose` has asked the processor for these features.
        unsafe { bf16(rounds) }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    fn bf16(rounds: u64) -> f64 {
        let small = _mm512_set1_ps(std::hint::black_box(1e-4));
        let pairs = _mm512_cvtne2ps_pbh(small, small);
        let mut chains = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..rounds {
            for chain in &mut chains {
                *chain = _mm512_dpbf16_ps(*chain, pairs, pairs);
            }
        }
        let sum = chains.into_iter().reduce(|a, b| _mm512_add_ps(a, b)).unwrap_or(small);
        f64::from(_mm512_reduce_add_ps(sum))
    }
}
