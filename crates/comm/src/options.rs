//! How a backend is opened: all that a caller may choose of it.

use terms::{Bandwidth, Seconds};

use crate::Own;

/// A link that a backend is slowed down to: an operation finishes no earlier than `latency + bytes / bandwidth` after
/// the last rank entered it, where bytes are S times the operation's bus factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Bytes per second and rank.
    pub bandwidth: Bandwidth,
    /// Per operation.
    pub latency: Seconds,
}

/// How to open a backend. Each backend ignores what does not concern it and refuses what it cannot do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run operations on a thread of the communicator's own, so that they overlap with the caller's work.
    pub progress_thread: bool,
    /// Slow it down to such a link.
    pub pace: Option<Pace>,
    /// More ranks than cores share this host (ranks with a progress thread count twice): no wait keeps a core from who could use it.
    pub oversubscribed: bool,
    /// The core that a progress thread is pinned to. None: the caller's.
    pub progress_core: Option<u32>,
    /// Buffers may be in memory of GPUs: each rank takes one.
    pub gpus: bool,
    /// Values of the fields that the backend alone understands.
    pub own: Own,
}
