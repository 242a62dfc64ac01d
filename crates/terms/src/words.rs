//! The smaller closed sets of words, and the error for a word outside its set.

use crate::name::named;
use crate::{Named, did_you_mean, nearest};

/// The position of a process in its communicator, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// The rank as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// A word outside its set, with the nearest word inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What the set is called.
    pub kind: &'static str,
    /// The word.
    pub word: String,
    /// The nearest word of the set, if one is near.
    pub nearest: Option<&'static str>,
    /// All words of the set.
    pub known: Vec<&'static str>,
}

impl UnknownName {
    /// The error for `word` in the set `T`.
    pub fn new<T: Named>(word: &str) -> Self {
        Self::among(T::KIND, word, T::names())
    }

    /// The error for a word of this kind outside these.
    pub fn among(kind: &'static str, word: &str, known: Vec<&'static str>) -> Self {
        Self { kind, word: word.to_owned(), nearest: nearest(word, known.iter().copied()), known }
    }
}

impl std::fmt::Display for UnknownName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: String = self.word.chars().take(64).collect();
        write!(f, "unknown {} `{shown}`", self.kind)?;
        match self.nearest {
            Some(near) => write!(f, ", {}", did_you_mean(near)),
            None => write!(f, " (valid values: {})", self.known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownName {}

named! {
    /// How calls are timed.
    pub enum Mode("mode") {
        /// Back to back: `calls` calls between two synchronisations, divided by `calls`.
        Streaming = "streaming",
        /// One call, all ranks starting at one agreed instant.
        Isolated = "isolated",
        /// One call after the other, each timed by itself, with a computation between them: as serving generates tokens.
        Decode = "decode",
    }
}

impl Mode {
    /// Whether a sample is one call.
    pub const fn is_single(self) -> bool {
        !matches!(self, Self::Streaming)
    }
}

named! {
    /// How a case ended.
    pub enum Status("status") {
        /// Measured and checked.
        Ok = "ok",
        /// The case ran and went wrong (also: wrong elements).
        Failed = "failed",
        /// Something that the case needs is missing on this machine.
        Skipped = "skipped",
        /// The run ended before its turn.
        NotRun = "not_run",
    }
}

named! {
    /// Where the buffers of a call lie.
    pub enum BufferKind("buffer kind") {
        /// In memory that the communicator allocated, so that peers may reach it.
        Registered = "registered",
        /// In ordinary memory of the process.
        Private = "private",
    }
}

named! {
    /// How a communicator knows a buffer.
    pub enum Registration("registration") {
        /// On this rank.
        Local = "local",
        /// On all ranks alike, as a window.
        Window = "window",
    }
}

named! {
    /// What the caches hold of a call's buffers when it begins.
    pub enum Cache("cache state") {
        /// What calls before it left: all use the same buffers.
        Warm = "warm",
        /// Nothing: calls rotate through copies that no cache holds.
        Cold = "cold",
    }
}

named! {
    /// How ranks are pinned to cores.
    pub enum Bind("binding") {
        /// Rank r on allowed core r modulo their number.
        Core = "core",
        /// Not pinned.
        None = "none",
    }
}

named! {
    /// Who executes the ranks.
    pub enum Runtime("runtime") {
        /// This program.
        Native = "native",
        /// The user's own Python, by torch.distributed.
        Pytorch = "pytorch",
    }
}

named! {
    /// Which ways data flows in a point-to-point operation.
    pub enum Direction("direction") {
        /// One way at a time.
        OneWay = "one_way",
        /// Both ways at once.
        BothWays = "both_ways",
    }
}

named! {
    /// How the counts of an `all_to_allv` are drawn.
    pub enum Traffic("traffic") {
        /// An equal count for every pair.
        Uniform = "uniform",
        /// Counts fall with the distance from a hot destination.
        Skewed = "skewed",
        /// From a file of counts.
        File = "file",
    }
}

named! {
    /// A kind of memory.
    pub enum Space("memory space") {
        /// Host memory.
        Host = "host",
        /// Memory of a CUDA device.
        Cuda = "cuda",
    }
}
