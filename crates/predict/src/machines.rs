//! Machines known by public numbers: data sheets, and what publications measured. Predictions from them are guesses.

use record::{Constant, ConstantName, MACHINE_PROFILE_VERSION, MachineProfile, ProfileBasis};
use terms::Error;

/// A machine that is known by public numbers.
#[derive(Clone, Copy, Debug)]
pub struct PublicMachine {
    /// The one spelling of its name.
    pub name: &'static str,
    /// What it is, and where its numbers are from.
    pub source: &'static str,
    /// Operations a second of large products in bf16 and f16, before what tiles and operands cost.
    pub products: f64,
    /// Bytes a second of kernels that read and write memory.
    pub memory: f64,
    /// Memory of a device.
    pub memory_bytes: u64,
    /// Multiprocessors of a device, which share the tiles of a product.
    pub multiprocessors: u32,
    /// Bytes a second from a device to those of its node.
    pub link: f64,
    /// Bytes a second from a device to other nodes, if all devices of its node send.
    pub network: f64,
}

const GB: f64 = 1e9;

/// The table of machines.
pub static MACHINES: &[PublicMachine] = &[
    PublicMachine {
        name: "a100-nvlink",
        source: "8x A100 SXM 80 GB, NVSwitch, 8x 200 Gb/s: data sheet (312 TFLOP/s, 2.04 TB/s, 300 GB/s a direction), \
                 reached to 92%, 75% and 77%; not measured here",
        products: 287e12,
        memory: 1.53e12,
        memory_bytes: 80 * GB as u64,
        multiprocessors: 108,
        link: 230.0 * GB,
        network: 22.0 * GB,
    },
    PublicMachine {
        name: "h100-nvlink",
        source: "8x H100 SXM 80 GB, NVSwitch, 8x 400 Gb/s: products 770 to 800 TFLOP/s and copies 3.0 TB/s measured on an H100 \
                 SXM; links by data sheet (450 GB/s a direction), reached to 78%",
        products: 815e12,
        memory: 2.55e12,
        memory_bytes: 80 * GB as u64,
        multiprocessors: 132,
        link: 350.0 * GB,
        network: 45.0 * GB,
    },
    PublicMachine {
        name: "h200-nvlink",
        source: "8x H200 141 GB, NVSwitch, 8x 400 Gb/s: products 770 to 800 TFLOP/s and copies 4.2 TB/s measured on an H200; \
                 links by data sheet (450 GB/s a direction), reached to 78%",
        products: 815e12,
        memory: 3.57e12,
        memory_bytes: 141 * GB as u64,
        multiprocessors: 132,
        link: 350.0 * GB,
        network: 45.0 * GB,
    },
    PublicMachine {
        name: "b200-nvlink",
        source: "8x B200 180 GB, NVSwitch, 8x 400 Gb/s: data sheet (2,250 TFLOP/s, 8 TB/s, 900 GB/s a direction), reached to \
                 83%, 72% and 78%; not measured",
        products: 1870e12,
        memory: 5.78e12,
        memory_bytes: 180 * GB as u64,
        multiprocessors: 148,
        link: 700.0 * GB,
        network: 45.0 * GB,
    },
];

/// Values that are alike on all of these machines, with the spreads of all constants.
const OF_ALL: [(ConstantName, f64, f64); 7] = [
    // A product of 10 us at full rate fills and drains its pipelines in about 2 us.
    (ConstantName::ProductRamp, 5e8, 0.7),
    // Forward and backward passes of fused attention, heads of 64 and 128: 0.37 to 0.7 of large products.
    (ConstantName::AttentionShare, 0.5, 0.3),
    // Between the kernels of a graph.
    (ConstantName::OperationTime, 2e-6, 0.7),
    (ConstantName::WideProductShare, 0.85, 0.5),
    (ConstantName::StepTime, 1e-3, 1.0),
    (ConstantName::LinkLatency, 3e-5, 0.5),
    (ConstantName::NetworkLatency, 2e-5, 0.7),
];

impl PublicMachine {
    /// The machine as a profile.
    pub fn profile(&self) -> MachineProfile {
        let own = [
            (ConstantName::ProductRate, self.products, 0.08),
            (ConstantName::MemoryRate, self.memory, 0.15),
            (ConstantName::LinkRate, self.link, 0.15),
            (ConstantName::NetworkRate, self.network, 0.3),
            (ConstantName::OverlapSlowdown, 1.05, 0.05),
        ];
        let constants = own.into_iter().chain(OF_ALL).map(|(name, value, spread)| Constant {
            name,
            value,
            unit: name.unit().to_owned(),
            spread,
        });
        MachineProfile {
            schema: MACHINE_PROFILE_VERSION,
            name: self.name.to_owned(),
            basis: ProfileBasis::Public,
            source: self.source.to_owned(),
            machine: None,
            created: String::new(),
            version: String::new(),
            ranks_per_node: 8,
            memory_bytes: self.memory_bytes,
            kernels: Vec::new(),
            transfers: Vec::new(),
            slowdowns: None,
            launch_spread: 0.02,
            multiprocessors: self.multiprocessors,
            constants: constants.collect(),
        }
    }
}

/// The machine of this name.
///
/// # Errors
/// When there is none, with the nearest or all of them.
pub fn machine(name: &str) -> Result<&'static PublicMachine, Error> {
    let wanted = terms::normalize(name);
    let found = MACHINES.iter().find(|machine| terms::normalize(machine.name) == wanted);
    found.ok_or_else(|| {
        Error::new(format!("there is no public machine `{name}`"))
            .hint(terms::suggestion(name, MACHINES.iter().map(|machine| machine.name)))
    })
}
