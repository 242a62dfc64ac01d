//! Cores of the host: which ones a thread runs on, and their peak rate. Knows neither ranks nor operations.

pub mod peak;

/// Lets the calling thread run on any of these cores. Advice: where the system refuses, it runs where it may.
pub fn run_on(cores: &[u32]) {
    if cores.is_empty() {
        return;
    }
    // SAFETY: an all-zero set is a valid empty set; indices are below its size, and the call reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as u32) {
            libc::CPU_SET(*core as usize, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
