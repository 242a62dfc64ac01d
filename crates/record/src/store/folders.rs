//! Records in folders that the user names. A folder that cannot be looked into may hold some: it is named, never passed over.

use std::io;
use std::path::{Path, PathBuf};

use super::RUN_FILE;

/// Folders in folders, at most: a year's folder, a month's, a host's.
const DEPTH: usize = 4;

/// What was found.
#[derive(Debug, Default)]
pub struct RecordFolders {
    /// Directories of records, in the order of their names.
    pub records: Vec<PathBuf>,
    /// Folders that cannot be looked into, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl RecordFolders {
    /// The record that a directory is; else the records in it, and not below it.
    ///
    /// # Errors
    /// When it is none, and cannot be listed.
    pub fn at(directory: &Path) -> io::Result<Self> {
        match directory.join(RUN_FILE).symlink_metadata() {
            Ok(_) => Ok(Self { records: vec![directory.to_owned()], unreadable: Vec::new() }),
            Err(_) => Self::within(directory),
        }
    }

    /// The records in a folder, and not below it.
    ///
    /// # Errors
    /// When the folder itself cannot be listed.
    pub fn within(folder: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for path in found.entries(folder)? {
            found.take(path);
        }
        Ok(found)
    }

    /// The records in a folder, which may be one itself, and in folders of it. Links are not followed.
    pub fn below(folder: &Path) -> Self {
        let mut found = Self::default();
        found.search(folder, DEPTH);
        found
    }

    /// The records, once `warn` was told of each folder that cannot be looked into.
    pub fn readable(self, warn: &mut dyn FnMut(&str)) -> Vec<PathBuf> {
        self.unreadable.iter().for_each(|(folder, error)| warn(&why(folder, error)));
        self.records
    }

    fn search(&mut self, folder: &Path, depth: usize) {
        if self.take(folder.to_owned()) {
            return;
        }
        let Some(depth) = depth.checked_sub(1) else { return };
        match self.entries(folder) {
            Ok(entries) => {
                let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
                entries.into_iter().filter(is_folder).for_each(|folder| self.search(&folder, depth));
            }
            Err(error) if is_absence(&error) => {}
            Err(error) => self.unreadable.push((folder.to_owned(), error)),
        }
    }

    /// Takes a directory that is a record. True where there is nothing else to look for in it.
    fn take(&mut self, path: PathBuf) -> bool {
        match path.join(RUN_FILE).symlink_metadata() {
            Ok(_) => self.records.push(path),
            Err(error) if is_absence(&error) => return false,
            Err(error) => self.unreadable.push((path, error)),
        }
        true
    }

    /// The paths in a folder, sorted.
    fn entries(&mut self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(error) => self.unreadable.push((folder.to_owned(), error)),
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Whether an error says that nothing is there, or that it is not a folder.
pub fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Why a folder is left out, in one line.
pub fn why(folder: &Path, error: &io::Error) -> String {
    terms::text::one_line(&format!("{} cannot be read: {error}; records in it are left out", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder whose path is nearly as long as one may be: what is in it can be listed, and not opened, by anybody.
    #[test]
    fn what_cannot_be_looked_into_is_named() {
        let root = tempfile::tempdir().unwrap();
        let make = "d=$(printf 'd%.0s' $(seq 250)); while [ ${#PWD} -lt 3590 ]; do mkdir $d && cd $d; done; d=$(printf 'd%.0s' $(seq $((3839 - ${#PWD})))); mkdir $d && cd $d; mkdir record; \
                    echo > record/run.json; mkdir $(printf 'e%.0s' $(seq 250)); pwd";
        let made = std::process::Command::new("sh").args(["-c", make]).current_dir(root.path()).output().unwrap();
        let deep = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        for found in [RecordFolders::within(&deep).unwrap(), RecordFolders::below(&deep)] {
            assert_eq!(found.records, [deep.join("record")]);
            let [(folder, error)] = found.unreadable.as_slice() else { panic!("{found:?}") };
            assert!(folder.starts_with(&deep) && folder != &deep, "{folder:?}");
            assert!(why(folder, error).contains("cannot be read: File name too long"), "{}", why(folder, error));
        }
        assert!(is_absence(&RecordFolders::within(&root.path().join("absent")).unwrap_err()));
    }
}
