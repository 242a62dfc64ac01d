//! What a machine is, as far as its kernel tells: for choosing a plan. No driver library is opened.

use std::fs;
use std::path::{Path, PathBuf};

use record::Machine;
use terms::Bytes;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: Option<u64>,
    /// Model names of NVIDIA GPUs.
    pub(crate) gpus: Vec<String>,
    pub(crate) ports: Vec<Port>,
}

/// A port of InfiniBand or RoCE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Port {
    /// `mlx5_0:1`.
    pub(crate) name: String,
    /// Gbit/s, where the driver says so.
    pub(crate) gbit: Option<f64>,
}

/// Looks below `root`, which is `/` outside of tests.
pub(crate) fn look(root: &Path, machine: &Machine) -> Facts {
    let cpu = if machine.cpu_model.is_empty() { &machine.arch } else { &machine.cpu_model };
    Facts {
        cpu: cpu.clone(),
        cores: machine.allowed_cpus.len().max(1),
        memory: machine.memory_limit_bytes.or(machine.memory_bytes),
        gpus: entries(&root.join("proc/driver/nvidia/gpus")).iter().filter_map(|gpu| model(gpu)).collect(),
        ports: entries(&root.join("sys/class/infiniband")).iter().flat_map(|device| ports(device)).collect(),
    }
}

impl Facts {
    /// A line for each thing that was examined.
    pub(crate) fn lines(&self) -> Vec<String> {
        let memory = self.memory.map_or(String::new(), |bytes| format!(", {}", Bytes(bytes).about()));
        let or_none = |list: Vec<String>| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let port = |port: &Port| match port.gbit {
            Some(gbit) => format!("{} {gbit} Gbit/s", port.name),
            None => format!("{} (rate unknown)", port.name),
        };
        let lines = [
            format!("cores: {}, {}{memory}", self.cores, self.cpu),
            format!("/proc/driver/nvidia/gpus: {}", or_none(counted(&self.gpus))),
            format!("/sys/class/infiniband: {}", or_none(self.ports.iter().map(port).collect())),
        ];
        // A name from the machine must not end the comment that it stands in.
        lines.map(|line| line.replace(|letter: char| letter.is_control(), " ")).to_vec()
    }
}

/// `8 x NVIDIA H200`.
fn counted(names: &[String]) -> Vec<String> {
    let mut different: Vec<(&String, usize)> = Vec::new();
    for name in names {
        match different.iter_mut().find(|(other, _)| *other == name) {
            Some((_, number)) => *number += 1,
            None => different.push((name, 1)),
        }
    }
    different.into_iter().map(|(name, number)| format!("{number} x {name}")).collect()
}

/// The entries of a folder, by name; none where there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// `Model: NVIDIA H100 80GB HBM3` of a GPU's file.
fn model(gpu: &Path) -> Option<String> {
    let text = fs::read_to_string(gpu.join("information")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(value.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The ports of a device that are up. The driver writes `400 Gb/sec (4X NDR)`.
fn ports(device: &Path) -> Vec<Port> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let read = |port: &Path, file: &str| fs::read_to_string(port.join(file)).unwrap_or_default();
    let is_up = |port: &PathBuf| read(port, "state").contains("ACTIVE");
    let ports = entries(&device.join("ports")).into_iter().filter(is_up);
    ports
        .map(|port| {
            let rate = read(&port, "rate");
            let gbit = rate.split_once(" Gb/sec").and_then(|(number, _)| number.trim().parse::<f64>().ok());
            let gbit = gbit.filter(|gbit| gbit.is_finite() && *gbit > 0.0);
            Port { name: format!("{}:{}", name(device), name(&port)), gbit }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn devices_are_read_as_drivers_write_them() {
        let root = tempfile::tempdir().unwrap();
        for gpu in ["0000:18:00.0", "0000:2a:00.0"] {
            let text = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-1\n";
            file(root.path(), &format!("proc/driver/nvidia/gpus/{gpu}/information"), text);
        }
        file(root.path(), "sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
        file(root.path(), "sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        file(root.path(), "sys/class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)\n");
        file(root.path(), "sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
        let machine = Machine { cpu_model: "Xeon".to_owned(), allowed_cpus: vec![0, 1, 2], ..Machine::default() };
        let facts = look(root.path(), &machine);
        assert_eq!(facts.gpus, ["NVIDIA H100 80GB HBM3"; 2]);
        assert_eq!(facts.ports, [Port { name: "mlx5_0:1".to_owned(), gbit: Some(400.0) }]);
        let lines = facts.lines();
        assert_eq!(lines[0], "cores: 3, Xeon");
        assert_eq!(lines[1], "/proc/driver/nvidia/gpus: 2 x NVIDIA H100 80GB HBM3");
        assert_eq!(lines[2], "/sys/class/infiniband: mlx5_0:1 400 Gbit/s");
    }

    #[test]
    fn a_machine_without_devices_has_none() {
        let root = tempfile::tempdir().unwrap();
        let facts = look(root.path(), &Machine { arch: "riscv64".to_owned(), ..Machine::default() });
        assert_eq!((facts.cpu.as_str(), facts.cores, facts.gpus.len(), facts.ports.len()), ("riscv64", 1, 0, 0));
        assert_eq!(facts.lines()[1..], ["/proc/driver/nvidia/gpus: none", "/sys/class/infiniband: none"]);
    }

    #[test]
    fn a_name_cannot_end_its_comment() {
        let facts = Facts {
            cpu: "a\nexperiment: evil".to_owned(),
            cores: 1,
            memory: None,
            gpus: Vec::new(),
            ports: Vec::new(),
        };
        assert_eq!(facts.lines()[0], "cores: 1, a experiment: evil");
    }
}
