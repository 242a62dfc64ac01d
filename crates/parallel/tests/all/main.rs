//! What needs a process of its own.

mod allocations;
#[path = "../../../../tests/fakes.rs"]
mod fakes;
mod gpus;
#[path = "../../../../tests/skip.rs"]
mod skip;
