//! What of a call goes through the host at once.

use device::Slice;
use terms::{Collective, Direction};

use crate::{Call, Counts, Shape, extents};

/// Bytes of a piece, of calls that are cut: a copy of so many takes ten times as long as to ask for it.
const PIECE: usize = 1 << 20;
/// Places for pieces of each side: one is worked on while another is on its way.
const PLACES: usize = 2;
/// Each side's places begin at a page.
const PAGE: usize = 4096;

/// A call's buffers, as far as this rank gives and gets, in pieces. All ranks have equally many.
pub(super) struct Cut {
    sides: [Slice; 2],
    /// Bytes of a piece: of the last fewer.
    piece: usize,
    pub(super) pieces: usize,
    layout: PieceLayout,
}

/// Bytes of the places for pieces of input and output, the same on all ranks but for a ping_pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PieceLayout {
    places: usize,
    widths: [usize; 2],
}

/// Whether each element of the output comes from the same places of the inputs.
fn is_cut(op: Collective, direction: Direction) -> bool {
    match op {
        Collective::AllReduce | Collective::Reduce | Collective::Broadcast => true,
        Collective::SendRecv => direction == Direction::OneWay,
        _ => false,
    }
}

/// What a call says of its size, besides S.
#[derive(Clone, Copy)]
struct CallSize<'a> {
    op: Collective,
    direction: Direction,
    element: u64,
    ranks: u32,
    peer: u32,
    counts: Option<&'a Counts>,
}

impl PieceLayout {
    /// For S elements.
    fn new(kind: CallSize<'_>, count: u64) -> (Self, usize) {
        let CallSize { op, direction, element, ranks, peer, counts } = kind;
        // A root, and another rank: no third gives or gets more.
        let extent = |rank| extents(op, count, rank, ranks, peer, counts);
        let (one, other) = (extent(peer % ranks), extent((peer + 1) % ranks));
        let mut widest = [one.input.max(other.input), one.output.max(other.output)];
        if let Some(counts) = counts {
            widest = [counts.widest(); 2];
        }
        let whole = widest.map(|elements| elements.saturating_mul(element) as usize);
        let bytes = count.saturating_mul(element) as usize;
        let pieces = if is_cut(op, direction) { bytes.div_ceil(PIECE).max(1) } else { 1 };
        let widths = whole.map(|width| if pieces > 1 { width.min(PIECE) } else { width });
        (
            Self {
                places: pieces.min(PLACES),
                widths: widths.map(|width| width.saturating_add(PAGE - 1) / PAGE * PAGE),
            },
            pieces,
        )
    }

    fn bytes(&self) -> usize {
        self.widths[0].saturating_add(self.widths[1]).saturating_mul(self.places).max(PAGE)
    }
}

impl Cut {
    /// The cut of a valid call.
    pub(super) fn new(call: &Call, shape: &Shape) -> Self {
        let (count, element) = (call.count(shape), call.dtype.bytes());
        let counts = call.counts.as_deref();
        let Call { op, direction, peer, .. } = *call;
        let kind = CallSize { op, direction, element, ranks: shape.size, peer, counts };
        let (layout, pieces) = PieceLayout::new(kind, count);
        let extent = extents(op, count, shape.rank, shape.size, peer, counts);
        // A root's peers may give a buffer that is left alone.
        let part = |slice: &Slice, elements: u64| slice.slice(0, (elements * element) as usize);
        let sides = [part(&call.input, extent.input), part(&call.output, extent.output)];
        let sides = [&call.input, &call.output].into_iter().zip(sides);
        let mut sides = sides.map(|(whole, part)| part.unwrap_or_else(|| whole.clone()));
        let sides = std::array::from_fn(|_| sides.next().unwrap_or_else(|| call.input.clone()));
        Self { sides, piece: if pieces > 1 { PIECE } else { usize::MAX }, pieces, layout }
    }

    /// Bytes of the host that it goes through.
    pub(super) fn host_bytes(&self) -> usize {
        self.layout.bytes()
    }

    /// A piece of the GPU's input or output; empty where this rank has no part in it.
    pub(super) fn part(&self, side: CallBuffer, index: usize) -> Slice {
        let whole = &self.sides[side as usize];
        let begin = index.saturating_mul(self.piece).min(whole.len());
        whole.slice(begin, self.piece.min(whole.len() - begin)).unwrap_or_else(|| whole.clone())
    }

    /// Where a piece begins in the buffers of the host.
    pub(super) fn place(&self, side: CallBuffer, index: usize) -> usize {
        let PieceLayout { places, widths: [input, output] } = self.layout;
        match side {
            CallBuffer::Input => index % places * input,
            CallBuffer::Output => places * input + index % places * output,
        }
    }
}

/// Which of a call's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallBuffer {
    Input,
    Output,
}

/// Bytes of the host that each rank needs for an operation on memory of GPUs, where these go through the host.
pub fn host_bytes(
    (op, direction): (Collective, Direction),
    (count, element): (u64, u64),
    (ranks, peer): (u32, u32),
    counts: Option<&Counts>,
) -> u64 {
    if op == Collective::Barrier {
        return 0;
    }
    PieceLayout::new(CallSize { op, direction, element, ranks, peer, counts }, count).0.bytes() as u64
}
