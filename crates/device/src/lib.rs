//! Memory regions, shared arenas, queues and events: what a device offers. Only host memory here, so far.
//!
//! Knows bytes and addresses; never ranks' roles, element types or operations.

mod arena;
mod memory;
mod queue;
mod region;

pub use arena::{Arena, HUGE_PAGE, PAGE, SharedMapping, skew};
pub use memory::{available_memory, private_huge_pages};
pub use queue::{Event, Queue};
pub use region::{Region, RegionId, Slice};
