//! What can go wrong with a record: what, why, and what to do.

use std::fmt;
use std::io;
use std::path::Path;

/// An error of the store. Displayed as what, `cause:` and `hint:` lines, without a leading `error:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// What could not be done.
    pub what: String,
    /// Why.
    pub cause: Option<String>,
    /// What to do.
    pub hint: Option<String>,
    /// What the system refused, where it did.
    pub(super) refused: Option<io::ErrorKind>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, "\ncause: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint:  {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, hint: None, refused: None }
    }

    pub(crate) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A system call on `path` failed; `what` begins the sentence ("cannot write").
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Some("free some space, then go on with `--resume DIR`; what was written is valid")
            }
            io::ErrorKind::FileTooLarge => {
                Some("raise the limit on file sizes (`ulimit -f`), then go on with `--resume DIR`")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("choose another place with `--output-dir DIR`")
            }
            io::ErrorKind::InvalidInput => {
                Some("put a plain file in its place, or choose another place with `--output-dir DIR`")
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Some("a file has this name; choose another directory with `--output-dir DIR`")
            }
            _ => None,
        };
        Self {
            what: format!("{what} {}", path.display()),
            cause: Some(error.to_string()),
            hint: hint.map(str::to_owned),
            refused: Some(error.kind()),
        }
    }

    /// The same of a record that is to begin: nothing is there yet that `--resume` could go on with.
    pub(super) fn at_start(self) -> Self {
        let hint = match self.refused {
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                "free some space, or choose another place with `--output-dir DIR`"
            }
            Some(io::ErrorKind::FileTooLarge) => "raise the limit on file sizes (`ulimit -f`)",
            _ => return self,
        };
        self.hint(hint)
    }
}
