//! What the parts of a training step take on a machine: what `calibrate` measures and `predict` reads.
//!
//! It differs from [`crate::Profile`], whose ceilings bound what a case can reach: here are times of operations and exchanges
//! as training runs them.

mod file;

use serde::{Deserialize, Serialize};
use terms::{Collective, Dtype};

use crate::Machine;

pub use file::{read_machine_profile, write_machine_profile};

/// The version of the file that this program writes and reads.
pub const MACHINE_PROFILE_VERSION: u32 = 1;

terms::named! {
    /// What the numbers of a profile rest on.
    pub enum ProfileBasis("basis of a profile") {
        /// Measured on the machine.
        Measured = "measured",
        /// Published numbers of the hardware.
        Public = "public",
    }
}

terms::named! {
    /// The constants of a machine: all that a prediction needs where nothing was measured, and all that a fit may move.
    pub enum ConstantName("constant of a machine") {
        /// Operations a second that large products of matrices reach.
        ProductRate = "product_rate",
        /// Operations of a product at which it reaches half of that rate, beyond what its tiles explain.
        ProductRamp = "product_ramp",
        /// Rate of attention's products over that of large products.
        AttentionShare = "attention_share",
        /// Bytes a second that operations reach which read and write rows.
        MemoryRate = "memory_rate",
        /// Seconds that an operation takes at least, however little it does.
        OperationTime = "operation_time",
        /// Share of its rate that a product keeps if one of its sizes is above 32,768, which libraries cut differently.
        WideProductShare = "wide_product_share",
        /// Seconds that each step takes in addition.
        StepTime = "step_time",
        /// Bytes a second that a rank sends to ranks of its node.
        LinkRate = "link_rate",
        /// Seconds that each exchange within a node takes in addition.
        LinkLatency = "link_latency",
        /// Bytes a second that a rank sends to other nodes, if all ranks of its node send at once.
        NetworkRate = "network_rate",
        /// Seconds that each exchange between nodes takes in addition.
        NetworkLatency = "network_latency",
        /// Time of computation while an exchange runs beside it, over its time alone.
        OverlapSlowdown = "overlap_slowdown",
    }
}

impl ConstantName {
    /// The unit of its value.
    pub fn unit(self) -> &'static str {
        match self {
            Self::ProductRate => "FLOP/s",
            Self::ProductRamp => "FLOP",
            Self::AttentionShare | Self::WideProductShare | Self::OverlapSlowdown => "ratio",
            Self::MemoryRate | Self::LinkRate | Self::NetworkRate => "B/s",
            Self::OperationTime | Self::StepTime | Self::LinkLatency | Self::NetworkLatency => "s",
        }
    }
}

/// A constant with its spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Which constant.
    pub name: ConstantName,
    /// Value of the constant, above zero.
    pub value: f64,
    /// The unit of the value: [`ConstantName::unit`].
    pub unit: String,
    /// Standard deviation of the value's logarithm: 0.1 is about 10%.
    pub spread: f64,
}

/// The time of one operation: of `engine::OperationShape`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTime {
    /// Name of the kernel, as `engine::OperationShape` names it.
    pub kernel: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Sizes, as `engine::OperationShape` lists them.
    pub dims: Vec<u64>,
    /// Ranks that ran it at the same time.
    pub ranks: u32,
    /// Median time of one operation.
    pub seconds: f64,
    /// Relative spread of that time between trials.
    pub spread: f64,
}

/// The time of one exchange.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferTime {
    /// Which operation.
    pub operation: Collective,
    /// What moved the data.
    pub backend: String,
    /// Ranks of one group.
    pub ranks: u32,
    /// Of these, how many are on one node.
    pub ranks_per_node: u32,
    /// Groups that ran the operation at the same time over the same link.
    pub groups: u32,
    /// Bytes of the operation (S of docs/explanation/bandwidth.md).
    pub bytes: u64,
    /// Median time of one call.
    pub seconds: f64,
    /// Relative spread of that time between trials.
    pub spread: f64,
}

/// How much computation and exchanges slow each other down: the time beside the other over the time alone, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowdowns {
    /// Of computation while a collective runs.
    pub computation: f64,
    /// Of a collective while computation runs.
    pub collective: f64,
}

/// A machine as predictions know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineProfile {
    /// The version of its form: [`MACHINE_PROFILE_VERSION`].
    pub schema: u32,
    /// What the machine is called.
    pub name: String,
    /// What the numbers rest on.
    pub basis: ProfileBasis,
    /// Where the numbers are from: a command, or a publication.
    pub source: String,
    /// The machine that was measured; absent for public numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// When it was made: UTC, RFC 3339; empty for public numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Version of the program that made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Ranks on one node.
    pub ranks_per_node: u32,
    /// Memory that a rank may use.
    pub memory_bytes: u64,
    /// Measured operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelTime>,
    /// Measured exchanges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferTime>,
    /// How much computation and exchanges slow each other down; absent if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdowns: Option<Slowdowns>,
    /// Relative spread of a step's time between trials in fresh processes.
    pub launch_spread: f64,
    /// Multiprocessors of a device, which share the tiles of a product; 0: products are not cut into tiles.
    #[serde(default)]
    pub multiprocessors: u32,
    /// The constants, each once.
    pub constants: Vec<Constant>,
}

impl MachineProfile {
    /// A constant's entry.
    pub fn constant(&self, name: ConstantName) -> Option<&Constant> {
        self.constants.iter().find(|constant| constant.name == name)
    }
}
