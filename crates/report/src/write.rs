//! The report on disk: each file appears whole or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, FORMATS, Format, Run, error};

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
    let mut out = Out { dir, written: Vec::new() };
    formats.iter().try_for_each(|format| format.write(run, &mut out))?;
    Ok(out.written)
}

/// Where files of a report go.
#[derive(Debug)]
pub struct Out<'d> {
    dir: &'d Path,
    written: Vec<PathBuf>,
}

impl Out<'_> {
    /// Writes a file that is whole in memory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, file: &Artifact) -> Result<(), Error> {
        self.file(&file.path, |to| to.write_all(&file.content))
    }

    /// Makes a file of what `write` writes, at this path below the report's directory. Writes beside the target and
    /// renames, so that a reader, or a full disk, never meets half a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&mut self, path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = format!(".{name}.{}.part", std::process::id());
        let whole = self.dir.join(path);
        record::file::replace_by(self.dir, path, &beside, write).map_err(|error| error::unwritten(&whole, &error))?;
        self.written.push(whole);
        Ok(())
    }
}
