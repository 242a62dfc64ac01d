//! Where processors are, and what leads to other hosts, from files of /sys; what they do not tell is absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use record::{NetworkInterface, Processor};

/// The kernel's type of loopback interfaces (ARPHRD_LOOPBACK).
const LOOPBACK: u64 = 772;

/// Sockets and NUMA nodes of these processors, below `/sys/devices/system/cpu`.
pub(crate) fn processors(folder: &Path, numbers: &[u32]) -> Vec<Processor> {
    let place = |number: &u32| {
        let own = folder.join(format!("cpu{number}"));
        let numa_node = names(&own).iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
        Processor { number: *number, socket: whole(&own.join("topology/physical_package_id")), numa_node }
    };
    numbers.iter().map(place).collect()
}

/// Bytes of the highest caches of these processors, below `/sys/devices/system/cpu`: one that several share counts once.
pub(crate) fn last_level_bytes(folder: &Path, numbers: &[u32]) -> Option<u64> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for number in numbers {
        let cache = folder.join(format!("cpu{number}/cache"));
        let indices = names(&cache).into_iter().filter(|name| name.starts_with("index")).map(|name| cache.join(name));
        let highest = indices.max_by_key(|index| whole::<u32>(&index.join("level")))?;
        let kib: u64 = text(&highest.join("size")).strip_suffix('K')?.parse().ok()?;
        found.insert(text(&highest.join("shared_cpu_list")), kib * 1024);
    }
    (!found.is_empty()).then(|| found.values().sum())
}

/// Interfaces that are up and lead out, and active ports of InfiniBand, below `/sys/class`. Bridges, and what is plugged
/// into one, lead to machines that are made here.
pub(crate) fn interfaces(folder: &Path) -> Vec<NetworkInterface> {
    let (net, mut found) = (folder.join("net"), Vec::new());
    for name in names(&net) {
        let own = net.join(&name);
        let up = ["up", "unknown"].contains(&text(&own.join("operstate")).as_str());
        let made = own.join("bridge").exists() || (own.join("master").exists() && !own.join("device").exists());
        if up && !made && whole::<u64>(&own.join("type")) != Some(LOOPBACK) {
            // The kernel says -1, or nothing, where the driver does not know.
            found.push(NetworkInterface { name, megabits: whole(&own.join("speed")) });
        }
    }
    for port in infiniband_ports(&folder.join("infiniband")).into_iter().filter(InfinibandPort::is_active) {
        let rate = port.rate.split(' ').next().and_then(|rate| rate.parse::<f64>().ok());
        let megabits = rate.filter(|rate| *rate > 0.0).map(|rate| (rate * 1000.0) as u64);
        found.push(NetworkInterface { name: port.name, megabits });
    }
    found
}

/// A port of InfiniBand, in the kernel's words.
pub struct InfinibandPort {
    /// `mlx5_0:1`.
    pub name: String,
    /// `4: ACTIVE`.
    pub state: String,
    /// `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// `InfiniBand`, or `Ethernet` with RoCE.
    pub link_layer: String,
}

impl InfinibandPort {
    /// Whether it is up.
    pub fn is_active(&self) -> bool {
        self.state.ends_with("ACTIVE")
    }
}

/// All ports below `/sys/class/infiniband`.
pub fn infiniband_ports(folder: &Path) -> Vec<InfinibandPort> {
    let ports = |device: String| {
        let ports = folder.join(&device).join("ports");
        names(&ports).into_iter().map(move |port| {
            let read = |file: &str| text(&ports.join(&port).join(file));
            let (state, rate, link_layer) = (read("state"), read("rate"), read("link_layer"));
            InfinibandPort { name: format!("{device}:{port}"), state, rate, link_layer }
        })
    };
    names(folder).into_iter().flat_map(ports).collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

pub(crate) fn whole<T: std::str::FromStr>(path: &Path) -> Option<T> {
    text(path).parse().ok()
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn last_level_caches_count_once() {
        let root = tempfile::tempdir().unwrap();
        for (cpu, shared) in [(0, "0-1"), (1, "0-1"), (2, "2-3")] {
            let at = |file: &str| format!("cpu{cpu}/cache/{file}");
            write(
                root.path(),
                &[
                    (&at("index2/level"), "2"),
                    (&at("index2/size"), "1024K"),
                    (&at("index2/shared_cpu_list"), &cpu.to_string()),
                    (&at("index3/level"), "3"),
                    (&at("index3/size"), "32768K"),
                    (&at("index3/shared_cpu_list"), shared),
                ],
            );
        }
        let bytes = |numbers: &[u32]| last_level_bytes(root.path(), numbers);
        assert_eq!((bytes(&[0, 1]), bytes(&[0, 1, 2])), (Some(32 << 20), Some(64 << 20)));
        // A processor that the system says nothing of, and none.
        assert_eq!((bytes(&[0, 7]), bytes(&[])), (None, None));
    }

    #[test]
    fn processors_and_interfaces_are_read() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("cpu/cpu0/topology/physical_package_id", "0\n"),
                ("cpu/cpu0/node1/x", ""),
                ("cpu/cpu9/topology/physical_package_id", "1\n"),
                ("class/net/lo/operstate", "unknown\n"),
                ("class/net/lo/type", "772\n"),
                ("class/net/eth0/operstate", "up\n"),
                ("class/net/eth0/type", "1\n"),
                ("class/net/eth0/speed", "10000\n"),
                ("class/net/eth1/operstate", "down\n"),
                ("class/net/br0/operstate", "up\n"),
                ("class/net/br0/bridge/x", ""),
                ("class/net/veth7/operstate", "up\n"),
                ("class/net/veth7/master/x", ""),
                ("class/net/veth7/speed", "-1\n"),
                ("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
                ("class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
                ("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
            ],
        );
        let place = |number, socket, numa_node| Processor { number, socket, numa_node };
        assert_eq!(
            processors(&root.path().join("cpu"), &[0, 9, 5]),
            [place(0, Some(0), Some(1)), place(9, Some(1), None), place(5, None, None)]
        );
        let found = interfaces(&root.path().join("class"));
        let rates: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.megabits)).collect();
        assert_eq!(rates, [("eth0", Some(10_000)), ("mlx5_0:1", Some(100_000))]);
    }
}
