//! Kernels: the loops over memory that all paths share. n sources are reduced in rank order and stored to m
//! destinations in one pass; a copy is the case of one source.
//!
//! Raw pointers only: peers map the same bytes. Knows element types, operators and instruction sets; never ranks.

mod element;
mod isa;
mod stream;

use terms::{Dtype, Reduce};

pub use isa::Isa;
pub(crate) use isa::detect;

/// One pass: destinations[*][i] = operator over sources[*][i], in the order of the sources, for `count` elements.
/// A destination may be a source (the same address) and may overlap nothing else.
///
/// Arguments: sources, destinations, elements, divisor of `avg`, manner.
pub(crate) type PassKernel = unsafe fn(&[*const u8], &[*mut u8], usize, usize, Manner);

/// Exchanges the contents of two ranges of so many bytes, which do not overlap and nobody else touches.
pub(crate) type ExchangeKernel = unsafe fn(*mut u8, *mut u8, usize);

/// How a pass goes through memory: changes its speed, never its result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Store past the caches.
    pub past_caches: bool,
    /// From the last block to the first. Copies, and two sources with other than two destinations, do not heed it.
    pub down: bool,
}

/// The kernel for this type and operator. `avg` divides by the number given; the others ignore it.
pub fn kernel(isa: Isa, dtype: Dtype, reduce: Reduce) -> PassKernel {
    isa::table(isa)(dtype, reduce)
}

/// Copies bytes from one source to all destinations. None may overlap the source, except by being it.
///
/// # Safety
/// All ranges are valid, and nobody writes the source or touches a destination meanwhile.
#[inline]
pub unsafe fn copy(isa: Isa, source: *const u8, destinations: &[*mut u8], len: usize, past_caches: bool) {
    // SAFETY: passed on to the caller.
    unsafe { isa::copy(isa)(&[source], destinations, len, 1, Manner { past_caches, down: false }) };
}

/// Copies to one destination, by the inlined library routine where it is too short for the kernels' set-up.
///
/// # Safety
/// Valid ranges that do not overlap, and that nobody else touches.
#[inline]
pub(crate) unsafe fn copy_in(isa: Isa, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    unsafe {
        if len <= 1024 {
            std::ptr::copy_nonoverlapping(from, to, len);
        } else {
            copy(isa, from, &[to], len, false);
        }
    }
}

/// The contents of two ranges change places.
///
/// # Safety
/// Both ranges are valid, do not overlap, and nobody else touches them meanwhile.
#[inline]
pub unsafe fn exchange(isa: Isa, a: *mut u8, b: *mut u8, len: usize) {
    // SAFETY: passed on to the caller.
    unsafe { isa::exchange(isa)(a, b, len) };
}

/// Asks for the line at `at` in order to write it, and goes on. What readers hold is given back meanwhile, all lines at once:
/// stores alone get few of them at a time, and raising a flag waits for all. (`broadcast` of 1 KiB, 2 ranks: 0.28 us, without
/// 0.35.)
#[inline(always)]
pub(super) fn claim(at: *const u8) {
    // SAFETY: a hint, which reads and writes nothing and ignores addresses that are not mapped. In assembler, since the
    // intrinsic becomes a hint to read unless the whole program is built for processors that have this one.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
