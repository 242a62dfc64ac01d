//! Where the bytes of each operation lie: the one place that knows, for backends, checks and memory estimates alike.
//!
//! With n ranks, count c = S / element size (S as in [`Collective::size_counts_all_ranks`]) and b = c / n elements:
//!
//! | operation | input | output | in place |
//! |---|---|---|---|
//! | all_reduce | c | c | output = input |
//! | reduce | c | c (root) | output = input (root) |
//! | broadcast | c (root) | c | output = input (root); others receive in the output |
//! | all_gather | b | c | input = block r of output |
//! | reduce_scatter | c | b | output = block r of input |
//! | gather | b | c (root) | input = block r of output (root) |
//! | scatter | c (root) | b | output = block r of input (root) |
//! | all_to_all | c | c | output = input |
//! | all_to_allv | sum of counts\[r\]\[*\] | sum of counts\[*\]\[r\] | no |
//! | send_recv one_way | c to rank r+1 | c from rank r-1 | no |
//! | send_recv both_ways | c/2 to r+1, then c/2 to r-1 | c/2 from r-1, then c/2 from r+1 | no |
//! | ping_pong | c (rank 0 and the peer) | c (rank 0 and the peer) | no |
//! | barrier | - | - | - |
//!
//! ping_pong: rank 0 sends its input to the peer, which receives it in its output and sends its own *input* back, which
//! rank 0 receives in its output. Other ranks do nothing.

use terms::{Collective, Direction};

use crate::{Call, Counts, Error, Result, Shape};

/// Elements that a rank gives and gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Elements of the input.
    pub input: u64,
    /// Elements of the output.
    pub output: u64,
}

/// How many blocks S is cut into, each of equal length: the ranks, for operations with an S that counts all ranks'
/// blocks; 2 for a send_recv both ways; else 1. A count that does not divide is refused.
pub fn blocks(op: Collective, direction: Direction, ranks: u32) -> u64 {
    match op {
        Collective::AllToAllV => 1,
        Collective::SendRecv if direction == Direction::BothWays => 2,
        op if op.size_counts_all_ranks() => u64::from(ranks),
        _ => 1,
    }
}

/// Elements that `rank` of `ranks` gives and gets, for S = `count` elements (see the table above).
/// For `all_to_allv` the counts decide and `count` is ignored.
pub fn extents(op: Collective, count: u64, rank: u32, ranks: u32, peer: u32, counts: Option<&Counts>) -> Extent {
    let block = count / u64::from(ranks.max(1));
    let only = |condition: bool, elements: u64| if condition { elements } else { 0 };
    let (input, output) = match op {
        Collective::AllReduce | Collective::AllToAll | Collective::SendRecv => (count, count),
        Collective::Reduce => (count, only(rank == peer, count)),
        Collective::Broadcast => (only(rank == peer, count), count),
        Collective::AllGather => (block, count),
        Collective::ReduceScatter => (count, block),
        Collective::Gather => (block, only(rank == peer, count)),
        Collective::Scatter => (only(rank == peer, count), block),
        Collective::PingPong => {
            let takes_part = rank == 0 || rank == peer;
            (only(takes_part, count), only(takes_part, count))
        }
        Collective::AllToAllV => counts.map_or((0, 0), |counts| (counts.sent(rank), counts.received(rank))),
        Collective::Barrier => (0, 0),
    };
    Extent { input, output }
}

impl Call {
    /// S in elements, from the lengths of the slices. Slices do not always tell S: a scatter's other ranks see only
    /// their block. There it is computed back from what they see.
    pub fn count(&self, shape: &Shape) -> u64 {
        let element = self.dtype.bytes();
        match self.op {
            // Blocks of whole elements first: half an element must not become one by being counted n times.
            Collective::AllGather | Collective::Gather => self.input.len() as u64 / element * u64::from(shape.size),
            Collective::ReduceScatter | Collective::Scatter => {
                self.output.len() as u64 / element * u64::from(shape.size)
            }
            _ => self.bytes(shape) / element,
        }
    }

    /// S in bytes, as [`Call::count`] elements: without a division, since a hook asks for it on every call.
    #[inline]
    pub fn bytes(&self, shape: &Shape) -> u64 {
        let (input, output, n) = (self.input.len() as u64, self.output.len() as u64, u64::from(shape.size));
        match self.op {
            Collective::AllGather | Collective::Gather => input * n,
            Collective::ReduceScatter | Collective::Scatter => output * n,
            Collective::Broadcast => output,
            Collective::AllToAllV => self.counts.as_ref().map_or(0, |counts| counts.widest()) * self.dtype.bytes(),
            _ => input,
        }
    }

    /// Refuses a call with slices, a root or counts that do not fit the operation.
    ///
    /// # Errors
    /// [`Error::InvalidCall`] with what does not fit.
    pub fn validate(&self, shape: &Shape) -> Result<()> {
        let invalid = |what: String| Err(Error::InvalidCall(format!("{}: {what}", self.op)));
        let size = self.dtype.bytes() as usize;
        if self.op.reduces() && !self.dtype.reduces() {
            return invalid(format!("elements of {} can be moved, but not reduced", self.dtype));
        }
        if (self.op.has_root() || self.op == Collective::PingPong) && self.peer >= shape.size {
            return invalid(format!("{} is not one of {} ranks", self.peer, shape.size));
        }
        if self.op == Collective::PingPong && shape.size > 1 && self.peer == 0 {
            return invalid("the partner of rank 0 must be another rank".to_owned());
        }
        if self.op == Collective::AllToAllV && self.counts.as_ref().is_none_or(|counts| counts.ranks() != shape.size) {
            return invalid(format!("needs a matrix of {0} x {0} counts", shape.size));
        }
        for (name, slice) in [("input", &self.input), ("output", &self.output)] {
            if !slice.len().is_multiple_of(size) || !slice.address().is_multiple_of(size) {
                return invalid(format!("the {name} is not made of whole, aligned {} elements", self.dtype));
            }
        }
        let count = self.count(shape);
        let blocks = blocks(self.op, self.direction, shape.size);
        if !count.is_multiple_of(blocks) {
            return invalid(format!("{count} elements do not divide into {blocks} blocks"));
        }
        let extent = extents(self.op, count, shape.rank, shape.size, self.peer, self.counts.as_deref());
        for (name, slice, elements) in [("input", &self.input, extent.input), ("output", &self.output, extent.output)] {
            let ignored = self.may_be_given_but_unused(shape) && elements == 0;
            if (slice.len() / size) as u64 != elements && !ignored {
                return invalid(format!("the {name} holds {} elements, not {elements}", slice.len() / size));
            }
        }
        self.validate_overlap(shape, count)
    }

    /// Rooted operations: the other ranks may pass a buffer that is left alone, as MPI allows.
    fn may_be_given_but_unused(&self, shape: &Shape) -> bool {
        (self.op.has_root() && shape.rank != self.peer) || self.op == Collective::PingPong
    }

    /// In place exactly as the table says, or no shared byte at all.
    fn validate_overlap(&self, shape: &Shape, count: u64) -> Result<()> {
        if !self.input.overlaps(&self.output) {
            return Ok(());
        }
        let block = (count / u64::from(shape.size) * self.dtype.bytes()) as usize;
        let (input, output) = (self.input.address(), self.output.address());
        let own_block = shape.rank as usize * block;
        let in_place = match self.op {
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast | Collective::AllToAll => {
                input == output
            }
            Collective::AllGather | Collective::Gather => input == output + own_block,
            Collective::ReduceScatter | Collective::Scatter => output == input + own_block,
            _ => false,
        };
        if in_place {
            Ok(())
        } else {
            Err(Error::InvalidCall(format!("{}: input and output overlap, but not as in its in-place form", self.op)))
        }
    }

    /// Whether the operation works in the one buffer (see the table).
    pub fn is_in_place(&self) -> bool {
        self.input.overlaps(&self.output)
    }
}
