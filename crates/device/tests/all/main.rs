//! Memory, stream and kernels of a CUDA device, against a driver whose device is this host (`tests/fakes`).

mod cuda;
#[path = "../../../../tests/fakes.rs"]
mod fakes;
#[path = "../../../../tests/skip.rs"]
mod skip;
