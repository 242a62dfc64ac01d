//! Stores past the caches: they save reading the line that is about to be overwritten whole.

/// Bytes of a line.
const LINE: usize = 64;

/// Elements before the first line of every destination; None if the destinations do not begin lines together.
#[inline]
pub(super) fn misaligned(destinations: &[*mut u8], element: usize) -> Option<usize> {
    let offset = |destination: &*mut u8| (*destination as usize).wrapping_neg() % LINE;
    let first = offset(destinations.first()?);
    let together = destinations.iter().all(|destination| offset(destination) == first);
    (together && first.is_multiple_of(element)).then_some(first / element)
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

/// # Safety
/// `to` is aligned to 64, both ranges hold `len` bytes, a multiple of 64; AVX-512 is there.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn avx512(to: *mut u8, from: *const u8, len: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for i in (0..len).step_by(64) {
        // SAFETY: inside the ranges.
        unsafe { _mm512_stream_si512(to.add(i).cast(), _mm512_loadu_si512(from.add(i).cast())) };
    }
}

/// # Safety
/// As the other; AVX2 is there.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(to: *mut u8, from: *const u8, len: usize) {
    use std::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    for i in (0..len).step_by(32) {
        // SAFETY: inside the ranges.
        unsafe { _mm256_stream_si256(to.add(i).cast(), _mm256_loadu_si256(from.add(i).cast())) };
    }
}

/// # Safety
/// Both ranges hold `len` bytes. Where the target has no such store, an ordinary one.
#[inline]
pub(super) unsafe fn portable(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: passed on to the caller.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}
