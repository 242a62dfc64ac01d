//! Instruction sets, found at run time: the same generic loop, compiled for each.

use device::swap_blocks;
use terms::{Dtype, Reduce};

use super::element::{Avg, Bf16, Element, F16, Max, Min, Operator, Prod, Sum};
use super::stream;
use super::{ExchangeKernel, Manner, PassKernel};

/// What the loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// AVX-512 F, BW, DQ, VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What the target always has.
    Portable,
}

impl Isa {
    /// Every one that this machine has, best first.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx512 {
                all.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") {
                all.push(Self::Avx2);
            }
        }
        all.push(Self::Portable);
        all
    }
}

/// The best one that this machine has.
pub(crate) fn detect() -> Isa {
    Isa::all()[0]
}

/// Elements of a block: 128 bytes of memory, which are two of the widest registers, or four for what is reduced in a
/// wider type. 256 bytes were a tenth of a microsecond slower at 4 to 16 KiB, 512 two tenths.
const fn block<E: Element>() -> usize {
    128 / size_of::<E>()
}

/// One generic loop. `W` is the number of elements in a block, `N` the number of sources and `M` of destinations (0: not
/// known when compiled); `DOWN` goes through the blocks from the last to the first.
///
/// # Safety
/// As [`PassKernel`].
#[inline(always)]
unsafe fn pass<E: Element, O: Operator<E::Wide>, const W: usize, const N: usize, const M: usize, const DOWN: bool>(
    sources: &[*const u8],
    destinations: &[*mut u8],
    count: usize,
    ranks: usize,
    Manner { past_caches, .. }: Manner,
    store: impl Fn(*mut u8, *const u8, usize),
) {
    use super::element::Number;
    let sources = if N > 0 { &sources[..N] } else { sources };
    let destinations = if M > 0 { &destinations[..M] } else { destinations };
    let by = E::Wide::divisor(ranks);
    let (first, others) = (sources[0], &sources[1..]);
    // One element, for what does not fill a block.
    let single = |i: usize| {
        // SAFETY: i < count, so every access lies inside the caller's ranges; unaligned because a block in a slot may
        // begin anywhere.
        unsafe {
            let mut all = first.cast::<E>().add(i).read_unaligned().widen();
            for source in others {
                all = O::combine(all, source.cast::<E>().add(i).read_unaligned().widen());
            }
            let all = E::narrow(O::finish(all, by));
            for destination in destinations {
                destination.cast::<E>().add(i).write_unaligned(all);
            }
        }
    };
    // Stores past the caches need whole, aligned lines.
    let head = if past_caches { stream::misaligned(destinations, size_of::<E>()) } else { Some(0) };
    let past_caches = past_caches && head.is_some();
    let head = head.unwrap_or(0).min(count);
    (0..head).for_each(single);
    let blocks = (count - head) / W;
    for turn in 0..blocks {
        let i = head + W * if DOWN { blocks - 1 - turn } else { turn };
        let mut wide = [E::Wide::ZERO; W];
        // SAFETY: i + W <= count.
        let block = unsafe { first.cast::<E>().add(i).cast::<[E; W]>().read_unaligned() };
        for k in 0..W {
            wide[k] = block[k].widen();
        }
        for source in others {
            // SAFETY: as above.
            let block = unsafe { source.cast::<E>().add(i).cast::<[E; W]>().read_unaligned() };
            for k in 0..W {
                wide[k] = O::combine(wide[k], block[k].widen());
            }
        }
        let mut out = [E::ZERO; W];
        for k in 0..W {
            out[k] = E::narrow(O::finish(wide[k], by));
        }
        for destination in destinations {
            // SAFETY: as above.
            unsafe {
                let at = destination.cast::<E>().add(i);
                if past_caches {
                    store(at.cast(), (&raw const out).cast(), size_of::<E>() * W);
                } else {
                    at.cast::<[E; W]>().write_unaligned(out);
                }
            }
        }
    }
    (head + blocks * W..count).for_each(single);
    if past_caches {
        stream::fence();
    }
}

/// Whether the bits of the result are the same with a sign and without.
const fn wraps(reduce: Reduce) -> bool {
    matches!(reduce, Reduce::Sum | Reduce::Prod)
}

macro_rules! instances {
    ($name:ident, $store:path, $(#[$attribute:meta])*) => {
        mod $name {
            use super::*;

            $(#[$attribute])*
            unsafe fn run<E: Element, O: Operator<E::Wide>, const W: usize>(
                sources: &[*const u8],
                destinations: &[*mut u8],
                count: usize,
                ranks: usize,
                manner: Manner,
            ) {
                // SAFETY: passed on to the caller, who has also checked that the machine has the instructions.
                unsafe {
                    let store = |to: *mut u8, from: *const u8, len: usize| $store(to, from, len);
                    match (sources.len(), destinations.len()) {
                        (2, 2) if manner.down => {
                            pass::<E, O, W, 2, 2, true>(sources, destinations, count, ranks, manner, store);
                        }
                        (2, 2) => pass::<E, O, W, 2, 2, false>(sources, destinations, count, ranks, manner, store),
                        (2, _) => pass::<E, O, W, 2, 0, false>(sources, destinations, count, ranks, manner, store),
                        _ if manner.down => {
                            pass::<E, O, W, 0, 0, true>(sources, destinations, count, ranks, manner, store);
                        }
                        _ => pass::<E, O, W, 0, 0, false>(sources, destinations, count, ranks, manner, store),
                    }
                }
            }

            /// One source: bytes, whatever they mean.
            $(#[$attribute])*
            unsafe fn copy_bytes(
                sources: &[*const u8],
                destinations: &[*mut u8],
                count: usize,
                ranks: usize,
                manner: Manner,
            ) {
                const W: usize = block::<u8>();
                // SAFETY: as above.
                unsafe {
                    let store = |to: *mut u8, from: *const u8, len: usize| $store(to, from, len);
                    match destinations.len() {
                        1 => pass::<u8, Max, W, 1, 1, false>(sources, destinations, count, ranks, manner, store),
                        _ => pass::<u8, Max, W, 1, 0, false>(sources, destinations, count, ranks, manner, store),
                    }
                }
            }

            /// Two ranges change places.
            $(#[$attribute])*
            unsafe fn exchange_bytes(a: *mut u8, b: *mut u8, len: usize) {
                // SAFETY: as above.
                unsafe { swap_blocks::<{ block::<u8>() }>(a, b, len) }
            }

            pub(super) fn copy() -> PassKernel {
                copy_bytes
            }

            pub(super) fn exchange() -> ExchangeKernel {
                exchange_bytes
            }

            fn operator<E: Element, const W: usize>(reduce: Reduce) -> PassKernel {
                match reduce {
                    Reduce::Sum => run::<E, Sum, W>,
                    Reduce::Prod => run::<E, Prod, W>,
                    Reduce::Min => run::<E, Min, W>,
                    Reduce::Max => run::<E, Max, W>,
                    Reduce::Avg => run::<E, Avg, W>,
                }
            }

            /// What depends on the sign.
            fn compare<E: Element, const W: usize>(reduce: Reduce) -> PassKernel {
                match reduce {
                    Reduce::Min => run::<E, Min, W>,
                    Reduce::Max => run::<E, Max, W>,
                    Reduce::Avg | Reduce::Sum | Reduce::Prod => run::<E, Avg, W>,
                }
            }

            pub(super) fn kernel(dtype: Dtype, reduce: Reduce) -> PassKernel {
                match dtype {
                    Dtype::F32 => operator::<f32, { block::<f32>() }>(reduce),
                    Dtype::F64 => operator::<f64, { block::<f64>() }>(reduce),
                    Dtype::F16 => operator::<F16, { block::<F16>() }>(reduce),
                    Dtype::Bf16 => operator::<Bf16, { block::<Bf16>() }>(reduce),
                    // A sum or product that wraps has the same bits with a sign and without: one loop for both.
                    Dtype::I8 if wraps(reduce) => kernel(Dtype::U8, reduce),
                    Dtype::U32 if wraps(reduce) => kernel(Dtype::I32, reduce),
                    Dtype::U64 if wraps(reduce) => kernel(Dtype::I64, reduce),
                    Dtype::I8 => compare::<i8, { block::<i8>() }>(reduce),
                    Dtype::I32 => operator::<i32, { block::<i32>() }>(reduce),
                    Dtype::I64 => operator::<i64, { block::<i64>() }>(reduce),
                    Dtype::U8 => operator::<u8, { block::<u8>() }>(reduce),
                    Dtype::U32 => compare::<u32, { block::<u32>() }>(reduce),
                    Dtype::U64 => compare::<u64, { block::<u64>() }>(reduce),
                    // Calls that reduce these are invalid.
                    Dtype::F8E4M3 | Dtype::F8E5M2 => copy_bytes,
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
instances!(avx512, stream::avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]);
#[cfg(target_arch = "x86_64")]
instances!(avx2, stream::avx2, #[target_feature(enable = "avx2")]);
instances!(portable, stream::portable,);

/// The kernel that copies bytes from one source.
pub(super) fn copy(isa: Isa) -> PassKernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::copy(),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::copy(),
        Isa::Portable => portable::copy(),
    }
}

/// The kernel that exchanges the contents of two ranges.
pub(super) fn exchange(isa: Isa) -> ExchangeKernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::exchange(),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::exchange(),
        Isa::Portable => portable::exchange(),
    }
}

/// The kernels of an instruction set. The caller got the set from [`detect`] or [`Isa::all`].
pub(super) fn table(isa: Isa) -> fn(Dtype, Reduce) -> PassKernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::kernel,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::kernel,
        Isa::Portable => portable::kernel,
    }
}
