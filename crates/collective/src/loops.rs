//! Bare loops over memory: streams read, summed, and stored, with no synchronisation and no peer. What limits are
//! measured with; which memory the streams are is `streams`' part.
//!
//! Words are added as integers, whatever they mean: an addition then takes the same time for every value.

use device::swap_blocks;

/// Bytes of a block: what a loop holds in registers at a time.
const BLOCK: usize = 128;

/// How a loop goes through its streams: changes its time, never its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// Stores past the caches, so that what is written is not read first. Destinations lie alike on lines.
    pub(crate) past_caches: bool,
    /// From the last block to the first.
    pub(crate) down: bool,
}

/// What is added.
trait Lane: Copy {
    fn add(self, other: Self) -> Self;
}

macro_rules! lanes {
    ($($lane:ty),*) => {$(
        impl Lane for $lane {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
lanes!(u8, u32);

/// Whether this target has stores past the caches.
pub(crate) const fn has_stores_past_caches() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Stores the sum of the first streams to each of the others. A single stream is copied byte by byte; of several, bytes
/// that fill no word are left out.
///
/// # Safety
/// Every stream is valid for `len` bytes, which nobody else touches meanwhile. A destination may be a source and may
/// overlap nothing else. Past the caches, destinations begin alike on lines.
pub(crate) unsafe fn sum(from: &[*const u8], to: &[*mut u8], len: usize, manner: Manner) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor has the instructions; the rest is the caller's promise.
            return unsafe { avx512(from, to, len, manner) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { avx2(from, to, len, manner) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { plain(from, to, len, manner) }
}

/// Exchanges the contents of two ranges.
///
/// # Safety
/// Both are valid for `len` bytes, which nobody else touches meanwhile, and do not overlap.
pub(crate) unsafe fn exchange(a: *mut u8, b: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions; the rest is the caller's promise.
        return unsafe { exchange_avx2(a, b, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { swap_blocks::<BLOCK>(a, b, len) }
}

macro_rules! instance {
    ($name:ident, $store:path, $(#[$attribute:meta])*) => {
        /// # Safety
        /// As [`sum`]; the processor has the instructions.
        $(#[$attribute])*
        unsafe fn $name(from: &[*const u8], to: &[*mut u8], len: usize, manner: Manner) {
            // SAFETY: passed on to the caller; `store` gets blocks inside the streams.
            unsafe {
                let store = |to: *mut u8, from: *const u8| $store(to, from);
                let words = len / size_of::<u32>();
                match (from.len(), to.len(), manner.down) {
                    (1, 1, _) => pass::<u8, BLOCK, 1, 1, false>(from, to, len, manner, store),
                    (1, 2, _) => pass::<u8, BLOCK, 1, 2, false>(from, to, len, manner, store),
                    (1, _, _) => pass::<u8, BLOCK, 1, 0, false>(from, to, len, manner, store),
                    (2, 1, false) => pass::<u32, WORDS, 2, 1, false>(from, to, words, manner, store),
                    (2, 1, true) => pass::<u32, WORDS, 2, 1, true>(from, to, words, manner, store),
                    (2, 2, false) => pass::<u32, WORDS, 2, 2, false>(from, to, words, manner, store),
                    (2, 2, true) => pass::<u32, WORDS, 2, 2, true>(from, to, words, manner, store),
                    (_, _, false) => pass::<u32, WORDS, 0, 0, false>(from, to, words, manner, store),
                    (_, _, true) => pass::<u32, WORDS, 0, 0, true>(from, to, words, manner, store),
                }
            }
        }
    };
}

/// Words of a block.
const WORDS: usize = BLOCK / size_of::<u32>();

#[cfg(target_arch = "x86_64")]
instance!(avx512, stores::avx512, #[target_feature(enable = "avx512f,avx512bw,avx512vl")]);
#[cfg(target_arch = "x86_64")]
instance!(avx2, stores::avx2, #[target_feature(enable = "avx2")]);
instance!(plain, stores::plain,);

/// `N` sources and `M` destinations (0: not known when compiled), in blocks of `W` elements; `DOWN` from the last one.
///
/// # Safety
/// As [`sum`], for `count` elements.
#[inline(always)]
unsafe fn pass<E: Lane, const W: usize, const N: usize, const M: usize, const DOWN: bool>(
    from: &[*const u8],
    to: &[*mut u8],
    count: usize,
    Manner { past_caches, .. }: Manner,
    store: impl Fn(*mut u8, *const u8),
) {
    let from = if N > 0 { &from[..N] } else { from };
    let to = if M > 0 { &to[..M] } else { to };
    let (first, others) = (from[0], &from[1..]);
    // One element, for what does not fill a block.
    let single = |i: usize| {
        // SAFETY: i < count.
        unsafe {
            let begin = first.cast::<E>().add(i).read_unaligned();
            let sum = others.iter().fold(begin, |sum, stream| sum.add(stream.cast::<E>().add(i).read_unaligned()));
            to.iter().for_each(|stream| stream.cast::<E>().add(i).write_unaligned(sum));
        }
    };
    let head = if past_caches { misaligned(to[0]) / size_of::<E>() } else { 0 }.min(count);
    (0..head).for_each(single);
    let blocks = (count - head) / W;
    for turn in 0..blocks {
        let i = head + W * if DOWN { blocks - 1 - turn } else { turn };
        // SAFETY: i + W <= count.
        let mut sum = unsafe { first.cast::<E>().add(i).cast::<[E; W]>().read_unaligned() };
        for stream in others {
            // SAFETY: as above.
            let values = unsafe { stream.cast::<E>().add(i).cast::<[E; W]>().read_unaligned() };
            (0..W).for_each(|k| sum[k] = sum[k].add(values[k]));
        }
        for stream in to {
            // SAFETY: as above.
            unsafe {
                let at = stream.cast::<E>().add(i);
                if past_caches {
                    store(at.cast(), (&raw const sum).cast());
                } else {
                    at.cast::<[E; W]>().write_unaligned(sum);
                }
            }
        }
    }
    (head + blocks * W..count).for_each(single);
    if past_caches {
        stores::fence();
    }
}

/// Bytes up to the next line.
pub(crate) fn misaligned(place: *const u8) -> usize {
    (place as usize).wrapping_neg() % 64
}

#[cfg(target_arch = "x86_64")]
/// # Safety
/// As [`exchange`], on a processor with AVX2.
#[target_feature(enable = "avx2")]
unsafe fn exchange_avx2(a: *mut u8, b: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { swap_blocks::<BLOCK>(a, b, len) }
}

/// Stores of a block past the caches, to a place at the beginning of a line.
mod stores {
    use super::BLOCK;

    /// # Safety
    /// Both hold a block, `to` at the beginning of a line; the processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn avx512(to: *mut u8, from: *const u8) {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
        for i in (0..BLOCK).step_by(64) {
            // SAFETY: inside the block.
            unsafe { _mm512_stream_si512(to.add(i).cast(), _mm512_loadu_si512(from.add(i).cast())) };
        }
    }

    /// # Safety
    /// As [`avx512`], with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2(to: *mut u8, from: *const u8) {
        use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
        for i in (0..BLOCK).step_by(32) {
            // SAFETY: inside the block.
            unsafe { _mm256_stream_si256(to.add(i).cast(), _mm256_loadu_si256(from.add(i).cast())) };
        }
    }

    /// # Safety
    /// As [`avx512`], with what every x86-64 has; elsewhere an ordinary store, which nobody asks for.
    #[inline]
    pub(super) unsafe fn plain(to: *mut u8, from: *const u8) {
        #[cfg(target_arch = "x86_64")]
        for i in (0..BLOCK).step_by(16) {
            use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
            // SAFETY: inside the block; SSE2 is always there.
            unsafe { _mm_stream_si128(to.add(i).cast(), _mm_loadu_si128(from.add(i).cast())) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, BLOCK);
        }
    }

    /// Orders stores past the caches before what follows.
    #[inline]
    pub(super) fn fence() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is always there.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Region;

    /// All numbers of sources and destinations, lengths around a block, both ways, past the caches and not.
    #[test]
    fn every_loop_stores_the_sum_of_its_sources_and_nothing_else() {
        type Loop = unsafe fn(&[*const u8], &[*mut u8], usize, Manner);
        let loops: [Loop; 2] = [sum, plain];
        const ROOM: usize = 2048;
        for (sources, destinations) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1), (3, 3), (5, 5)] {
            for (len, offset) in [(0, 0), (60, 0), (128, 0), (1000, 0), (1000, 20), (1024, 64)] {
                for (past_caches, down) in [(false, false), (false, true), (true, false), (true, true)] {
                    for run in loops {
                        let region = Region::host(ROOM * (sources + destinations)).unwrap();
                        let at = |stream: usize| region.base().wrapping_add(stream * ROOM + offset);
                        // SAFETY: inside the region, which is this thread's alone.
                        unsafe {
                            (0..sources * ROOM).for_each(|i| region.base().add(i).write((i % 251) as u8));
                        }
                        let from: Vec<*const u8> = (0..sources).map(|i| at(i).cast_const()).collect();
                        let to: Vec<*mut u8> = (sources..sources + destinations).map(at).collect();
                        // SAFETY: streams of `len` bytes each, apart from each other.
                        unsafe { run(&from, &to, len, Manner { past_caches, down }) };
                        for stream in &to {
                            for i in (0..ROOM - offset).step_by(4) {
                                // SAFETY: inside the region.
                                let word = |from: &*const u8| unsafe { from.add(i).cast::<u32>().read_unaligned() };
                                let sum = from.iter().map(word).fold(0u32, u32::wrapping_add);
                                let expected = if i < len { sum } else { 0 };
                                assert_eq!(word(&stream.cast_const()), expected, "{sources} {destinations} {len} {i}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_exchange_is_whole() {
        for len in [0, 1, 127, 128, 1000] {
            let mut bytes: Vec<u8> = (0..2 * len).map(|i| if i < len { 1 } else { 2 }).collect();
            let (a, b) = bytes.split_at_mut(len);
            // SAFETY: two ranges of this vector.
            unsafe { exchange(a.as_mut_ptr(), b.as_mut_ptr(), len) };
            assert!(a.iter().all(|byte| *byte == 2) && b.iter().all(|byte| *byte == 1), "{len}");
        }
    }
}
