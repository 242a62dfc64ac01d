//! Arenas: memory that several processes map, each one sealed memfd. Passing the descriptor to peers is not done here.
//!
//! Not `/dev/shm` names: many containers cap that file system at 64 MiB, and names outlive a crash.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Bytes of a small page on the machines that this runs on.
pub const PAGE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// From Linux 6.1; not in every `libc` crate version.
const MADV_COLLAPSE: libc::c_int = 25;
/// From Linux 5.14.
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Where the data of `rank`'s arena begins in its file.
///
/// Mappings of different ranks that lie a multiple of 2^28 bytes apart ran 5-6 times slower in cache (AMD Zen 4). Huge
/// pages need mappings aligned to 2 MiB, so that the skew cannot be in the mapping's address: it is in the file.
///
/// By whole pages, because a load that follows a store to an address with the same low 12 bits waits for it (Intel), and
/// a loop over several ranks' memory loads next what is a little above what it has just stored: 256 bytes more a rank
/// made an all-reduce of 64 KiB 20% slower. Half a page is far enough, and keeps more than eight ranks from falling into
/// one set of the first-level cache.
pub const fn skew(rank: u32) -> usize {
    let rank = rank as usize;
    (rank % 61) * 3 * PAGE + (rank / 61) * PAGE + (rank / 8 % 2) * (PAGE / 2)
}

/// A memfd with all of its pages present and a length that can never change.
#[derive(Debug)]
pub struct Arena {
    file: OwnedFd,
    mapping: Arc<SharedMapping>,
}

impl Arena {
    /// `len` bytes of zeroed shared memory, mapped. From 2 MiB up it is made of huge pages where the kernel lets it.
    ///
    /// # Errors
    /// When the system refuses: out of memory is found here and not when the memory is touched.
    pub fn create(len: usize) -> io::Result<Self> {
        let huge = len >= HUGE_PAGE;
        let granule = if huge { HUGE_PAGE } else { PAGE };
        let len =
            len.max(1).checked_next_multiple_of(granule).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // Shared memory may take every page there is before the kernel refuses one, and then it kills somebody.
        if crate::available_memory().is_some_and(|available| len as u64 > available) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        let arena = Self::reserve(len)?;
        arena.mapping.provide(arena.file(), 0..len, len)?;
        Ok(arena)
    }

    /// `len` bytes of shared memory without pages, mapped: each process that maps it gives pages to its part
    /// ([`SharedMapping::provide`]) before anybody touches it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn reserve(len: usize) -> io::Result<Self> {
        let file = memfd(len.next_multiple_of(PAGE))?;
        let mapping = SharedMapping::from_file(file.as_fd())?;
        Ok(Self { file, mapping })
    }

    /// To be passed to peers.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The mapping; the descriptor is closed.
    pub fn into_mapping(self) -> Arc<SharedMapping> {
        self.mapping
    }
}

/// A close-on-exec memfd of this length that neither shrinks nor grows: no access inside can ever raise SIGBUS for want
/// of a page in the file.
fn memfd(len: usize) -> io::Result<OwnedFd> {
    let size = libc::off_t::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // The system call itself: the C library has its function from glibc 2.27 only, and the wheels are for 2.17.
    // SAFETY: the name is a valid C string; the result is checked before it is owned.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_create, c"rankmark".as_ptr(), flags) };
    let Some(fd) = i32::try_from(fd).ok().filter(|fd| *fd >= 0) else { return Err(io::Error::last_os_error()) };
    // SAFETY: a fresh descriptor that nobody else owns.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: calls on an owned descriptor, with plain integers.
    let done = unsafe { libc::ftruncate(fd, size) == 0 && libc::fcntl(fd, libc::F_ADD_SEALS, seals) == 0 };
    if done { Ok(file) } else { Err(refused(io::Error::last_os_error(), len)) }
}

/// The limit on file sizes counts for shared memory, too, which the system's own words do not say.
fn refused(error: io::Error, len: usize) -> io::Error {
    if error.kind() != io::ErrorKind::FileTooLarge {
        return error;
    }
    let why = format!("{error}: the limit on file sizes (`ulimit -f`) allows less than {len} bytes of shared memory");
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}

/// Puts pages behind a range of the file.
fn allocate(file: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<()> {
    // SAFETY: a call on a borrowed descriptor with plain integers, which fit: the file has that length already.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, len as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A shared mapping of a whole arena. Unmapped on drop.
///
/// Within one process an arena is mapped once, however many ranks (threads) ask: fewer mappings, and race detectors,
/// which know memory by its address, see one memory.
#[derive(Debug)]
pub struct SharedMapping {
    base: NonNull<u8>,
    len: usize,
    identity: (u64, u64),
}

// SAFETY: an address range that is unmapped once, on drop; its users synchronise by protocol, through raw pointers.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

type Mapped = Mutex<HashMap<(u64, u64), Weak<SharedMapping>>>;

fn mapped() -> &'static Mapped {
    static MAPPED: OnceLock<Mapped> = OnceLock::new();
    MAPPED.get_or_init(Mapped::default)
}

impl SharedMapping {
    /// Maps an arena, of this process or received from a peer.
    ///
    /// # Errors
    /// When it is not a sealed file, or the system refuses.
    pub fn from_file(file: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        let (len, identity) = sealed_length(file)?;
        let mut mapped = mapped().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(mapping) = mapped.get(&identity).and_then(Weak::upgrade) {
            return Ok(mapping);
        }
        let mapping = Arc::new(Self { base: map(file, len)?, len, identity });
        mapped.insert(identity, Arc::downgrade(&mapping));
        Ok(mapping)
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: an arena holds at least a page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts zeroed pages behind whole pages of the file that this maps: huge ones behind its first `huge` bytes, if
    /// these are whole huge pages and the kernel lets it. They lie near the core of the calling thread. Small ones are filled
    /// with zeros when they are first touched, huge ones at once.
    ///
    /// # Errors
    /// When the system has not so many.
    pub fn provide(&self, file: BorrowedFd<'_>, range: Range<usize>, huge: usize) -> io::Result<()> {
        if range.end > self.len {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let hot = range.start..range.start + huge.min(range.len());
        if [hot.start, hot.end].iter().all(|at| at.is_multiple_of(HUGE_PAGE)) && !hot.is_empty() {
            // One small page in each huge one, and then the collapse, which fills the rest with zeros: half the work of
            // filling small pages first and copying them.
            for offset in hot.clone().step_by(HUGE_PAGE) {
                allocate(file, offset, PAGE)?;
            }
            self.collapse(&hot);
        }
        allocate(file, range.start, range.len())
    }

    /// Maps these pages now, so that no timed access takes a page fault. Advice: a kernel that cannot leaves it to the
    /// first access.
    pub fn populate(&self, range: Range<usize>) {
        if range.is_empty() || range.end > self.len {
            return;
        }
        // SAFETY: the range lies in this mapping; the advice writes nothing.
        unsafe { libc::madvise(self.base.as_ptr().add(range.start).cast(), range.len(), MADV_POPULATE_WRITE) };
    }

    /// Gives the pages behind a range back to the system; the mapping stays, and reads as zeros. Ranges that the kernel
    /// refuses stay allocated until the last mapping goes.
    pub fn release(&self, offset: usize, len: usize) {
        let begin = offset.next_multiple_of(PAGE);
        let end = offset.saturating_add(len).min(self.len);
        if begin < end {
            // SAFETY: the range lies inside this mapping, and the caller's region over it is being dropped.
            unsafe { libc::madvise(self.base.as_ptr().add(begin).cast(), end - begin, libc::MADV_REMOVE) };
        }
    }

    /// Asks for huge pages at once: the usual settings for shared memory (`never`, `advise`) leave small pages there.
    /// Advice: small pages are slower (4-9%) and just as right.
    fn collapse(&self, range: &Range<usize>) {
        // SAFETY: the range lies in this mapping, as `provide` has checked; neither advice changes its content.
        unsafe {
            let begin = self.base.as_ptr().add(range.start).cast();
            libc::madvise(begin, range.len(), libc::MADV_HUGEPAGE);
            libc::madvise(begin, range.len(), MADV_COLLAPSE);
        }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        let mut mapped = mapped().lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Another thread may have mapped the arena again since the last Arc went.
        if mapped.get(&self.identity).is_some_and(|weak| weak.strong_count() == 0) {
            mapped.remove(&self.identity);
        }
        drop(mapped);
        // SAFETY: mapped in `map` with this length, and unmapped nowhere else.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Length and identity (device, inode) of a file that is sealed against shrinking: a peer's file that is not could
/// raise SIGBUS here.
fn sealed_length(file: BorrowedFd<'_>) -> io::Result<(usize, (u64, u64))> {
    let fd = file.as_raw_fd();
    // SAFETY: a call on a borrowed descriptor.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is not sealed against shrinking"));
    }
    // SAFETY: `stat` is plain data, for which zeros are valid, and the call fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a call on a borrowed descriptor with room for its result.
    if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((stat.st_size as usize, (stat.st_dev, stat.st_ino)))
}

/// Maps the file, aligned to huge pages where it holds one.
fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<NonNull<u8>> {
    let align = if len >= HUGE_PAGE { HUGE_PAGE } else { PAGE };
    let reserved = len + align;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh reservation of address space; no existing memory is named.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let begin = (start as usize).next_multiple_of(align);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: [begin, begin + len) lies inside the reservation just made, which nobody else uses.
    let base = unsafe {
        libc::mmap(begin as *mut _, len, protection, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd(), 0)
    };
    let error = io::Error::last_os_error();
    let before = begin - start as usize;
    let after = reserved - before - len;
    // SAFETY: what is unmapped is the reservation's rest on both sides of the mapping (or all of it, on failure).
    unsafe {
        if base == libc::MAP_FAILED {
            libc::munmap(start, reserved);
            return Err(error);
        }
        if before > 0 {
            libc::munmap(start, before);
        }
        if after > 0 {
            libc::munmap((begin + len) as *mut _, after);
        }
    }
    NonNull::new(base.cast()).ok_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_zeroed_sealed_and_mapped_once_a_process() {
        let arena = Arena::create(5 << 20).unwrap();
        let again = SharedMapping::from_file(arena.file()).unwrap();
        assert_eq!(again.len(), 6 << 20);
        // SAFETY: a descriptor that the arena owns; shrinking must fail.
        assert_ne!(unsafe { libc::ftruncate(arena.file().as_raw_fd(), 0) }, 0);
        let mapping = arena.into_mapping();
        assert!(Arc::ptr_eq(&mapping, &again));
        for offset in [0, 4096, (6 << 20) - 1] {
            // SAFETY: inside the mapping, which only this test uses.
            assert_eq!(unsafe { mapping.base().add(offset).read() }, 0);
        }
    }

    #[test]
    fn each_part_of_a_reserved_arena_gets_pages_of_its_own() {
        let arena = Arena::reserve(6 << 20).unwrap();
        let blocks = || {
            // SAFETY: `stat` is plain data that the call fills; the arena owns the descriptor.
            unsafe {
                let mut stat: libc::stat = std::mem::zeroed();
                assert_eq!(libc::fstat(arena.file().as_raw_fd(), &raw mut stat), 0);
                stat.st_blocks as usize * 512
            }
        };
        assert_eq!(blocks(), 0, "nothing is allocated");
        let mapping = SharedMapping::from_file(arena.file()).unwrap();
        mapping.provide(arena.file(), 2 << 20..4 << 20, 2 << 20).unwrap();
        assert_eq!(blocks(), 2 << 20);
        mapping.provide(arena.file(), 8192..16384, 0).unwrap();
        assert_eq!(blocks(), (2 << 20) + 8192);
        assert!(mapping.provide(arena.file(), 4 << 20..8 << 20, 0).is_err(), "beyond its end");
    }

    #[test]
    fn pages_are_mapped_where_asked_and_nowhere_else() {
        let mapping = Arena::reserve(1 << 20).unwrap().into_mapping();
        let present = || {
            let mut pages = vec![0u8; (1 << 20) / PAGE];
            // SAFETY: the range is the mapping, and there is a byte for each of its pages.
            assert_eq!(unsafe { libc::mincore(mapping.base().cast(), 1 << 20, pages.as_mut_ptr()) }, 0);
            pages.iter().enumerate().filter(|(_, page)| **page & 1 == 1).map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(present(), [] as [usize; 0]);
        mapping.populate(2 * PAGE..4 * PAGE);
        mapping.populate(0..(1 << 20) + 1);
        // Kernels before 5.14 do not know the advice.
        assert!(present() == [2, 3] || present().is_empty(), "{:?}", present());
    }

    #[test]
    fn pages_are_given_back() {
        let mapping = Arena::create(1 << 20).unwrap().into_mapping();
        // SAFETY: inside the mapping, which only this test uses.
        unsafe { mapping.base().add(8192).write(7) };
        mapping.release(4096, 1 << 20);
        // SAFETY: as above.
        assert_eq!(unsafe { mapping.base().add(8192).read() }, 0);
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(Arena::create(usize::MAX).is_err());
        assert_eq!(Arena::create(1 << 46).unwrap_err().raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn skews_differ_modulo_every_aliasing_distance() {
        let skews: Vec<usize> = (0..61).map(skew).collect();
        for (i, a) in skews.iter().enumerate() {
            for b in &skews[..i] {
                assert_ne!(a % (1 << 28), b % (1 << 28));
            }
            assert!(a % 64 == 0 && *a < HUGE_PAGE);
        }
        let low: std::collections::BTreeSet<usize> = skews.iter().map(|skew| skew % PAGE).collect();
        assert_eq!(low.into_iter().collect::<Vec<_>>(), [0, PAGE / 2]);
    }
}
