//! Memory of this process that nothing uses.

/// Gives memory that was freed back to the system. The allocator keeps it otherwise, in pieces that are too small for what
/// comes next: after a log of 100,000 rows, 60 MB. Only glibc has a call for it.
pub fn release_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointer, and locks the allocator's arenas itself (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}
