//! What can go wrong in a communicator.

use terms::Bytes;

/// A communicator's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No backend has this name.
    #[error("{0}")]
    UnknownBackend(terms::UnknownName),
    /// The backend does not do this.
    #[error("backend `{backend}` cannot {what}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// What was asked ("run all_to_allv in place").
        what: String,
    },
    /// A call that makes no sense: wrong lengths, overlapping buffers, a root that is not a rank.
    #[error("invalid call: {0}")]
    InvalidCall(String),
    /// The world is ending: somebody raised [`crate::Abort`].
    #[error("aborted")]
    Aborted,
    /// A peer is gone.
    #[error("{0} is gone")]
    PeerGone(terms::Rank),
    /// Not enough memory, with the arithmetic.
    #[error("not enough memory for {what}: {wanted} wanted, {available} available")]
    OutOfMemory {
        /// For what.
        what: String,
        /// Bytes asked for.
        wanted: Bytes,
        /// Bytes there.
        available: Bytes,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A library that moves the data refused something.
    #[error("{what}: {said}")]
    Library {
        /// What was tried ("MPI_Allreduce").
        what: String,
        /// What the library says.
        said: String,
    },
    /// A rank and its peers disagree about what is called: operation, bytes, type.
    #[error("ranks disagree: {0}")]
    Mismatch(String),
}

impl Error {
    /// The error of the last system call, with what it was for.
    pub fn last_os(what: impl Into<String>) -> Self {
        Self::System { what: what.into(), source: std::io::Error::last_os_error() }
    }
}
