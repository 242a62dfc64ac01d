//! Opening files: only plain ones, and inside a record never through a link.
//!
//! A FIFO blocks the process that opens it until another one writes, and a device may never end: both are refused by name. A link in
//! a record could lead a report, or a run that goes on, to any file of this user.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a file that the user names, for reading. Links are followed: the user chose the path.
///
/// # Errors
/// When it cannot be opened, or is not a plain file.
pub fn open_named(path: &Path) -> io::Result<File> {
    plain(&fs::metadata(path)?)?;
    // Another file may have taken its place since: O_NONBLOCK keeps a FIFO from blocking, and does nothing to a file.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    plain(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file of a record for reading.
///
/// # Errors
/// When it cannot be opened, is a link, or is not a plain file.
pub fn open_inside(path: &Path) -> io::Result<File> {
    open_inside_by(path, OpenOptions::new().read(true))
}

/// Opens a file of a record by these options.
///
/// # Errors
/// As [`open_inside`].
pub fn open_inside_by(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
        Ok(found) => plain(&found)?,
    }
    // The path may name another file by now, so the kernel refuses links, too.
    let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|error| if error.raw_os_error() == Some(libc::ELOOP) { link() } else { error })?;
    plain(&file.metadata()?)?;
    Ok(file)
}

/// Writes a file of a record, whole or not at all: under the name `temporary` first. `relative` is below `directory`;
/// missing folders are made.
///
/// # Errors
/// When it cannot be written; when it, the temporary file, or a folder on the way is a link.
pub fn replace(directory: &Path, relative: &Path, temporary: &str, content: &[u8]) -> io::Result<()> {
    replace_by(directory, relative, temporary, |file| file.write_all(content))
}

/// As [`replace`], with what `write` writes, piece by piece.
///
/// # Errors
/// As [`replace`].
pub fn replace_by(
    directory: &Path,
    relative: &Path,
    temporary: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidFilename);
    let name = relative.file_name().ok_or_else(invalid)?;
    fs::create_dir_all(directory)?;
    let folder = match relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => Some(Folder::make(&directory.join(parent))?),
        None => None,
    };
    let place = |name: &Path| folder.as_ref().map_or_else(|| directory.join(name), |folder| folder.path(name));
    let (path, temporary) = (place(Path::new(name)), place(Path::new(temporary)));
    // Renaming would replace a link and not follow it; one that somebody put there is still not ours to remove.
    refuse_unless_plain(&path)?;
    if refuse_unless_plain(&temporary)? {
        // Left by a run that was killed. Not opened: it may have become another name of a file that matters.
        fs::remove_file(&temporary)?;
    }
    let put = || {
        let mut buffered = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&temporary)?);
        write(&mut buffered)?;
        let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Without this a crash soon after the rename could leave an empty file in the place of the old one.
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    put().inspect_err(|_| drop(fs::remove_file(&temporary)))
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
    let mut file = OpenOptions::new().append(true).create(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    plain(&file.metadata()?)?;
    file.write_all(content)
}

/// Whether it is there.
fn refuse_unless_plain(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(found) => plain(&found).map(|()| true),
    }
}

/// A folder inside a record, held open: a link that is put in its place later changes nothing.
#[derive(Debug)]
pub struct Folder(File);

impl Folder {
    /// Makes the folder where it is not there yet.
    ///
    /// # Errors
    /// When it cannot be made, is a link, or is not a folder.
    pub fn make(path: &Path) -> io::Result<Self> {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if fs::symlink_metadata(path)?.is_symlink() {
            return Err(link());
        }
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path).map(Self)
    }

    /// The path of a file in it, by its descriptor.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.0.as_raw_fd().to_string()).join(name)
    }
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
