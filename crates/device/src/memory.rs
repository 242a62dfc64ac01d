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

/// What the version 2 control groups of this process leave, from its own group up to the root.
fn control_groups(membership: &str) -> Option<u64> {
    let path = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(path.trim_start_matches('/'));
    own.ancestors().take_while(|group| group.starts_with(root)).filter_map(left_in).min()
}

/// Limit minus use, where use leaves out the page cache that the kernel would drop first.
fn left_in(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // "max" does not parse: no limit here.
    let limit = number("memory.max")?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let droppable = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u64>().ok());
    let used = number("memory.current")?.saturating_sub(droppable.unwrap_or(0));
    Some(limit.saturating_sub(used))
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
}
