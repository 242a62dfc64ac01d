//! The report on disk: each file appears whole or not at all.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, FORMATS, Format, Run};

/// One file of a report, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Where it belongs, relative to the report's directory.
    pub path: PathBuf,
    /// What it holds.
    pub content: Vec<u8>,
}

impl Artifact {
    pub(crate) fn new(path: impl Into<PathBuf>, content: Vec<u8>) -> Self {
        Self { path: path.into(), content }
    }
}

/// Writes the report in every format below `dir`, which is made if it is not there; returns the files, the one to read
/// first first. Files of an earlier report are replaced.
///
/// # Errors
/// When a file cannot be written or encoded; what was written before stays, and is whole.
pub fn write(run: &Run, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    write_formats(run, dir, FORMATS)
}

/// As [`write()`], in some formats.
///
/// # Errors
/// As [`write()`].
pub fn write_formats(run: &Run, dir: &Path, formats: &[&dyn Format]) -> Result<Vec<PathBuf>, Error> {
    let mut written = Vec::new();
    for format in formats {
        for artifact in format.render(run)? {
            let path = dir.join(&artifact.path);
            replace(dir, &artifact).map_err(|source| Error::Write { path: path.clone(), source })?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Writes beside the target and renames, so that a reader, or a full disk, never meets half a file.
fn replace(dir: &Path, artifact: &Artifact) -> io::Result<()> {
    let name = artifact.path.file_name().unwrap_or_default().to_string_lossy();
    let beside = format!(".{name}.{}.part", std::process::id());
    record::file::replace(dir, &artifact.path, &beside, &artifact.content)
}
