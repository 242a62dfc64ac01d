//! Which of cuBLAS's libraries a rank opens.

use std::sync::Arc;

use device::cuda::Gpu;
use engine::cuda::{Cublas, STEMS};
use measure::Failure;

use super::unmultiplied;

/// Opens the library of this name, or the first that is found.
///
/// # Errors
/// Which is missing, or what it lacks.
pub(super) fn open(given: Option<&str>, gpu: &Gpu) -> Result<Arc<Cublas>, Failure> {
    Cublas::found(comm::chosen_library(given, STEMS), given, gpu).map_err(unmultiplied)
}
