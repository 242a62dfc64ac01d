//! Reading a file through a mapping, as training reads its data, after the system has forgotten the file's pages.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use comm::Communicator;
use contract::{Prepared, Work};
use measure::{Failure, WrongReport};
use memmap2::Mmap;

use super::resolve::Task;

/// Bytes that the system reads at once, at least.
pub(super) const PAGE: u64 = 4096;
/// Bytes written at once.
const CHUNK: usize = 1 << 20;

/// A file without a name, and its mapping.
struct Storage {
    file: File,
    map: Mmap,
    /// The sum of all words, which the last call found.
    found: u64,
    expected: u64,
}

/// Writes the file. It has no name, so that nothing is left of it, however the process ends.
pub(super) fn prepare(task: &Task) -> Result<Box<dyn Prepared>, Failure> {
    let lacking = |what: &'static str| {
        let path = task.path.clone();
        move |error: std::io::Error| Failure::lacking(format!("cannot {what} in `{path}`: {error}"))
    };
    let mut file = tempfile::tempfile_in(&task.path).map_err(lacking("make a file"))?;
    let expected = write(&mut file, task.bytes, task.seed).map_err(lacking("write a file"))?;
    // SAFETY: nobody else has the file, so its contents and length stay as they are.
    let map = unsafe { Mmap::map(&file) }.map_err(lacking("map a file"))?;
    let storage = Storage { file, map, found: 0, expected };
    storage.forget();
    let kept = storage.percent_in_memory().map_err(lacking("look at a file"))?;
    if kept > 10 {
        let message = format!(
            "the file system of `{}` keeps files in memory: {} % of a file stays there (use `--path` for another \
             folder)",
            task.path, kept
        );
        return Err(Failure::lacking(message));
    }
    Ok(Box::new(storage))
}

/// The word at this place.
fn word(place: u64, seed: u64) -> u64 {
    (place + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Writes so many bytes through to the storage, and gives the sum of their words.
fn write(file: &mut File, bytes: u64, seed: u64) -> std::io::Result<u64> {
    let (mut sum, mut place) = (0_u64, 0);
    let mut chunk = Vec::with_capacity(CHUNK);
    while place < bytes / 8 {
        chunk.clear();
        while chunk.len() < CHUNK && place < bytes / 8 {
            let word = word(place, seed);
            sum = sum.wrapping_add(word);
            chunk.extend_from_slice(&word.to_ne_bytes());
            place += 1;
        }
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    Ok(sum)
}

impl Storage {
    /// Takes the pages out of this mapping and out of the system's memory.
    fn forget(&self) {
        // SAFETY: the mapping is this process's own and only read; what is forgotten is read from the file again.
        unsafe {
            libc::madvise(self.map.as_ptr().cast_mut().cast(), self.map.len(), libc::MADV_DONTNEED);
            libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
        }
    }

    /// How much of the file is in memory.
    fn percent_in_memory(&self) -> std::io::Result<usize> {
        let mut pages = looks(self.map.len(), page_bytes());
        // SAFETY: a byte for each page of the mapping.
        let code =
            unsafe { libc::mincore(self.map.as_ptr().cast_mut().cast(), self.map.len(), pages.as_mut_ptr().cast()) };
        if code != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(percent(&pages))
    }
}

/// Bytes of a page of memory: 64 KiB with some kernels for Arm.
fn page_bytes() -> usize {
    // SAFETY: it takes no pointer.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE as usize)
}

/// Room for what mincore(2) says of each page of a mapping.
fn looks(bytes: usize, page: usize) -> Vec<u8> {
    vec![0; bytes.div_ceil(page.max(1))]
}

/// How many of these pages are in memory.
fn percent(pages: &[u8]) -> usize {
    100 * pages.iter().filter(|page| **page & 1 == 1).count() / pages.len().max(1)
}

impl Prepared for Storage {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        let words = self.map.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        self.found = words.fold(0, u64::wrapping_add);
        Ok(())
    }

    fn refill(&mut self) {
        self.found = 0;
        self.forget();
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let expected = if calls > 0 { self.expected } else { 0 };
        let wrong = u64::from(self.found != expected);
        Ok(WrongReport { count: wrong, compared: self.map.len() as u64 / 8, first: Vec::new() })
    }

    fn work(&self) -> Work {
        // The second call would find the pages in memory.
        Work { max_calls: 1, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "mapped file, not in memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use terms::Dtype;

    use super::*;
    use crate::fields::Test;

    #[test]
    fn what_was_written_is_what_is_read() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut file = tempfile::tempfile_in(folder.path()).unwrap();
        let expected = write(&mut file, 3 * PAGE, 1).unwrap();
        // SAFETY: nobody else has the file.
        let map = unsafe { Mmap::map(&file) }.unwrap();
        let words: Vec<u64> = map.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!((words.len(), words[5]), (3 * 512, word(5, 1)));
        assert_eq!(words.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)), expected);
    }

    /// With large pages, too, a file that is wholly in memory is.
    #[test]
    fn what_is_in_memory_does_not_depend_on_the_size_of_pages() {
        for page in [4 << 10, 64 << 10] {
            let mut pages = looks(1 << 20, page);
            assert_eq!((pages.len(), percent(&pages)), ((1 << 20) / page, 0));
            pages.fill(1);
            assert_eq!(percent(&pages), 100, "pages of {page} bytes");
        }
        assert!(page_bytes() >= PAGE as usize && page_bytes().is_power_of_two());
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let task = Task {
            test: Test::StorageRead,
            ranks: 1,
            threads: 1,
            bytes: PAGE,
            dtype: Dtype::F32,
            size: 1,
            path: "/no/such/folder".to_owned(),
            seed: 1,
        };
        let why = prepare(&task).err().unwrap().error.what;
        assert!(why.contains("cannot make a file in `/no/such/folder`"), "{why}");
    }
}
