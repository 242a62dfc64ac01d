//! Which cores this process may use, which of them one of several is bound to, and on which host this is.

use std::io;

/// A set of cores, as the system wants it. Room for 8,192, where `cpu_set_t`, and rustix with it, ends at 1,024.
#[derive(Clone)]
pub struct CoreMask([u64; 128]);

impl CoreMask {
    /// These cores; those beyond the room are left out.
    pub fn new(cores: &[u32]) -> Self {
        let mut words = [0; 128];
        for core in cores {
            if let Some(word) = words.get_mut(*core as usize / 64) {
                *word |= 1 << (core % 64);
            }
        }
        Self(words)
    }

    fn cores(&self) -> Vec<u32> {
        (0..self.0.len() as u32 * 64).filter(|core| self.0[*core as usize / 64] >> (core % 64) & 1 == 1).collect()
    }

    /// Binds the calling thread, and what it starts from now on. Async-signal-safe.
    ///
    /// # Errors
    /// When none of the cores may be used.
    pub fn bind_this_thread(&self) -> io::Result<()> {
        // SAFETY: the words outlive the call, and their size in bytes is given.
        let refused = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) };
        if refused < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// The cores that the calling thread may use, ascending; never empty.
///
/// # Errors
/// When the system refuses to tell.
pub fn allowed_cores() -> io::Result<Vec<u32>> {
    cores_of(0)
}

/// The cores that a process of this user may use, ascending; 0 is the calling thread.
///
/// # Errors
/// When there is no such process.
pub fn cores_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut mask = CoreMask([0; 128]);
    // SAFETY: the words outlive the call, and their size in bytes is given.
    if unsafe { libc::sched_getaffinity(pid as libc::pid_t, size_of_val(&mask.0), mask.0.as_mut_ptr().cast()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(mask.cores())
}

/// The core that the process of this index is bound to: round robin over the allowed ones.
pub fn core_of(index: u32, allowed: &[u32]) -> Option<u32> {
    let index = (index as usize).checked_rem(allowed.len())?;
    allowed.get(index).copied()
}

/// This host's name.
pub fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    if name.is_empty() { "localhost".to_owned() } else { name.into_owned() }
}

/// The number of this process's PID namespace: numbers of processes mean something only within one. None where /proc lacks it.
pub fn pid_namespace() -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_go_round_robin_over_allowed_cores() {
        assert_eq!((0..5).map(|index| core_of(index, &[2, 7])).collect::<Vec<_>>(), [2, 7, 2, 7, 2].map(Some));
        assert_eq!(core_of(0, &[]), None);
        assert_eq!(CoreMask::new(&[0, 63, 64, 8191, 9000]).cores(), [0, 63, 64, 8191]);
        assert!(!allowed_cores().unwrap().is_empty());
    }
}
