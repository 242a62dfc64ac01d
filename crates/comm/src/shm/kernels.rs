//! Kernels: the loops over memory that all paths share. n sources are reduced in rank order and stored to m
//! destinations in one pass; a copy is the case of one source.
//!
//! Raw pointers only: peers map the same bytes. Knows element types, operators and instruction sets; never ranks.

mod element;
mod isa;
mod stream;

use terms::{Dtype, Reduce};

pub(crate) use isa::{Isa, detect};

/// One pass: destinations[*][i] = operator over sources[*][i], in the order of the sources, for `count` elements.
/// A destination may be a source (the same address) and may overlap nothing else.
///
/// Arguments: sources, destinations, elements, divisor of `avg`, manner.
pub(crate) type Kernel = unsafe fn(&[*const u8], &[*mut u8], usize, usize, Manner);

/// How a pass goes through memory: changes its speed, never its result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Store past the caches.
    pub(crate) past_caches: bool,
    /// From the last block to the first. Copies, and two sources with other than two destinations, do not heed it.
    pub(crate) down: bool,
}

/// The kernel for this type and operator. `avg` divides by the number given; the others ignore it.
pub(crate) fn kernel(isa: Isa, dtype: Dtype, reduce: Reduce) -> Kernel {
    isa::table(isa)(dtype, reduce)
}

/// Copies bytes from one source to all destinations. None may overlap the source, except by being it.
///
/// # Safety
/// All ranges are valid, and nobody writes the source or touches a destination meanwhile.
#[inline]
pub(crate) unsafe fn copy(isa: Isa, source: *const u8, destinations: &[*mut u8], len: usize, past_caches: bool) {
    // SAFETY: passed on to the caller.
    unsafe { isa::copy(isa)(&[source], destinations, len, 1, Manner { past_caches, down: false }) };
}

#[cfg(all(test, not(loom)))]
mod tests;
