//! What a machine is, as the record keeps it. Finding it out is another crate's; this one only holds it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One machine. Absent means unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Operating system with its version ("Debian GNU/Linux 12").
    pub os: String,
    /// Kernel release ("6.18.0").
    pub kernel: String,
    /// Instruction set architecture ("x86_64").
    pub arch: String,
    /// The processor's own name.
    pub cpu_model: String,
    /// Physical cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Hardware threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Processors that this process may run on, by the kernel's numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_cpus: Vec<u32>,
    /// NUMA nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u32>,
    /// Installed memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// What this process may use of it (a container's limit).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Instruction set extensions that kernels here may use ("avx2", "avx512f").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub isa: Vec<String>,
    /// Caches of the first core, from the smallest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// The hypervisor, in a virtual machine ("KVM").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The kind of container, in one ("docker").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The WSL version, under WSL ("2").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wsl: Option<String>,
    /// Network interfaces that are up and lead out, InfiniBand's ports among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<NetworkInterface>,
    /// Models of the GPUs that NVIDIA's driver lists, each GPU's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// The version of that driver ("580.159.03").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_driver: Option<String>,
    /// The version of the firmware (BIOS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The version of the processor's microcode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// What the kernel lets the processor's clock do: its governor, and the highest frequency ("performance, up to 3700 MHz").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_policy: Option<String>,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkInterface {
    /// Name of the interface ("eth0", "mlx5_0:1").
    pub name: String,
    /// Megabits a second, where its driver says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub megabits: Option<u64>,
}

/// Where a processor is. Absent means unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// The kernel's number for it.
    pub number: u32,
    /// Socket of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u32>,
    /// NUMA node of the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

impl NetworkInterface {
    /// Whether it is a port of InfiniBand: the kernel allows no colon in the name of another interface.
    pub fn is_port(&self) -> bool {
        self.name.contains(':')
    }
}

impl Machine {
    /// The processor's own name, or its architecture.
    pub fn processor(&self) -> &str {
        if self.cpu_model.is_empty() { &self.arch } else { &self.cpu_model }
    }

    /// Bytes of the last-level caches together that the threads of this machine share; None where a cache or the number of
    /// threads is not known.
    pub fn last_level_bytes(&self) -> Option<u64> {
        let threads = match self.allowed_cpus.len() {
            0 => self.threads?,
            allowed => u32::try_from(allowed).ok()?,
        };
        let holds_data = |cache: &&Cache| cache.kind != "instruction" && cache.shared_by > 0;
        let last = self.caches.iter().filter(holds_data).max_by_key(|cache| cache.level)?;
        Some(last.bytes.saturating_mul(u64::from(threads.div_ceil(last.shared_by))))
    }
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// Level of the cache: 1, 2, 3.
    pub level: u32,
    /// What it holds: `data`, `instruction`, `unified`.
    pub kind: String,
    /// Size of the cache.
    pub bytes: u64,
    /// Hardware threads that share it.
    pub shared_by: u32,
}
