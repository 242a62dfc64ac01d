//! The processes above this one, as /proc tells.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// A process above this one.
pub struct Ancestor {
    /// Number of the process.
    pub pid: u32,
    /// Name of the process, of at most 15 bytes.
    pub name: String,
    /// When it began, in the kernel's ticks: tells it from a later process with the same number.
    pub started: u64,
}

/// When a process began, in the kernel's ticks; None where there is none.
pub fn began(pid: u32) -> Option<u64> {
    stat(OsStr::new(&pid.to_string())).map(|(_, own)| own.started)
}

/// The number of the process that started another, or that it was given to when that one ended.
pub fn parent_of(pid: u32) -> Option<u32> {
    stat(OsStr::new(&pid.to_string())).map(|(parent, _)| parent)
}

/// The process that started this one.
pub fn parent() -> Option<Ancestor> {
    let (above, _) = stat(OsStr::new("self"))?;
    Some(stat(OsStr::new(&above.to_string()))?.1)
}

/// The processes above this one, the one that started it first; without the first of the host or container.
pub fn ancestors() -> Vec<Ancestor> {
    let mut above = stat(OsStr::new("self")).map(|(above, _)| above);
    let next = || {
        let (next, found) = stat(OsStr::new(&above.filter(|pid| *pid > 1)?.to_string()))?;
        above = Some(next);
        Some(found)
    };
    std::iter::from_fn(next).collect()
}

/// A process below another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) pid: u32,
    /// Whether it is a child of the other process itself.
    pub(crate) is_child: bool,
    /// Whether it has ended, and nobody waited for it.
    pub(crate) is_zombie: bool,
}

/// The processes below this one: its children, theirs, and so on.
pub(crate) fn below(pid: u32) -> Vec<Below> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers =
        processes.filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()));
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        let is_zombie = text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'));
        let (parent, own) = parse(&text)?;
        Some((parent, Below { pid: own.pid, is_child: parent == pid, is_zombie }))
    };
    let all: Vec<(u32, Below)> = numbers.filter_map(read).collect();
    let (mut found, mut next) = (Vec::new(), vec![pid]);
    while let Some(parent) = next.pop() {
        let children = all.iter().filter(|(of, _)| *of == parent).map(|(_, own)| *own);
        next.extend(children.clone().map(|own| own.pid));
        found.extend(children);
    }
    found
}

/// The processes below another that live: its children, theirs, and so on. Those that were started first come first.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = below(pid).into_iter().filter(|one| !one.is_zombie).map(|one| one.pid).collect();
    found.sort_unstable_by_key(|pid| (began(*pid), *pid));
    found
}

/// Seconds of processor time so far of the processes below this one: of those that live, and of those that somebody waited
/// for. None where /proc does not tell.
pub fn processor_time_below() -> Option<f64> {
    let own = times(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let of_others = below(std::process::id()).into_iter().filter_map(|one| {
        let [used, waited_for] = times(&fs::read_to_string(format!("/proc/{}/stat", one.pid)).ok()?)?;
        Some(used + waited_for)
    });
    Some(own[1] + of_others.sum::<f64>())
}

/// What a process used, and what its children did that it waited for, in seconds (proc(5): utime, stime, cutime, cstime).
fn times(text: &str) -> Option<[f64; 2]> {
    const TICKS: f64 = 100.0;
    let (_, rest) = text.rsplit_once(')')?;
    let times: Vec<f64> = rest.split_whitespace().skip(11).take(4).map_while(|word| word.parse().ok()).collect();
    let [user, system, of_user, of_system] = times[..] else { return None };
    Some([(user + system) / TICKS, (of_user + of_system) / TICKS])
}

/// The number of its parent, and itself, from /proc/PID/stat.
fn stat(process: &OsStr) -> Option<(u32, Ancestor)> {
    parse(&fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?)
}

fn parse(text: &str) -> Option<(u32, Ancestor)> {
    // A name may hold any character; the last `)` ends it.
    let (head, rest) = text.rsplit_once(')')?;
    let (pid, name) = head.split_once(" (")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let started = fields.get(19)?.parse().ok()?;
    Some((fields.get(1)?.parse().ok()?, Ancestor { pid: pid.parse().ok()?, name: name.to_owned(), started }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_above_this_one_is_the_first_of_all_above() {
        let (above, all) = (parent().unwrap(), ancestors());
        assert_eq!(above.pid, std::os::unix::process::parent_id());
        // None is above the first process of a container.
        assert!(all.first().is_none_or(|first| (first.pid, first.started) == (above.pid, above.started)));
        assert_eq!(began(above.pid), Some(above.started));
    }

    #[test]
    fn what_processes_below_used_is_counted_while_they_live_and_afterwards() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 30 20 0 0";
        assert_eq!((times(stat), times("42 (a) S 1")), (Some([2.0, 0.5]), None));
        let before = processor_time_below().unwrap();
        // It takes a shell more than a tick of the kernel, which is ten milliseconds.
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut shell = std::process::Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        shell.wait().unwrap();
        assert!(processor_time_below().unwrap() > before, "{before}");
    }

    #[test]
    fn children_of_children_are_below() {
        let mut child = std::process::Command::new("/bin/sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let living = |pid: u32| below(pid).into_iter().filter(|one| !one.is_zombie).collect::<Vec<_>>();
        while living(child.id()).is_empty() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let [inner] = living(child.id())[..] else { panic!("one: {:?}", below(child.id())) };
        assert!(inner.is_child);
        assert!(below(std::process::id()).iter().any(|one| one.pid == inner.pid && !one.is_child));
        let pid = rustix::process::Pid::from_raw(inner.pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn names_may_hold_any_character() {
        let fields = "S 7 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        let (above, own) = parse(&format!("12 (a) (b)) {fields}")).unwrap();
        assert_eq!((above, own.pid, own.name.as_str(), own.started), (7, 12, "a) (b)", 4711));
        assert!(parse("12 (cut) S 7").is_none());
    }
}
