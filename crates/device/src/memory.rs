//! How much memory there is to give: read before anything large is allocated, so that "too much" is an error with its
//! arithmetic and never a kill by the kernel.

use std::fs;
use std::path::Path;

/// Bytes that can still be allocated without swapping: the smaller of the kernel's `MemAvailable` and what each control
/// group above this process leaves. None where neither can be read.
pub fn available_memory() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_available(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| control_groups(&text));
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (system, group) => system.or(group),
    }
}

/// Whether the kernel puts huge pages behind private memory of this process that asks for them.
pub fn private_huge_pages() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    // SAFETY: a question about this process with plain integers.
    let forbidden = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } != 0;
    ["[always]", "[madvise]"].iter().any(|word| setting.contains(word)) && !forbidden
}

/// `MemAvailable:   123 kB` in bytes.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control groups of this process leave, from its own group up to the root: of version 2, or of version 1. A container
/// may map its own group to the root.
fn control_groups(membership: &str) -> Option<u64> {
    let left = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            "memory" => Path::new("/sys/fs/cgroup/memory"),
            _ => return None,
        };
        let own = root.join(path.trim_start_matches('/'));
        own.ancestors().take_while(|group| group.starts_with(root)).filter_map(left_in).min()
    };
    membership.lines().filter_map(left).min()
}

/// Limit minus use, where use leaves out the page cache that the kernel would drop first.
fn left_in(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // "max" does not parse: no limit here. Version 1 has other names, and a number near 2^63 for no limit.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let value = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let droppable = value("total_inactive_file ").or_else(|| value("inactive_file ")).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(droppable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_table() {
        assert_eq!(mem_available("MemTotal: 9 kB\nMemAvailable:   123 kB\n"), Some(123 * 1024));
        assert_eq!(mem_available("MemTotal: 9 kB\n"), None);
        assert!(available_memory().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn groups_of_both_versions_leave_their_limit_minus_what_cannot_be_dropped() {
        let root = std::env::temp_dir().join(format!("device-memory-{}", std::process::id()));
        let left = |name: &str, files: &[(&str, &str)]| {
            let group = root.join(name);
            fs::create_dir_all(&group).unwrap();
            files.iter().for_each(|(file, text)| fs::write(group.join(file), text).unwrap());
            left_in(&group)
        };
        let (stat, stat_1) = ("anon 1\ninactive_file 30\n", "inactive_file 1\ntotal_inactive_file 30\n");
        let two = left("2", &[("memory.max", "100\n"), ("memory.current", "80\n"), ("memory.stat", stat)]);
        let one = [("memory.limit_in_bytes", "100\n"), ("memory.usage_in_bytes", "80\n"), ("memory.stat", stat_1)];
        let (one, none) = (left("1", &one), left("none", &[("memory.max", "max\n"), ("memory.current", "80\n")]));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((two, one, none), (Some(50), Some(50), None));
    }
}
