//! The memory traffic that an operation cannot avoid: how many streams each rank reads and writes, and how long they are.
//!
//! Shared memory moves data by reading and writing it; whatever the algorithm, every rank's share of the work is a few
//! streams read and a few written. `streams` says where they lie, `bare` runs them.

use terms::Collective;

/// A rank's share of an operation's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Streams read.
    pub(crate) reads: u32,
    /// Streams written.
    pub(crate) writes: u32,
    /// Bytes of each stream.
    pub(crate) bytes: u64,
    /// Whether the written streams are the read ones.
    pub(crate) in_place: bool,
}

impl Share {
    /// Bytes read and written.
    pub(crate) fn traffic(&self) -> u64 {
        u64::from(self.reads + self.writes) * self.bytes
    }
}

/// The share of `rank` in an operation of S = `bytes`, every rank taking an equal part of the work where it can.
/// `got` is what the rank receives in an all_to_allv: ranks fetch it. In place, what is there already is not moved.
pub(crate) fn share(op: Collective, bytes: u64, rank: u32, ranks: u32, peer: u32, got: u64, in_place: bool) -> Share {
    let n = u64::from(ranks);
    let part = bytes / n;
    let others = ranks - 1;
    let (reads, writes, bytes) = match (op, in_place) {
        (Collective::Barrier, _) => (0, 0, 0),
        // One rank in place: everything is where it belongs.
        (_, true) if ranks == 1 => (0, 0, 0),
        (Collective::AllReduce, _) => (ranks, ranks, part),
        (Collective::ReduceScatter | Collective::Reduce, _) => (ranks, 1, part),
        (Collective::AllGather | Collective::Broadcast, true) => (1, others, part),
        (Collective::AllGather | Collective::Broadcast, false) => (1, ranks, part),
        (Collective::Gather | Collective::Scatter, true) => (1, 1, part / n * u64::from(others)),
        (Collective::Gather | Collective::Scatter, false) => (1, 1, part),
        // An exchange: both places are read, and both are written.
        (Collective::AllToAll, true) => (2, 2, part * u64::from(others) / 2),
        (Collective::AllToAll | Collective::SendRecv, _) => (1, 1, bytes),
        (Collective::AllToAllV, _) => (1, 1, got),
        (Collective::PingPong, _) => (1, 1, if rank == 0 || rank == peer { bytes } else { 0 }),
    };
    let works_in_input =
        matches!(op, Collective::AllReduce | Collective::AllToAll | Collective::Reduce | Collective::ReduceScatter);
    Share { reads, writes, bytes, in_place: in_place && works_in_input }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_all_reduce_cover_every_byte_once() {
        let share = share(Collective::AllReduce, 1 << 20, 0, 4, 0, 0, true);
        assert_eq!((share.reads, share.writes, share.bytes), (4, 4, 1 << 18));
        assert_eq!(share.traffic(), 2 << 20);
    }

    #[test]
    fn in_place_shares_leave_out_what_is_there_already() {
        let traffic = |op, in_place| share(op, 1 << 20, 0, 4, 0, 0, in_place).traffic();
        // Over all ranks: 3 of 4 blocks, read and written.
        assert_eq!(4 * traffic(Collective::Gather, true), 2 * 3 * (1 << 18));
        assert_eq!(4 * traffic(Collective::Gather, false), 2 << 20);
        // Each rank gives three blocks of a quarter of its buffer and gets as many.
        assert_eq!(traffic(Collective::AllToAll, true), 2 * 3 * (1 << 18));
        assert_eq!(traffic(Collective::AllGather, true), 4 * (1 << 18));
        for op in [Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::AllToAll] {
            assert_eq!(share(op, 1 << 20, 0, 1, 0, 0, true).traffic(), 0, "{op}");
        }
    }
}
