//! A folder that is held open, and what is opened, written and removed below it: never through a link, and never outside it.
//!
//! Names are types ([`FileName`]), so no path of data comes here. The kernel is asked to keep every path below the folder, too
//! (`openat2`): a name that was forgotten cannot leave it.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RawMode, ResolveFlags};
use rustix::io::Errno;

use super::{FileName, InnerPath, link, plain, refusal};

/// A folder, held open. What takes its place later changes nothing.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// How a file of a folder is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading.
    Read,
    /// For writing at its end; made where it is not there.
    Append,
    /// For reading and writing; made where it is not there.
    Change,
    /// For writing, empty; made where it is not there.
    Rewrite,
}

impl Access {
    fn flags(self) -> OFlags {
        match self {
            Access::Read => OFlags::RDONLY,
            Access::Append => OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE,
            Access::Change => OFlags::RDWR | OFlags::CREATE,
            // Emptied once it is known to be nobody else's.
            Access::Rewrite => OFlags::WRONLY | OFlags::CREATE,
        }
    }
}

impl Folder {
    /// The folder at a path that the user names. Links are followed: the user chose the path.
    ///
    /// # Errors
    /// When it is not there, or is not a folder.
    pub fn named(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// As [`Folder::named`], made where it is not there yet.
    ///
    /// # Errors
    /// When it cannot be made, or is not a folder.
    pub fn make_named(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Self::named(path)
    }

    /// A folder in this one.
    ///
    /// # Errors
    /// When it is not there, is a link, or is not a folder.
    pub fn folder(&self, name: &FileName) -> io::Result<Self> {
        self.beneath(name.as_ref(), OFlags::PATH | OFlags::DIRECTORY).map(Self)
    }

    /// As [`Folder::folder`], made where it is not there yet.
    ///
    /// # Errors
    /// When it cannot be made, is a link, or is not a folder.
    pub fn make(&self, name: &FileName) -> io::Result<Self> {
        make(self.0.as_fd(), name.as_ref()).map(Self)
    }

    /// Opens a file in this folder.
    ///
    /// # Errors
    /// When it cannot be opened, is a link, or is not a plain file. For writing also when it has a second name: what stands
    /// there would change, too.
    pub fn open(&self, name: &FileName, access: Access) -> io::Result<File> {
        let name = Path::new(name.as_str());
        // Opening a device can do something, and opening a FIFO can wait for ever.
        self.is_plain(name)?;
        // Another file may have taken its place since: O_NONBLOCK keeps a FIFO from blocking, and does nothing to a file.
        let file = File::from(self.beneath(name, access.flags() | OFlags::NONBLOCK)?);
        let found = file.metadata()?;
        plain(&found)?;
        if access != Access::Read && found.nlink() > 1 {
            let names = found.nlink();
            let why = format!("the file has {names} names (hard links), and writing it would change all of them");
            return Err(io::Error::new(io::ErrorKind::TooManyLinks, why));
        }
        if access == Access::Rewrite {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// Writes a file, whole or not at all: under the name `temporary` first. A folder between is made.
    ///
    /// # Errors
    /// When it cannot be written; when it, the temporary file, or the folder between is a link.
    pub fn replace(
        &self,
        path: &InnerPath,
        temporary: &FileName,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        self.replace_at(&path.to_path(), temporary.as_str().as_ref(), write)
    }

    /// As [`Folder::replace`], at any path.
    pub(super) fn replace_at(
        &self,
        path: &Path,
        temporary: &OsStr,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let made = parent.map(|parent| make(self.0.as_fd(), parent).map(Self)).transpose()?;
        let (folder, name) = (made.as_ref().unwrap_or(self), path.file_name().ok_or_else(outside)?);
        let temporary = Path::new(temporary);
        // Renaming would replace a link and not follow it; one that somebody put there is still not ours to remove.
        folder.is_plain(Path::new(name))?;
        if folder.is_plain(temporary)? {
            // Left by a run that was killed. Not opened: it may have become another name of a file that matters.
            folder.remove(temporary)?;
        }
        let put = || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let mut buffered = BufWriter::new(File::from(folder.beneath(temporary, flags)?));
            write(&mut buffered)?;
            let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
            // Without this a crash soon after the rename could leave an empty file in the place of the old one.
            file.sync_all()?;
            // Both are one part of a path: `beneath` took the one, and the other is the last part.
            Ok(rustix::fs::renameat(&folder.0, temporary, &folder.0, name)?)
        };
        put().inspect_err(|_| drop(folder.remove(temporary)))
    }

    /// Names in this folder, sorted, each with what the file is. One that is not UTF-8 is left out, and one that is removed
    /// meanwhile.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn entries(&self) -> io::Result<Vec<(String, Metadata)>> {
        let held =
            rustix::fs::openat(&self.0, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::new(held)? {
            let Some(name) =
                entry?.file_name().to_str().ok().filter(|name| !matches!(*name, "." | "..")).map(str::to_owned)
            else {
                continue;
            };
            match self.beneath(Path::new(&name), OFlags::PATH) {
                Ok(found) => entries.push((name, File::from(found).metadata()?)),
                // Removed since it was listed, as temporary files of a live run are.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// Whether the file is there.
    fn is_plain(&self, path: &Path) -> io::Result<bool> {
        match self.beneath(path, OFlags::PATH) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
            Ok(found) => plain(&File::from(found).metadata()?).map(|()| true),
        }
    }

    fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        beneath(self.0.as_fd(), path, flags)
    }
}

/// Makes the folders of a path that are not there yet.
fn make(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let mut held: Option<OwnedFd> = None;
    for name in parts(path)? {
        let at = held.as_ref().map_or(folder, AsFd::as_fd);
        match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o777)) {
            Err(error) if error != Errno::EXIST => return Err(error.into()),
            _ => {}
        }
        held = Some(beneath(at, Path::new(name), OFlags::PATH | OFlags::DIRECTORY)?);
    }
    held.ok_or_else(outside)
}

/// Opens what is at a path below a folder. A link is opened as itself with `PATH` alone, and refused otherwise.
fn beneath(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    parts(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match by_kernel(folder, path, flags) {
        // Before Linux 5.6 there is no `openat2`, and some sandboxes refuse it.
        Err(Errno::NOSYS | Errno::PERM) => by_parts(folder, path, flags),
        opened => opened,
    }
    .map_err(|error| match error {
        Errno::LOOP => link(),
        // What O_DIRECTORY says of a link that is not followed.
        Errno::NOTDIR if has_link(folder, path) => link(),
        Errno::XDEV => outside(),
        other => other.into(),
    })
}

fn by_kernel(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(folder, path, flags, mode(flags), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// Opens one part after the other, each in the folder before it.
fn by_parts(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut held: Option<OwnedFd> = None;
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Errno::XDEV) };
        let at = held.as_ref().map_or(folder, AsFd::as_fd);
        let between = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = if parts.peek().is_some() { between } else { flags };
        held = Some(rustix::fs::openat(at, name, flags, mode(flags))?);
    }
    held.ok_or(Errno::XDEV)
}

/// Whether a part of the path is a link.
fn has_link(folder: BorrowedFd<'_>, path: &Path) -> bool {
    path.ancestors().filter(|part| !part.as_os_str().is_empty()).any(|part| {
        let found = rustix::fs::statat(folder, part, AtFlags::SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Symlink)
    })
}

/// What a file that is made gets, less the user's umask.
fn mode(flags: OFlags) -> Mode {
    const NEW: RawMode = 0o666;
    if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(NEW) } else { Mode::empty() }
}

/// The parts of a path that goes down only.
fn parts(path: &Path) -> io::Result<Vec<&OsStr>> {
    let part = |part| if let Component::Normal(name) = part { Ok(name) } else { Err(outside()) };
    path.components().map(part).collect()
}

fn outside() -> io::Error {
    refusal("its path leads out of the folder".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder `in` with `in/link` to the folder `out`, `in/dangling` to nothing in it, and the file `out/mine`.
    fn with_ways_out() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("in/sub")).unwrap();
        fs::create_dir(at("out")).unwrap();
        fs::write(at("out/mine"), "mine").unwrap();
        symlink(at("out"), at("in/link")).unwrap();
        symlink(at("out"), at("in/sub/link")).unwrap();
        symlink(at("out/mine"), at("in/file")).unwrap();
        symlink(at("out/made"), at("in/dangling")).unwrap();
        root
    }

    /// Ways that lead out of `in`, as a path that nobody checked could have them.
    fn ways_out(root: &Path) -> Vec<String> {
        let absolute = root.join("out/mine").display().to_string();
        [
            "../out/mine",
            "../made",
            "sub/../../out/mine",
            "link/mine",
            "link/made",
            "sub/link/mine",
            "file",
            "dangling",
            "..",
            ".",
        ]
        .into_iter()
        .map(str::to_owned)
        .chain([absolute, format!("/proc/self/cwd{}", root.join("out/mine").display())])
        .collect()
    }

    #[test]
    fn a_writer_stays_below_its_folder() {
        let root = with_ways_out();
        let folder = Folder::named(&root.path().join("in")).unwrap();
        let write = |path: &str, temporary: &str| {
            folder.replace_at(Path::new(path), temporary.as_ref(), |file| file.write_all(b"theirs"))
        };
        for path in ways_out(root.path()) {
            let error = write(&path, ".new").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
            assert!(write("plain", &path).is_err(), "{path} as a temporary file");
        }
        write("sub/deep/new", ".new").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("in/sub/deep/new")).unwrap(), "theirs");
        let out: Vec<_> =
            fs::read_dir(root.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(
            (out, fs::read_to_string(root.path().join("out/mine")).unwrap()),
            (vec!["mine".into()], "mine".to_owned())
        );
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }

    /// Neither way of opening leaves the folder: that of the kernel, and the one for kernels and sandboxes without it.
    #[test]
    fn no_way_of_opening_leaves_the_folder() {
        let root = with_ways_out();
        let folder = Folder::named(&root.path().join("in")).unwrap();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        type Way = fn(BorrowedFd<'_>, &Path, OFlags) -> Result<OwnedFd, Errno>;
        let mut ways: Vec<(&str, Way)> = vec![("by parts", by_parts)];
        if !matches!(by_kernel(folder.0.as_fd(), Path::new("sub"), OFlags::PATH), Err(Errno::NOSYS | Errno::PERM)) {
            ways.push(("by the kernel", by_kernel));
        }
        for (name, way) in ways {
            for path in ways_out(root.path()) {
                assert!(way(folder.0.as_fd(), Path::new(&path), flags).is_err(), "{path} {name}");
            }
            let plain = way(folder.0.as_fd(), Path::new("sub/plain"), flags).unwrap();
            File::from(plain).write_all(name.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(root.path().join("in/sub/plain")).unwrap(), name);
        }
        assert_eq!(fs::read_to_string(root.path().join("out/mine")).unwrap(), "mine");
        assert_eq!(fs::read_dir(root.path().join("out")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_removed_meanwhile_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("stays"), "").unwrap();
        let folder = Folder::named(root.path()).unwrap();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    fs::write(root.path().join("comes"), "").unwrap();
                    fs::remove_file(root.path().join("comes")).unwrap();
                }
            });
            let found: Vec<io::Result<_>> = (0..2_000).map(|_| folder.entries()).collect();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
            let stays = |found: &[(String, Metadata)]| found.iter().any(|(name, _)| name == "stays");
            assert!(found.iter().all(|found| found.as_ref().is_ok_and(|found| stays(found))), "{found:?}");
        });
    }

    #[test]
    fn a_folder_that_is_held_stays_the_same() {
        let root = with_ways_out();
        let at = |path: &str| root.path().join(path);
        let folder = Folder::named(&at("in")).unwrap();
        let sub = folder.make(&FileName::literal("sub")).unwrap();
        fs::rename(at("in/sub"), at("in/moved")).unwrap();
        symlink(at("out"), at("in/sub")).unwrap();
        sub.replace(&FileName::literal("mine").into(), &FileName::literal(".new"), |file| file.write_all(b"x"))
            .unwrap();
        assert_eq!(fs::read_to_string(at("in/moved/mine")).unwrap(), "x");
        assert_eq!(fs::read_to_string(at("out/mine")).unwrap(), "mine");
        let error = folder.make(&FileName::literal("sub")).unwrap_err();
        assert!(error.to_string().contains("it is a symbolic link"), "{error}");
        let names: Vec<String> = folder.entries().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["dangling", "file", "link", "moved", "sub"]);
    }
}
