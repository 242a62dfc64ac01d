//! Where communication meets the engine: a mesh of ranks, the program that divides a step among them, and the trainer
//! that runs a rank's program. Strategies differ only in the program that they build: who computes what, and which exchanges stand where.

pub mod balance;
mod check;
mod groups;
mod mesh;
mod outline;
mod pieces;
mod product;
mod recipe;
mod schedule;
mod sleep_table;
mod source;
mod store;
mod strategies;
mod trainer;
mod units;

pub use check::check;
pub use engine::Matmul;
pub use mesh::{Coordinate, Mesh};
pub use outline::{Outline, PhaseWork, Traffic, outline, program};
pub use pieces::{
    BlockPieces, Event, Pass, PassWork, Pieces, StagePieces, Transfer, UnitPieces, pieces, stage_pieces, timetable,
};
pub use product::product_rate;
pub use recipe::{Balance, Optimizer, Recipe, Schedule};
pub use sleep_table::SleepTable;
pub use source::Source;
pub use trainer::{Agreement, Asleep, Piece, SleepTimes, StepReport, Trainer, TrainerError};

#[cfg(test)]
mod tests;
