//! What the Flight Recorder of a rank holds.

use std::sync::Arc;

use crate::traces::same_names::SameNames;
use crate::traces::words::element_bytes;

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
    /// Number of the call in the ring.
    pub record: u64,
    /// The communicator: name and description.
    pub group: String,
    /// The number of the collective in its communicator; of a transfer between two ranks, the number of the last collective.
    pub sequence: u64,
    /// Whether it is a transfer between two ranks.
    pub is_p2p: bool,
    /// The number of a transfer on its rank. Transfers of one batch share it.
    pub p2p_sequence: u64,
    /// Sender and receiver of a transfer, where they are known.
    pub peers: Option<(u32, u32)>,
    /// `all_reduce`, ..., or PyTorch's own word.
    pub operation: String,
    /// Dimensions of each input.
    pub input_sizes: Vec<Vec<u64>>,
    /// Dimensions of each output.
    pub output_sizes: Vec<Vec<u64>>,
    /// Element type of each input.
    pub input_dtypes: Vec<String>,
    /// Element type of each output.
    pub output_dtypes: Vec<String>,
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
    /// Elements that the rank gives: of all inputs; of a receive and a scatter, of all outputs.
    pub fn elements(&self) -> u64 {
        let of_outputs = matches!(self.operation.as_str(), "recv" | "scatter");
        count(if of_outputs && !self.output_sizes.is_empty() { &self.output_sizes } else { &self.input_sizes })
    }

    /// Elements of all outputs.
    pub fn output_elements(&self) -> u64 {
        count(&self.output_sizes)
    }

    /// The element type of the first tensor.
    pub fn dtype(&self) -> Option<&str> {
        self.input_dtypes.first().or(self.output_dtypes.first()).map(String::as_str)
    }

    /// Bytes of all inputs, where dimensions and element types are known.
    pub fn input_bytes(&self) -> Option<u64> {
        bytes(&self.input_sizes, &self.input_dtypes)
    }

    /// Bytes of all outputs, as above.
    pub fn output_bytes(&self) -> Option<u64> {
        bytes(&self.output_sizes, &self.output_dtypes)
    }
}

fn bytes(tensors: &[Vec<u64>], dtypes: &[String]) -> Option<u64> {
    if tensors.is_empty() || tensors.len() != dtypes.len() {
        return None;
    }
    let mut total = 0_u64;
    for (sizes, dtype) in tensors.iter().zip(dtypes) {
        let elements = sizes.iter().try_fold(1_u64, |product, size| product.checked_mul(*size))?;
        total = total.checked_add(elements.checked_mul(element_bytes(dtype)?)?)?;
    }
    Some(total)
}

fn count(tensors: &[Vec<u64>]) -> u64 {
    let of_one = |sizes: &Vec<u64>| sizes.iter().fold(1_u64, |product, size| product.saturating_mul(*size));
    tensors.iter().map(of_one).fold(0, u64::saturating_add)
}

/// One line of a call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub name: Arc<str>,
    /// File of the function.
    pub file: Arc<str>,
    /// The line in it.
    pub line: u32,
}

impl FlightRank {
    /// Gives the communicators that share a name with others names of their own.
    pub(super) fn name_groups(&mut self, own_names: &SameNames) {
        for entry in &mut self.entries {
            if let Some(own) = own_names.own(&entry.group, self.rank) {
                entry.group = own.to_owned();
            }
        }
    }

    /// Makes ranks of the job of the places in a communicator that transfers name.
    pub(super) fn name_peers(&mut self, groups: &[(String, Vec<u32>)]) {
        for entry in self.entries.iter_mut().filter(|entry| entry.is_p2p) {
            let members = groups.iter().find(|(group, _)| *group == entry.group).map(|(_, members)| members);
            let in_job = |place: u32| members.map_or(Some(place), |members| members.get(place as usize).copied());
            let peers = entry.peers.and_then(|(from, to)| in_job(from).zip(in_job(to)));
            let is_receiver = entry.operation == "recv";
            // One side is the rank itself. Where it is not, the places are not understood.
            let is_own = |(from, to): &(u32, u32)| from != to && self.rank == if is_receiver { *to } else { *from };
            entry.peers = peers.filter(is_own);
        }
    }
}

/// What one file holds.
pub(in crate::traces) struct Dump {
    pub(super) rank: FlightRank,
    /// The rank, where the file names it.
    pub(super) known_rank: Option<u32>,
    /// Communicators and their ranks, where the dump names them.
    pub(super) groups: Vec<(String, Vec<u32>)>,
    pub(super) notes: Vec<String>,
}
