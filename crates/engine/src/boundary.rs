//! What computes: a program made ready in a device's memory. All that `parallel` knows of any device.

mod host;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use device::{Queue, Region};
use terms::Space;

pub use self::host::Host;
use crate::{Element, Error, Kind, Kinds, Memory, Program, Threads, View};

/// A device.
pub trait Device: Send + Sync {
    /// Where its memory is.
    fn space(&self) -> Space;

    /// Bytes of temporary memory that a program takes, besides its buffers.
    fn scratch(&self, program: &Program) -> usize;

    /// Zeroed memory that no other rank reaches.
    ///
    /// # Errors
    /// When there is too little.
    fn alloc(&self, bytes: usize) -> Result<Arc<Region>, Error>;

    /// Makes a program ready whose buffers lie in this memory, with this seed of dropout. Nothing is allocated or compiled later.
    ///
    /// # Errors
    /// An operation that the device has not, by name; too little memory.
    fn load(&self, program: &Arc<Program>, memory: Memory, seed: u64) -> Result<Box<dyn Loaded>, Error>;
}

/// A program in a device's memory. What it is given runs in order.
pub trait Loaded: Send {
    /// Orders all below: what communication comes after, and what it is waited for on.
    fn queue(&self) -> &Queue;

    /// Where its buffers lie.
    fn memory(&self) -> &Memory;

    /// Gives the device the operations among these instructions of the program, for the step of this number, from 1. May return
    /// before they have run.
    ///
    /// # Errors
    /// What the device says, of earlier work, too.
    ///
    /// # Safety
    /// Views of operations overlap only as their documentation allows, and no exchange under way names them.
    unsafe fn run(&mut self, stretch: Range<usize>, step: u64) -> Result<(), Error>;

    /// Has the bytes of a view written, after all that was given before. `fill` is called once, before this returns, with memory that
    /// is aligned for any element and holds anything.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    ///
    /// # Safety
    /// No exchange under way names the view.
    unsafe fn write(&mut self, view: View, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Error>;

    /// Shows the bytes of a view, aligned for any element, once all that was given before has run.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    ///
    /// # Safety
    /// No exchange under way writes to the view.
    unsafe fn read(&self, view: View, see: &mut dyn FnMut(&[u8])) -> Result<(), Error>;

    /// A point of the device's time behind all that was given so far, by its number since [`Loaded::times`]; None where work has run
    /// when it was given, so that the host's clock tells.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    fn stamp(&mut self) -> Result<Option<usize>, Error> {
        Ok(None)
    }

    /// Nanoseconds of all points since the first of them, once all that was given has run.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    fn times(&mut self) -> Result<Vec<u64>, Error> {
        Ok(Vec::new())
    }

    /// With `begin`: from now on operations are given singly, and the device notes when work of another kind begins. Without: what was
    /// noted since, once all that was given has run, and no more is noted. None where the device notes nothing.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    fn kinds(&mut self, _begin: bool) -> Result<Option<Kinds>, Error> {
        Ok(None)
    }

    /// What the device is given from now on is of this kind, up to the next operation. Says nothing unless [`Loaded::kinds`] began.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    fn enter(&mut self, _kind: Kind) -> Result<(), Error> {
        Ok(())
    }

    /// What a record should have of how it runs.
    fn about(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::new()
    }

    /// Where code of the host calls `run` best: a step's loop.
    fn pool(&self) -> Arc<Threads>;
}

impl dyn Loaded + '_ {
    /// [`Loaded::write`], by elements.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn put<E: Element>(&mut self, view: View, mut fill: impl FnMut(&mut [E])) -> Result<(), Error> {
        assert_eq!(self.memory().dtype(view), E::DTYPE, "{view:?}");
        let mut bytes = |bytes: &mut [u8]| fill(elements_mut(bytes));
        // SAFETY: the caller's.
        unsafe { self.write(view, &mut bytes) }
    }

    /// [`Loaded::read`], by elements.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn see<E: Element>(&self, view: View, mut see: impl FnMut(&[E])) -> Result<(), Error> {
        assert_eq!(self.memory().dtype(view), E::DTYPE, "{view:?}");
        let mut bytes = |bytes: &[u8]| see(elements(bytes));
        // SAFETY: the caller's.
        unsafe { self.read(view, &mut bytes) }
    }
}

/// Bytes as what they are of.
fn elements<E: Element>(bytes: &[u8]) -> &[E] {
    // SAFETY: all bits are values of every E.
    let (before, elements, after) = unsafe { bytes.align_to() };
    assert!(before.is_empty() && after.is_empty(), "bytes are aligned, and of whole elements");
    elements
}

fn elements_mut<E: Element>(bytes: &mut [u8]) -> &mut [E] {
    // SAFETY: all bits are values of every E, and those of every E are bytes.
    let (before, elements, after) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && after.is_empty(), "bytes are aligned, and of whole elements");
    elements
}
