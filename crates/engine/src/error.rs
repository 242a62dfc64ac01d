//! What can go wrong.

/// Why the engine could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system gave no threads.
    #[error("cannot start {count} threads: {message}")]
    Threads {
        /// How many were asked for.
        count: usize,
        /// The system's words.
        message: String,
    },
    /// Memory could not be had.
    #[error("cannot allocate {bytes} bytes: {source}")]
    Memory {
        /// How many.
        bytes: usize,
        /// The system's words.
        source: std::io::Error,
    },
    /// The device or its library lacks something.
    #[error("{0}")]
    Lacking(String),
    /// The device says so.
    #[error("{0}")]
    Device(String),
}
