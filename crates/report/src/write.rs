//! The report on disk: each file appears whole or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, error};

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

/// Where files of a report go.
#[derive(Debug)]
pub struct Out<'d> {
    dir: &'d Path,
    written: Vec<PathBuf>,
}

impl<'d> Out<'d> {
    /// Files go below this directory.
    pub(crate) const fn below(dir: &'d Path) -> Self {
        Self { dir, written: Vec::new() }
    }

    /// The files that were written, in order.
    pub(crate) fn into_written(self) -> Vec<PathBuf> {
        self.written
    }

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
