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
    let into = beside(path);
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

/// `d1.pack` and `d1.tar.gz` are unpacked into `d1`.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = [".tar.gz", ".tgz", ".pack"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .filter(|stem| !stem.is_empty());
    path.with_file_name(stem.map_or_else(|| format!("{name}.record"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_unpacked_beside_itself() {
        for (path, directory) in [("d1.pack", "d1"), ("a/d1.tar.gz", "a/d1"), ("d1.tgz", "d1"), ("d1", "d1.record")] {
            assert_eq!(beside(Path::new(path)), Path::new(directory), "{path}");
        }
    }
}
