//! What a record knows of its machine's states, read without its plan.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::RUN;
use crate::file::open_inside;
use crate::{CEILING, Machine, MachineState};

/// Run files up to this size are read: 1 MiB is a plan of a thousand cases.
const LARGEST: u64 = 1 << 20;

/// The part of a run file that says in which states its machine was.
#[derive(Clone, Debug, Deserialize)]
pub struct SeenStates {
    /// The coordinator's machine.
    pub machine: Machine,
    /// All machines that held ranks, where they were several.
    #[serde(default)]
    pub hosts: Vec<Machine>,
    /// Whether times were computed.
    #[serde(default)]
    pub simulated: bool,
    /// The states that the run saw.
    #[serde(default)]
    pub states: Vec<MachineState>,
    /// What its benchmarks declare, as far as it tells whether there are ceilings.
    #[serde(default)]
    benchmarks: Vec<SeenBenchmark>,
}

#[derive(Clone, Debug, Deserialize)]
struct SeenBenchmark {
    #[serde(default)]
    metrics: Vec<SeenMetric>,
}

#[derive(Clone, Debug, Deserialize)]
struct SeenMetric {
    name: String,
}

impl SeenStates {
    /// Whether the record may hold a profile of its machine.
    pub fn may_have_ceilings(&self) -> bool {
        self.benchmarks.iter().flat_map(|of| &of.metrics).any(|metric| metric.name == CEILING.name())
    }
}

/// The states that a record's run saw; None where it has no run file that can be read, or a large one.
pub fn seen_states(directory: &Path) -> Option<SeenStates> {
    let mut text = Vec::new();
    open_inside(directory, &RUN).ok()?.take(LARGEST + 1).read_to_end(&mut text).ok()?;
    let seen: SeenStates = crate::from_json(&text).ok().filter(|_| text.len() as u64 <= LARGEST)?;
    let is_level = |level: &crate::CanaryLevel| level.median.is_finite() && level.median > 0.0;
    seen.states.iter().flat_map(|state| &state.canaries).all(is_level).then_some(seen)
}
