//! What a rank says of a call before any data moves. Ranks that disagree get an error and do not wait forever.

use std::hash::{DefaultHasher, Hash, Hasher};

use terms::{Collective, Dtype, Named, Rank};

use crate::{Call, Error, Result, Shape};

/// The parts of a call that every rank must give alike, and a stamp that is each rank's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Index into [`Collective::ALL`].
    op: u64,
    /// Index into [`Dtype::ALL`].
    dtype: u64,
    /// Hash of the operator, root, direction and counts, as far as the operation takes them.
    details: u64,
    /// S in elements. Zero where the rank has no part in the operation.
    pub(crate) count: u64,
    /// The rank's own; a simulated backend gives its time of entry.
    pub(crate) stamp: u64,
}

impl Signature {
    /// Bytes of an encoded signature.
    pub(crate) const BYTES: usize = 40;

    /// Signature of this rank's call.
    pub(crate) fn new(call: &Call, shape: &Shape, stamp: u64) -> Self {
        let index = |place: Option<usize>| place.unwrap_or(usize::MAX) as u64;
        // The default hasher has fixed keys, so that equal details hash alike in every process of this program.
        let mut details = DefaultHasher::new();
        let takes_peer = call.op.has_root() || call.op == Collective::PingPong;
        call.op.reduces().then_some(call.reduce).hash(&mut details);
        takes_peer.then_some(call.peer).hash(&mut details);
        (call.op == Collective::SendRecv).then_some(call.direction).hash(&mut details);
        if let (Collective::AllToAllV, Some(counts)) = (call.op, &call.counts) {
            let pairs = (0..counts.ranks()).flat_map(|from| (0..counts.ranks()).map(move |to| (from, to)));
            pairs.for_each(|(from, to)| counts.get(from, to).hash(&mut details));
        }
        Self {
            op: index(Collective::ALL.iter().position(|op| *op == call.op)),
            dtype: index(Dtype::ALL.iter().position(|dtype| *dtype == call.dtype)),
            details: details.finish(),
            count: call.count(shape),
            stamp,
        }
    }

    /// For the wire.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = [self.op, self.dtype, self.details, self.count, self.stamp];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// From the wire, with what follows it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let (head, rest) = bytes
            .split_at_checked(Self::BYTES)
            .ok_or_else(|| Error::Mismatch("a rank sent a message without a call in it".to_owned()))?;
        let word = |at: usize| u64::from_ne_bytes(head[at * 8..][..8].try_into().expect("eight bytes"));
        Ok((Self { op: word(0), dtype: word(1), details: word(2), count: word(3), stamp: word(4) }, rest))
    }

    /// S that all ranks agree on.
    ///
    /// # Errors
    /// [`Error::Mismatch`] that names the first rank that differs from rank 0.
    pub(crate) fn agree(all: &[Self], call: &Call) -> Result<u64> {
        let Some(first) = all.first() else { return Ok(0) };
        for (rank, other) in all.iter().enumerate() {
            // Only two ranks of a ping_pong have buffers to count.
            let takes_part = call.op != Collective::PingPong || rank as u32 == call.peer;
            let equal = (first.op, first.dtype, first.details) == (other.op, other.dtype, other.details)
                && (first.count == other.count || !takes_part);
            if !equal {
                let other_rank = Rank(rank as u32);
                return Err(Error::Mismatch(format!("rank 0 calls {first}, {other_rank} calls {other}")));
            }
        }
        Ok(first.count)
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let op = Collective::ALL.get(self.op as usize).map_or("an unknown operation", |op| op.name());
        let dtype = Dtype::ALL.get(self.dtype as usize).map_or("unknown elements", |dtype| dtype.name());
        // The details as a short code: alike where the operator, root, direction and counts are.
        write!(f, "{op} of {} {dtype} (details {:04x})", self.count, self.details & 0xffff)
    }
}
