//! Small file systems of our own, where we may mount them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// A tmpfs, unmounted when dropped.
pub(crate) struct Mounted(tempfile::TempDir);

impl Mounted {
    /// None where this user may not mount: `test` is then listed as skipped.
    pub(crate) fn new(test: &str, options: &str) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(place.path()).output();
        let why = match mount {
            Ok(output) if output.status.success() => return Some(Self(place)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        skip::skip(test, &format!("a tmpfs cannot be mounted: {}", why.trim()));
        None
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::join(self.0.path(), name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the test's file system could not be unmounted");
    }
}
