//! Plans for kinds of hardware, with the figures that are expected of it: `gen-config --hardware NAME`.
//!
//! A file of `examples/hardware` and a line here each. Every figure in them names its source.

mod choose;
mod look;

use terms::normalize;

use choose::{Choice, Network, choose};
use look::Facts;

use crate::presets::join;

/// Looks at the machine.
pub const AUTO: &str = "auto";

/// The figures that are known of one host of such GPUs; none where the model is not known to be theirs.
pub fn expected_of(model: &str) -> Vec<record::Expected> {
    let Some(name) = choose::of_model(model) else { return Vec::new() };
    let plan = record::plan::read(&with_memory_of(model, text(name)), name, &benchmarks::abouts(), &[]);
    plan.map(|plan| plan.expected).unwrap_or_default()
}

/// The plan with the figures of this model's memory: an A100 SXM has 80 GB or, slower, 40 GB.
fn with_memory_of(model: &str, text: String) -> String {
    if !(model.contains("A100") && model.contains("40GB")) {
        return text;
    }
    text.replace("value: 2039\n", "value: 1555\n")
        .replace("2,039 GB/s of the SXM form with 80 GB", "1,555 GB/s of the SXM form with 40 GB")
}

/// A kind of hardware, and its plan.
pub struct Hardware {
    /// What users write.
    pub name: &'static str,
    /// What it is, in a few words.
    pub doc: &'static str,
    text: &'static str,
    /// The numbers of ranks that the plan has; on fewer devices than the last, only those that fit.
    ranks: &'static [usize],
}

macro_rules! plan {
    ($name:literal) => {
        include_str!(concat!("../plans/hardware/", $name, ".yaml"))
    };
}

/// Every kind, in the order in which help lists them.
pub static HARDWARE: &[Hardware] = &[
    Hardware {
        name: "laptop",
        doc: "a laptop or one host without GPUs: collectives, a small model, memory",
        text: plan!("laptop"),
        ranks: &[2, 4],
    },
    Hardware {
        name: "m4-metal",
        doc: "an Apple M4 Max from Linux: its cores and unified memory",
        text: plan!("m4-metal"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "v100-nvlink",
        doc: "four V100 SXM2 GPUs with NVLink 2",
        text: plan!("v100-nvlink"),
        ranks: &[2, 4],
    },
    Hardware {
        name: "a100-nvlink",
        doc: "eight A100 SXM GPUs with NVLink 3 and NVSwitch",
        text: plan!("a100-nvlink"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "h100-nvlink",
        doc: "eight H100 SXM GPUs with NVLink 4 and NVSwitch",
        text: plan!("h100-nvlink"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "h200-nvlink",
        doc: "eight H200 SXM GPUs with NVLink 4 and NVSwitch",
        text: plan!("h200-nvlink"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "b200-nvlink",
        doc: "eight B200 SXM GPUs with NVLink 5 and NVSwitch",
        text: plan!("b200-nvlink"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "b300-nvlink",
        doc: "eight B300 SXM GPUs with NVLink 5 and NVSwitch",
        text: plan!("b300-nvlink"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "gb200-nvl72",
        doc: "72 Blackwell GPUs of 18 hosts in one NVLink domain",
        text: plan!("gb200-nvl72"),
        ranks: &[4, 72],
    },
    Hardware {
        name: "mi300x",
        doc: "eight MI300X GPUs, each linked with each by Infinity Fabric",
        text: plan!("mi300x"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "cpu-cluster",
        doc: "hosts without GPUs and a network of 100 Gbit/s",
        text: plan!("cpu-cluster"),
        ranks: &[2, 4, 8],
    },
    Hardware {
        name: "gpu-cluster-ib",
        doc: "two hosts of eight H100 SXM GPUs, an NDR InfiniBand port for each GPU",
        text: plan!("gpu-cluster-ib"),
        ranks: &[16],
    },
];

/// Every name, and `auto`.
pub fn names() -> Vec<&'static str> {
    [AUTO].into_iter().chain(HARDWARE.iter().map(|hardware| hardware.name)).collect()
}

/// The name as it is spelled here: `h100_nvlink` is `h100-nvlink`.
///
/// # Errors
/// Another name, with a suggestion.
pub fn named(text: &str) -> Result<&'static str, String> {
    let wanted = normalize(text);
    let found = names().into_iter().find(|name| normalize(name) == wanted);
    found.ok_or_else(|| terms::suggestion(text, names()))
}

/// The plan of this name; of `auto`, the one that fits this machine.
pub fn text(name: &str) -> String {
    if name == AUTO {
        return auto(&Facts::new(&measure::machine::detect()));
    }
    let cores = measure::machine::allowed_cpus().len();
    let hardware = HARDWARE.iter().find(|hardware| hardware.name == name).unwrap_or(&HARDWARE[0]);
    match name {
        "laptop" => on_cores(hardware, cores),
        _ => hardware.text.to_owned(),
    }
}

/// The plan that fits, below what was examined and why it fits.
fn auto(facts: &Facts) -> String {
    let Choice { name, why, devices, network } = choose(facts);
    let hardware = HARDWARE.iter().find(|hardware| hardware.name == name).unwrap_or(&HARDWARE[0]);
    let mut text = if name == "laptop" { on_cores(hardware, facts.cores) } else { fitted(hardware, devices) };
    if let Some(model) = facts.gpus.first() {
        text = with_memory_of(model, text);
    }
    match network {
        Network::Known(gbs, source) => text = with_network(&text, gbs, &source),
        Network::Unknown => {
            text = text.split_once("\n# What the network").map_or("", |(plan, _)| plan).to_owned() + "\n"
        }
        Network::AsPlanned => {}
    }
    let looked: Vec<String> = facts.lines().iter().map(|line| format!("#   {line}\n")).collect();
    format!(
        "# Chosen by `rankmark gen-config --hardware auto`: {name}. {why}\n# Looked at:\n{}#\n{text}",
        looked.concat()
    )
}

/// `examples/hardware/laptop.yaml` is what four cores get.
fn on_cores(hardware: &Hardware, cores: usize) -> String {
    let every = cores.clamp(2, 8);
    let mut ranks = vec![2, every];
    ranks.dedup();
    let text = hardware.text.replace(
        "(here for four cores; `rankmark gen-config\n# --hardware laptop` prints it for this machine)",
        &format!("({})", view::number::count(cores, "core", "cores")),
    );
    text.replace("ranks: [2, 4]\n", &format!("ranks: [{}]\n", join(&ranks)))
        .replace("ranks: 4 # every core", &format!("ranks: {every} # every core"))
}

/// The plan with no more ranks than there are devices, and at least a pair: fewer exchange nothing. Figures stay as they
/// are: those of more ranks then match no case.
fn fitted(hardware: &Hardware, devices: usize) -> String {
    let most = hardware.ranks.last().copied().unwrap_or(devices);
    if devices >= most {
        return hardware.text.to_owned();
    }
    let mut fitting: Vec<usize> = hardware.ranks.iter().copied().filter(|ranks| *ranks <= devices).collect();
    let none_fits = fitting.is_empty();
    if none_fits {
        fitting.push(2);
    }
    let last = fitting[fitting.len() - 1];
    let (plan, expected) = hardware.text.split_once("\nexpected:").unwrap_or((hardware.text, ""));
    let mut plan = plan.replace(&format!("{}]\n", join(hardware.ranks)), &format!("{}]\n", join(&fitting)));
    for ranks in hardware.ranks.iter().filter(|ranks| **ranks == most || none_fits) {
        plan = plan.replace(&format!("ranks: {ranks}\n"), &format!("ranks: {last}\n"));
    }
    format!("{plan}\nexpected:{expected}")
}

/// The plan with another bandwidth of the network, and where it was read.
fn with_network(text: &str, gbs: f64, source: &str) -> String {
    let (plan, expected) = text.split_once("\nexpected:").unwrap_or((text, ""));
    let line = |line: &str| match line.trim_start() {
        rest if rest.starts_with("value: ") => format!("    value: {gbs}\n"),
        rest if rest.starts_with("source: ") => format!("    source: \"{source}\"\n"),
        _ => format!("{line}\n"),
    };
    let expected: String = expected.lines().map(line).collect();
    format!("{plan}\nexpected:{expected}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use look::Port;
    use record::Plan;

    fn read(text: &str, name: &str) -> Plan {
        let plan = record::plan::read(text, name, &benchmarks::abouts(), &[]);
        plan.unwrap_or_else(|errors| panic!("{name}: {errors}\n{text}"))
    }

    #[test]
    fn every_kind_is_a_plan_with_the_figures_it_names() {
        for hardware in HARDWARE {
            let plan = read(hardware.text, hardware.name);
            assert_eq!(plan.experiment, hardware.name);
            assert!(hardware.text.starts_with("# "), "{}", hardware.name);
            // A laptop may be any.
            assert_eq!(plan.expected.is_empty(), hardware.name == "laptop", "{}", hardware.name);
            for figure in &plan.expected {
                // A figure that no case of its own plan could ever match says nothing.
                let has = |case: &record::Case| {
                    case.benchmark == figure.benchmark
                        && figure.parameters.iter().all(|(name, value)| case.parameters.get(name) == Some(value))
                };
                assert!(plan.cases.iter().any(has), "{}: {figure:?}", hardware.name);
            }
        }
    }

    #[test]
    fn no_case_is_skipped_whatever_the_machine() {
        let presets = crate::presets::PRESETS.iter().map(|preset| (preset.name, (preset.text)(8)));
        for (name, text) in HARDWARE.iter().map(|hardware| (hardware.name, hardware.text.to_owned())).chain(presets) {
            let mut plan = read(&text, name);
            benchmarks::complete(&mut plan);
            for case in &plan.cases {
                assert_eq!(case.skip, None, "{name}: {} {:?}", case.benchmark, case.parameters);
            }
        }
    }

    #[test]
    fn names_are_spelled_with_either_sign() {
        assert_eq!(named("h100_nvlink"), Ok("h100-nvlink"));
        assert_eq!(named("auto"), Ok(AUTO));
        assert_eq!(named("h100-nvlnk"), Err("did you mean `h100-nvlink`?".to_owned()));
        assert!(named("toaster").unwrap_err().starts_with("valid values: auto, laptop, "));
    }

    #[test]
    fn a_laptop_gets_its_own_ranks() {
        for (cores, wanted) in [(1, vec![2]), (2, vec![2]), (4, vec![2, 4]), (64, vec![2, 8])] {
            let plan = read(&on_cores(&HARDWARE[0], cores), "laptop");
            let mut ranks: Vec<usize> = plan
                .cases
                .iter()
                .filter(|case| case.benchmark == "collective")
                .map(|case| case.ranks() as usize)
                .collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks, wanted, "{cores} cores");
        }
    }

    fn facts(gpus: &[&str], ports: &[(&str, Option<f64>)]) -> Facts {
        Facts {
            cpu: "EPYC".to_owned(),
            cores: 2,
            memory: Some(24 << 30),
            gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
            ports: ports.iter().map(|(name, gbit)| Port { name: (*name).to_owned(), gbit: *gbit }).collect(),
        }
    }

    #[test]
    fn auto_says_what_it_looked_at_and_stays_a_plan() {
        let text = auto(&facts(&[], &[]));
        let first = "# Chosen by `rankmark gen-config --hardware auto`: laptop. ";
        assert!(text.starts_with(first) && text.contains("#   cores: 2, EPYC, 24.0 GiB\n"), "{text}");
        assert!(read(&text, "auto").expected.is_empty());
        // Four GPUs of the eight: no case has more ranks than devices, and figures of eight stay figures of eight.
        let text = auto(&facts(&["NVIDIA H100 80GB HBM3"; 4], &[]));
        let plan = read(&text, "auto");
        assert_eq!(plan.experiment, "h100-nvlink");
        assert!(plan.cases.iter().all(|case| case.ranks() <= 4) && plan.cases.iter().any(|case| case.ranks() == 4));
        assert!(plan.expected.iter().any(|figure| figure.parameters.get("ranks") == Some(&8.into())));
    }

    /// Two of the four GPUs of a host, or one core beside a port.
    #[test]
    fn fewer_devices_than_the_plan_has_ranks_are_a_pair() {
        let plan = read(&auto(&facts(&["NVIDIA GB200"; 2], &[])), "auto");
        assert_eq!(plan.experiment, "gb200-nvl72");
        let ranks: std::collections::BTreeSet<u32> = plan.cases.iter().map(record::Case::ranks).collect();
        assert_eq!(ranks.into_iter().collect::<Vec<_>>(), [1, 2]);
        let one_core = Facts { cores: 1, ..facts(&[], &[("mlx5_0:1", Some(200.0))]) };
        assert_eq!(read(&auto(&one_core), "auto").experiment, "cpu-cluster");
    }

    /// Native ranks support no ROCm.
    #[test]
    fn all_cases_on_gpus_of_amd_are_of_pytorch() {
        let plan = read(&text("mi300x"), "mi300x");
        let on_gpus: Vec<&record::Case> = plan.cases.iter().filter(|case| case.device() == Some("cuda")).collect();
        assert!(!on_gpus.is_empty() && on_gpus.iter().all(|case| benchmarks::is_pytorch(case)));
    }

    #[test]
    fn an_a100_is_held_against_its_own_memory() {
        let figure = |expected: &[record::Expected]| {
            let triad = expected.iter().find(|figure| figure.metric == "gbs").unwrap();
            (triad.value, triad.source.contains("with 40 GB"))
        };
        for (model, wanted) in [("NVIDIA A100-SXM4-40GB", (1555.0, true)), ("NVIDIA A100-SXM4-80GB", (2039.0, false))] {
            assert_eq!(figure(&expected_of(model)), wanted, "{model}");
            assert_eq!(figure(&read(&auto(&facts(&[model; 8], &[])), "auto").expected), wanted, "{model}");
        }
    }

    #[test]
    fn the_network_is_that_of_the_port() {
        let plan = read(&auto(&facts(&[], &[("mlx5_0:1", Some(200.0))])), "auto");
        assert_eq!(plan.experiment, "cpu-cluster");
        assert!(plan.expected.iter().all(|figure| figure.value == 25.0 && figure.source.contains("mlx5_0:1")));
        // A rate that nobody tells is not a figure.
        assert!(read(&auto(&facts(&[], &[("mlx5_0:1", None)])), "auto").expected.is_empty());
    }
}
