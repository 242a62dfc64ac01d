//! What of a machine matters for choosing a plan.

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

impl Facts {
    /// Facts about this machine.
    pub(crate) fn new(machine: &Machine) -> Self {
        let gbit = |megabits: u64| megabits as f64 / 1000.0;
        let ports = machine.interfaces.iter().filter(|interface| interface.is_port());
        Self {
            cpu: machine.processor().to_owned(),
            cores: machine.allowed_cpus.len().max(1),
            memory: machine.memory_limit_bytes.or(machine.memory_bytes),
            gpus: machine.gpus.clone(),
            ports: ports.map(|port| Port { name: port.name.clone(), gbit: port.megabits.map(gbit) }).collect(),
        }
    }

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

#[cfg(test)]
mod tests {
    use record::NetworkInterface;

    use super::*;

    #[test]
    fn interfaces_with_ports_are_ports() {
        let interface = |name: &str, megabits| NetworkInterface { name: name.to_owned(), megabits };
        let facts = Facts::new(&Machine {
            cpu_model: "Xeon".to_owned(),
            allowed_cpus: vec![0, 1, 2],
            gpus: vec!["NVIDIA H100 80GB HBM3".to_owned(); 2],
            interfaces: vec![interface("eth0", Some(10_000)), interface("mlx5_0:1", Some(400_000))],
            ..Machine::default()
        });
        assert_eq!(facts.ports, [Port { name: "mlx5_0:1".to_owned(), gbit: Some(400.0) }]);
        let lines = facts.lines();
        assert_eq!(lines[0], "cores: 3, Xeon");
        assert_eq!(lines[1], "/proc/driver/nvidia/gpus: 2 x NVIDIA H100 80GB HBM3");
        assert_eq!(lines[2], "/sys/class/infiniband: mlx5_0:1 400 Gbit/s");
    }

    #[test]
    fn a_machine_without_devices_has_none() {
        let facts = Facts::new(&Machine { arch: "riscv64".to_owned(), ..Machine::default() });
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
