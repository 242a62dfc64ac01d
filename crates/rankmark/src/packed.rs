//! Packed records (`rankmark pack`) where a command takes the directory of a record: each is unpacked next to its file, once.

use std::path::{Path, PathBuf};

use record::pack;

use crate::{Failure, screen};

/// The directory that a path stands for: that of a packed record, else itself.
///
/// # Errors
/// When a packed record cannot be unpacked, or another record stands where it would be.
pub(crate) fn opened(path: &Path) -> Result<PathBuf, Failure> {
    if !pack::is_packed(path) {
        return Ok(path.to_owned());
    }
    let into = pack::beside(path);
    if pack::unpack_once(path, &into)? {
        screen::remark(&format!("unpacked  {} into {}\n", path.display(), into.display()));
    }
    Ok(into)
}

/// As [`opened`], of each.
///
/// # Errors
/// As [`opened`].
pub(crate) fn all_opened(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    paths.iter().map(|path| opened(path)).collect()
}

/// As [`opened`], of names as they are typed.
///
/// # Errors
/// As [`opened`].
pub(crate) fn names_opened(names: &[String]) -> Result<Vec<String>, Failure> {
    names.iter().map(|name| Ok(opened(Path::new(name))?.display().to_string())).collect()
}
