//! The naive engine: every rank shows all others its whole input, and each computes its output from what it sees.
//!
//! Nothing here is clever, so that it can be believed. The one concession to size is that buffers go through in rounds
//! of a few megabytes: round k moves the k-th stretch of *every* block of every rank's input, and a rank writes
//! only stretches that it has sent already, which is what keeps the in-place forms right.

use std::sync::Arc;

use device::Slice;
use terms::{Collective, Direction};

use super::arithmetic;
use super::signature::Signature;
use super::sockets::Sockets;
use crate::{Bootstrap, Call, Capabilities, Error, Operation, Progress, Result, Shape, ThreadBootstrap};

/// Bytes that a rank gathers from all ranks in one round.
const ROUND_BYTES: u64 = 8 << 20;

/// How every rank comes to see what all ranks send.
pub(crate) trait SeeAll: Bootstrap {
    /// Every rank's message, in rank order. Collective.
    fn exchange(&mut self, message: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>>;
}

impl SeeAll for Sockets {
    fn exchange(&mut self, message: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        self.all_gather(&message).map(Arc::new)
    }
}

impl SeeAll for ThreadBootstrap {
    fn exchange(&mut self, message: Vec<u8>) -> Result<Arc<Vec<Vec<u8>>>> {
        ThreadBootstrap::exchange(self, message)
    }
}

/// Executes calls over any exchange of byte strings.
pub(crate) struct Engine<E> {
    pub(crate) shape: Shape,
    pub(crate) exchange: E,
}

/// Part of a rank's input and where it goes; in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputPiece {
    pub(super) input: u64,
    pub(super) len: u64,
    pub(super) target: PieceTarget,
    pub(super) output: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceTarget {
    All,
    One(u32),
}

impl<E: SeeAll> Engine<E> {
    /// An engine among the ranks of this exchange.
    pub(crate) fn new(exchange: E) -> Self {
        let place = exchange.place();
        // Every operation runs inside `start`, and no rank reaches another's memory.
        let capabilities = Capabilities { progress: Progress::Caller, peer_view: false };
        Self { shape: Shape { rank: place.rank, size: place.size, capabilities }, exchange }
    }

    /// Runs one valid call to its end. Returns every rank's stamp.
    pub(crate) fn execute(&mut self, call: &Call, stamp: u64) -> Result<Vec<u64>> {
        let (rank, ranks) = (self.shape.rank, self.shape.size);
        let own = Signature::new(call, &self.shape, stamp);
        let mut plan = RoundPlan::new(&Operation::of_call(call, own.count), ranks);
        let mut message = own.encode();
        plan.pack(rank, 0, &call.input, &mut message)?;
        let gathered = self.exchange.exchange(message)?;
        let decoded = gathered.iter().map(|bytes| Signature::decode(bytes)).collect::<Result<Vec<_>>>()?;
        let (signatures, windows): (Vec<Signature>, Vec<&[u8]>) = decoded.into_iter().unzip();
        plan = RoundPlan::new(&Operation::of_call(call, Signature::agree(&signatures, call)?), ranks);
        plan.unpack(rank, 0, &windows, call)?;
        for round in 1..plan.rounds() {
            let mut message = Vec::new();
            plan.pack(rank, round, &call.input, &mut message)?;
            let gathered = self.exchange.exchange(message)?;
            let windows: Vec<&[u8]> = gathered.iter().map(Vec::as_slice).collect();
            plan.unpack(rank, round, &windows, call)?;
        }
        Ok(signatures.iter().map(|signature| signature.stamp).collect())
    }
}

/// What moves in which round.
struct RoundPlan {
    /// Pieces of each rank, in the order in which they are packed.
    pieces: Vec<Vec<InputPiece>>,
    /// Elements of each piece that move in a round.
    stretch: u64,
    element: u64,
}

impl RoundPlan {
    fn new(operation: &Operation, ranks: u32) -> Self {
        let pieces: Vec<Vec<InputPiece>> = (0..ranks).map(|from| pieces(operation, from, ranks)).collect();
        let most = pieces.iter().map(Vec::len).max().unwrap_or(0).max(1) as u64;
        let element = operation.dtype.bytes();
        let stretch = (ROUND_BYTES / (u64::from(ranks) * most * element)).max(1);
        Self { pieces, stretch, element }
    }

    fn rounds(&self) -> u64 {
        let longest = self.pieces.iter().flatten().map(|piece| piece.len).max().unwrap_or(0);
        longest.div_ceil(self.stretch)
    }

    /// The part of a piece that moves in a round: first element and length.
    fn window(&self, piece: &InputPiece, round: u64) -> (u64, u64) {
        let begin = (round * self.stretch).min(piece.len);
        (begin, (piece.len - begin).min(self.stretch))
    }

    /// Appends what `rank` sends in a round.
    fn pack(&self, rank: u32, round: u64, input: &Slice, message: &mut Vec<u8>) -> Result<()> {
        for piece in &self.pieces[rank as usize] {
            let (begin, len) = self.window(piece, round);
            let part = part(input, (piece.input + begin) * self.element, len * self.element)?;
            let end = message.len();
            message.resize(end + part.len(), 0);
            // SAFETY: `part` lies inside its region; the call owns it until it is finished, and no other rank writes
            // to it. The message is this rank's own.
            unsafe { std::ptr::copy_nonoverlapping(part.ptr(), message[end..].as_mut_ptr(), part.len()) };
        }
        Ok(())
    }

    /// Writes to `rank`'s output what it gets in a round. `messages[r]` is what rank r packed.
    fn unpack(&self, rank: u32, round: u64, messages: &[&[u8]], call: &Call) -> Result<()> {
        let mut windows = Vec::new();
        for (pieces, message) in self.pieces.iter().zip(messages) {
            let mut rest = *message;
            for (index, piece) in pieces.iter().enumerate() {
                let (begin, len) = self.window(piece, round);
                let short = || Error::Mismatch("a rank sent fewer bytes than its call needs".to_owned());
                let (data, behind) = rest.split_at_checked((len * self.element) as usize).ok_or_else(short)?;
                rest = behind;
                if piece.target == PieceTarget::All || piece.target == PieceTarget::One(rank) {
                    windows.push((index, (piece.output + begin) * self.element, data));
                }
            }
        }
        if !call.op.reduces() {
            return windows.iter().try_for_each(|(_, at, data)| write(&call.output, *at, data));
        }
        // When reducing, the ranks' pieces of equal index are what is folded together, in rank order.
        windows.sort_by_key(|(index, ..)| *index);
        for group in windows.chunk_by(|a, b| a.0 == b.0) {
            let inputs: Vec<&[u8]> = group.iter().map(|(.., data)| *data).collect();
            let mut reduced = Vec::new();
            arithmetic::reduce(call.dtype, call.reduce, &inputs, &mut reduced);
            write(&call.output, group[0].1, &reduced)?;
        }
        Ok(())
    }
}

/// A part of a slice, in bytes.
fn part(slice: &Slice, offset: u64, len: u64) -> Result<Slice> {
    slice
        .slice(offset as usize, len as usize)
        .ok_or_else(|| Error::InvalidCall(format!("{len} bytes from {offset} lie outside a buffer of {}", slice.len())))
}

fn write(output: &Slice, at: u64, data: &[u8]) -> Result<()> {
    let to = part(output, at, data.len() as u64)?;
    // SAFETY: `to` lies inside its region and is this rank's own to write until the call is finished; `data` is a
    // message, which never lies in a region.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.ptr(), data.len()) };
    Ok(())
}

/// The pieces of rank `from`'s input; the table in [`crate::layout`], read from the sender.
pub(super) fn pieces(operation: &Operation, from: u32, ranks: u32) -> Vec<InputPiece> {
    let Operation { op, count, peer, direction, .. } = *operation;
    let block = count / u64::from(ranks);
    let whole = |target| vec![InputPiece { input: 0, len: count, target, output: 0 }];
    let own_block = |target| vec![InputPiece { input: 0, len: block, target, output: u64::from(from) * block }];
    let (next, before) = ((from + 1) % ranks, (from + ranks - 1) % ranks);
    match op {
        Collective::AllReduce => whole(PieceTarget::All),
        Collective::Reduce => whole(PieceTarget::One(peer)),
        Collective::Broadcast if from == peer => whole(PieceTarget::All),
        Collective::AllGather => own_block(PieceTarget::All),
        Collective::Gather => own_block(PieceTarget::One(peer)),
        op if has_blocks(op) => (0..ranks).filter_map(|to| block_piece(operation, from, to, ranks)).collect(),
        Collective::SendRecv if direction == Direction::OneWay => whole(PieceTarget::One(next)),
        Collective::SendRecv => {
            let half = count / 2;
            let forwards = InputPiece { input: 0, len: half, target: PieceTarget::One(next), output: 0 };
            vec![forwards, InputPiece { input: half, len: half, target: PieceTarget::One(before), output: half }]
        }
        Collective::PingPong if from == 0 => whole(PieceTarget::One(peer)),
        Collective::PingPong if from == peer => whole(PieceTarget::One(0)),
        _ => Vec::new(),
    }
}

/// Whether senders have a block for each receiver.
pub(super) fn has_blocks(op: Collective) -> bool {
    matches!(op, Collective::ReduceScatter | Collective::Scatter | Collective::AllToAll | Collective::AllToAllV)
}

/// The block that rank `from` has for rank `to`, of an operation in which senders have one for each receiver.
pub(super) fn block_piece(operation: &Operation, from: u32, to: u32, ranks: u32) -> Option<InputPiece> {
    let block = operation.count / u64::from(ranks);
    let piece = |output| InputPiece { input: u64::from(to) * block, len: block, target: PieceTarget::One(to), output };
    match operation.op {
        Collective::ReduceScatter => Some(piece(0)),
        Collective::Scatter if from == operation.peer => Some(piece(0)),
        Collective::AllToAll => Some(piece(u64::from(from) * block)),
        Collective::AllToAllV => operation.counts.as_deref().map(|counts| InputPiece {
            input: counts.send_offset(from, to),
            len: counts.get(from, to),
            target: PieceTarget::One(to),
            output: counts.receive_offset(from, to),
        }),
        _ => None,
    }
}
