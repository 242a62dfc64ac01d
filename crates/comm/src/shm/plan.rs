//! What an operation moves, in bytes, whatever the path: who gives, who gets, and which piece of an input goes where in
//! an output. All paths work from this.

use std::sync::Arc;

use terms::{Collective, Dtype, Named, Reduce};

use crate::{Call, Counts, Shape};

/// How the pieces of an operation relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// A giver's piece is the same for all who get it.
    Same,
    /// Every pair has its piece.
    Pairs,
    /// Pieces of all ranks are reduced to one: the same for all who get it.
    ReduceSame,
    /// Pieces of all ranks are reduced to one, another for each rank.
    ReducePairs,
}

/// A piece of one rank's input on its way to another rank's output. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) len: usize,
}

/// A collective call, in bytes. Keeps no region alive: it outlives the call, in case the same one comes again.
#[derive(Clone, Debug)]
pub(crate) struct CallPlan {
    pub(crate) op: Collective,
    pub(crate) dtype: Dtype,
    pub(crate) reduce: Reduce,
    /// First bytes of this rank's buffers.
    pub(crate) input: *mut u8,
    pub(crate) output: *mut u8,
    pub(crate) in_place: bool,
    counts: Option<Arc<Counts>>,
    pub(crate) pattern: Pattern,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// Bytes of an element.
    pub(crate) element: usize,
    /// Bytes of this rank's input.
    pub(crate) given: usize,
    /// The most bytes that any rank gives.
    widest: usize,
    /// S in bytes, or the longest piece of an all_to_allv.
    pub(crate) bytes: usize,
    /// S / ranks in bytes, where S counts all ranks' blocks.
    block: usize,
    pub(crate) root: usize,
    /// What all ranks must agree on.
    pub(crate) signature: u64,
}

impl CallPlan {
    /// The plan of a call that was validated. Not for barrier, send_recv and ping_pong.
    #[inline]
    pub(crate) fn new(call: &Call, shape: &Shape) -> Self {
        let ranks = shape.size as usize;
        let element = call.dtype.bytes() as usize;
        let count = call.count(shape);
        let bytes = count as usize * element;
        let pattern = match call.op {
            Collective::AllReduce | Collective::Reduce => Pattern::ReduceSame,
            Collective::ReduceScatter => Pattern::ReducePairs,
            Collective::Scatter | Collective::AllToAll | Collective::AllToAllV => Pattern::Pairs,
            _ => Pattern::Same,
        };
        let block = if call.op.size_counts_all_ranks() { bytes / ranks } else { bytes };
        let root = call.peer as usize;
        let signature = signature(call, count);
        let widest = match &call.counts {
            Some(counts) if call.op == Collective::AllToAllV => counts.widest() as usize * element,
            _ if pattern == Pattern::Same => block,
            _ => bytes,
        };
        Self {
            op: call.op,
            dtype: call.dtype,
            reduce: call.reduce,
            given: call.input.len(),
            widest,
            input: call.input.ptr(),
            output: call.output.ptr(),
            in_place: call.is_in_place(),
            counts: call.counts.clone(),
            pattern,
            rank: shape.rank as usize,
            ranks,
            element,
            bytes,
            block,
            root,
            signature,
        }
    }

    /// Whether a rank gives anything.
    #[inline]
    pub(crate) fn gives(&self, rank: usize) -> bool {
        !matches!(self.op, Collective::Broadcast | Collective::Scatter) || rank == self.root
    }

    /// Whether a rank gets anything.
    #[inline]
    pub(crate) fn gets(&self, rank: usize) -> bool {
        !matches!(self.op, Collective::Reduce | Collective::Gather) || rank == self.root
    }

    /// The piece of `from`'s input that goes to `to`.
    #[inline]
    pub(crate) fn piece(&self, from: usize, to: usize) -> Piece {
        let (block, whole) = (self.block, self.bytes);
        match self.op {
            Collective::AllGather | Collective::Gather => Piece { input: 0, output: from * block, len: block },
            Collective::Scatter | Collective::ReduceScatter => Piece { input: to * block, output: 0, len: block },
            Collective::AllToAll => Piece { input: to * block, output: from * block, len: block },
            Collective::AllToAllV => self.uneven(from as u32, to as u32),
            _ => Piece { input: 0, output: 0, len: whole },
        }
    }

    fn uneven(&self, from: u32, to: u32) -> Piece {
        let Some(counts) = &self.counts else { return Piece { input: 0, output: 0, len: 0 } };
        let bytes = |elements: u64| elements as usize * self.element;
        Piece {
            input: bytes(counts.send_offset(from, to)),
            output: bytes(counts.receive_offset(from, to)),
            len: bytes(counts.get(from, to)),
        }
    }

    /// The most bytes that any rank gives: what must fit a slot for the whole operation to go in one round.
    #[inline]
    pub(crate) fn widest(&self) -> usize {
        self.widest
    }

    /// The longest piece.
    pub(crate) fn longest_piece(&self) -> usize {
        match (&self.counts, self.op) {
            (Some(counts), Collective::AllToAllV) => {
                let ranks = self.ranks as u32;
                let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
                pairs.map(|(from, to)| counts.get(from, to)).max().unwrap_or(0) as usize * self.element
            }
            _ => self.block,
        }
    }

    /// Whether what a rank gives is the same for all; else each has a piece of its own.
    #[inline]
    pub(crate) fn shared(&self) -> bool {
        matches!(self.pattern, Pattern::Same | Pattern::ReduceSame)
    }

    /// Where this rank's piece for itself lies in its input.
    #[inline]
    pub(crate) fn own_part(&self) -> std::ops::Range<usize> {
        let piece = self.piece(self.rank, self.rank);
        piece.input..piece.input + piece.len
    }

    /// Whether a rank gets anything that is not its own.
    #[inline]
    pub(crate) fn gets_from_peers(&self, rank: usize) -> bool {
        self.gets(rank) && !(rank == self.root && matches!(self.op, Collective::Broadcast | Collective::Scatter))
    }

    /// Whether one rank gives to all, or gets from all.
    #[inline]
    pub(crate) fn rooted(&self) -> bool {
        use Collective::{Broadcast, Gather, Reduce, Scatter};
        matches!(self.op, Broadcast | Scatter | Gather | Reduce)
    }

    /// Whether the operation reduces.
    #[inline]
    pub(crate) fn reduces(&self) -> bool {
        matches!(self.pattern, Pattern::ReduceSame | Pattern::ReducePairs)
    }

    /// Bytes of a rank's input and output.
    pub(crate) fn extent(&self, rank: usize) -> (usize, usize) {
        let counts = self.counts.as_deref();
        let count = (self.bytes / self.element) as u64;
        let (rank, ranks) = (rank as u32, self.ranks as u32);
        let extent = crate::extents(self.op, count, rank, ranks, self.root as u32, counts);
        (extent.input as usize * self.element, extent.output as usize * self.element)
    }
}

/// Rank `rank`'s share of `0..len` when `ranks` divide it: whole lines, in rank order, and as equal as lines allow.
#[inline]
pub(crate) fn share(len: usize, rank: usize, ranks: usize) -> (usize, usize) {
    const LINE: usize = 64;
    let each = len.div_ceil(ranks).next_multiple_of(2 * LINE);
    ((each * rank).min(len), (each * (rank + 1)).min(len))
}

/// What all ranks must agree on, packed: operation (4 bits), type (4), operator (3), direction (1), root (10), and the
/// count (42), or for uneven counts their hash.
#[inline]
pub(crate) fn signature(call: &Call, count: u64) -> u64 {
    let reduce = if call.op.reduces() { call.reduce as u64 } else { 0 };
    let direction = if call.op == Collective::SendRecv { call.direction as u64 } else { 0 };
    let rooted = call.op.has_root() || call.op == Collective::PingPong;
    let peer = if rooted { u64::from(call.peer) & 0x3ff } else { 0 };
    let count = match (&call.counts, call.op) {
        (Some(counts), Collective::AllToAllV) => hash(counts),
        _ => count,
    };
    let kind = (call.op as u64 + 1) | (call.dtype as u64) << 4 | reduce << 8 | direction << 11 | peer << 12;
    kind | (count & ((1 << 42) - 1)) << 22
}

/// FNV-1a over the counts (Fowler, Noll, Vo), upper bits folded down.
fn hash(counts: &Counts) -> u64 {
    let ranks = counts.ranks();
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for from in 0..ranks {
        for to in 0..ranks {
            hash = (hash ^ counts.get(from, to)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash ^ hash >> 42
}

/// A signature in words, for the error.
pub(crate) fn describe(signature: u64) -> String {
    let name = |names: &[&'static str], index: u64| names.get(index as usize).copied().unwrap_or("?");
    let Some(op) = (signature & 0xf).checked_sub(1) else { return "an internal exchange".to_owned() };
    let op = name(&Collective::names(), op);
    let dtype = name(&Dtype::names(), signature >> 4 & 0xf);
    let reduce = name(&Reduce::names(), signature >> 8 & 7);
    let (peer, count) = (signature >> 12 & 0x3ff, signature >> 22);
    format!("{op} ({dtype}, {reduce}, root or partner {peer}, count {count})")
}
