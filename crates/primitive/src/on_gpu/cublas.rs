//! Which of cuBLAS's libraries a rank opens.

use std::path::PathBuf;
use std::sync::Arc;

use device::cuda::Gpu;
use engine::cuda::{Cublas, STEMS};
use measure::Failure;

/// Opens the library of this name, or the first that is found: a file, or that of NVIDIA's wheels in the Python of this name.
///
/// # Errors
/// Which is missing, or what it lacks.
pub(super) fn open(given: Option<&str>, gpu: &Gpu) -> Result<Arc<Cublas>, Failure> {
    let found: Option<PathBuf> = match given {
        Some(name) => comm::library_of(name, STEMS),
        None => comm::libraries(STEMS).into_iter().next(),
    };
    let lacks = || {
        match given {
        Some(name) => format!("{name} has no cuBLAS (a wheel of nvidia-cublas has)"),
        None => "no libcublasLt.so where the loader looks, in CUDA_HOME, or in the wheels of python3: products on GPUs need cuBLAS"
            .to_owned(),
    }
    };
    let path = found.ok_or_else(|| Failure::lacking(lacks()))?;
    Cublas::open(&path, gpu).map_err(|why| Failure::lacking(format!("{}: {why}", path.display())))
}
