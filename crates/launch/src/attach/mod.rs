//! Ranks of a job that others started, seen from outside: which processes they are, and in which call each of them is.
//!
//! Everything here only reads. Python's frames are read without stopping a process; for native frames each thread is stopped
//! for the time that its registers and stack take to read. What the calls of all ranks mean together is decided elsewhere.

mod call;
mod find;
mod look;

use serde::{Deserialize, Serialize};

pub use find::{Target, find};
pub use look::{Interval, look};

/// A process that is a rank of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankProcess {
    /// Number of the rank in the job; None where its environment names none.
    pub rank: Option<u32>,
    /// How many ranks the job has, where its environment says so.
    pub world: Option<u32>,
    /// Number of the process on this host.
    pub pid: u32,
}

/// What a rank was seen to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Number of the rank in the job; None where its environment names none.
    pub rank: Option<u32>,
    /// How many ranks the job has, where its environment says so.
    pub world: Option<u32>,
    /// The host that it runs on.
    pub host: String,
    /// Number of the process on that host.
    pub pid: u32,
    /// The call that waits for other ranks, if it is in one.
    pub call: Option<Call>,
    /// The Python frames of its main thread, innermost first; those of native code where it has none.
    pub frames: Vec<CodeLine>,
    /// What it does.
    pub doing: Doing,
    /// How long its threads were stopped, in microseconds, all together.
    pub stopped_us: u64,
    /// What could not be read, and why.
    pub lacking: Vec<String>,
}

/// A call in which a rank waits for others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// `all_reduce`, ..., or the library's own word.
    pub operation: String,
    /// The rank on the other side of a transfer, where it is known.
    pub peer: Option<u32>,
    /// Whether it waits for other ranks by itself. A rank that waits for its GPU waits for whatever runs there.
    pub kind: CallKind,
}

/// For whom a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// For all ranks of a communicator.
    Collective,
    /// For the rank that sends.
    Receive,
    /// For the rank that receives.
    Send,
    /// For this rank's GPU.
    Gpu,
}

/// One line of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeLine {
    /// The function.
    pub function: String,
    /// File of the line, or its library where the line is not known.
    pub file: String,
    /// The line; 0: not known.
    pub line: u32,
}

/// What a rank did between the first look and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// The stack was the same each time, and the rank is in a call that waits.
    Waits,
    /// The stack was the same each time, and the rank used no processor time.
    Sleeps,
    /// The stack was the same each time, and the rank used processor time.
    Computes,
    /// The stack changed, or the rank read or wrote data.
    Moves,
    /// A signal or a debugger stopped it.
    Stopped,
    /// The rank ended between the looks.
    Ended,
}
