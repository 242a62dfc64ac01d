//! What /proc says of a process's threads.

use std::io;

use super::Thread;

/// The threads of a process, the main one first, at most so many.
///
/// # Errors
/// When there is no such process.
pub(super) fn list(pid: u32, most: usize) -> io::Result<Vec<Thread>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let number = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable_by_key(|number| (*number != pid, *number));
    numbers.truncate(most);
    Ok(numbers.into_iter().filter_map(|number| look(pid, number)).collect())
}

/// What is known of a thread; None: it has ended.
fn look(pid: u32, number: u32) -> Option<Thread> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/task/{number}/{name}"));
    let stat = read("stat").ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(').map(|(_, name)| name.to_owned()).unwrap_or_default();
    let state = after.trim_start().chars().next()?;
    let sleeps_in = read("wchan").ok().map(|text| text.trim().to_owned());
    let sleeps_in = sleeps_in.filter(|text| !text.is_empty() && text != "0");
    let system_call = read("syscall").ok().and_then(|text| system_call(&text));
    Some(Thread { number, name, state, sleeps_in, system_call, frames: Vec::new() })
}

/// The system call in a line of /proc/PID/syscall: "230 0x1 ...", "running", "-1 ..." (in the kernel, not in a call).
fn system_call(line: &str) -> Option<String> {
    let number: i64 = line.split_whitespace().next()?.parse().ok()?;
    if number < 0 {
        return None;
    }
    let known = CALLS.iter().find(|(call, _)| *call == number);
    Some(known.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned()))
}

/// The calls that processes hang in.
const CALLS: &[(libc::c_long, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_sched_yield, "sched_yield"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_madvise, "madvise"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_have_names_or_numbers() {
        let line = format!("{} 0x1 0x0 0x7ffd 0x7f", libc::SYS_clock_nanosleep);
        assert_eq!(system_call(&line).as_deref(), Some("clock_nanosleep"));
        assert_eq!(system_call("9999 0x1").as_deref(), Some("system call 9999"));
        for line in ["running\n", "-1 0x7ffd 0x7f", ""] {
            assert_eq!(system_call(line), None, "{line}");
        }
    }
}
