//! A folder that a run writes to, held open: whether it is still where it was named, and where it is if not.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// A folder, held open under the path by which it was named.
#[derive(Debug)]
pub struct HeldFolder {
    named: PathBuf,
    folder: File,
}

/// Where a held folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Where it was named.
    InPlace,
    /// Somebody moved it, or a folder above it, to this path.
    Moved(PathBuf),
    /// Somebody removed it.
    Removed,
}

impl HeldFolder {
    /// Opens a folder that the user names; links on the way are followed.
    ///
    /// # Errors
    /// When it cannot be opened, or is not a folder.
    pub fn open(named: &Path) -> io::Result<Self> {
        let folder = OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits() as i32).open(named)?;
        Ok(Self { named: named.to_owned(), folder })
    }

    /// The path by which it was named.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// The path of a file in it, by its descriptor: it leads to this folder wherever that is by now.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.link().join(name)
    }

    /// Waits until the names in it are on disk.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn sync(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    /// Looks where it is.
    pub fn whereabouts(&self) -> Whereabouts {
        let id = |about: fs::Metadata| (about.dev(), about.ino());
        let own = self.folder.metadata();
        if let (Ok(own), Ok(there)) = (&own, fs::metadata(&self.named))
            && (own.dev(), own.ino()) == id(there)
        {
            return Whereabouts::InPlace;
        }
        let Ok(path) = fs::read_link(self.link()) else { return Whereabouts::Removed };
        let is_removed = own.is_ok_and(|own| own.nlink() == 0);
        match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
            Some(_) if is_removed || !path.exists() => Whereabouts::Removed,
            // Some file systems change the number of a folder while it is open.
            _ if fs::canonicalize(&self.named).is_ok_and(|named| named == path) => Whereabouts::InPlace,
            _ if path.exists() => Whereabouts::Moved(path),
            _ => Whereabouts::Removed,
        }
    }

    fn link(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.folder.as_raw_fd().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_found_where_it_was_moved_to() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (first, other) = (root.join("a/b"), root.join("c (deleted)"));
        fs::create_dir_all(&first).unwrap();
        let held = HeldFolder::open(&first).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::InPlace);
        fs::rename(root.join("a"), &other).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::Moved(other.join("b")));
        // Another folder of its name is not it.
        fs::create_dir_all(&first).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::Moved(other.join("b")));
        fs::write(held.path("x"), "x").unwrap();
        assert_eq!(fs::read(other.join("b/x")).unwrap(), b"x");
        fs::remove_dir_all(&other).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::Removed);
        fs::remove_dir(&first).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::Removed);
    }

    #[test]
    fn a_link_may_name_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let held = HeldFolder::open(&root.join("link")).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::InPlace);
        fs::remove_file(root.join("link")).unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::Moved(root.join("real")));
    }
}
