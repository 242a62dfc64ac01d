//! What a process has done since it began: two readings tell whether it works.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// Processor time and data, since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Processor time of all its threads.
    pub computed: Duration,
    /// How long its threads waited for a core although they could run; 0 where the kernel does not count that.
    pub queued: Duration,
    /// Whether its first thread could run now. The kernel adds to `queued` only once a thread has a core again.
    pub runnable: bool,
    /// Bytes that it read and wrote; 0 where that cannot be read.
    pub moved: u64,
}

impl Activity {
    /// Activity of the process with this number; None where there is none.
    pub fn of_process(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let computed = processor_time(&stat, clock_ticks_per_second())?;
        Some(Self { computed, queued: queued(pid), runnable: is_runnable(&stat), moved: bytes(&io) })
    }
}

/// The time in user and in kernel code in a /proc/PID/stat line. The name before it may hold any character.
fn processor_time(stat: &str, ticks_a_second: u64) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()?.checked_add(ticks()?)?;
    Some(Duration::from_secs_f64(ticks as f64 / ticks_a_second.max(1) as f64))
}

/// Whether the state in a /proc/PID/stat line is that of a thread which runs or waits for a core.
fn is_runnable(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}

/// How long all threads waited for a processor: the second number of /proc/PID/task/TID/schedstat, in nanoseconds
/// (Documentation/scheduler/sched-stats.rst).
fn queued(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let queued_ns = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(queued_ns).fold(0, u64::saturating_add))
}

/// Bytes of calls, and bytes of files that were read and written otherwise (by mappings).
fn bytes(io: &str) -> u64 {
    let counted = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let counts = matches!(name, "rchar" | "wchar" | "read_bytes" | "write_bytes");
        value.trim().parse::<u64>().ok().filter(|_| counts)
    };
    io.lines().filter_map(counted).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_of_both_kinds() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0";
        assert_eq!(processor_time(stat, 100), Some(Duration::from_secs(3)));
        assert_eq!(processor_time("7 (a) S 1 7", 100), None);
        assert!(!is_runnable(stat) && is_runnable("7 (a) S) R 1 7 7") && !is_runnable(""));
    }

    #[test]
    fn data_is_counted_in_both_directions() {
        assert_eq!(bytes("rchar: 5\nwchar: 7\nsyscr: 100\nread_bytes: 4096\nwrite_bytes: 0\n"), 4108);
        assert_eq!(bytes(""), 0);
    }

    #[test]
    fn work_shows() {
        let pid = std::process::id();
        let before = Activity::of_process(pid).unwrap();
        let end = std::time::Instant::now() + Duration::from_millis(200);
        while std::time::Instant::now() < end {
            std::hint::spin_loop();
        }
        assert!(Activity::of_process(pid).unwrap().computed > before.computed);
        assert_eq!(Activity::of_process(u32::MAX), None);
    }
}
