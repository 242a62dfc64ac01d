//! What an operation and an exchange take: measured times where there are some, constants elsewhere.

mod curve;
mod exchanges;
mod operations;

use std::collections::HashMap;

use comm::Pace;
use record::{ConstantName, MachineProfile};
use terms::Dtype;

use crate::constants::Constants;
use crate::software::{Habits, Software};
use crate::workload::Emulated;
use curve::Points;

pub use exchanges::ExchangeGroup;
pub use operations::OperationTime;

/// The times of a machine, as one program meets them.
pub struct Costs<'a> {
    profile: &'a MachineProfile,
    constants: Constants,
    habits: Habits,
    kernels: HashMap<(&'a str, Dtype), Points>,
    pace: Option<Pace>,
}

impl<'a> Costs<'a> {
    /// The times of this machine with these constants, if so many ranks of a node compute at the same time.
    pub fn new(profile: &'a MachineProfile, constants: Constants, software: Software, ranks: u32) -> Self {
        let kernels = operations::measured(profile, ranks);
        Self { profile, constants, habits: software.habits(), kernels, pace: None }
    }

    /// With the times that a step emulates.
    #[must_use]
    pub fn emulating(self, emulated: &Emulated) -> Self {
        Self { pace: emulated.pace, ..self }
    }

    /// Whether all exchanges of a rank go over one link, one after the other.
    pub fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// Whether ranks compute on processors of the host. Without overlap these exchange inside the call that starts it.
    pub fn is_host(&self) -> bool {
        self.profile.multiprocessors == 0
    }

    /// The value of a constant.
    pub fn get(&self, name: ConstantName) -> f64 {
        self.constants.get(name)
    }

    /// How the program runs operations.
    pub fn habits(&self) -> Habits {
        self.habits
    }

    /// Time of computation beside a collective over its time alone.
    pub fn slowdown(&self) -> f64 {
        let measured = self.profile.slowdowns.map(|slowdowns| slowdowns.computation);
        measured.unwrap_or_else(|| self.get(ConstantName::OverlapSlowdown)).max(1.0)
    }

    /// Time of a collective beside computation over its time alone.
    pub fn collective_slowdown(&self) -> f64 {
        self.profile.slowdowns.map_or(1.0, |slowdowns| slowdowns.collective).max(1.0)
    }
}
