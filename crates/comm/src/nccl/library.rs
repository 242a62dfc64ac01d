//! Which of NCCL's libraries a rank opens.

use std::path::PathBuf;
use std::sync::Arc;

use super::symbols::{STEMS, Symbols};
use crate::gpus;

/// NCCL's libraries that are there, the first that counts first.
pub(super) fn all() -> Vec<PathBuf> {
    gpus::libraries(STEMS)
}

/// The library that a name means.
pub(super) fn named(name: &str) -> Option<PathBuf> {
    gpus::library_of(name, STEMS)
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
    let old = |why: String| {
        format!("{}: {why} (NCCL 2.18 or later is needed; this is {})", library.display(), super::version_of(&library))
    };
    let symbols = Symbols::open(&library).map_err(old)?;
    Ok(Arc::new(symbols))
}
