//! What a training step takes that was not measured: seconds by part, memory by category, and how sure that is.
//!
//! The step is the list that the engine runs: operations, exchanges and events are those of `parallel`, with times instead of
//! work. Pure: it starts nothing, reads no clock, and everything that it says follows from its arguments.

#![forbid(unsafe_code)]

pub mod asked;
pub mod calibrate;
pub mod candidates;
pub mod check;
mod constants;
pub mod costs;
pub mod fit;
pub mod json;
pub mod judged;
pub mod machines;
mod memory;
pub mod passes;
mod prediction;
pub mod rows;
pub mod simulate;
mod software;
pub mod sweep;
pub mod text;
mod workload;

#[cfg(test)]
mod tests;

pub use constants::{CONSTANTS, Constants};
pub use costs::Costs;
pub use fit::{Fit, fit};
pub use judged::{Fitted, Judged, fitted, judge};
pub use memory::{MemoryNeed, category_name, memory};
pub use passes::Parts;
pub use prediction::{Evidence, Prediction, Predictor, Spreads};
pub use simulate::{Simulated, simulate};
pub use software::{Habits, Software};
pub use workload::{Emulated, Step, Workload};
