//! A CUDA device as one rank uses it: the driver's library, opened at run time, a context, memory, one stream, and the kernels that
//! fill and compare buffers. Nothing of CUDA is needed to build this.
//!
//! `driver` is the table of the library's functions; `gpu` a device that was opened; `memory` what is allocated there; `kernels`
//! the kernels as PTX text, which any driver from 520 on compiles for its device; `error` what the driver says.

mod driver;
mod error;
mod gpu;
mod kernels;
mod memory;

pub use driver::{Driver, STEMS};
pub use error::CudaError;
pub use gpu::{Event, Gpu, Uuid};
pub use kernels::{Found, PTX, Repeated};

/// What a call of the driver gives.
pub type Result<T> = std::result::Result<T, CudaError>;
