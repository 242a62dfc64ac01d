//! The engine's tests: the memory plan, and every kernel against plain loops, formulas and other kernels.
//!
//! They stand here and not next to their code because unit tests would compile all kernels a second time.

mod attention;
mod cuda;
mod cudnn;
mod dense;
mod emulation;
#[path = "../../../../tests/fakes.rs"]
mod fakes;
mod occupancy;
mod old_libraries;
mod peak;
mod plan;
mod rows;
mod sample;
mod simd;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod spatial;
mod step;
mod threads;
mod train;
mod update;
