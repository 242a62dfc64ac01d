//! Following a live record from another process: what its files hold so far, and whether its run goes on. Takes no lock and
//! changes nothing.

use std::fs::{File, Metadata};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::checksum::Checker;
use super::lines::{Fault, NEWER, StoredLine, case_line, corrupt, next_line};
use super::{CASES, CASES_FILE, LOCK, LOCK_FILE, RUN_FILE, StoreError, limits};
use crate::file::open_inside;
use crate::{CaseLine, RunEnd, RunFile};

/// Whether a run writes to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// A process holds its lock.
    Live,
    /// The run ended: there is no lock.
    Ended,
    /// A lock is left that no process of this host holds: the run was killed, or it is on another host.
    Left,
    /// The file system knows no locks, so nobody can tell.
    Unknown,
}

/// Whether a run writes to the record in this directory. Asks the kernel's list of locks: taking the lock, even to look,
/// could refuse a run that begins at the same time.
pub fn liveness(directory: &Path) -> Liveness {
    let path = directory.join(LOCK_FILE);
    let Ok(found) = std::fs::symlink_metadata(&path) else { return Liveness::Ended };
    // An empty list says that nobody has locked anything; only one that cannot be read says nothing.
    let locks = std::fs::read_to_string("/proc/locks");
    if locks.as_ref().is_ok_and(|locks| locks.lines().any(|line| is_of(line, found.ino()))) {
        return Liveness::Live;
    }
    // Only the holder of a lock writes its number.
    let mut text = String::new();
    let read = open_inside(directory, &LOCK).and_then(|file| file.take(32).read_to_string(&mut text));
    let Some(pid) = text.trim().parse::<u32>().ok().filter(|_| read.is_ok()) else { return Liveness::Unknown };
    // Where the list cannot be read, the process tells.
    let alive = locks.is_err() && Path::new("/proc").join(pid.to_string()).exists();
    if alive { Liveness::Live } else { Liveness::Left }
}

/// How the run of this run file ended. What it wrote of its end counts before its lock.
pub fn run_end(file: &RunFile, directory: &Path) -> RunEnd {
    if let Some(by) = file.end.and_then(|end| end.interrupted_by) {
        return RunEnd::Interrupted(by);
    }
    if file.merged.iter().any(|part| !part.end.is_unsaid()) {
        return RunEnd::Part;
    }
    if file.has_ended() {
        return RunEnd::Ended;
    }
    match liveness(directory) {
        Liveness::Live => RunEnd::Running,
        Liveness::Ended => RunEnd::Killed,
        // The lock of a process of another host is not in this host's list.
        Liveness::Left if is_of_other_host(file) => RunEnd::Unknown,
        Liveness::Left => RunEnd::Killed,
        Liveness::Unknown => RunEnd::Unknown,
    }
}

/// Whether the run goes on. One that wrote its end may still write its report.
pub fn goes_on(directory: &Path, file: &RunFile) -> bool {
    match run_end(file, directory) {
        RunEnd::Running | RunEnd::Unknown => true,
        RunEnd::Ended | RunEnd::Interrupted(_) | RunEnd::Killed | RunEnd::Part => liveness(directory) == Liveness::Live,
    }
}

/// The record in a folder that was written last; a live one before others.
pub fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let written = |directory: &PathBuf| {
        let when = |name: &str| directory.join(name).symlink_metadata().and_then(|found| found.modified()).ok();
        (liveness(directory) == Liveness::Live, when(CASES_FILE).max(when(RUN_FILE)))
    };
    entries.filter(|directory| directory.join(RUN_FILE).symlink_metadata().is_ok()).max_by_key(written)
}

/// Whether the run was on a host of another name. A record that names none is taken to be of this one.
fn is_of_other_host(file: &RunFile) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = file.machine.host.as_str();
    !host.is_empty() && host != own.trim()
}

/// Whether a line of /proc/locks is of this file: `1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF`. File systems such as
/// overlayfs and btrfs show another device there than to programs, so the number of the file decides.
fn is_of(line: &str, inode: u64) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| word.ends_with(':') || *word == "->");
    let kind = words.next();
    let place = words.nth(3).and_then(|place| place.rsplit(':').next());
    matches!(kind, Some("FLOCK" | "POSIX" | "OFDLCK")) && place.and_then(|place| place.parse().ok()) == Some(inode)
}

/// The case lines of a live record, as they come.
#[derive(Debug)]
pub struct Follower {
    directory: PathBuf,
    /// The file that was read last. Held open, so that no other file gets the number that it has.
    held: Option<File>,
    /// Bytes of whole lines that were read.
    read: u64,
    checker: Checker,
    number: usize,
    /// Lines that are damaged, and so left out.
    pub damaged: usize,
}

impl Follower {
    /// Follows the record in this directory, from its first line.
    pub fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { directory, held: None, read: 0, checker: Checker::default(), number: 0, damaged: 0 }
    }

    /// The run file as it is now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn run_file(&self) -> Result<RunFile, StoreError> {
        super::read::run_file(&self.directory).map(|read| read.file)
    }

    /// The whole lines that were written since the last call. [`CaseLine::replaces`] tells which of a case stands for it. A
    /// line that is being written waits for its end.
    ///
    /// # Errors
    /// When the file cannot be read, or holds a line of another version.
    pub fn new_lines(&mut self) -> Result<Vec<CaseLine>, StoreError> {
        let path = self.directory.join(CASES_FILE);
        let failed = |error: &std::io::Error| StoreError::io("cannot read", &path, error);
        let mut file = match open_inside(&self.directory, &CASES) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        let found = file.metadata().map_err(|error| failed(&error))?;
        let is_it = |held: Metadata| (held.dev(), held.ino()) == (found.dev(), found.ino());
        let is_other = self.held.as_ref().is_some_and(|held| !held.metadata().is_ok_and(is_it));
        if is_other || found.len() < self.read {
            // Another record has this place, or a run that goes on cut off what a crash left.
            *self = Self::new(&self.directory);
        }
        self.held = Some(file.try_clone().map_err(|error| failed(&error))?);
        file.seek(SeekFrom::Start(self.read)).map_err(|error| failed(&error))?;
        let mut file = BufReader::new(file.take(limits::CASES));
        let mut lines = Vec::new();
        loop {
            match next_line(&mut file, limits::CASE_LINE).map_err(|error| failed(&error))? {
                None | Some(StoredLine::Unfinished(_)) => return Ok(lines),
                Some(StoredLine::TooLong) => {
                    return Err(corrupt(CASES_FILE, self.number + 1, "the line is too long"));
                }
                Some(StoredLine::Whole(mut bytes)) => {
                    self.read += bytes.len() as u64 + 1;
                    self.number += 1;
                    match case_line(&mut bytes, &mut self.checker) {
                        Ok(read) => lines.push(read.line),
                        Err(Fault::Damaged(_)) => self.damaged += 1,
                        Err(Fault::Other(cause)) => return Err(corrupt(CASES_FILE, self.number, &cause)),
                        Err(Fault::Newer(cause)) => return Err(corrupt(CASES_FILE, self.number, &cause).hint(NEWER)),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_known_by_the_file() {
        let line = "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF";
        assert!(is_of(line, 1234) && !is_of(line, 123) && !is_of(line, 4711));
        assert!(is_of("12: POSIX  ADVISORY  WRITE 1 00:2f:77 0 EOF", 77));
        assert!(!is_of("3: LEASE  ACTIVE    READ  9 08:01:1234 0 EOF", 1234));
        assert!(!is_of("1: FLOCK", 0) && !is_of("", 0));
    }

    #[test]
    fn a_directory_without_a_lock_has_no_live_run() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(liveness(directory.path()), Liveness::Ended);
        std::fs::write(directory.path().join(LOCK_FILE), "").unwrap();
        assert_eq!(liveness(directory.path()), Liveness::Unknown, "a file that nobody could lock");
        std::fs::write(directory.path().join(LOCK_FILE), "1\n").unwrap();
        assert_eq!(liveness(directory.path()), Liveness::Left, "a lock file that nobody has locked");
        let mut notes = Vec::new();
        let folder = crate::file::HeldFolder::open(directory.path()).unwrap();
        let lock = super::super::lock::Lock::take(&folder, &mut notes).unwrap();
        assert_eq!(liveness(directory.path()), Liveness::Live);
        drop(lock);
        assert_eq!(liveness(directory.path()), Liveness::Ended);
    }
}
