//! Memory regions, shared arenas, queues and events: what a device offers, be it the host or a CUDA device; and libraries that are
//! opened at run time, with tables of what came with which of their versions.
//!
//! Knows bytes and addresses; never ranks' roles, element types or operations.

mod arena;
pub mod cuda;
pub mod library;
mod memory;
mod queue;
mod region;
pub mod since;
mod swap;

pub use arena::{Arena, HUGE_PAGE, PAGE, SharedMapping, skew};
pub use memory::{available_memory, private_huge_pages};
pub use queue::{Event, Queue};
pub use region::{Region, RegionId, Slice};
pub use swap::swap_blocks;
