//! Which memory an operation reads and writes, rank by rank: what bare loops go through to find the limit. Where ranks
//! reach each other's buffers, the places are those of the operation itself; else they are laid over the rank's own.

use comm::{Counts, blocks};
use terms::{Collective, Direction};

use super::parameters::Parameters;
use super::traffic::{Share, share};

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferSide {
    Input,
    Output,
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamStart {
    pub(crate) rank: u32,
    pub(crate) side: BufferSide,
    /// Bytes from the buffer's beginning.
    pub(crate) offset: usize,
}

/// What is done with the streams of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Every destination gets the sum of the sources.
    Sum,
    /// The one source and the one destination change places.
    Exchange,
}

/// A loop over some streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamPass {
    pub(crate) act: Act,
    pub(crate) from: Vec<StreamStart>,
    pub(crate) to: Vec<StreamStart>,
    pub(crate) len: usize,
}

impl StreamPass {
    fn sum(from: Vec<StreamStart>, to: Vec<StreamStart>, len: usize) -> Self {
        Self { act: Act::Sum, from, to, len }
    }

    fn copy(from: StreamStart, to: StreamStart, len: usize) -> Self {
        Self::sum(vec![from], vec![to], len)
    }

    /// Bytes read and written.
    fn traffic(&self) -> u64 {
        let ways = if self.act == Act::Exchange { 2 } else { 1 };
        (ways * (self.from.len() + self.to.len()) * self.len) as u64
    }
}

/// What one call makes a rank read and write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passes {
    pub(crate) passes: Vec<StreamPass>,
    /// Bytes of the call that they stand for: all that the rank moves, or a part where its own buffers hold no more.
    pub(crate) moved: u64,
}

/// The passes of `rank`, over all ranks' buffers (`peers`) or over its own.
pub(crate) fn passes(parameters: &Parameters, rank: u32, peers: bool) -> Passes {
    let share = share_of(parameters, rank);
    if share.traffic() == 0 {
        return Passes { passes: Vec::new(), moved: 0 };
    }
    if !peers {
        let passes = own(parameters, rank, &share);
        let moved = passes.iter().map(StreamPass::traffic).sum();
        return Passes { passes, moved };
    }
    let mut passes = Streams::new(parameters, rank).passes();
    for pass in passes.iter_mut().filter(|pass| pass.act == Act::Sum && pass.from.len() == 1) {
        // In place, what is there already is not moved.
        let from = parameters.place(pass.from[0]);
        pass.to.retain(|to| parameters.place(*to) != from);
    }
    passes.retain(|pass| pass.len > 0 && !pass.to.is_empty());
    Passes { passes, moved: share.traffic() }
}

/// The share of `rank`.
pub(crate) fn share_of(parameters: &Parameters, rank: u32) -> Share {
    let Parameters { op, bytes, ranks, peer, in_place, .. } = *parameters;
    let got = parameters.counts.as_ref().map_or(0, |counts| counts.received(rank) * parameters.dtype.bytes());
    share(op, bytes, rank, ranks, peer, got, in_place)
}

/// Rank `rank`'s part of `0..len` when `ranks` divide it by whole pairs of lines.
fn part(len: usize, rank: u32, ranks: u32) -> (usize, usize) {
    const LINES: usize = 128;
    let each = len.div_ceil(ranks as usize).next_multiple_of(LINES);
    ((each * rank as usize).min(len), (each * (rank as usize + 1)).min(len))
}

/// The operation's own streams, of one rank.
struct Streams<'a> {
    op: Collective,
    rank: u32,
    ranks: u32,
    root: u32,
    bytes: usize,
    block: usize,
    in_place: bool,
    direction: Direction,
    counts: Option<&'a Counts>,
    element: usize,
}

impl<'a> Streams<'a> {
    fn new(parameters: &'a Parameters, rank: u32) -> Self {
        let Parameters { op, ranks, peer, in_place, direction, .. } = *parameters;
        let bytes = parameters.bytes as usize;
        let block = bytes / blocks(op, direction, ranks) as usize;
        let (counts, element) = (parameters.counts.as_ref(), parameters.dtype.bytes() as usize);
        Self { op, rank, ranks, root: peer, bytes, block, in_place, direction, counts, element }
    }

    fn passes(&self) -> Vec<StreamPass> {
        let Self { rank, ranks, root, bytes, block, .. } = *self;
        let at = |rank: u32, side: BufferSide, offset: usize| StreamStart { rank, side, offset };
        let all = |side: BufferSide, offset: usize| (0..ranks).map(|rank| at(rank, side, offset)).collect::<Vec<_>>();
        let (begin, end) = part(bytes, rank, ranks);
        let own = at(rank, BufferSide::Output, 0);
        match self.op {
            Collective::AllReduce => {
                vec![StreamPass::sum(all(BufferSide::Input, begin), all(BufferSide::Output, begin), end - begin)]
            }
            Collective::Reduce => {
                vec![StreamPass::sum(
                    all(BufferSide::Input, begin),
                    vec![at(root, BufferSide::Output, begin)],
                    end - begin,
                )]
            }
            Collective::ReduceScatter => {
                vec![StreamPass::sum(all(BufferSide::Input, block * rank as usize), vec![own], block)]
            }
            Collective::Broadcast => {
                vec![StreamPass::sum(
                    vec![at(root, BufferSide::Input, begin)],
                    all(BufferSide::Output, begin),
                    end - begin,
                )]
            }
            Collective::AllGather => {
                vec![StreamPass::sum(
                    vec![at(rank, BufferSide::Input, 0)],
                    all(BufferSide::Output, block * rank as usize),
                    block,
                )]
            }
            Collective::Gather | Collective::Scatter => self.pieces(),
            Collective::AllToAll if self.in_place => self.exchanges(),
            Collective::AllToAll | Collective::AllToAllV => self.pulls(),
            Collective::SendRecv => self.ring(),
            Collective::PingPong => {
                let other = if rank == 0 { root } else { 0 };
                vec![StreamPass::copy(at(other, BufferSide::Input, 0), own, bytes)]
            }
            Collective::Barrier => Vec::new(),
        }
    }

    /// The pieces of a gather or scatter, end to end, in equal parts for all ranks.
    fn pieces(&self) -> Vec<StreamPass> {
        let Self { rank, ranks, root, block, .. } = *self;
        let scatter = self.op == Collective::Scatter;
        let moving: Vec<u32> = (0..ranks).filter(|peer| !self.in_place || *peer != root).collect();
        let (begin, end) = part(moving.len() * block, rank, ranks);
        let piece = |(index, peer): (usize, u32)| {
            let (first, last) = (begin.max(index * block), end.min((index + 1) * block));
            let within = first.saturating_sub(index * block);
            let far = StreamStart {
                rank: root,
                side: if scatter { BufferSide::Input } else { BufferSide::Output },
                offset: peer as usize * block + within,
            };
            let near = StreamStart {
                rank: peer,
                side: if scatter { BufferSide::Output } else { BufferSide::Input },
                offset: within,
            };
            let (from, to) = if scatter { (far, near) } else { (near, far) };
            StreamPass::copy(from, to, last.saturating_sub(first))
        };
        moving.into_iter().enumerate().map(piece).collect()
    }

    /// The blocks of each pair of ranks change places; each of the two does half of it.
    fn exchanges(&self) -> Vec<StreamPass> {
        let Self { rank, ranks, block, .. } = *self;
        let exchange = |peer: u32| {
            let (low, high) = (rank.min(peer), rank.max(peer));
            let (begin, end) = part(block, u32::from(rank == high), 2);
            let from = StreamStart { rank: low, side: BufferSide::Input, offset: high as usize * block + begin };
            let to = StreamStart { rank: high, side: BufferSide::Output, offset: low as usize * block + begin };
            StreamPass { act: Act::Exchange, from: vec![from], to: vec![to], len: end - begin }
        };
        (0..ranks).filter(|peer| *peer != rank).map(exchange).collect()
    }

    /// Every rank's piece for this one.
    fn pulls(&self) -> Vec<StreamPass> {
        let Self { rank, ranks, block, element, .. } = *self;
        let pull = |distance: u32| {
            let peer = (rank + distance) % ranks;
            let (input, output, len) = match self.counts {
                Some(counts) => (
                    counts.send_offset(peer, rank) as usize * element,
                    counts.receive_offset(peer, rank) as usize * element,
                    counts.get(peer, rank) as usize * element,
                ),
                None => (rank as usize * block, peer as usize * block, block),
            };
            let from = StreamStart { rank: peer, side: BufferSide::Input, offset: input };
            StreamPass::copy(from, StreamStart { rank, side: BufferSide::Output, offset: output }, len)
        };
        (0..ranks).map(pull).collect()
    }

    /// What the neighbours of this rank send it.
    fn ring(&self) -> Vec<StreamPass> {
        let Self { rank, ranks, block, .. } = *self;
        let from = |peer: u32, offset: usize| {
            let (from, to) = (
                StreamStart { rank: peer, side: BufferSide::Input, offset },
                StreamStart { rank, side: BufferSide::Output, offset },
            );
            StreamPass::copy(from, to, block)
        };
        let (previous, next) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        match self.direction {
            Direction::OneWay => vec![from(previous, 0)],
            Direction::BothWays => vec![from(previous, 0), from(next, block)],
        }
    }
}

/// Passes over as many streams as the operation has, one after the other over the rank's own buffers, from the
/// beginning again where those end.
fn own(parameters: &Parameters, rank: u32, share: &Share) -> Vec<StreamPass> {
    let (input, output) = parameters.lengths(rank);
    let (larger, room) = if input >= output { (BufferSide::Input, input) } else { (BufferSide::Output, output) };
    // Where one buffer lies in the other, or there is only one, all streams are in the larger.
    let single = input == 0 || output == 0 || parameters.in_place;
    let most =
        if single { if share.in_place && share.reads == 1 { room } else { room / 2 } } else { input.min(output) };
    // Whole lines, so that all streams lie alike on them.
    let len = (share.bytes as usize).min(most);
    let len = if len >= 64 { len / 64 * 64 } else { len };
    if len == 0 {
        return Vec::new();
    }
    let streams = |side: BufferSide, first: u32, count: u32| -> Vec<StreamStart> {
        let room = if side == BufferSide::Input { input } else { output } / len;
        (first..first + count).map(|i| StreamStart { rank, side, offset: i as usize % room * len }).collect()
    };
    if share.in_place && parameters.op == Collective::AllToAll {
        let (from, to) = (streams(larger, 0, 1), streams(larger, 1, 1));
        return vec![StreamPass { act: Act::Exchange, from, to, len }];
    }
    let (from, to) = if single { (larger, larger) } else { (BufferSide::Input, BufferSide::Output) };
    let after = if single && !share.in_place { share.reads } else { 0 };
    vec![StreamPass::sum(streams(from, 0, share.reads), streams(to, after, share.writes), len)]
}

#[cfg(test)]
mod tests {
    use super::super::about::ABOUT;
    use super::super::fields::Fields;
    use super::*;

    /// A rank that only sends has no loop, and so stands for no bytes: its limit would be a call that takes no time.
    #[test]
    fn loops_of_uneven_counts_do_all_that_they_stand_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weights");
        std::fs::write(&file, "0 1\n0 0").unwrap();
        let flags = [
            ("op", "all_to_allv"),
            ("ranks", "2"),
            ("bytes", "4KiB"),
            ("traffic", "file"),
            ("traffic_file", file.to_str().unwrap()),
        ];
        let case = record::plan::from_flags(&ABOUT, &flags, &[]).unwrap().cases.remove(0);
        let parameters = Parameters::new(&case, &Fields::of(&case).unwrap()).unwrap();
        for (peers, bytes) in [(true, 2 * 4096), (false, 4096)] {
            let of_rank = |rank: u32| {
                let all = passes(&parameters, rank, peers);
                (all.passes.iter().map(StreamPass::traffic).sum::<u64>(), all.moved)
            };
            assert_eq!(of_rank(0), (0, 0), "it receives nothing");
            assert_eq!(of_rank(1), (bytes, bytes), "it fetches all that it receives");
        }
    }
}
