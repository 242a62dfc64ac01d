//! The conformance suite: every ready backend of the table, plain and in every wrapper, must do what `comm::layout` and
//! the contract say, bit for bit. A new backend is covered as soon as it is registered.
//!
//! And what `shm` alone has: its paths, groups and kernels.

#![expect(clippy::disallowed_methods, reason = "ranks are told by variables who they are")]

mod aborts;
mod agree;
mod alone;
mod cases;
mod conformance;
#[path = "../../../../tests/fakes.rs"]
mod fakes;
mod model;
mod mpi;
mod nccl;
mod observing;
mod pacing;
mod processes;
mod progress;
mod random;
mod refusals;
mod shm;
mod simulated;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod staged;
mod worlds;
