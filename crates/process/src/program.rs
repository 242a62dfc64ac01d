//! Programs in the folders of the path.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

/// Gives a file to a program that shows it and lives on without us. Waits until the program ends or the time is over, and
/// returns its exit code where it ended.
///
/// # Errors
/// When it cannot be started.
pub fn hand_over(program: &Path, file: &Path, wait: Duration) -> io::Result<Option<i32>> {
    let mut command = Command::new(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a group of its own: Ctrl-C in this terminal must not close the window.
    let mut child = command.process_group(0).spawn()?;
    let begun = Instant::now();
    while begun.elapsed() < wait {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
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
    fn a_program_gets_the_file_and_its_code_comes_back() {
        let given = |program: &str, file: &str| hand_over(Path::new(program), Path::new(file), Duration::from_secs(10));
        assert_eq!(given("/bin/cat", "/dev/null").unwrap(), Some(0));
        assert_eq!(given("/bin/cat", "/no/such/file").unwrap(), Some(1));
        assert!(given("/no/such/program", "/dev/null").is_err());
    }

    #[test]
    fn a_version_is_what_the_program_says_however_it_ends() {
        assert_eq!(version_of(Path::new("/no/such/program")), None);
        assert!(version_of(Path::new("/bin/false")).is_some_and(|said| said.starts_with("false (")));
    }
}
