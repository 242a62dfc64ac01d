//! Where communication meets the engine: a mesh of ranks, one module a strategy, and the trainer that runs a rank's
//! program. Strategies differ only in the program that they build: who computes what, and which exchanges stand where.

mod mesh;
mod recipe;
mod source;
mod trainer;

pub use mesh::{Coordinate, Mesh};
pub use recipe::{Balance, Optimizer, Recipe, Refusal, Schedule};
pub use source::Source;
pub use trainer::{Agreement, Error, Outline, StepReport, Traffic, Trainer, outline};
