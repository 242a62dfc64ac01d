//! What this machine is: processor, memory, and what a container or a virtual machine changes.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use record::{Cache, Machine, Processor};

pub use crate::link_counts::LinkCounts;
use crate::topology;
pub use crate::topology::{InfinibandPort, infiniband_ports};

/// Looks at this machine. Reads files of /proc and /sys only; what they do not tell is absent.
pub fn detect() -> Machine {
    let cpuinfo = read("/proc/cpuinfo");
    let flags = field(&cpuinfo, "flags").or_else(|| field(&cpuinfo, "Features")).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    Machine {
        host: read("/proc/sys/kernel/hostname").trim().to_owned(),
        os: os_name(&read("/etc/os-release")),
        wsl: wsl(&kernel),
        kernel,
        arch: std::env::consts::ARCH.to_owned(),
        cpu_model: field(&cpuinfo, "model name").unwrap_or_default(),
        cores: cores(&cpuinfo),
        threads: threads(&cpuinfo),
        allowed_cpus: allowed_cpus(),
        numa_nodes: numa_nodes(),
        memory_bytes: installed_memory(),
        memory_limit_bytes: memory_limit(),
        isa: isa(&flags),
        caches: caches(),
        hypervisor: hypervisor(&flags),
        container: container(),
        interfaces: topology::interfaces(Path::new("/sys/class")),
        gpus: gpu_models(Path::new(GPUS)),
        gpu_driver: gpu_driver(&read("/proc/driver/nvidia/version")),
        firmware: some(read("/sys/class/dmi/id/bios_version").trim()),
        microcode: field(&cpuinfo, "microcode").and_then(|version| some(&version)),
        clock_policy: clock_policy(Path::new("/sys/devices/system/cpu/cpu0/cpufreq")),
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The governor of the first processor, and its highest frequency now (boost counts if it is on).
fn clock_policy(folder: &Path) -> Option<String> {
    let text = |name: &str| some(fs::read_to_string(folder.join(name)).ok()?.trim());
    let highest = text("scaling_max_freq").and_then(|khz| khz.parse::<u64>().ok());
    let parts = [text("scaling_governor"), highest.map(|khz| format!("up to {} MHz", khz / 1000))];
    some(&parts.into_iter().flatten().collect::<Vec<String>>().join(", "))
}

/// Where these processors are.
pub fn processors(numbers: &[u32]) -> Vec<Processor> {
    topology::processors(Path::new("/sys/devices/system/cpu"), numbers)
}

/// Bytes of the last-level caches that these processors have, each counted once; None where the system does not tell.
pub fn last_level_bytes(numbers: &[u32]) -> Option<u64> {
    topology::last_level_bytes(Path::new("/sys/devices/system/cpu"), numbers)
}

/// Where NVIDIA's driver lists GPUs: a folder each.
const GPUS: &str = "/proc/driver/nvidia/gpus";

/// How many of them this process may see.
static VISIBLE: OnceLock<usize> = OnceLock::new();

/// Bounds [`gpus`] by what the variable CUDA_VISIBLE_DEVICES says. Once, at the start of the program.
pub fn show_gpus(visible: &str) {
    // As CUDA reads it: what comes after an entry that is none is not seen.
    let _ = VISIBLE.set(visible_gpus(visible));
}

fn visible_gpus(visible: &str) -> usize {
    visible.split(',').map(str::trim).take_while(|entry| !entry.is_empty() && *entry != "-1").count()
}

/// GPUs that NVIDIA's driver lists, and that this process may see.
pub fn gpus() -> usize {
    let listed = fs::read_dir(GPUS).map_or(0, |entries| entries.count());
    VISIBLE.get().map_or(listed, |visible| listed.min(*visible))
}

/// Models of the GPUs, in the order of their bus addresses.
fn gpu_models(folder: &Path) -> Vec<String> {
    let mut found: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    let model = |path: &std::path::PathBuf| {
        field(&fs::read_to_string(path.join("information")).unwrap_or_default(), "Model")
            .unwrap_or_else(|| "NVIDIA GPU".to_owned())
    };
    found.iter().map(model).collect()
}

/// The version in what NVIDIA's kernel module says of itself, whose first line is of no fixed form.
fn gpu_driver(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.lines().next()?.split_whitespace().find(is_version).map(str::to_owned)
}

/// Cores' worth of time that a container's quota leaves (cgroup v2 `cpu.max`, v1 `cpu.cfs_quota_us`); None without one.
pub fn cpu_quota() -> Option<f64> {
    let quota = |text: &str| {
        let mut words = text.split_whitespace();
        let (quota, period) = (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?);
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    };
    let second = cgroup_texts("cpu.max").iter().filter_map(|text| quota(text)).reduce(f64::min);
    let periods = || cgroup_texts("cpu.cfs_period_us").into_iter();
    let first = || cgroup_texts("cpu.cfs_quota_us").into_iter().zip(periods());
    second.or_else(|| first().filter_map(|(time, period)| quota(&format!("{time} {period}"))).reduce(f64::min))
}

/// Periods so far in which a quota stopped the processes of this control group, or of one around it; None without one.
pub(crate) fn quota_stops() -> Option<f64> {
    let stops = |text: &String| -> Option<f64> {
        text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
    };
    cgroup_texts("cpu.stat").iter().filter_map(stops).reduce(|all, one| all + one)
}

/// Programs other than this one that run or wait for a processor at this moment, on all cores of the machine (proc(5):
/// `procs_running`).
pub fn other_running() -> Option<u32> {
    let text = read("/proc/stat");
    let running = text.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse::<u32>().ok()?;
    // The one that reads.
    Some(running.saturating_sub(1))
}

/// Whether a container or a virtual machine changes what this machine can do: a quota below the allowed cores stops
/// ranks in the middle of an operation, and WSL's clocks and memory are its host's.
pub fn limits_are_virtual(machine: &Machine) -> bool {
    machine.wsl.is_some() || cpu_quota().is_some_and(|quota| quota < machine.allowed_cpus.len() as f64)
}

/// Processors that this process may run on, by the kernel's numbers.
pub fn allowed_cpus() -> Vec<u32> {
    // SAFETY: `cpu_set_t` is plain data, for which all zeros are valid; the pointer and size describe it.
    let (set, result) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let result = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (set, result)
    };
    if result != 0 {
        return Vec::new();
    }
    // SAFETY: every index is below the set's size.
    (0..libc::CPU_SETSIZE as u32).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) }).collect()
}

/// The only processor that this thread may run on, counted from 1; 0 where there are several, or the machine has just one.
pub fn only_core() -> f64 {
    match allowed_cpus().as_slice() {
        [only] if online_cpus() > 1 => f64::from(*only) + 1.0,
        _ => 0.0,
    }
}

/// Processors of the machine, whether or not this process may run on them.
pub fn online_cpus() -> u32 {
    cpu_list_length(read("/sys/devices/system/cpu/online").trim())
}

/// Processors that the control group leaves; None where it does not say.
pub fn cgroup_cpus() -> Option<u32> {
    let own = |file: &str| cgroup_texts(file).into_iter().next();
    let list = own("cpuset.cpus.effective").or_else(|| own("cpuset.effective_cpus"))?;
    Some(cpu_list_length(list.trim())).filter(|cpus| *cpus > 0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn os_name(os_release: &str) -> String {
    let pretty = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    pretty.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
}

/// Pairs of (socket, core) that occur.
fn cores(cpuinfo: &str) -> Option<u32> {
    let value = |block: &str, name: &str| field(block, name);
    let pairs: std::collections::BTreeSet<_> = cpuinfo
        .split("\n\n")
        .filter_map(|block| Some((value(block, "physical id")?, value(block, "core id")?)))
        .collect();
    u32::try_from(pairs.len()).ok().filter(|count| *count > 0)
}

fn threads(cpuinfo: &str) -> Option<u32> {
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

fn numa_nodes() -> Option<u32> {
    let nodes = fs::read_dir("/sys/devices/system/node").ok()?;
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    u32::try_from(nodes.flatten().filter(|entry| is_node(&entry.file_name().to_string_lossy())).count()).ok()
}

fn installed_memory() -> Option<u64> {
    let value = field(&read("/proc/meminfo"), "MemTotal")?;
    value.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// How many processes of this machine the kernel has killed for want of memory since it started; None where it does not count
/// them (Linux before 4.13). Those of control groups with a limit are among them.
pub fn out_of_memory_kills() -> Option<u64> {
    read("/proc/vmstat").lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// A file of this process's control group, version 2 or 1, and of those around it, up to the root, to which a container maps its
/// own: the limit of any of them holds.
fn cgroup_texts(file: &str) -> Vec<String> {
    let groups = read("/proc/self/cgroup");
    let paths = groups.lines().flat_map(|line| cgroup_paths(line, file));
    paths.filter_map(|path| fs::read_to_string(path).ok()).map(|text| text.trim().to_owned()).collect()
}

/// Where a file of a control group is, and of those around it, for a line of `/proc/self/cgroup`.
fn cgroup_paths(line: &str, file: &str) -> Vec<String> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let slash = if controllers.is_empty() { "" } else { "/" };
    let around = std::path::Path::new(path).ancestors().map(|group| group.display().to_string());
    around.map(|group| format!("/sys/fs/cgroup{slash}{controllers}{}/{file}", group.trim_end_matches('/'))).collect()
}

/// The least limit of memory; None when there is none (the kernel then says `max`, or a number near 2^63).
fn memory_limit() -> Option<u64> {
    let limits = |file: &str| cgroup_texts(file).iter().filter_map(|text| text.parse::<u64>().ok()).min();
    let limit = limits("memory.max").or_else(|| limits("memory.limit_in_bytes"))?;
    let installed = installed_memory()?;
    (limit < installed).then_some(limit)
}

fn isa(flags: &str) -> Vec<String> {
    const KNOWN: [&str; 10] =
        ["sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16", "amx_bf16"];
    let has = |wanted: &str| flags.split_whitespace().any(|flag| flag == wanted);
    KNOWN.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect()
}

fn caches() -> Vec<Cache> {
    let indices = (0..8).map_while(|index| {
        let path = |file: &str| format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}");
        let level = read(&path("level")).trim().parse().ok()?;
        let size = read(&path("size"));
        let kib: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
        let shared_by = cpu_list_length(read(&path("shared_cpu_list")).trim());
        Some(Cache { level, kind: read(&path("type")).trim().to_lowercase(), bytes: kib * 1024, shared_by })
    });
    indices.filter(|cache| cache.kind != "instruction").collect()
}

/// How many processors a list such as `0-3,8` names.
fn cpu_list_length(list: &str) -> u32 {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(high.parse::<u32>().ok()?.checked_sub(low.parse().ok()?)? + 1)
    };
    list.split(',').filter_map(range).sum()
}

fn hypervisor(flags: &str) -> Option<String> {
    let named = read("/sys/hypervisor/type").trim().to_owned();
    if !named.is_empty() {
        return Some(named);
    }
    let inside = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let vendor = read("/sys/class/dmi/id/sys_vendor").trim().to_owned();
    inside.then(|| if vendor.is_empty() { "a hypervisor".to_owned() } else { vendor })
}

fn container() -> Option<String> {
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman"), ("/run/systemd/container", "systemd")];
    let marked = marks.iter().find(|(path, _)| std::path::Path::new(path).exists()).map(|(_, name)| *name);
    let groups = read("/proc/1/cgroup");
    let grouped = ["kubepods", "docker", "lxc", "containerd"].into_iter().find(|name| groups.contains(name));
    marked.or(grouped).map(str::to_owned)
}

fn wsl(kernel: &str) -> Option<String> {
    let kernel = kernel.to_lowercase();
    kernel.contains("microsoft").then(|| if kernel.contains("wsl2") { "2".to_owned() } else { "1".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let machine = detect();
        assert!(!machine.allowed_cpus.is_empty());
        assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 28), "{machine:?}");
    }

    /// The limit of a user's slice holds for a session in it, whose own group has none.
    #[test]
    fn groups_around_the_own_one_are_asked_too() {
        let paths = |line: &str| cgroup_paths(line, "cpu.max");
        let own = "0::/user.slice/user-1000.slice/session-5.scope";
        let base = "/sys/fs/cgroup";
        let expected = [
            format!("{base}/user.slice/user-1000.slice/session-5.scope/cpu.max"),
            format!("{base}/user.slice/user-1000.slice/cpu.max"),
            format!("{base}/user.slice/cpu.max"),
            format!("{base}/cpu.max"),
        ];
        assert_eq!(paths(own), expected);
        assert_eq!(
            paths("4:cpu,cpuacct:/job"),
            [format!("{base}/cpu,cpuacct/job/cpu.max"), format!("{base}/cpu,cpuacct/cpu.max")]
        );
        assert_eq!((paths("0::/"), paths("nonsense")), (vec![format!("{base}/cpu.max")], Vec::new()));
    }

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(cpu_list_length("0-3,8"), 5);
        assert_eq!(
            os_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)"
        );
        assert_eq!(wsl("5.15.90.1-microsoft-standard-WSL2"), Some("2".to_owned()));
        assert_eq!(wsl("6.18.0"), None);
        let cpuinfo = "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 1\nphysical id : 0\ncore id : 0\n";
        assert_eq!((cores(cpuinfo), threads(cpuinfo)), (Some(1), Some(2)));
        assert_eq!(isa("fpu avx2 avx512f"), ["avx2", "avx512f"]);
    }

    #[test]
    fn the_clock_policy_is_the_governor_and_the_highest_frequency() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(clock_policy(folder.path()), None);
        fs::write(folder.path().join("scaling_governor"), "performance\n").unwrap();
        assert_eq!(clock_policy(folder.path()).as_deref(), Some("performance"));
        fs::write(folder.path().join("scaling_max_freq"), "3700000\n").unwrap();
        assert_eq!(clock_policy(folder.path()).as_deref(), Some("performance, up to 3700 MHz"));
    }

    #[test]
    fn the_gpu_driver_has_its_version() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 11.4.0\n";
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build  (dvs-builder@U22)\n";
        let found = [closed, open, "", "NVRM version: unknown\nGCC version: 11.4.0\n"].map(gpu_driver);
        assert_eq!(found, [Some("535.104.05".to_owned()), Some("580.159.03".to_owned()), None, None]);
    }

    #[test]
    fn gpus_have_the_models_that_the_driver_tells() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(gpu_models(&place.path().join("none")), Vec::<String>::new());
        let about = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 25\nGPU UUID: \t GPU-x\nBus Type: \t PCIe\n";
        for (bus, text) in [("0000:1b:00.0", "IRQ: 4\n"), ("0000:00:06.0", about)] {
            fs::create_dir(place.path().join(bus)).unwrap();
            fs::write(place.path().join(bus).join("information"), text).unwrap();
        }
        assert_eq!(gpu_models(place.path()), ["NVIDIA H100 80GB HBM3", "NVIDIA GPU"]);
        let seen = ["0", "3, 1", "GPU-a,GPU-b,GPU-c", "", "-1", "0,-1,2"].map(visible_gpus);
        assert_eq!(seen, [1, 2, 3, 0, 0, 1]);
    }
}
