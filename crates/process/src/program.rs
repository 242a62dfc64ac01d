//! Programs in the folders of the path.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child;

/// How long a program may take to say its version.
const LIMIT: Duration = Duration::from_secs(20);

/// The first program of this name in these folders.
pub fn first_program(path: &[PathBuf], name: &str) -> Option<PathBuf> {
    path.iter().map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// Whether it can be run.
pub fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// What a program prints when it is asked for its version; None where it cannot be run.
pub fn version_of(program: &Path) -> Option<String> {
    child::run(program, &[OsStr::new("--version")], None, LIMIT).ok().map(|outcome| outcome.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_a_program() {
        assert_eq!(first_program(&["/nowhere".into(), "/bin".into()], "sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(first_program(&["/etc".into()], "passwd"), None);
    }

    #[test]
    fn a_version_is_what_the_program_says_however_it_ends() {
        assert_eq!(version_of(Path::new("/no/such/program")), None);
        assert!(version_of(Path::new("/bin/false")).is_some_and(|said| said.starts_with("false (")));
    }
}
