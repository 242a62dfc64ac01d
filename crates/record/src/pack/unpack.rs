//! A packed record as a directory again. Archives come from others: what is not a plain file of a record is left out, no path
//! leaves the new directory, and no archive fills a disk.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{FOLDERS, is_own};
use crate::file::{Access, FileName, Folder, open_inside};
use crate::store::{RUN_FILE, StoreError};

/// Most bytes of all files of an archive.
const LARGEST: u64 = 16 << 30;
/// Most files of an archive.
const MOST: usize = 100_000;
/// Entries that are looked at for a run file, to tell a packed record from another archive.
const LOOKED_AT: usize = 64;

/// Whether a file is a packed record: a gzipped tar archive of a folder with a run file.
pub fn is_packed(path: &Path) -> bool {
    let look = || -> io::Result<bool> {
        let mut archive = tar::Archive::new(MultiGzDecoder::new(File::open(path)?));
        for entry in archive.entries()?.take(LOOKED_AT) {
            if place(&entry?.path()?).is_some_and(|(folder, name)| folder.is_none() && name.as_str() == RUN_FILE) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    path.is_file() && look().unwrap_or(false)
}

/// Unpacks a record into a new directory.
///
/// # Errors
/// When the archive cannot be read, holds more than a record may, or the directory is there already or cannot be written.
pub fn unpack(file: &Path, into: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot unpack", file, &error);
    if into.symlink_metadata().is_ok() {
        return Err(StoreError::new(format!("{} exists already", into.display()))
            .cause(format!("{} would be unpacked there", file.display()))
            .hint("use that record, or move it away"));
    }
    let directory = Folder::make_named(into).map_err(|error| StoreError::io("cannot create", into, &error))?;
    let mut archive = tar::Archive::new(MultiGzDecoder::new(File::open(file).map_err(failed)?));
    let (mut bytes, mut files) = (0u64, 0usize);
    for entry in archive.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let found = entry.header().entry_type().is_file().then(|| place(&entry.path().ok()?)).flatten();
        let Some((folder, name)) = found else { continue };
        (bytes, files) = (bytes.saturating_add(entry.size()), files + 1);
        if bytes > LARGEST || files > MOST {
            let what =
                format!("{} holds more than a record: over {} GiB, or {MOST} files", file.display(), LARGEST >> 30);
            return Err(StoreError::new(what));
        }
        let write = || -> io::Result<u64> {
            let size = entry.size();
            let mut out = match folder {
                Some(folder) => directory.make(folder)?.open(&name, Access::Rewrite)?,
                None => directory.open(&name, Access::Rewrite)?,
            };
            io::copy(&mut entry.take(size), &mut out)
        };
        write().map_err(failed)?;
    }
    Ok(())
}

/// Unpacks a record into a directory, unless that holds it already. Whether it was unpacked now.
///
/// # Errors
/// As [`unpack`]; and when the directory is there, and is another record or none.
pub fn unpack_once(file: &Path, into: &Path) -> Result<bool, StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot unpack", file, &error);
    // Under another name first: nobody finds half a record.
    let name = into.file_name().unwrap_or_default().to_string_lossy();
    let fresh = into.with_file_name(format!(".{name}.{}", std::process::id()));
    let unpacked = unpack(file, &fresh).and_then(|()| {
        if into.symlink_metadata().is_err() {
            return std::fs::rename(&fresh, into).map(|()| true).map_err(failed);
        }
        let run =
            |directory: &Path| open_inside(directory, &FileName::literal(RUN_FILE)).and_then(io::read_to_string).ok();
        match run(into).is_some_and(|own| Some(own) == run(&fresh)) {
            true => Ok(false),
            false => {
                let what = format!("{} exists already, but is not the record of {}", into.display(), file.display());
                Err(StoreError::new(what).hint("move one of them away"))
            }
        }
    });
    if fresh.symlink_metadata().is_ok() {
        std::fs::remove_dir_all(&fresh).map_err(failed)?;
    }
    unpacked
}

/// The folder of a record and the name of a file of it, by its path in an archive: `TOP/run.json`, `TOP/charts/x.svg`. None of
/// what is not a file of a record.
fn place(path: &Path) -> Option<(Option<&'static FileName>, FileName)> {
    let parts: Vec<&str> = path.components().map(|part| part.as_os_str().to_str()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [_, name] if is_own(name) => Some((None, FileName::checked(name)?)),
        [_, folder, name] => {
            let (folder, kinds) = FOLDERS.iter().find(|(known, _)| known.as_str() == *folder)?;
            kinds.iter().any(|kind| name.ends_with(kind)).then_some(())?;
            Some((Some(folder), FileName::checked(name)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_record_have_a_place() {
        let named = |path: &str| place(Path::new(path)).map(|(folder, name)| format!("{folder:?} {name}"));
        assert!(named("r/run.json").is_some() && named("r/report.html").is_some() && named("r/charts/a.svg").is_some());
        for path in [
            "run.json",
            "/etc/passwd",
            "r/../run.json",
            "r/x/y/run.json",
            "r/charts/../a.svg",
            "r/passwords.txt",
            "r/.svg",
        ] {
            assert_eq!(named(path), None, "{path}");
        }
    }
}
