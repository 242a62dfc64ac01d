//! Network interfaces, with their speeds; InfiniBand's ports among them.

use std::fs;
use std::path::Path;

use measure::machine::{self, InfinibandPort};

use super::{Finding, Request};

pub(super) fn look(_request: &Request) -> Vec<Finding> {
    let mut found = interfaces(Path::new("/sys/class/net"));
    found.extend(ports(Path::new("/sys/class/infiniband")));
    found
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// A row for each with a device behind it; the others (bridges, tunnels, containers' ends) stand in one. A container
/// reaches other hosts through one of the others.
fn interfaces(folder: &Path) -> Vec<Finding> {
    let (real, made): (Vec<String>, Vec<String>) =
        names(folder).into_iter().partition(|name| folder.join(name).join("device").exists());
    let mut found: Vec<Finding> = real.iter().map(|name| interface(name, &folder.join(name))).collect();
    if !made.is_empty() {
        found.push(Finding::ready("virtual", made.join(" ")));
    }
    if real.is_empty() && !made.iter().any(|name| leads_out(&folder.join(name))) {
        found.push(Finding::missing("interfaces", "no physical interface").impact("other hosts cannot be reached"));
    }
    found
}

/// Whether an interface without a device is up, and neither the loopback nor a bridge, which leads to containers of this
/// host.
fn leads_out(folder: &Path) -> bool {
    /// ARPHRD_LOOPBACK of linux/if_arp.h.
    const LOOPBACK: &str = "772";
    let is_up = matches!(text(folder.join("operstate")).as_str(), "up" | "unknown");
    is_up && text(folder.join("type")) != LOOPBACK && !folder.join("bridge").exists()
}

fn interface(name: &str, folder: &Path) -> Finding {
    // The kernel says -1, or nothing, where the driver does not know: virtio does not.
    let speed = text(folder.join("speed")).parse::<u64>().ok().filter(|speed| *speed > 0);
    let speed = speed.map_or("its driver reports no speed".to_owned(), gigabits);
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let mut parts = vec![speed, format!("MTU {}", text(folder.join("mtu")))];
    parts.extend(driver);
    let node = text(folder.join("device/numa_node"));
    parts.extend(node.parse::<u32>().ok().map(|node| format!("NUMA node {node}")));
    let state = text(folder.join("operstate"));
    if state != "up" && state != "unknown" {
        return Finding::missing(name, format!("link {state}"));
    }
    Finding::ready(name, parts.join(", "))
}

/// Megabits a second, for people.
fn gigabits(megabits: u64) -> String {
    if megabits >= 1000 { format!("{} Gbit/s", megabits as f64 / 1000.0) } else { format!("{megabits} Mbit/s") }
}

/// A row for each port of InfiniBand.
fn ports(folder: &Path) -> Vec<Finding> {
    let row = |port: InfinibandPort| match port.is_active() {
        true => Finding::ready(port.name, format!("{}, {}", port.rate, port.link_layer)),
        false => Finding::missing(port.name, format!("port {}, {}", port.state, port.link_layer)),
    };
    machine::infiniband_ports(folder).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn speeds_and_links_are_read_and_virtual_ones_stand_together() {
        let root = std::env::temp_dir().join(format!("rankmark-network-{}", std::process::id()));
        let net = root.join("net");
        write(
            &net,
            &[
                ("eth0/operstate", "up\n"),
                ("eth0/speed", "100000\n"),
                ("eth0/mtu", "9000\n"),
                ("eth0/device/numa_node", "1"),
                ("eth1/operstate", "down\n"),
                ("eth1/speed", "-1\n"),
                ("eth1/mtu", "1500\n"),
                ("eth1/device/numa_node", "-1"),
                ("eth2/operstate", "up\n"),
                ("eth2/speed", "-1\n"),
                ("eth2/mtu", "1500\n"),
                ("eth2/device/numa_node", "-1"),
                ("lo/operstate", "unknown\n"),
                ("veth1/operstate", "up\n"),
            ],
        );
        write(
            &root.join("ib"),
            &[
                ("mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n"),
                ("mlx5_0/ports/1/state", "4: ACTIVE\n"),
                ("mlx5_0/ports/1/link_layer", "InfiniBand\n"),
                ("mlx5_1/ports/1/state", "1: DOWN\n"),
            ],
        );
        let (inside, alone) = (root.join("inside"), root.join("alone"));
        write(&inside, &[("lo/operstate", "unknown\n"), ("lo/type", "772\n"), ("eth0/operstate", "up\n")]);
        write(&alone, &[("lo/operstate", "unknown\n"), ("lo/type", "772\n"), ("docker0/operstate", "up\n")]);
        write(&alone, &[("docker0/bridge/bridge_id", ""), ("tunl0/operstate", "down\n")]);
        let (inside, alone) = (interfaces(&inside), interfaces(&alone));
        let (rows, ib) = (interfaces(&net), ports(&root.join("ib")));
        let none = interfaces(&root.join("nothing"));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(rows[0], Finding::ready("eth0", "100 Gbit/s, MTU 9000, NUMA node 1"));
        assert_eq!(rows[1], Finding::missing("eth1", "link down"));
        assert_eq!(rows[2], Finding::ready("eth2", "its driver reports no speed, MTU 1500"));
        assert_eq!(rows[3], Finding::ready("virtual", "lo veth1"));
        assert_eq!(ib[0], Finding::ready("mlx5_0:1", "100 Gb/sec (4X EDR), InfiniBand"));
        assert_eq!(ib[1].state, State::Missing);
        assert_eq!(none[0].state, State::Missing);
        assert_eq!(inside, [Finding::ready("virtual", "eth0 lo")], "a container's end of a pair");
        assert_eq!(alone[1].impact.as_deref(), Some("other hosts cannot be reached"), "{alone:?}");
        assert_eq!((gigabits(100), gigabits(2500)), ("100 Mbit/s".into(), "2.5 Gbit/s".into()));
    }
}
