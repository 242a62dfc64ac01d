//! What the kernel counts of links that go down and come back, from files of /sys; what they do not tell is absent.

use std::collections::BTreeMap;
use std::path::Path;

use crate::topology::{names, whole};

/// The counters of a port of InfiniBand: how often its link went down, and how often it was trained again without that.
const PORT_COUNTERS: [&str; 2] = ["link_downed", "link_error_recovery"];

/// How often the link of each interface that is a device went down or came back since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts(BTreeMap<String, u64>);

impl LinkCounts {
    /// Those of this host.
    pub fn read() -> Self {
        Self::below(Path::new("/sys/class"))
    }

    /// Those below `/sys/class`. Interfaces without a device are made here, and change as containers start.
    fn below(folder: &Path) -> Self {
        let (net, infiniband) = (folder.join("net"), folder.join("infiniband"));
        let devices = names(&net).into_iter().filter(|name| net.join(name).join("device").exists());
        let counted = devices.filter_map(|name| Some((name.clone(), whole(&net.join(name).join("carrier_changes"))?)));
        let mut counts: BTreeMap<String, u64> = counted.collect();
        for device in names(&infiniband) {
            let ports = infiniband.join(&device).join("ports");
            for port in names(&ports) {
                let counters = ports.join(&port).join("counters");
                let known = PORT_COUNTERS.iter().filter_map(|name| whole::<u64>(&counters.join(name)));
                if let Some(count) = known.reduce(|one, other| one + other) {
                    counts.insert(format!("{device}:{port}"), count);
                }
            }
        }
        Self(counts)
    }

    /// The interfaces that counted more later, each with how often. A counter that was reset tells nothing.
    pub fn changed(&self, later: &Self) -> Vec<(String, u64)> {
        let more = |(name, count): (&String, &u64)| {
            let more = count.checked_sub(*self.0.get(name)?).filter(|more| *more > 0)?;
            Some((name.clone(), more))
        };
        later.0.iter().filter_map(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_that_went_down_in_between_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let counters = "infiniband/mlx5_0/ports/1/counters";
        for (name, text) in [
            ("net/eth0/device/x", ""),
            ("net/eth0/carrier_changes", "2\n"),
            ("net/eth1/device/x", ""),
            ("net/eth1/carrier_changes", "7\n"),
            ("net/eth2/device/x", ""),
            // Made here, as for a container.
            ("net/veth7/carrier_changes", "1\n"),
            ("infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n"),
        ] {
            write(name, text);
        }
        write(&format!("{counters}/link_downed"), "1\n");
        write(&format!("{counters}/link_error_recovery"), "3\n");
        let before = LinkCounts::below(root.path());
        assert!(before.changed(&LinkCounts::below(root.path())).is_empty());
        write("net/eth0/carrier_changes", "6\n");
        write("net/eth1/carrier_changes", "0\n");
        write("net/veth7/carrier_changes", "9\n");
        write(&format!("{counters}/link_downed"), "2\n");
        write(&format!("{counters}/link_error_recovery"), "4\n");
        let changed = before.changed(&LinkCounts::below(root.path()));
        assert_eq!(changed, [("eth0".to_owned(), 4), ("mlx5_0:1".to_owned(), 2)]);
        assert!(LinkCounts::below(&root.path().join("nowhere")).0.is_empty());
    }
}
