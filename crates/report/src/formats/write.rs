//! The report on disk: each file appears whole or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use record::file::{FileName, InnerPath};

use crate::{Error, error};

/// One file of a report, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Where it belongs, relative to the report's directory.
    pub path: InnerPath,
    /// What it holds.
    pub content: Vec<u8>,
    /// What somebody who asked for it should know of it.
    pub remark: Option<String>,
}

impl Artifact {
    /// A file with a name of the program's.
    pub(crate) fn new(name: &'static str, content: Vec<u8>) -> Self {
        Self::at(FileName::literal(name), content)
    }

    /// A file whose name has a part from data.
    pub(crate) fn at(path: impl Into<InnerPath>, content: Vec<u8>) -> Self {
        Self { path: path.into(), content, remark: None }
    }
}

/// Where files of a report go.
pub struct Out<'d> {
    dir: &'d Path,
    written: Written,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// What somebody who asked for them should know of them.
    pub remarks: Vec<String>,
}

impl<'d> Out<'d> {
    /// Files go below this directory.
    pub(crate) fn below(dir: &'d Path) -> Self {
        Self { dir, written: Written::default() }
    }

    /// How many files were written so far.
    pub(crate) fn written(&self) -> usize {
        self.written.files.len()
    }

    /// All that was written.
    pub(crate) fn into_written(self) -> Written {
        self.written
    }

    /// Writes a file that is whole in memory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, file: &Artifact) -> Result<(), Error> {
        self.file(&file.path, |to| to.write_all(&file.content))?;
        self.written.remarks.extend(file.remark.clone());
        Ok(())
    }

    /// Creates the file at this path below the report's directory with what `write` writes. Writes a temporary file and
    /// renames it, so that no reader sees half a file, and a full disk leaves none.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(
        &mut self,
        path: &InnerPath,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        let whole = self.dir.join(path.to_path());
        record::file::replace_by(self.dir, path, &path.name.temporary(), write)
            .map_err(|error| error::unwritten(&whole, &error))?;
        self.written.files.push(whole);
        Ok(())
    }
}

/// Writes a file that the user names, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn put_at(path: &Path, content: &[u8]) -> Result<(), Error> {
    record::file::replace_named(path, content).map_err(|error| error::unwritten(path, &error))
}

/// Adds to the end of a file that the user names.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn append_to(path: &Path, content: &[u8]) -> Result<(), Error> {
    record::file::append(path, content).map_err(|error| error::unwritten(path, &error))
}
