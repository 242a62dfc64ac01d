//! What programs say of themselves.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::child::{self, Ended, Outcome};

/// The programs of this host, for backends that look for their launcher.
#[derive(Clone, Debug)]
pub struct Programs {
    search: Vec<PathBuf>,
}

impl Programs {
    /// In these folders, as PATH names them.
    pub const fn on(search: Vec<PathBuf>) -> Self {
        Self { search }
    }
}

impl comm::Tools for Programs {
    fn search(&self) -> &[PathBuf] {
        &self.search
    }

    fn is_program(&self, path: &Path) -> bool {
        process::is_program(path)
    }

    fn version_of(&self, program: &Path) -> Option<String> {
        process::version_of(program)
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }
}

/// What a program may take to say its version.
const LIMIT: Duration = Duration::from_secs(10);

/// What a program says when it is asked by these arguments.
///
/// # Errors
/// That it could not be started, failed, or hung.
pub(super) fn ask(program: &Path, arguments: &[&str]) -> Result<Outcome, String> {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let outcome = child::run(program, &arguments, None, LIMIT).map_err(|error| format!("cannot be run: {error}"))?;
    match outcome.ended {
        Ended::Code(0) => Ok(outcome),
        _ => Err(outcome.complaint()),
    }
}

/// The first line of what a program or a library says, fit for a row.
pub(super) fn one_line(text: &str) -> String {
    child::printable(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default())
}

/// The first word of a text that begins as a version does: `4.1.4`, `v1.30.2`, `2024.6.1.90-243`.
pub(super) fn version_in(text: &str) -> Option<&str> {
    let words = text.split(|character: char| character.is_whitespace() || matches!(character, ',' | '(' | ')' | '"'));
    words.map(|word| word.trim_matches(|c: char| matches!(c, ':' | ';' | '\''))).find(|word| {
        let digits = word.strip_prefix('v').unwrap_or(word);
        digits.starts_with(|character: char| character.is_ascii_digit()) && digits.contains('.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version_in("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://"), Some("4.1.4"));
        assert_eq!(version_in("HYDRA build details:\n    Version:   4.0.2\n"), Some("4.0.2"));
        assert_eq!(version_in("Intel(R) MPI Library for Linux* OS, Version 2021.14 Build"), Some("2021.14"));
        assert_eq!(version_in("slurm 22.05.8"), Some("22.05.8"));
        assert_eq!(version_in("NVIDIA Nsight Systems version 2022.4.2.1-df9881f"), Some("2022.4.2.1-df9881f"));
        assert_eq!(version_in("{ \"gitVersion\": \"v1.30.2\" }"), Some("v1.30.2"));
        assert_eq!(version_in("no version"), None);
    }
}
