//! Another process's memory, read in pages. By `libc`: rustix has no `process_vm_readv`.

use std::collections::HashMap;

/// Bytes that are read at a time.
const PAGE: usize = 4096;
/// Pages that are kept; a stack that takes more is damaged.
const PAGES: usize = 4096;

/// Pages of a stack that are read while its thread is stopped: 512 KiB, which takes 0.1 ms.
const STACK: usize = 128;

/// The memory of one process, as it was when each page was first read.
pub(super) struct ProcessMemory {
    pid: u32,
    pages: HashMap<u64, Option<Box<[u8]>>>,
}

impl ProcessMemory {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid, pages: HashMap::new() }
    }

    /// Reads what a walk needs while the thread is stopped: the stack from here on, as far as it is mapped. The walk itself
    /// may then take its time.
    pub(super) fn capture(&mut self, stack: u64) {
        let first = stack - stack % PAGE as u64;
        let bytes = read_up_to(self.pid, first, STACK);
        for (page, place) in bytes.chunks_exact(PAGE).zip((first..).step_by(PAGE)) {
            self.pages.insert(place, Some(page.into()));
        }
    }

    /// The word at this address.
    pub(super) fn word(&mut self, address: u64) -> Option<u64> {
        let at = (address % PAGE as u64) as usize;
        if at + 8 > PAGE {
            return read(self.pid, address, 8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        }
        let page = address - at as u64;
        if self.pages.len() >= PAGES && !self.pages.contains_key(&page) {
            return None;
        }
        let pid = self.pid;
        let page = self.pages.entry(page).or_insert_with(|| read(pid, page, PAGE).map(Vec::into_boxed_slice));
        let bytes = page.as_ref()?.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }
}

/// At most so many pages of a process's memory from the begin of a page on, up to the first that cannot be read.
fn read_up_to(pid: u32, address: u64, pages: usize) -> Vec<u8> {
    let (Ok(pid), Ok(address)) = (libc::pid_t::try_from(pid), usize::try_from(address)) else { return Vec::new() };
    let mut bytes = vec![0; pages * PAGE];
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // The kernel gives what it could read, in whole parts only.
    let part = |page: usize| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address.wrapping_add(page * PAGE)),
        iov_len: PAGE,
    };
    let theirs: Vec<libc::iovec> = (0..pages).map(part).collect();
    // SAFETY: the kernel writes at most `bytes.len()` bytes to `bytes`. The other addresses are not ours and are not used by
    // us: the kernel checks them against their memory.
    let count =
        unsafe { libc::process_vm_readv(pid, &raw const ours, 1, theirs.as_ptr(), theirs.len() as libc::c_ulong, 0) };
    bytes.truncate(usize::try_from(count).unwrap_or(0));
    bytes
}

/// So many bytes of a process's memory; None unless all can be read.
pub(super) fn read(pid: u32, address: u64, length: usize) -> Option<Vec<u8>> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let mut bytes = vec![0; length];
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let theirs =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(usize::try_from(address).ok()?), iov_len: length };
    // SAFETY: the kernel writes at most `length` bytes to `bytes`. Their address is not ours and is not used by us: the
    // kernel checks it against their memory.
    let count = unsafe { libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0) };
    (usize::try_from(count) == Ok(length)).then_some(bytes)
}
