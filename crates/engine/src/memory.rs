//! Where the buffers of a program lie, and the one place where views become slices.

use device::Slice;
use terms::Dtype;

use crate::buffer::{Buffer, View};
use crate::element::Element;

/// The buffers of a program, each at its place in a region. Places may overlap where lifetimes do not.
#[derive(Debug)]
pub struct Memory {
    buffers: Vec<(Dtype, usize, Slice)>,
}

impl Memory {
    /// Buffers and where each lies.
    ///
    /// # Panics
    /// When a place is smaller than its buffer or not aligned to its type: a bug in the plan.
    pub fn new(buffers: &[Buffer], places: Vec<Slice>) -> Self {
        assert_eq!(buffers.len(), places.len(), "a place for each buffer");
        let placed = |(buffer, place): (&Buffer, Slice)| {
            assert!(place.len() >= buffer.bytes(), "{} bytes hold no {buffer:?}", place.len());
            let align = buffer.dtype.bytes() as usize;
            assert!(place.address().is_multiple_of(align), "{buffer:?} is not aligned");
            (buffer.dtype, buffer.len, place)
        };
        Self { buffers: buffers.iter().zip(places).map(placed).collect() }
    }

    /// The type of a view's elements.
    pub fn dtype(&self, view: View) -> Dtype {
        self.buffers[view.buffer.0 as usize].0
    }

    /// Where a view's bytes lie.
    pub fn slice(&self, view: View) -> Slice {
        let (dtype, len, place) = &self.buffers[view.buffer.0 as usize];
        assert!(view.offset + view.len <= *len, "{view:?} lies outside of its buffer of {len}");
        let bytes = dtype.bytes() as usize;
        place.slice(view.offset * bytes, view.len * bytes).expect("a buffer lies inside its place")
    }

    fn pointer<E: Element>(&self, view: View) -> *mut E {
        let (dtype, len, place) = &self.buffers[view.buffer.0 as usize];
        assert_eq!(*dtype, E::DTYPE, "{view:?}");
        assert!(view.offset + view.len <= *len, "{view:?} lies outside of its buffer of {len}");
        // SAFETY: the view lies inside the buffer, and the buffer inside its place.
        unsafe { place.ptr().cast::<E>().add(view.offset) }
    }

    /// A view's elements.
    ///
    /// # Safety
    /// Nobody writes to them while the slice lives: not through another view, and no peer through the communicator.
    pub unsafe fn read<E: Element>(&self, view: View) -> &[E] {
        // SAFETY: in bounds and aligned (checked above and in `new`); all bit patterns are values of every E; aliasing is
        // the caller's.
        unsafe { std::slice::from_raw_parts(self.pointer(view), view.len) }
    }

    /// A view's elements, to be changed.
    ///
    /// # Safety
    /// Nobody else reads or writes them while the slice lives.
    #[expect(clippy::mut_from_ref, reason = "views of one program overlap by design; who may write is the caller's")]
    pub unsafe fn write<E: Element>(&self, view: View) -> &mut [E] {
        // SAFETY: as in `read`.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(view), view.len) }
    }
}
