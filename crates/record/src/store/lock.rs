//! One live run a directory: an exclusive lock on a file next to `run.json`.
//!
//! A file and not the directory itself: network file systems turn such locks into record locks, which need a file that
//! is open for writing. The kernel drops the lock when the process ends, however it ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{LOCK, LOCK_FILE, StoreError};
use crate::file::{Access, HeldFolder, open_inside_by};

/// Held while a run is live; dropping it removes the file.
#[derive(Debug)]
pub(super) struct Lock {
    /// By the descriptor of the folder: a folder that is moved keeps its lock, and another one at its old path has its own.
    path: PathBuf,
    /// None where the file system knows no locks.
    file: Option<File>,
}

impl Lock {
    /// Takes the lock of a folder. The note says when the file system has no locks.
    pub(super) fn take(folder: &HeldFolder, notes: &mut Vec<String>) -> Result<Self, StoreError> {
        let (directory, path) = (folder.named(), folder.path(LOCK_FILE));
        let shown = directory.join(LOCK_FILE);
        loop {
            let failed = |error: &io::Error| StoreError::io("cannot write", &shown, error);
            let opened = open_inside_by(&folder.path("."), &LOCK, Access::Change);
            let mut file = opened.map_err(|error| failed(&error))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(in_use(directory, &mut file)),
                Err(TryLockError::Error(error)) if lacks_locks(&error) => {
                    notes.push(format!(
                        "{} is on a file system without locks: two runs could write to it at the same time",
                        directory.display()
                    ));
                    return Ok(Self { path, file: None });
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::io("cannot lock", &shown, &error)),
            }
            // The holder before us may have removed the file between our open and our lock: then ours is another file.
            let same =
                std::fs::metadata(&path).is_ok_and(|named| file.metadata().is_ok_and(|ours| ours.ino() == named.ino()));
            if !same {
                continue;
            }
            file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(|error| failed(&error))?;
            return Ok(Self { path, file: Some(file) });
        }
    }
}

/// Whether the file system has no locks: it does not know them, or it is NFS and no `lockd` or `statd` serves them.
fn lacks_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(Errno::NOLCK.raw_os_error())
}

fn in_use(directory: &Path, file: &mut File) -> StoreError {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut text));
    let pid = text.trim().parse::<u32>().ok().filter(|_| read.is_ok());
    let who = pid.map_or_else(|| "a live run".to_owned(), |pid| format!("a live run (pid {pid})"));
    StoreError::new(format!("{} is in use by {who}", directory.display()))
        .hint("wait for it, or choose another place with `--output-dir DIR`")
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only the holder removes the name, and before it lets go, so nobody else's lock is ever removed. That it
        // fails (a read-only file system by now) harms nothing: an unlocked file is not an obstacle.
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_told_from_one_that_fails() {
        for (errno, lacks) in [(Errno::NOLCK, true), (Errno::NOSYS, true), (Errno::IO, false), (Errno::ACCESS, false)] {
            assert_eq!(lacks_locks(&io::Error::from(errno)), lacks, "{errno}");
        }
    }
}
