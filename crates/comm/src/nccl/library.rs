//! Which of NCCL's libraries a rank opens.

use std::path::PathBuf;
use std::sync::Arc;

use super::symbols::{STEMS, Symbols};
use crate::gpus;

/// NCCL's libraries that are there, the first that counts first.
pub(super) fn all() -> Vec<PathBuf> {
    device::library::find(&gpus::folders(), STEMS)
}

/// The library that a name means: a file, or that of NVIDIA's wheels in the Python of this name. None where these have none.
pub(super) fn named(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(name);
    let is_python = path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("python"));
    if !is_python {
        return Some(path);
    }
    let python = if name.contains('/') { Some(path) } else { gpus::program(name) };
    device::library::find(&device::library::wheels(&python?), STEMS).into_iter().next()
}

/// Opens the library of this name, or the first.
///
/// # Errors
/// Which is missing, or what it lacks.
pub(super) fn open(given: Option<&str>) -> std::result::Result<Arc<Symbols>, String> {
    let library = match given {
        Some(name) => named(name).ok_or_else(|| format!("{name} has no wheel of NCCL (nvidia-nccl-cu13)"))?,
        None => all().into_iter().next().ok_or("no libnccl.so or librccl.so where the loader looks")?,
    };
    let symbols = Symbols::open(&library).map_err(|why| format!("{}: {why}", library.display()))?;
    Ok(Arc::new(symbols))
}
