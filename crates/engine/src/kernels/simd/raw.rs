//! Elements of a view that several parts, or several views, may share while an operation runs.

use std::ops::Range;

use crate::buffer::View;
use crate::element::Element;
use crate::memory::Memory;

/// A view's elements without a reference to them: parts of an operation write disjoint ranges of one view, and an
/// output may be an input. Code that reads and writes the same places copies a block out, computes, and copies it back.
#[derive(Clone, Copy)]
pub(crate) struct Raw<E> {
    first: *mut E,
    len: usize,
}

// SAFETY: an address and a length; what may be done through it was promised to `new` or is promised at each call.
unsafe impl<E: Element> Send for Raw<E> {}
// SAFETY: as above.
unsafe impl<E: Element> Sync for Raw<E> {}

impl<E: Element> Raw<E> {
    /// A view's elements.
    ///
    /// # Safety
    /// While this is used, nobody else writes them; of the operation's own parts, one that writes an element is the
    /// only one that uses it.
    ///
    /// # Panics
    /// When the view has elements of another type or lies outside of its buffer.
    pub(crate) unsafe fn new(memory: &Memory, view: View) -> Self {
        assert_eq!(memory.dtype(view), E::DTYPE, "{view:?}");
        Self { first: memory.slice(view).ptr().cast(), len: view.len }
    }

    /// How many.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    fn at(self, range: &Range<usize>) -> *mut E {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} lies outside of {} elements", self.len);
        // SAFETY: inside the view.
        unsafe { self.first.add(range.start) }
    }

    /// Some of them.
    ///
    /// # Safety
    /// Nobody writes them while the slice lives.
    #[inline(always)]
    pub(crate) unsafe fn slice<'a>(self, range: Range<usize>) -> &'a [E] {
        let first = self.at(&range);
        // SAFETY: in bounds and aligned, as `Memory` has checked; any bits are an E; aliasing is the caller's.
        unsafe { std::slice::from_raw_parts(first, range.len()) }
    }

    /// Some of them, to be changed.
    ///
    /// # Safety
    /// Nobody else uses them while the slice lives.
    #[inline(always)]
    pub(crate) unsafe fn slice_mut<'a>(self, range: Range<usize>) -> &'a mut [E] {
        let first = self.at(&range);
        // SAFETY: as in `slice`.
        unsafe { std::slice::from_raw_parts_mut(first, range.len()) }
    }

    /// A copy of at most N of them, the rest filled up.
    #[inline(always)]
    pub(crate) fn block<const N: usize>(self, range: Range<usize>, fill: E) -> [E; N] {
        let first = self.at(&range);
        if range.len() == N {
            // SAFETY: N elements lie there, and nobody writes them now (the promise to `new`).
            return unsafe { first.cast::<[E; N]>().read() };
        }
        let mut block = [fill; N];
        let part = &mut block[..range.len()];
        // SAFETY: as many lie there as the part has, and the part is a local array's.
        unsafe { std::ptr::copy_nonoverlapping(first, part.as_mut_ptr(), part.len()) };
        block
    }

    /// Overwrites at most N of them with the block's first ones.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(self, range: Range<usize>, block: &[E; N]) {
        let first = self.at(&range);
        if range.len() == N {
            // SAFETY: N elements lie there, and nobody else uses them now (the promise to `new`).
            unsafe { first.cast::<[E; N]>().write(*block) };
            return;
        }
        let part = &block[..range.len()];
        // SAFETY: as many lie there as the part has, and the part is a local array's.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), first, part.len()) };
    }
}
