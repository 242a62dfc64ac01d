//! Kernels that were compiled for a device, kept in a folder: the first process of a host compiles, the others wait for it and read.
//!
//! The driver compiles a text of PTX in seconds. Its own cache may be off, full, or in a folder that nobody may write to. A file has the
//! whole text that its code was made from, so that it is taken for that text alone, and a sum over all of it. What is in the folder runs on
//! the GPU as this user: one that others may write to is not used.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process that waits longer for another one's code compiles for itself.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// What a file begins with.
const HEAD: &[u8; 8] = b"rmkcode1";

/// A folder of compiled kernels.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Driver and device: code is for these.
    of: String,
    patience: Duration,
}

/// Code of a text, and whether this process made it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) bytes: Vec<u8>,
    pub(super) is_new: bool,
}

impl Cache {
    /// The folder, made where it is not there. `of` names the driver and the device.
    ///
    /// # Errors
    /// It cannot be made, or is not this user's alone to write to.
    pub(super) fn open(folder: &Path, of: String) -> Result<Self, String> {
        let said = |error: std::io::Error| format!("{}: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(said)?;
        let found = std::fs::symlink_metadata(folder).map_err(said)?;
        if !found.is_dir() || !is_ours(&found) {
            return Err(format!("{}: not a folder that this user alone may write to", folder.display()));
        }
        Ok(Self { folder: folder.to_owned(), of, patience: PATIENCE })
    }

    /// The code of a text: what is kept, or what `compile` makes, which is then kept. One process compiles at a time.
    ///
    /// # Errors
    /// The folder cannot be read or written to; what `compile` says.
    pub(super) fn code(&self, text: &[u8], compile: impl FnOnce() -> Result<Vec<u8>, String>) -> Result<Code, String> {
        let key = [self.of.as_bytes(), b"\n", text].concat();
        let path = self.folder.join(format!("{:016x}", sum(&key)));
        if let Some(bytes) = kept(&path, &key) {
            return Ok(Code { bytes, is_new: false });
        }
        // Held until the end of the function, or of the process.
        let _lock = self.lock(&path)?;
        if let Some(bytes) = kept(&path, &key) {
            return Ok(Code { bytes, is_new: false });
        }
        let bytes = compile()?;
        keep(&path, &key, &bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Code { bytes, is_new: true })
    }

    fn lock(&self, path: &Path) -> Result<File, String> {
        let path = path.with_extension("lock");
        let said = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = private().write(true).create(true).truncate(false).open(&path).map_err(said)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(said(error)),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= self.patience => {
                    let waited = self.patience.as_secs_f64();
                    return Err(format!("{}: another process has held it for {waited:.1} s", path.display()));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            }
        }
    }
}

/// Whether this user owns a file or folder, and nobody else may write to it.
fn is_ours(found: &std::fs::Metadata) -> bool {
    // SAFETY: it only reads the number of the process's user.
    let own = unsafe { libc::geteuid() };
    found.uid() == own && found.mode() & 0o022 == 0
}

/// Options of a file that nobody else may touch. Links are not followed.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
}

/// What is kept for this key; None where nothing is, or what is there is not whole, not of this key, or not ours.
fn kept(path: &Path, key: &[u8]) -> Option<Vec<u8>> {
    let mut file = private().read(true).open(path).ok()?;
    let found = file.metadata().ok().filter(|found| found.is_file() && is_ours(found))?;
    let mut all = Vec::with_capacity(usize::try_from(found.len()).ok()?);
    file.read_to_end(&mut all).ok()?;
    let (rest, end) = all.split_last_chunk::<8>()?;
    let whole = u64::from_le_bytes(*end) == sum(rest);
    let code = rest.strip_prefix(HEAD)?.strip_prefix(&(key.len() as u64).to_le_bytes())?.strip_prefix(key)?;
    whole.then(|| code.to_vec())
}

/// Whole files appear at once, under their names.
fn keep(path: &Path, key: &[u8], code: &[u8]) -> std::io::Result<()> {
    let mut all = [HEAD, &(key.len() as u64).to_le_bytes()[..], key, code].concat();
    all.extend(sum(&all).to_le_bytes());
    let early = path.with_extension(format!("{}", std::process::id()));
    let mut file = private().write(true).create(true).truncate(true).open(&early)?;
    let written = file.write_all(&all).and_then(|()| std::fs::rename(&early, path));
    if written.is_err() {
        // A disk that is full: the partial file is useless.
        let _ = std::fs::remove_file(&early);
    }
    written
}

/// FNV-1a of 64 bits: names files, and finds those that are damaged. Which text a file is for, its own copy of it says.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A folder of this test's own, which is gone at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            Self(std::env::temp_dir().join(format!("rankmark-{test}-{}", std::process::id())))
        }

        fn cache(&self) -> Cache {
            Cache::open(&self.0.join("kernels"), "driver, sm_90".to_owned()).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn of_many_at_once_one_compiles() {
        let (folder, compiled) = (Folder::new("one_compiles"), AtomicU32::new(0));
        let compile = || {
            compiled.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(100));
            Ok(b"code".to_vec())
        };
        let new: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| folder.cache().code(b"text", compile).unwrap())).collect();
            let all: Vec<Code> = all.into_iter().map(|each| each.join().unwrap()).collect();
            assert!(all.iter().all(|code| code.bytes == b"code"));
            all.iter().filter(|code| code.is_new).count()
        });
        assert_eq!((new, compiled.into_inner()), (1, 1));
        let other = folder.cache().code(b"another text", || Ok(b"other".to_vec())).unwrap();
        assert_eq!(other, Code { bytes: b"other".to_vec(), is_new: true });
        let another = Cache::open(&folder.0.join("kernels"), "driver, sm_80".to_owned()).unwrap();
        assert!(another.code(b"text", || Ok(Vec::new())).unwrap().is_new, "code is for one device");
    }

    #[test]
    fn a_process_that_waits_too_long_says_so_and_one_that_failed_keeps_nobody() {
        let folder = Folder::new("waits");
        let cache = Cache { patience: Duration::from_millis(30), ..folder.cache() };
        let waited = cache.code(b"text", || {
            let why = cache.code(b"text", || Ok(Vec::new())).unwrap_err();
            assert!(why.contains("another process has held it"), "{why}");
            Err("the compiler says no".to_owned())
        });
        assert_eq!(waited.unwrap_err(), "the compiler says no");
        assert!(cache.code(b"text", || Ok(b"code".to_vec())).unwrap().is_new);
    }

    #[test]
    fn damaged_files_and_those_of_another_text_are_made_again() {
        let folder = Folder::new("damaged");
        let cache = folder.cache();
        let make = |text: &[u8]| cache.code(text, || Ok(b"code".to_vec())).unwrap().is_new;
        assert!(make(b"text") && !make(b"text"));
        let path = folder.0.join("kernels").join(format!("{:016x}", sum(b"driver, sm_90\ntext")));
        let whole = std::fs::read(&path).unwrap();
        for at in [0, 9, 20, whole.len() - 9, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(make(b"text"), "byte {at}");
        }
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(make(b"text"), "a file that ends early");
        // Two texts with one name.
        keep(&path, b"driver, sm_90\ntixt", b"its code").unwrap();
        assert!(make(b"text"));
    }

    #[test]
    fn what_others_may_write_to_is_not_used() {
        let folder = Folder::new("others");
        let cache = folder.cache();
        cache.code(b"text", || Ok(b"code".to_vec())).unwrap();
        let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let kernels = folder.0.join("kernels");
        let file = kernels.join(format!("{:016x}", sum(b"driver, sm_90\ntext")));
        open(&file, 0o620);
        assert!(cache.code(b"text", || Ok(b"code".to_vec())).unwrap().is_new);
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&kernels, &link).unwrap();
        for (path, mode) in [(&kernels, 0o770), (&kernels, 0o702), (&link, 0o700)] {
            open(&kernels, mode);
            let why = Cache::open(path, String::new()).unwrap_err();
            assert!(why.ends_with("not a folder that this user alone may write to"), "{why}");
        }
    }
}
