//! How long the kernel let a thread wait for a processor although it could run.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the kernel counts that for the calling thread: time on a processor, time of waiting for one, both in nanoseconds
/// (Documentation/scheduler/sched-stats.rst).
const COUNTS: &str = "/proc/thread-self/schedstat";

/// The count of one thread: the one that opened it.
#[derive(Debug)]
pub(crate) struct Descheduled {
    file: File,
    last_ns: u64,
}

impl Descheduled {
    /// Counts of the calling thread; None where the kernel does not count.
    pub(crate) fn of_this_thread() -> Option<Self> {
        let file = File::open(COUNTS).ok()?;
        let last_ns = read(&file)?;
        Some(Self { file, last_ns })
    }

    /// Nanoseconds since the last call, or since it was opened. It costs one system call.
    pub(crate) fn take_ns(&mut self) -> u64 {
        let now_ns = read(&self.file).unwrap_or(self.last_ns);
        now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns))
    }
}

fn read(file: &File) -> Option<u64> {
    let mut text = [0; 96];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_shares_its_processor_waits_for_it() {
        let Some(mut own) = Descheduled::of_this_thread() else { return };
        let alone = own.take_ns();
        // More threads than any machine has processors, so that each waits for others.
        let busy = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        let ends = std::time::Instant::now() + std::time::Duration::from_millis(300);
        let waited = std::thread::scope(|scope| {
            for _ in 0..busy {
                scope.spawn(|| while std::time::Instant::now() < ends {});
            }
            while std::time::Instant::now() < ends {}
            own.take_ns()
        });
        assert!(waited > 20_000_000 && waited < 10_000_000_000, "{waited} ns beside {busy} threads, {alone} ns before");
    }
}
