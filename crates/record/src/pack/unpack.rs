//! A packed record as a directory again. Archives come from others: what is not a plain file of a record is left out, no path
//! leaves the new directory, and no archive fills a disk.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

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
/// Most MiB between the contents of two files: headers, and long names, which are held in memory.
const MOST_BETWEEN: u64 = 1;

/// An archive, unpacked as it is read.
type Unpacked = Limited<MultiGzDecoder<File>>;

/// A reader that gives so many bytes more.
struct Limited<R> {
    from: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::other(format!("a name in it is longer than {MOST_BETWEEN} MiB")));
        }
        let read = self.from.read(&mut buffer[..most])?;
        self.left.set(left - read as u64);
        Ok(read)
    }
}

/// Hands on each entry of an archive, until `look` wants no more.
fn each_entry(
    file: &Path,
    mut look: impl FnMut(&mut tar::Entry<'_, Unpacked>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot unpack", file, &error);
    let left = Rc::new(Cell::new(MOST_BETWEEN << 20));
    let from = MultiGzDecoder::new(File::open(file).map_err(failed)?);
    let mut archive = tar::Archive::new(Limited { from, left: Rc::clone(&left) });
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        left.set(u64::MAX);
        if !look(&mut entry)? {
            break;
        }
        // What is left of the content is not part of what stands between. Holes of a sparse file may have no end.
        if entry.header().entry_type().is_file() {
            io::copy(&mut entry, &mut io::sink()).map_err(failed)?;
        }
        left.set(MOST_BETWEEN << 20);
    }
    Ok(())
}

/// Whether a file is a packed record: a gzipped tar archive of a folder with a run file.
pub fn is_packed(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let (mut entries, mut found) = (0, false);
    let read = each_entry(path, |entry| {
        let path = entry.path().map(Cow::into_owned).unwrap_or_default();
        found = place(&path).is_some_and(|(folder, name)| folder.is_none() && name.as_str() == RUN_FILE);
        entries += 1;
        Ok(!found && entries < LOOKED_AT)
    });
    read.is_ok() && found
}

/// Unpacks a record into a new directory. Nothing is left behind after an error.
///
/// # Errors
/// When the archive cannot be read, holds several records or more than a record may, or the directory is there already
/// or cannot be written.
pub fn unpack(file: &Path, into: &Path) -> Result<(), StoreError> {
    if into.symlink_metadata().is_ok() {
        return Err(StoreError::new(format!("{} exists already", into.display()))
            .cause(format!("{} would be unpacked there", file.display()))
            .hint("use that record, or move it away"));
    }
    let directory = Folder::make_named(into).map_err(|error| StoreError::io("cannot create", into, &error))?;
    // Half a record would be taken for that of a run that was killed.
    fill(&directory, file).inspect_err(|_| drop(std::fs::remove_dir_all(into)))
}

/// Writes the files of an archive into a directory.
fn fill(directory: &Folder, file: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| StoreError::io("cannot unpack", file, &error);
    let (mut bytes, mut files, mut top) = (0u64, 0usize, None);
    each_entry(file, |entry| {
        let path = entry.path().map(Cow::into_owned).unwrap_or_default();
        let found = entry.header().entry_type().is_file().then(|| place(&path)).flatten();
        let Some((folder, name)) = found else { return Ok(true) };
        let own = steps(&path).next().unwrap_or_default().to_owned();
        if *top.get_or_insert_with(|| own.clone()) != own {
            return Err(StoreError::new(format!("{} holds the files of several folders", file.display()))
                .cause("files of the same name would replace each other in one record")
                .hint("unpack it with `tar -xzf`, and name the folders"));
        }
        (bytes, files) = (bytes.saturating_add(entry.size()), files + 1);
        if bytes > LARGEST || files > MOST {
            let what =
                format!("{} holds more than a record: over {} GiB, or {MOST} files", file.display(), LARGEST >> 30);
            return Err(StoreError::new(what));
        }
        let mut write = || -> io::Result<u64> {
            let size = entry.size();
            let mut out = match folder {
                Some(folder) => directory.make(folder)?.open(&name, Access::Rewrite)?,
                None => directory.open(&name, Access::Rewrite)?,
            };
            io::copy(&mut entry.by_ref().take(size), &mut out)
        };
        write().map_err(failed)?;
        Ok(true)
    })
}

/// Where a packed record is unpacked to without further words: `d1.pack` and `d1.tar.gz` into `d1`.
pub fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = [".tar.gz", ".tgz", ".pack"].iter().find_map(|ending| name.strip_suffix(ending));
    let stem = stem.filter(|stem| !stem.is_empty());
    path.with_file_name(stem.map_or_else(|| format!("{name}.record"), str::to_owned))
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

/// The parts of a path in an archive, without the `./` that `tar -czf FILE ./DIR` puts before them.
fn steps(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter(|part| *part != Component::CurDir).map(Component::as_os_str)
}

/// The folder of a record and the name of a file of it, by its path in an archive: `TOP/run.json`, `TOP/charts/x.svg`. None of
/// what is not a file of a record.
fn place(path: &Path) -> Option<(Option<&'static FileName>, FileName)> {
    let parts: Vec<&str> = steps(path).map(OsStr::to_str).collect::<Option<_>>()?;
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
    fn an_archive_is_unpacked_beside_itself() {
        for (path, directory) in [("d1.pack", "d1"), ("a/d1.tar.gz", "a/d1"), ("d1.tgz", "d1"), ("d1", "d1.record")] {
            assert_eq!(beside(Path::new(path)), Path::new(directory), "{path}");
        }
    }

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

    /// An archive of these files.
    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            // As it stands: the library would leave out a `./`.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            archive.append(&header, *content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn an_archive_that_was_cut_short_leaves_no_half_record() {
        let place = tempfile::tempdir().unwrap();
        let (file, into) = (place.path().join("r.tar.gz"), place.path().join("r"));
        // Not to be compressed, so that the cut is within it.
        let noise: Vec<u8> = (0..10_000).flat_map(|at| terms::splitmix64(at).to_le_bytes()).collect();
        let whole = packed(&[("r/run.json", &b"{}"[..]), ("r/samples.jsonl", &noise[..])]);
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert!(is_packed(&file), "its run file is whole");
        assert!(unpack(&file, &into).is_err());
        assert!(!into.exists());
        std::fs::write(&file, &whole).unwrap();
        unpack(&file, &into).unwrap();
        assert!(std::fs::read(into.join("samples.jsonl")).unwrap() == noise);
    }

    #[test]
    fn an_archive_of_a_folder_that_is_named_from_here_is_one() {
        let place = tempfile::tempdir().unwrap();
        let (file, into) = (place.path().join("r.tgz"), place.path().join("r"));
        std::fs::write(&file, packed(&[("./r/run.json", &b"{}"[..]), ("./r/charts/a.svg", &b"<svg/>"[..])])).unwrap();
        assert!(is_packed(&file));
        unpack(&file, &into).unwrap();
        assert!(into.join("run.json").is_file() && into.join("charts/a.svg").is_file());
    }

    #[test]
    fn a_long_name_is_not_read_without_a_limit() {
        let place = tempfile::tempdir().unwrap();
        let (file, into) = (place.path().join("r.tgz"), place.path().join("r"));
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let (mut header, length) = (tar::Header::new_gnu(), MOST_BETWEEN << 21);
        header.set_entry_type(tar::EntryType::GNULongName);
        header.set_size(length);
        header.set_cksum();
        archive.append(&header, io::repeat(b'a').take(length)).unwrap();
        std::fs::write(&file, archive.into_inner().unwrap().finish().unwrap()).unwrap();
        assert!(!is_packed(&file));
        let why = unpack(&file, &into).unwrap_err().to_string();
        assert!(why.contains("a name in it is longer than 1 MiB"), "{why}");
    }

    #[test]
    fn an_archive_of_two_records_is_not_made_one() {
        let place = tempfile::tempdir().unwrap();
        let (file, into) = (place.path().join("r.tar.gz"), place.path().join("r"));
        std::fs::write(&file, packed(&[("a/run.json", &b"{}"[..]), ("b/run.json", &b"{}"[..])])).unwrap();
        let why = unpack(&file, &into).unwrap_err().to_string();
        assert!(why.contains("holds the files of several folders"), "{why}");
        assert!(!into.exists());
    }
}
