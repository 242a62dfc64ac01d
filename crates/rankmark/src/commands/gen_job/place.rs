//! Paths as text, and the file that is written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use terms::Error;

/// A path as text: the file is one.
pub(super) fn text(path: &Path) -> Result<String, Error> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::new(format!("{} is not UTF-8", path.display())).hint("rename it"))
}

/// The path from the root, by which other processes of the job find the file wherever they start.
pub(super) fn absolute(path: &Path) -> Result<String, Error> {
    let failed = |error: io::Error| Error::new(format!("{} has no path from the root", path.display())).cause(error);
    text(&std::path::absolute(path).map_err(failed)?)
}

/// Writes the file; one that is there only where it may be replaced, as a whole or not at all.
pub(super) fn write(path: &Path, text: &str, executable: bool, replace: bool) -> Result<(), Error> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Error::new(format!("{} exists already", path.display())).hint("`--force` replaces it")
        }
        _ => Error::new(format!("{} cannot be written", path.display())).cause(error),
    };
    let mode = if executable { 0o755 } else { 0o644 };
    if !replace {
        return create(path, text, mode).map_err(failed);
    }
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Error::new(format!("{} is not a plain file", path.display())));
    }
    let temporary = temporary(path);
    create(&temporary, text, mode).map_err(failed)?;
    fs::rename(&temporary, path).inspect_err(|_| drop(fs::remove_file(&temporary))).map_err(failed)
}

fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

fn create(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path)))
}
