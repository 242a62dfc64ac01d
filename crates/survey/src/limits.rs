//! Settings of the kernel and of this login that bound or slow down what ranks do.

use std::fs;

use rustix::process::{Resource, getrlimit};
use terms::Bytes;

use super::{Finding, Request};

pub(super) fn look(_request: &Request) -> Vec<Finding> {
    let mut found: Vec<Finding> = HUGE_PAGES.iter().map(|of| of.judged(&text(of.file))).collect();
    found.push(memlock(limit(Resource::Memlock), has_rdma(), pins_freely()));
    found.push(shared_files(size_of_shm()));
    found.push(descriptors(limit(Resource::Nofile)));
    found.push(governor(&governors()));
    found
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Huge pages of one kind of memory.
struct HugePages {
    name: &'static str,
    memory: &'static str,
    file: &'static str,
    /// The words of the file under which memory that asks for them gets some.
    given: &'static [&'static str],
    impact: &'static str,
    fix: &'static str,
}

const HUGE_PAGES: [HugePages; 2] = [
    HugePages {
        name: "huge pages",
        memory: "shared memory",
        file: "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        given: &["always", "within_size", "advise", "force"],
        impact: "4 to 9% of the bandwidth of large messages",
        fix: "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
    },
    HugePages {
        name: "private THP",
        memory: "private memory",
        file: "/sys/kernel/mm/transparent_hugepage/enabled",
        given: &["always", "madvise"],
        impact: "large messages in private buffers take up to twice as long",
        fix: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    },
];

impl HugePages {
    /// By what the file says: the word in brackets is the one that is set.
    fn judged(&self, setting: &str) -> Finding {
        let chosen = setting.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        let memory = self.memory;
        match chosen {
            Some(word) if self.given.contains(&word) => Finding::ready(self.name, format!("{word}, for {memory}")),
            Some(word) => Finding::slow(self.name, format!("{word}, for {memory}")).impact(self.impact).fix(self.fix),
            None => Finding::missing(self.name, format!("this kernel has none for {memory}")).impact(self.impact),
        }
    }
}

/// What a process may pin. RDMA pins buffers; without RDMA nothing here needs it. `freely`: the limit does not hold for
/// this user.
fn memlock(limit: Option<u64>, rdma: bool, freely: bool) -> Finding {
    const ENOUGH: u64 = 1 << 30;
    let text = limit.map_or("unlimited".to_owned(), |limit| Bytes(limit).about());
    if limit.is_none_or(|limit| limit >= ENOUGH) {
        return Finding::ready("memlock", text);
    }
    if rdma && freely {
        return Finding::ready("memlock", format!("{text}, which CAP_IPC_LOCK lifts for this user"));
    }
    if rdma {
        return Finding::misconfigured("memlock", format!("{text}, and there is RDMA hardware"))
            .impact("UCX, NCCL and MPI cannot register buffers: they fail, or fall back to TCP")
            .fix("ulimit -l unlimited (permanently: `* - memlock unlimited` in /etc/security/limits.conf)");
    }
    Finding::ready("memlock", format!("{text}; only RDMA needs more, and no RDMA hardware was found"))
}

fn has_rdma() -> bool {
    fs::read_dir("/sys/class/infiniband").is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether this process may pin more than the limit says, as root may.
fn pins_freely() -> bool {
    has_ipc_lock(&text("/proc/self/status"), &text("/proc/self/uid_map"))
}

/// Whether CAP_IPC_LOCK is among the capabilities in this status. RDMA asks for it in the first user namespace, where root
/// of a rootless container does not have it: only there all numbers of users stand for themselves.
fn has_ipc_lock(status: &str, users: &str) -> bool {
    const IPC_LOCK: u64 = 1 << 14;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    users.split_whitespace().eq(["0", "0", "4294967295"]) && set.is_some_and(|set| set & IPC_LOCK != 0)
}

/// /dev/shm: ours does without (memfd); most others put their shared memory there.
fn shared_files(size: Option<u64>) -> Finding {
    /// What Docker gives when nobody asks for more.
    const TOO_SMALL: u64 = 64 << 20;
    const MOUNT: &str =
        "docker run --shm-size=8g; a pod's emptyDir {medium: Memory}; mount -o remount,size=8G /dev/shm";
    const IMPACT: &str = "Open MPI, NCCL and PyTorch's data loaders fail or fall back; backend `shm` does not use it";
    match size {
        Some(size) if size > TOO_SMALL => Finding::ready("/dev/shm", Bytes(size).about()),
        Some(size) => Finding::misconfigured("/dev/shm", Bytes(size).about()).impact(IMPACT).fix(MOUNT),
        None => Finding::misconfigured("/dev/shm", "is not mounted").impact(IMPACT).fix(MOUNT),
    }
}

/// What statfs says of a file system in memory: TMPFS_MAGIC of linux/magic.h.
const TMPFS: i64 = 0x0102_1994;

/// The size of the file system mounted at /dev/shm; None where it is not memory.
fn size_of_shm() -> Option<u64> {
    let about = rustix::fs::statfs("/dev/shm").ok()?;
    if about.f_type as i64 != TMPFS {
        return None;
    }
    // A tmpfs without a limit says 0 blocks.
    let size = about.f_blocks.saturating_mul(u64::try_from(about.f_bsize).ok()?);
    Some(if size == 0 { u64::MAX } else { size })
}

fn descriptors(limit: Option<u64>) -> Finding {
    const ENOUGH: u64 = 1024;
    let text = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    if limit.is_none_or(|limit| limit >= ENOUGH) {
        return Finding::ready("open files", text);
    }
    Finding::slow("open files", text).impact("worlds of many ranks are refused").fix("ulimit -n 65536")
}

/// A soft limit; None: unlimited.
fn limit(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

/// Each processor's governor, each once.
fn governors() -> Vec<String> {
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let mut governors: Vec<String> =
        entries.filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok()).collect();
    governors.iter_mut().for_each(|governor| *governor = governor.trim().to_owned());
    governors.sort();
    governors.dedup();
    governors
}

fn governor(governors: &[String]) -> Finding {
    if governors.is_empty() {
        return Finding::ready("governor", "none: the hypervisor or the firmware controls the clocks");
    }
    let text = governors.join(", ");
    if governors == ["performance"] {
        return Finding::ready("governor", text);
    }
    Finding::slow("governor", text)
        .impact("clock rates vary with the load")
        .fix("cpupower frequency-set -g performance")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    #[test]
    fn settings_are_judged() {
        let state = |finding: Finding| finding.state;
        let [shared, private] = HUGE_PAGES;
        assert_eq!(state(shared.judged("always within_size [advise] never deny force")), State::Ready);
        assert_eq!(state(shared.judged("always within_size advise [never] deny force")), State::Slow);
        assert_eq!(state(shared.judged("")), State::Missing);
        assert_eq!(state(private.judged("always [madvise] never")), State::Ready);
        assert_eq!(state(private.judged("always madvise [never]")), State::Slow);
        assert_eq!(state(memlock(Some(8 << 20), true, false)), State::Misconfigured);
        assert_eq!(state(memlock(Some(8 << 20), true, true)), State::Ready, "root");
        assert_eq!(state(memlock(Some(8 << 20), false, false)), State::Ready);
        assert_eq!(memlock(None, true, false), Finding::ready("memlock", "unlimited"));
        assert_eq!(state(shared_files(Some(64 << 20))), State::Misconfigured);
        assert_eq!(state(shared_files(None)), State::Misconfigured);
        assert_eq!(state(shared_files(Some(1 << 30))), State::Ready);
        assert_eq!(state(descriptors(Some(256))), State::Slow);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(state(governor(&names(&["performance"]))), State::Ready);
        assert_eq!(state(governor(&names(&["performance", "powersave"]))), State::Slow);
        assert_eq!(state(governor(&[])), State::Ready);
    }

    #[test]
    fn root_pins_freely_and_root_of_a_user_namespace_does_not() {
        let first = "0 0 4294967295";
        let status = |set: &str| format!("Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t{set}\n");
        assert!(has_ipc_lock(&status("000001ffffffffff"), first) && has_ipc_lock(&status("0000000000004000"), first));
        assert!(!has_ipc_lock(&status("00000000a80425fb"), first), "what Docker leaves");
        assert!(!has_ipc_lock(&status("000001ffffffffff"), "0 1000 1\n1 100000 65536"));
        assert!(!has_ipc_lock("", first) && !has_ipc_lock(&status("000001ffffffffff"), ""));
    }

    #[test]
    fn limits_are_those_of_this_process() {
        let said = fs::read_to_string("/proc/self/limits").unwrap();
        let files = said.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft = files.split_whitespace().nth(3).unwrap();
        assert_eq!(limit(Resource::Nofile).map_or("unlimited".to_owned(), |limit| limit.to_string()), soft);
    }
}
