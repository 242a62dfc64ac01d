//! Kernels against naive loops in f64, and gradients against finite differences.

mod batch_norm;
mod convolution;
mod lab;
mod on_device;
#[cfg(target_arch = "x86_64")]
mod pack;
mod pooling;
