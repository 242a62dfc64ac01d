//! The constants of a machine as a prediction uses them: numbers, and how sure they are.

use record::{Constant, ConstantName, MachineProfile};
use terms::Named;

/// How many constants there are.
pub const CONSTANTS: usize = ConstantName::ALL.len();

/// All constants of a machine, in the order of [`ConstantName`]. Each is above zero, and its spread is that of its logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    values: [f64; CONSTANTS],
    spreads: [f64; CONSTANTS],
}

/// The value and the spread of a constant that a profile does not give: of a host's cores and memory, and known to a factor.
const UNKNOWN: [(f64, f64); CONSTANTS] = [
    (5e10, 1.0),
    (1e6, 1.0),
    (0.5, 0.5),
    (1e10, 0.7),
    (1e-6, 1.0),
    (1.0, 0.3),
    (1e-4, 1.0),
    (5e9, 0.7),
    (5e-6, 1.0),
    (1e9, 1.0),
    (3e-5, 1.0),
    (1.1, 0.1),
];

impl Constants {
    /// The constants of a profile; those that it lacks have wide spreads.
    pub fn of(profile: &MachineProfile) -> Self {
        let mut constants = Self { values: UNKNOWN.map(|known| known.0), spreads: UNKNOWN.map(|known| known.1) };
        for Constant { name, value, spread, .. } in &profile.constants {
            constants.set(*name, *value, *spread);
        }
        constants
    }

    /// A constant's value.
    pub fn get(&self, name: ConstantName) -> f64 {
        self.values[name as usize]
    }

    /// The standard deviation of a constant's logarithm.
    pub fn spread(&self, name: ConstantName) -> f64 {
        self.spreads[name as usize]
    }

    /// Replaces a constant.
    pub fn set(&mut self, name: ConstantName, value: f64, spread: f64) {
        self.values[name as usize] = value;
        self.spreads[name as usize] = spread;
    }

    /// The constants with each value multiplied by the exponential of a step.
    #[must_use]
    pub fn moved(&self, steps: &[f64; CONSTANTS]) -> Self {
        let mut moved = *self;
        for (value, step) in moved.values.iter_mut().zip(steps) {
            *value *= step.exp();
        }
        moved
    }

    /// All constants, as a profile lists them.
    pub fn listed(&self) -> Vec<Constant> {
        let listed = ConstantName::ALL.iter().map(|name| Constant {
            name: *name,
            value: self.get(*name),
            unit: name.unit().to_owned(),
            spread: self.spread(*name),
        });
        listed.collect()
    }
}
