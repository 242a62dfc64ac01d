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

/// What makes a PDF of a document: the program `rankmark-pdf`, which this crate cannot start.
pub type Typesetter<'t> = dyn Fn(&[u8]) -> Result<Vec<u8>, Error> + 't;

/// Where files of a report go.
pub struct Out<'d> {
    dir: &'d Path,
    typesetter: Option<&'d Typesetter<'d>>,
    written: Vec<PathBuf>,
}

impl<'d> Out<'d> {
    /// Files go below this directory.
    pub(crate) const fn below(dir: &'d Path, typesetter: Option<&'d Typesetter<'d>>) -> Self {
        Self { dir, typesetter, written: Vec::new() }
    }

    /// The PDF of a document.
    ///
    /// # Errors
    /// When nobody gave a typesetter, and what that one complains of.
    pub(crate) fn typeset(&self, document: &[u8]) -> Result<Vec<u8>, Error> {
        self.typesetter.ok_or_else(error::no_typesetter)?(document)
    }

    /// How many files were written so far.
    pub(crate) fn written(&self) -> usize {
        self.written.len()
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

/// Writes a file that the user names, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn put_at(path: &Path, content: &[u8]) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = Path::new(path.file_name().unwrap_or_default());
    let beside = format!(".{}.{}.part", name.display(), std::process::id());
    record::file::replace(folder, name, &beside, content).map_err(|error| error::unwritten(path, &error))
}

/// Adds to the end of a file that the user names.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn append_to(path: &Path, content: &[u8]) -> Result<(), Error> {
    record::file::append(path, content).map_err(|error| error::unwritten(path, &error))
}
