//! What needs a process of its own.

mod allocations;
#[path = "../../../../tests/fakes.rs"]
mod fakes;
mod gpus;
mod samples;
#[path = "../../../../tests/skip.rs"]
mod skip;
