//! From what a machine is to the plan that fits it. Figures are claimed only of hardware that is known to be theirs.

use super::look::{Facts, Port};

/// A plan, and why it fits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    /// Whole sentences.
    pub(crate) why: String,
    /// GPUs, or cores.
    pub(crate) devices: usize,
    pub(crate) network: Network,
}

/// What is expected of the network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Network {
    /// What the plan says.
    AsPlanned,
    /// GB/s each way, and where that was read.
    Known(f64, String),
    /// The network's rate is unknown.
    Unknown,
}

/// A model name, and whether it is the form with NVLink between all GPUs of a host.
type ModelForm = (&'static str, &'static str, fn(&str) -> bool);

/// PCIe cards have other links, other clocks and other memory.
const FORMS: [ModelForm; 9] = [
    // One NVLink domain of as many GPUs with links and memory of the same rates.
    ("GB300", "gb200-nvl72", |_| true),
    ("GB200", "gb200-nvl72", |_| true),
    ("B300", "b300-nvlink", |_| true),
    ("B200", "b200-nvlink", |_| true),
    ("MI300X", "mi300x", |_| true),
    // GH200 has one processor and one GPU, and other links.
    ("H200", "h200-nvlink", |name| !name.contains("NVL") && !name.contains("GH200")),
    ("H100", "h100-nvlink", |name| name.contains("HBM3") && !name.contains("NVL")),
    ("A100", "a100-nvlink", |name| name.contains("SXM")),
    ("V100", "v100-nvlink", |name| name.contains("SXM")),
];

/// The plan for a machine.
pub(crate) fn choose(facts: &Facts) -> Choice {
    let plain = |name, why: String| Choice { name, why, devices: facts.cores, network: Network::AsPlanned };
    match facts.gpus.as_slice() {
        [] if facts.cpu.contains("Apple M4 Max") => plain("m4-metal", "The processor is an Apple M4 Max.".to_owned()),
        [] => match facts.ports.first() {
            Some(port) => cluster(port, facts.cores),
            None => plain("laptop", "There is no NVIDIA GPU and no InfiniBand port.".to_owned()),
        },
        [first, others @ ..] if others.iter().any(|other| other != first) => {
            plain("laptop", "The GPUs of this host differ, so no known figures apply.".to_owned())
        }
        [_] => plain("laptop", "A single GPU has no other GPU to exchange data with.".to_owned()),
        [first, ..] => gpus(first, facts)
            .unwrap_or_else(|| plain("laptop", format!("No figures are known for GPUs like {}.", printable(first)))),
    }
}

/// The plan for one host of GPUs of this model, all linked.
pub(super) fn of_model(model: &str) -> Option<&'static str> {
    let form = FORMS.iter().find(|(part, _, is_linked)| model.contains(part) && is_linked(model));
    form.map(|(_, name, _)| *name)
}

fn gpus(model: &str, facts: &Facts) -> Option<Choice> {
    let name = of_model(model)?;
    let number = facts.gpus.len();
    let mut why = format!("There are {number} GPUs of this kind.");
    if !facts.ports.is_empty() {
        why += " `--hardware gpu-cluster-ib` is for several such hosts.";
    }
    Some(Choice { name, why, devices: number, network: Network::AsPlanned })
}

/// Hosts with a network; its figure is what the port says.
fn cluster(port: &Port, cores: usize) -> Choice {
    let name = printable(&port.name);
    let why = format!("There is no NVIDIA GPU, and the port {name} leads to other hosts.");
    let network = port.gbit.map_or(Network::Unknown, |gbit| {
        Network::Known(gbit / 8.0, format!("the port {name} of this machine: {gbit} Gbit/s"))
    });
    Choice { name: "cpu-cluster", why, devices: cores, network }
}

/// A name for a comment and a quoted text.
fn printable(name: &str) -> String {
    name.chars().filter(|letter| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\') || *letter == ' ').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(gpus: &[&str], ports: &[&str]) -> (&'static str, usize) {
        let facts = Facts {
            cpu: "EPYC".to_owned(),
            cores: 16,
            memory: None,
            gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
            ports: ports.iter().map(|name| Port { name: (*name).to_owned(), gbit: Some(400.0) }).collect(),
        };
        let choice = choose(&facts);
        (choice.name, choice.devices)
    }

    #[test]
    fn each_model_has_its_plan() {
        assert_eq!(chosen(&["NVIDIA B200"; 8], &[]), ("b200-nvlink", 8));
        assert_eq!(chosen(&["NVIDIA B300 SXM6 AC"; 8], &[]), ("b300-nvlink", 8));
        assert_eq!(chosen(&["NVIDIA GB200"; 4], &[]), ("gb200-nvl72", 4));
        assert_eq!(chosen(&["NVIDIA GB300"; 4], &[]), ("gb200-nvl72", 4));
        assert_eq!(chosen(&["AMD Instinct MI300X"; 8], &[]), ("mi300x", 8));
        assert_eq!(chosen(&["NVIDIA H200"; 8], &[]), ("h200-nvlink", 8));
        assert_eq!(chosen(&["NVIDIA H100 80GB HBM3"; 8], &["mlx5_0:1"]), ("h100-nvlink", 8));
        assert_eq!(chosen(&["NVIDIA A100-SXM4-40GB"; 4], &[]), ("a100-nvlink", 4));
        assert_eq!(chosen(&["Tesla V100-SXM2-16GB"; 4], &[]), ("v100-nvlink", 4));
    }

    #[test]
    fn what_has_no_figures_gets_a_plan_without() {
        for gpu in [
            "NVIDIA H100 PCIe",
            "NVIDIA H100 NVL",
            "NVIDIA H200 NVL",
            "NVIDIA GH200 480GB",
            "NVIDIA A100-PCIE-40GB",
            "NVIDIA GeForce RTX 4090",
        ] {
            assert_eq!(chosen(&[gpu; 8], &[]).0, "laptop", "{gpu}");
        }
        assert_eq!(chosen(&["NVIDIA H200"], &[]).0, "laptop");
        assert_eq!(chosen(&["NVIDIA H200", "NVIDIA A100-SXM4-40GB"], &[]).0, "laptop");
        assert_eq!(chosen(&[], &[]), ("laptop", 16));
    }

    #[test]
    fn a_port_makes_a_cluster() {
        assert_eq!(chosen(&[], &["mlx5_0:1"]).0, "cpu-cluster");
    }

    #[test]
    fn a_processor_is_named_by_itself() {
        let facts =
            |cpu: &str| Facts { cpu: cpu.to_owned(), cores: 16, memory: None, gpus: Vec::new(), ports: Vec::new() };
        assert_eq!(choose(&facts("Apple M4 Max")).name, "m4-metal");
        assert_eq!(choose(&facts("Apple M4")).name, "laptop");
    }
}
