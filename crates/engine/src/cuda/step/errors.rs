//! What a GPU refuses, as errors of the engine; memory of it.

use std::sync::Arc;

use device::Region;
use device::cuda::{CudaError, Gpu};

use crate::Error;
use crate::cuda::ProductError;

/// What the device says, as an error of the engine.
pub(super) fn refused(error: impl Into<ProductError>) -> Error {
    let error = error.into();
    match error {
        error if error.is_lacking() => Error::Lacking(error.to_string()),
        error => Error::Device(error.to_string()),
    }
}

/// Zeroed memory of the GPU.
pub(super) fn region(gpu: &Arc<Gpu>, bytes: usize) -> Result<Arc<Region>, Error> {
    Region::cuda(gpu, bytes).map_err(|error| memory(error, bytes))
}

pub(super) fn memory(error: CudaError, bytes: usize) -> Error {
    match error.is_out_of_memory() {
        true => Error::Memory { bytes, source: std::io::Error::other(error) },
        false => refused(error),
    }
}
