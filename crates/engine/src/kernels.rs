//! Kernels, one module a family. Each has `run`, which picks the element type and calls plain functions over slices.

pub(crate) mod dense;
pub(crate) mod rows;
pub(crate) mod simd;
pub(crate) mod spatial;
pub(crate) mod update;
