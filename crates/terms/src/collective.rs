//! Collective operations and the formulas of their bandwidths (nccl-tests `doc/PERFORMANCE.md`).

use crate::name::named;
use crate::{Bytes, Seconds};

named! {
    /// A collective (or point-to-point) operation.
    pub enum Collective("operation") {
        /// Every rank ends with the reduction of all ranks' buffers.
        AllReduce = "all_reduce",
        /// Every rank ends with all ranks' blocks, in rank order.
        AllGather = "all_gather",
        /// Rank r ends with block r of the reduction.
        ReduceScatter = "reduce_scatter",
        /// Every rank ends with the root's buffer.
        Broadcast = "broadcast",
        /// The root ends with the reduction of all ranks' buffers.
        Reduce = "reduce",
        /// Rank r's block s goes to rank s as its block r.
        AllToAll = "all_to_all",
        /// As `all_to_all`, with a count for each pair of ranks.
        AllToAllV = "all_to_allv",
        /// The root ends with all ranks' blocks, in rank order.
        Gather = "gather",
        /// Rank r ends with block r of the root's buffer.
        Scatter = "scatter",
        /// Every rank sends to the next and receives from the one before (a ring).
        SendRecv = "send_recv",
        /// Rank 0 sends to the peer, which sends back; the time is one way.
        PingPong = "ping_pong",
        /// No rank leaves before every rank has entered.
        Barrier = "barrier",
    }
}

named! {
    /// A reduction operator.
    pub enum Reduce("reduction operator") {
        /// Sum; integers wrap.
        Sum = "sum",
        /// Product; integers wrap.
        Prod = "prod",
        /// Smallest.
        Min = "min",
        /// Largest.
        Max = "max",
        /// Sum divided by the number of ranks; integers round towards zero.
        Avg = "avg",
    }
}

impl Collective {
    /// What `bytes` (S) means for this operation: whether S counts all ranks' blocks together, so that a rank's block
    /// is S / ranks. Where false, S is the bytes of one rank's buffer.
    pub const fn size_counts_all_ranks(self) -> bool {
        matches!(
            self,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::AllToAllV | Self::Gather | Self::Scatter
        )
    }

    /// What `bytes` means, and the factor of the bus bandwidth.
    pub fn size_words(self) -> &'static str {
        match self {
            Self::AllReduce => "bytes: a rank's; busbw = algbw x 2(n-1)/n",
            Self::AllToAllV => "bytes: the most that a rank sends or receives; busbw = algbw x (n-1)/n",
            Self::Barrier => "moves no bytes",
            op if op.size_counts_all_ranks() => "bytes: all ranks' blocks together; busbw = algbw x (n-1)/n",
            _ => "bytes: a rank's; busbw = algbw",
        }
    }

    /// Whether the operation reduces, and so takes a [`Reduce`] and excludes no type.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Whether one rank is special (root).
    pub const fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether no rank can leave before every rank has entered. Only such operations separate waits from transfer.
    pub const fn synchronises(self) -> bool {
        matches!(self, Self::AllReduce | Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::Barrier)
    }

    /// busbw / algbw for `ranks` ranks (nccl-tests `doc/PERFORMANCE.md`; wire bandwidth only for ring-like algorithms).
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::AllToAllV | Self::Gather | Self::Scatter => {
                (n - 1.0) / n
            }
            Self::Broadcast | Self::Reduce | Self::SendRecv | Self::PingPong => 1.0,
            Self::Barrier => 0.0,
        }
    }

    /// algbw = S/t in GB/s (GB = 1e9 bytes). None where no bytes move (a barrier, zero time).
    pub fn algbw_gbs(self, bytes: Bytes, time: Seconds) -> Option<f64> {
        (self != Self::Barrier && time.0 > 0.0 && bytes.0 > 0).then(|| bytes.0 as f64 / time.0 / 1e9)
    }

    /// busbw = algbw x [`Collective::bus_factor`] in GB/s.
    pub fn busbw_gbs(self, bytes: Bytes, ranks: u32, time: Seconds) -> Option<f64> {
        self.algbw_gbs(bytes, time).map(|algbw| algbw * self.bus_factor(ranks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named;

    #[test]
    fn bus_factors_are_those_of_nccl_tests() {
        assert_eq!(Collective::AllReduce.bus_factor(4), 1.5);
        assert_eq!(Collective::AllGather.bus_factor(4), 0.75);
        assert_eq!(Collective::Broadcast.bus_factor(8), 1.0);
        assert_eq!(Collective::AllReduce.busbw_gbs(Bytes(1_000_000_000), 2, Seconds(0.5)), Some(2.0));
        assert_eq!(Collective::Barrier.algbw_gbs(Bytes(0), Seconds(1e-6)), None);
    }

    #[test]
    fn every_name_reads_back() {
        for op in Collective::ALL {
            assert_eq!(op.to_string().parse::<Collective>(), Ok(*op));
        }
        assert_eq!("all-reduce".parse::<Collective>(), Ok(Collective::AllReduce));
        let error = "allreduse".parse::<Collective>().unwrap_err();
        assert_eq!(error.to_string(), "unknown operation `allreduse`, did you mean `all_reduce`?");
    }
}
