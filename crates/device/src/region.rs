//! Regions of memory and slices of them.

use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terms::Space;

use crate::HUGE_PAGE;

/// Identifies a region within this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(u64);

/// A contiguous piece of memory and whatever keeps it alive.
///
/// Other processes may map the same pages, so no reference to the bytes is ever formed here: raw pointers only.
pub struct Region {
    id: RegionId,
    base: NonNull<u8>,
    len: usize,
    space: Space,
    /// Unmaps on drop. A backend that allocated the region finds its own registration here by downcast.
    owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: a region is an address range; callers that read or write through it synchronise by the protocol in use, and
// every access goes through raw pointers inside `unsafe` blocks that say which.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A region over memory that `owner` keeps valid.
    ///
    /// # Safety
    /// `base..base + len` must stay mapped readable and writable until `owner` is dropped.
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize, space: Space, owner: Box<dyn Any + Send + Sync>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { id: RegionId(NEXT.fetch_add(1, Ordering::Relaxed)), base, len, space, owner }
    }

    /// Private, zeroed, page-aligned host memory; from 2 MiB up it lies on whole huge pages, as far as the kernel has them.
    ///
    /// # Errors
    /// When the system refuses the mapping.
    pub fn host(len: usize) -> io::Result<Arc<Self>> {
        let mapping = Mapping::anonymous(len.max(1))?;
        let base = mapping.base;
        // SAFETY: the mapping is owned by the region and unmapped only when it is dropped.
        Ok(Arc::new(unsafe { Self::from_raw(base, len, Space::Host, Box::new(mapping)) }))
    }

    /// This region's name within the process.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// First byte, of memory of the host.
    ///
    /// # Panics
    /// For memory of a device: a host that reads or writes it ends. [`Region::address`] is for libraries.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        assert!(self.space == Space::Host, "the host cannot reach this memory");
        self.base.as_ptr()
    }

    /// Where it begins in the memory of its space, for libraries that move its data.
    pub fn address(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies.
    pub fn space(&self) -> Space {
        self.space
    }

    /// What keeps the memory alive, if it is a `T`: how a backend recognises memory that it registered.
    pub fn owner<T: 'static>(&self) -> Option<&T> {
        self.owner.downcast_ref()
    }

    /// The whole region.
    pub fn whole(self: &Arc<Self>) -> Slice {
        Slice { region: self.clone(), offset: 0, len: self.len }
    }

    /// `len` bytes from `offset`; None if they do not lie inside.
    pub fn slice(self: &Arc<Self>, offset: usize, len: usize) -> Option<Slice> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        inside.then(|| Slice { region: self.clone(), offset, len })
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("id", &self.id).field("len", &self.len).field("space", &self.space).finish()
    }
}

/// Part of a region. Constructed by [`Region::slice`], so it always lies inside.
#[derive(Clone, Debug)]
pub struct Slice {
    region: Arc<Region>,
    offset: usize,
    len: usize,
}

impl Slice {
    /// The region it is part of.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Bytes from the region's base.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte, of memory of the host. Panics as [`Region::base`] does.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        // SAFETY: offset <= region.len by construction, so the result stays inside the mapping or one past its end.
        unsafe { self.region.base().add(self.offset) }
    }

    /// Where it begins in the memory of its space, for libraries that move its data.
    pub fn address(&self) -> usize {
        self.region.address() + self.offset
    }

    /// A part of this part; None if it does not lie inside.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Slice> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        inside.then(|| Slice { region: self.region.clone(), offset: self.offset + offset, len })
    }

    /// Moves this part to another place of its region; false, and nothing done, where it does not lie inside there.
    pub fn move_to(&mut self, offset: usize) -> bool {
        let inside = offset.checked_add(self.len).is_some_and(|end| end <= self.region.len);
        if inside {
            self.offset = offset;
        }
        inside
    }

    /// Whether the two share a byte.
    pub fn overlaps(&self, other: &Slice) -> bool {
        let (a, b) = (self.address(), other.address());
        !self.is_empty() && !other.is_empty() && a < b + other.len && b < a + self.len
    }
}

/// An anonymous private mapping.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range that is unmapped once, on drop.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn anonymous(len: usize) -> io::Result<Self> {
        if len < HUGE_PAGE {
            return Self::of_pages(len);
        }
        let no_memory = || io::Error::from_raw_os_error(libc::ENOMEM);
        // With a huge page to spare: kernels place mappings at any page, and the last bytes need a huge page of their own (a
        // peer's kernel reads small pages at less than half of the speed).
        let whole = len.checked_next_multiple_of(HUGE_PAGE).ok_or_else(no_memory)?;
        let mapping = Self::of_pages(whole.checked_add(HUGE_PAGE).ok_or_else(no_memory)?)?.cut(whole);
        // Advice only: a kernel without transparent huge pages answers with an error that changes nothing.
        // SAFETY: this mapping.
        unsafe { libc::madvise(mapping.base.as_ptr().cast(), mapping.len, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    fn of_pages(len: usize) -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping; no existing memory is named.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(base.cast()).map(|base| Self { base, len }).ok_or_else(io::Error::last_os_error)
    }

    /// `len` bytes from the first huge page on; what lies before and behind is unmapped. They must lie inside.
    fn cut(mut self, len: usize) -> Self {
        let before = self.base.as_ptr().align_offset(HUGE_PAGE);
        assert!(before + len <= self.len, "a mapping is cut where it is");
        // SAFETY: inside this mapping, by the line above.
        let (begin, end) = unsafe { (self.base.add(before), self.base.add(before + len)) };
        for (from, len) in [(self.base, before), (end, self.len - before - len)] {
            if len > 0 {
                // SAFETY: whole pages of this mapping that nobody uses yet.
                unsafe { libc::munmap(from.as_ptr().cast(), len) };
            }
        }
        (self.base, self.len) = (begin, len);
        self
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `anonymous` with this length and unmapped nowhere else.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_regions_lie_on_whole_huge_pages() {
        for (len, mapped) in
            [(HUGE_PAGE, HUGE_PAGE), (HUGE_PAGE + 1, 2 * HUGE_PAGE), (3 * HUGE_PAGE - 8, 3 * HUGE_PAGE)]
        {
            // Several: one might lie so by chance.
            let regions: Vec<Arc<Region>> = (0..4).map(|_| Region::host(len).unwrap()).collect();
            for region in &regions {
                assert_eq!((region.len(), region.base() as usize % HUGE_PAGE), (len, 0));
                assert_eq!(region.owner::<Mapping>().unwrap().len, mapped);
                // SAFETY: the last byte of what was mapped, which is this region's alone.
                unsafe { region.base().add(mapped - 1).write(1) };
            }
        }
    }

    #[test]
    fn a_part_moves_only_within_its_region() {
        let region = Region::host(100).unwrap();
        let mut part = region.slice(10, 40).unwrap();
        assert!(part.move_to(60) && !part.move_to(61) && !part.move_to(usize::MAX));
        assert_eq!((part.offset(), part.len()), (60, 40));
    }

    #[test]
    fn a_length_that_no_mapping_has_is_an_error() {
        for len in [usize::MAX, usize::MAX - HUGE_PAGE, usize::MAX / 2] {
            assert!(Region::host(len).is_err(), "{len}");
        }
    }
}
