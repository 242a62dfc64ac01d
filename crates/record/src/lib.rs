//! What is kept: plan, machine, case, samples, caveats. The only types that are written to disk.
//!
//! Reads and checks plans, expands them to cases, stores what cases measured, and reads it back. Never measures, never
//! starts anything, never prints.

mod case;
mod caveat;
mod field;
mod line;

pub use case::Case;
pub use caveat::Caveat;
pub use field::{About, Better, Field, Kind, Metric, Problem, Shown};
pub use line::{CaseLine, SCHEMA, TimeSummary, WrongElement};
