//! What a rank notes of a training case, on its way to the coordinator.

use std::collections::BTreeMap;

use contract::reproducible::Noted;
use engine::Multiplier;
use parallel::StepReport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::kernel_times::KernelTimes;

/// Seconds of a step, each the median over steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Phases {
    pub(super) input: f64,
    pub(super) forward: f64,
    pub(super) backward: f64,
    /// None if the exchange overlaps a pass and cannot be timed alone.
    pub(super) communication: Option<f64>,
    pub(super) optimizer: f64,
}

impl Phases {
    pub(super) fn from_steps(steps: &[StepReport]) -> Self {
        if steps.is_empty() {
            return Self::default();
        }
        let median = |of: fn(&StepReport) -> f64| stats::median(&steps.iter().map(of).collect::<Vec<_>>());
        Self {
            input: median(|step| step.input_s),
            forward: median(|step| step.forward_s),
            backward: median(|step| step.backward_s),
            communication: Some(median(|step| step.communication_s)),
            optimizer: median(|step| step.optimizer_s),
        }
    }

    /// What does not wait for others.
    pub(super) fn computing(&self) -> f64 {
        self.input + self.forward + self.backward + self.optimizer
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Notes {
    /// Global mean loss of each step, as bits: JSON's decimal numbers need not come back as they went.
    pub(super) loss_bits: Vec<u64>,
    pub(super) phases: Phases,
    /// Seconds of communication in each step; empty where a rank cannot tell it.
    #[serde(default)]
    pub(super) communication_s: Vec<f64>,
    /// Processor time of the steps, all threads.
    pub(super) cpu_s: f64,
    /// Threads of the process.
    pub(super) threads: u64,
    /// Memory before the case, and the most since, shared pages counted once over all ranks.
    pub(super) base_bytes: u64,
    pub(super) held_bytes: u64,
    /// Operations a second that this rank's cores reached; zero where that was not measured.
    pub(super) peak_flops: f64,
    pub(super) peak_source: String,
    /// Operations of a step by what multiplied; empty where that is not known.
    #[serde(default)]
    pub(super) multiplied: BTreeMap<Multiplier, f64>,
    /// Operations a second that its cores reach in the engine's own product of large matrices.
    pub(super) gemm_flops: f64,
    /// How its GPU computes; empty on the host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) gpu: BTreeMap<String, String>,
    /// Where the time of its step goes, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kernel_times: Option<KernelTimes>,
    /// Blocks of each stage and micro-batches of each replica, as measured speeds have them.
    pub(super) stages: Vec<usize>,
    pub(super) micro_batches: Vec<usize>,
    /// What repeated steps gave, where they were repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repeated: Option<Noted>,
}

impl Notes {
    pub(super) fn write(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            // Plain data with text keys always can be written.
            _ => Map::new(),
        }
    }

    pub(super) fn read(map: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(Value::Object(map.clone())).ok()
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = f64> {
        self.loss_bits.iter().map(|bits| f64::from_bits(*bits))
    }
}
