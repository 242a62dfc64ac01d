//! What the Flight Recorder of a rank holds, and what all of them say together.

use std::sync::Arc;

use super::findings::Finding;
use crate::traces::words::element_bytes;

/// What the Flight Recorders of all ranks say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlightReport {
    /// By rank.
    pub ranks: Vec<FlightRank>,
    /// What is wrong, the communicator with the lowest call first.
    pub findings: Vec<Finding>,
    /// What could not be read, one sentence each.
    pub notes: Vec<String>,
}

/// The ring of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlightRank {
    /// Which rank, by the name of its file: a dump does not say.
    pub rank: u32,
    /// Version of the dump: `2.10`.
    pub version: String,
    /// By the time at which they were enqueued.
    pub entries: Vec<FlightEntry>,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct FlightEntry {
    /// Its number in the ring.
    pub record: u64,
    /// The communicator: name and description.
    pub group: String,
    /// The number of the collective in its communicator; of a transfer between two ranks, the number of the last collective.
    pub sequence: u64,
    /// Whether it is a transfer between two ranks.
    pub is_p2p: bool,
    /// `all_reduce`, ..., or PyTorch's own word.
    pub operation: String,
    /// Dimensions of each input.
    pub input_sizes: Vec<Vec<u64>>,
    /// Dimensions of each output.
    pub output_sizes: Vec<Vec<u64>>,
    /// Element type of each input.
    pub input_dtypes: Vec<String>,
    /// `scheduled`, `started` or `completed`. With gloo it stays `scheduled`: see `is_finished`.
    pub state: String,
    /// Whether the call has ended.
    pub is_finished: bool,
    /// When it was enqueued, in Unix nanoseconds.
    pub created_ns: i64,
    /// How long it took, where timing was switched on.
    pub duration_ms: Option<f64>,
    /// Where it was called from, innermost first.
    pub frames: Vec<Frame>,
}

impl FlightEntry {
    /// Bytes of all inputs, where dimensions and element types are known.
    pub fn input_bytes(&self) -> Option<u64> {
        if self.input_sizes.is_empty() || self.input_sizes.len() != self.input_dtypes.len() {
            return None;
        }
        let mut total = 0_u64;
        for (sizes, dtype) in self.input_sizes.iter().zip(&self.input_dtypes) {
            let elements = sizes.iter().try_fold(1_u64, |product, size| product.checked_mul(*size))?;
            total = total.checked_add(elements.checked_mul(element_bytes(dtype)?)?)?;
        }
        Some(total)
    }
}

/// One line of a call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub name: Arc<str>,
    /// Its file.
    pub file: Arc<str>,
    /// The line in it.
    pub line: u32,
}

/// What one file holds.
pub(in crate::traces) struct Dump {
    pub(super) rank: FlightRank,
    /// Communicators and their ranks, where the dump names them.
    pub(super) groups: Vec<(String, Vec<u32>)>,
    pub(super) notes: Vec<String>,
}
