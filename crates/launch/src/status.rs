//! The status page: one slot a rank, in sealed memory that the coordinator and all ranks of a world map.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use process::sealed_memory;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use trace::StatusSlot;

/// A mapping of a world's status page.
pub(crate) struct StatusPage {
    base: NonNull<StatusSlot>,
    size: u32,
}

// SAFETY: slots hold atomics only, and the mapping lives until drop.
unsafe impl Send for StatusPage {}
// SAFETY: as above.
unsafe impl Sync for StatusPage {}

impl StatusPage {
    /// A page for `size` ranks, and the memory that ranks inherit.
    ///
    /// # Errors
    /// When the system has no memory for it.
    pub(crate) fn create(size: u32) -> io::Result<(Self, File)> {
        let memory = sealed_memory(c"rankmark-status", bytes(size) as u64)?;
        Ok((Self::map(&memory, size)?, memory))
    }

    /// Maps the page of `size` ranks that `memory` holds.
    ///
    /// # Errors
    /// When it is smaller than that, or cannot be mapped.
    pub(crate) fn map(memory: &File, size: u32) -> io::Result<Self> {
        if memory.metadata()?.len() < bytes(size) as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the status page is smaller than the world"));
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping of memory that is sealed against shrinking, so no access to it can fault.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes(size), protection, flags, memory, 0) }?;
        NonNull::new(base.cast()).map(|base| Self { base, size }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// The slot of a rank. Panics for a rank outside the world, as an index does.
    pub(crate) fn slot(&self, rank: u32) -> &StatusSlot {
        assert!(rank < self.size, "rank {rank} is not one of {}", self.size);
        // SAFETY: inside the mapping by the check above, aligned (a page is), and valid for any bytes: a slot is made
        // of atomics, which other processes may write at any time.
        unsafe { self.base.add(rank as usize).as_ref() }
    }
}

impl Drop for StatusPage {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length and unmapped nowhere else.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes(self.size)) };
    }
}

fn bytes(size: u32) -> usize {
    size_of::<StatusSlot>() * (size as usize).max(1)
}

/// One rank's slot, keeping the page mapped.
pub(crate) struct MappedSlot {
    page: Arc<StatusPage>,
    rank: u32,
}

impl MappedSlot {
    /// The slot of `rank`, which must be inside the world.
    pub(crate) fn new(page: Arc<StatusPage>, rank: u32) -> Self {
        Self { page, rank }
    }
}

impl AsRef<StatusSlot> for MappedSlot {
    fn as_ref(&self) -> &StatusSlot {
        self.page.slot(self.rank)
    }
}

impl trace::StatusPage for MappedSlot {
    fn slots(&self) -> Vec<&StatusSlot> {
        (0..self.page.size).map(|rank| self.page.slot(rank)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_see_the_same_slots() {
        let (mine, memory) = StatusPage::create(3).unwrap();
        let theirs = Arc::new(StatusPage::map(&memory, 3).unwrap());
        MappedSlot::new(theirs.clone(), 2).as_ref().beat();
        assert_eq!([0, 1, 2].map(|rank| mine.slot(rank).beats()), [0, 0, 1]);
        assert!(StatusPage::map(&memory, 4).is_err(), "more ranks than it holds");
    }
}
