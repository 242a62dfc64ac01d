//! What the system knows of this rank's process: memory, processor time, threads; and the memory that it may take.

use std::fs;

/// Memory of a process in bytes, as the kernel counts pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldMemory {
    /// Resident now.
    pub(super) resident: u64,
    /// The most that was resident since the last [`reset_peak`].
    pub(super) peak: u64,
    /// Of what is resident, pages of files: program, libraries, data. The kernel drops and reads them again as it likes,
    /// and maps more or fewer of them at once, so they do not count as held.
    pub(super) file: u64,
    /// Of what is resident, pages of shared memory, which other processes may have mapped too.
    pub(super) shared: u64,
    /// Resident shared memory, each page divided by the number of processes that have mapped it: over all ranks, every
    /// page counts once.
    pub(super) shared_once: u64,
    /// Address space.
    pub(super) mapped: u64,
}

impl HeldMemory {
    /// What the kernel says now; None where it does not.
    pub(super) fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let shared = bytes(&status, "RssShmem:").unwrap_or(0);
        Some(Self {
            resident: bytes(&status, "VmRSS:")?,
            peak: bytes(&status, "VmHWM:")?,
            mapped: bytes(&status, "VmSize:")?,
            file: bytes(&status, "RssFile:").unwrap_or(0),
            shared_once: bytes(&rollup, "Pss_Shmem:").unwrap_or(shared),
            shared,
        })
    }

    /// The most that this process held by itself, and its share of what it holds together with others.
    pub(super) fn peak_once(self) -> u64 {
        self.peak.saturating_sub(self.file + self.shared) + self.shared_once
    }

    /// What this process holds now by itself, and its share of what it holds together with others.
    pub(super) fn resident_once(self) -> u64 {
        self.resident.saturating_sub(self.file + self.shared) + self.shared_once
    }
}

/// The value of `NAME:  123 kB`.
fn bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Forgets the peak so far (proc(5), `clear_refs`). False where the kernel does not let it: the peak is then that of the
/// whole life of the process.
pub(super) fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Threads of this process.
pub(super) fn threads() -> u64 {
    fs::read_dir("/proc/self/task").map_or(1, |tasks| tasks.count() as u64)
}

/// Processor time of all threads of this process so far, in ns.
pub(super) fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of steps, without that of what is compared and measured between them. Steps that no check follows
/// count, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepCpu {
    ns: u64,
    /// Processor time when steps began to count; None while they do not.
    since_ns: Option<u64>,
}

impl StepCpu {
    /// Nothing so far; steps count from now on.
    pub(super) fn from_now(now_ns: u64) -> Self {
        Self { ns: 0, since_ns: Some(now_ns) }
    }

    /// What follows does not belong to a step.
    pub(super) fn pause(&mut self, now_ns: u64) {
        self.ns += self.since_ns.take().map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
    }

    /// What follows are steps again.
    pub(super) fn resume(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    /// Seconds up to the last pause.
    pub(super) fn seconds(self) -> f64 {
        self.ns as f64 / 1e9
    }
}

/// A bound on the address space of this process, lifted when dropped: what is mapped beyond it is refused, so that a
/// rank that needs more fails where it asks, and takes nobody else's memory.
#[derive(Debug)]
pub(super) struct Bound {
    before: libc::rlimit,
}

impl Bound {
    /// Not more than this many bytes of addresses. None where the system does not let it.
    pub(super) fn set(bytes: u64) -> Option<Self> {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is valid for the call.
        if unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut before) } != 0 {
            return None;
        }
        let bound = libc::rlimit { rlim_cur: bytes.min(before.rlim_max), rlim_max: before.rlim_max };
        // SAFETY: as above. The soft limit only, which may be raised again.
        (unsafe { libc::setrlimit(libc::RLIMIT_AS, &bound) } == 0).then_some(Self { before })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: the pointer is valid for the call. It may not fail: the soft limit goes back to what it was.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_text() {
        let text = "Name:\tx\nVmHWM:\t    1744 kB\nVmRSS:\t 12 kB\n";
        assert_eq!((bytes(text, "VmHWM:"), bytes(text, "RssShmem:")), (Some(1744 * 1024), None));
        let held = HeldMemory { resident: 50, peak: 100, file: 5, shared: 40, shared_once: 20, mapped: 500 };
        assert_eq!((held.peak_once(), held.resident_once()), (75, 25));
    }

    #[test]
    fn processor_time_of_checks_is_not_that_of_steps() {
        let second = 1_000_000_000;
        let mut time = StepCpu::from_now(second);
        // A trial of one second, a check of five, and the end of the trial.
        time.pause(2 * second);
        time.pause(7 * second);
        assert_eq!(time.seconds(), 1.0);
        // A trial of two seconds that nothing checks.
        time.resume(7 * second);
        time.pause(9 * second);
        assert_eq!(time.seconds(), 3.0);
        assert_eq!(StepCpu::from_now(9 * second).seconds(), 0.0);
    }

    #[test]
    fn this_process_holds_what_it_touched() {
        let before = HeldMemory::now().unwrap();
        let touched = vec![1_u8; 64 << 20];
        let after = HeldMemory::now().unwrap();
        assert!(after.resident >= before.resident + (60 << 20) && after.peak >= after.resident, "{before:?} {after:?}");
        assert_eq!(touched[12_345], 1);
        assert!(threads() >= 1 && cpu_ns() > 0);
    }
}
