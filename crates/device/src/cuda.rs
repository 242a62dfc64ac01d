//! A CUDA device as one rank uses it: the driver's library, opened at run time, a context, memory, one stream, and the kernels that
//! fill and compare buffers. Nothing of CUDA is needed to build this.
//!
//! `driver` is the table of the library's functions; `gpu` a device that was opened; `memory` what is allocated there; `transfer`
//! copies, pinned memory and further streams; `graph` what is given again as a whole; `ipc` memory of other processes; `module` loads
//! kernels from PTX text, which any driver from 520 on compiles for its device; `cache` keeps what that makes; `kernels` are those that fill
//! and compare, `loops` those that go through memory; `error` what the driver says.

mod cache;
mod driver;
mod error;
mod gpu;
mod graph;
mod ipc;
mod kernels;
mod loops;
mod memory;
mod module;
mod transfer;

pub use driver::{Driver, STEMS, Uuid};
pub use error::CudaError;
pub use gpu::{Event, Gpu, Stream};
pub use graph::Graph;
pub use ipc::HANDLE_BYTES;
pub use kernels::{CHECK, Found, Repeated};
pub use loops::{CHAINS, LOOPS, Loop, Loops, REPEATED, chains_f32, chains_f64};
pub use module::{Argument, BLOCK_THREADS, Kernel, Loading, Threads};
pub use transfer::Pinned;

/// What a call of the driver gives.
pub type Result<T> = std::result::Result<T, CudaError>;
