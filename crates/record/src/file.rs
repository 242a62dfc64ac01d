//! Opening files: only plain ones, and inside a record never through a link.
//!
//! A FIFO blocks the process that opens it until another one writes, and a device may never end: both are refused by name. A link in
//! a record could lead a report, or a run that goes on, to any file of this user.

mod folder;
mod held;
mod name;

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

pub use folder::{Access, Folder};
pub use name::{FileName, FileStem, InnerPath};

/// Opening a FIFO does not wait then. Does nothing to a file.
const NO_WAIT: i32 = OFlags::NONBLOCK.bits() as i32;

pub use held::{HeldFolder, Whereabouts};

/// Opens a file that the user names, for reading. Links are followed: the user chose the path.
///
/// # Errors
/// When it cannot be opened, or is not a plain file.
pub fn open_named(path: &Path) -> io::Result<File> {
    plain(&fs::metadata(path)?)?;
    // A FIFO may have taken its place since.
    let file = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(path)?;
    plain(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file of a record for reading. Links to the directory are followed: the user named it.
///
/// # Errors
/// When it cannot be opened, is a link, or is not a plain file.
pub fn open_inside(directory: &Path, name: &FileName) -> io::Result<File> {
    open_inside_by(directory, name, Access::Read)
}

/// Opens a file of a record in this way.
///
/// # Errors
/// As [`open_inside`].
pub fn open_inside_by(directory: &Path, name: &FileName, access: Access) -> io::Result<File> {
    Folder::named(directory)?.open(name, access)
}

/// Writes a file of a record, whole or not at all: under the name `temporary` first. Missing folders are made.
///
/// # Errors
/// When it cannot be written; when it, the temporary file, or a folder inside `directory` is a link.
pub fn replace(directory: &Path, path: &InnerPath, temporary: &FileName, content: &[u8]) -> io::Result<()> {
    replace_by(directory, path, temporary, |file| file.write_all(content))
}

/// As [`replace`], with what `write` writes, piece by piece.
///
/// # Errors
/// As [`replace`].
pub fn replace_by(
    directory: &Path,
    path: &InnerPath,
    temporary: &FileName,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    Folder::make_named(directory)?.replace(path, temporary, write)
}

/// Writes a file that the user names, whole or not at all. Its folder is made where it is not there.
///
/// # Errors
/// When it cannot be written, or a link or a folder has its place.
pub fn replace_named(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Folder::make_named(folder)?.replace_at(Path::new(name), &temporary(path), |file| file.write_all(content))
}

/// Writes a file that the user names, with these permissions. One that is there is replaced only where `replace` says so, whole
/// or not at all; a link is then replaced itself.
///
/// # Errors
/// When it cannot be written, or is there and may not be replaced ([`io::ErrorKind::AlreadyExists`]).
pub fn create_named(path: &Path, content: &[u8], mode: u32, replace: bool) -> io::Result<()> {
    if !replace {
        return create(path, content, mode);
    }
    let new = path.with_file_name(temporary(path));
    create(&new, content, mode)?;
    fs::rename(&new, path).inspect_err(|_| drop(fs::remove_file(&new)))
}

fn create(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content).inspect_err(|_| drop(fs::remove_file(path)))
}

/// The name under which a file is written before it takes its place.
fn temporary(path: &Path) -> OsString {
    format!(".{}.{}.part", path.file_name().unwrap_or_default().display(), std::process::id()).into()
}

/// Adds to the end of a file that the user names, or that the system does for the user; it is made if it is not there.
/// Links are followed.
///
/// # Errors
/// When it cannot be written, or is not a plain file.
pub fn append(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => plain(&found?)?,
    }
    let mut file = OpenOptions::new().append(true).create(true).custom_flags(NO_WAIT).open(path)?;
    plain(&file.metadata()?)?;
    file.write_all(content)
}

/// Refuses what is not a plain file.
fn plain(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_symlink() {
        return Err(link());
    }
    let kinds = [
        (kind.is_dir(), "a folder"),
        (kind.is_fifo(), "a named pipe (FIFO)"),
        (kind.is_socket(), "a socket"),
        (kind.is_char_device() || kind.is_block_device(), "a device"),
    ];
    let what = kinds.iter().find(|(is, _)| *is).map_or("something else", |(_, what)| what);
    Err(refusal(format!("it is {what}, not a plain file")))
}

fn link() -> io::Error {
    refusal("it is a symbolic link, and links inside a record are not followed".to_owned())
}

/// [`io::ErrorKind::InvalidInput`] tells these refusals from what the system says.
fn refusal(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
