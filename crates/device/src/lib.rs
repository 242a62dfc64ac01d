//! Memory regions, queues and events: what a device offers. Only host memory here, so far.
//!
//! Knows bytes and addresses; never ranks, element types or operations.

mod queue;
mod region;

pub use queue::{Event, Queue};
pub use region::{Region, RegionId, Slice};
