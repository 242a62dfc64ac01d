//! How a backend is opened: all that a caller may choose of it.

use terms::{Bandwidth, Seconds};

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
    /// `mpi`: which library, and how.
    pub mpi: MpiOptions,
    /// `sim`: the link it computes with. None: its documented default.
    pub link: Option<Pace>,
    /// `sim`: relative noise (standard deviation) of its times, its AR(1) correlation, and the seed. None: exact times.
    pub noise: Option<SimNoise>,
}

/// The noise of a simulated backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimNoise {
    /// Standard deviation of the time's logarithm.
    pub sigma: f64,
    /// Correlation of neighbouring operations, 0..1.
    pub correlation: f64,
    /// Of the pseudo-random numbers.
    pub seed: u64,
}

/// How to use an MPI library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MpiOptions {
    /// Its name or path. None: the first that the loader finds.
    pub library: Option<String>,
    /// How operations proceed.
    pub progress: MpiProgress,
    /// Elements of one call of MPI, at most. None: what an `int` holds; less is for tests of the cutting.
    pub largest: Option<u32>,
    /// Open MPI was started with coll/ucc before all others. Refused where that is not in use; operations that it does not
    /// take are refused, too.
    pub ucc: bool,
}

/// How operations proceed where no progress thread does it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MpiProgress {
    /// Blocking calls: inside `start`.
    #[default]
    None,
    /// Non-blocking calls: whenever the caller looks.
    Poll,
}
