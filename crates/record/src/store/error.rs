//! What can go wrong with a record: the error, and what the system refused.

use std::fmt;
use std::io;
use std::path::Path;

/// An error of the store, displayed as [`terms::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    /// What could not be done, why, and what to do.
    pub error: terms::Error,
    /// What the system refused, where it did.
    pub(super) refused: Option<io::ErrorKind>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for terms::Error {
    fn from(error: StoreError) -> Self {
        error.error
    }
}

impl StoreError {
    pub(crate) fn new(what: impl std::fmt::Display) -> Self {
        Self { error: terms::Error::new(what), refused: None }
    }

    pub(crate) fn cause(mut self, cause: impl std::fmt::Display) -> Self {
        self.error = self.error.cause(cause);
        self
    }

    pub(crate) fn hint(mut self, hint: impl std::fmt::Display) -> Self {
        self.error = self.error.hint(hint);
        self
    }

    /// A system call on `path` failed; `what` begins the sentence ("cannot write").
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Some("free some space, then continue with `--resume DIR`; what was written is valid")
            }
            io::ErrorKind::FileTooLarge => {
                Some("raise the limit on file sizes (`ulimit -f`), then continue with `--resume DIR`")
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Some("choose another place with `--output-dir DIR`")
            }
            io::ErrorKind::InvalidInput => {
                Some("put a plain file in its place, or choose another place with `--output-dir DIR`")
            }
            io::ErrorKind::TooManyLinks => {
                Some("give the record files of its own (`cp -r DIR COPY`), and use the copy; or remove the other names")
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Some("a file has this name; choose another directory with `--output-dir DIR`")
            }
            _ => None,
        };
        let described = terms::Error::new(format!("{what} {}", path.display())).cause(error.to_string());
        Self { error: terms::Error { hint: hint.map(str::to_owned), ..described }, refused: Some(error.kind()) }
    }

    /// An error of a record that is to begin: nothing is there yet that `--resume` could go on with.
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
