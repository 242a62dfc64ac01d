//! What an operation costs on an alpha-beta link: latency per step, bytes over bandwidth.

use terms::{Bandwidth, Bytes, Collective, Direction, Seconds};

use crate::{Operation, Pace};

/// The link that `sim` computes with when none is given: 10 GB/s and 5 us, a 100 Gbit/s network as a program sees it.
pub const DEFAULT_LINK: Pace = Pace { bandwidth: Bandwidth(1e10), latency: Seconds(5e-6) };

/// The time of one operation, with a the latency, B the bandwidth and n the ranks; `bytes` is S of the operation.
///
/// | operation | algorithm | time |
/// |---|---|---|
/// | all_reduce | ring (Patarasuk and Yuan 2009) | 2(n-1) a + 2(n-1)/n S/B |
/// | all_gather, reduce_scatter | ring | (n-1) a + (n-1)/n S/B |
/// | all_to_all, all_to_allv | pairwise exchange (Thakur, Rabenseifner, Gropp 2005) | (n-1) a + (n-1)/n S/B |
/// | gather, scatter | the root's link, one rank after another | (n-1) a + (n-1)/n S/B |
/// | broadcast, reduce | pipelined chain | (n-1) a + S/B |
/// | send_recv | one message, or both halves at once on a link that carries B each way | a + S/B |
/// | ping_pong | two messages, one after the other | 2 (a + S/B) |
/// | barrier | dissemination (Hensgen, Finkel, Manber 1988) | ceil(log2 n) a |
///
/// A rank alone still makes the call: no operation takes less than one a.
pub fn cost(op: Collective, bytes: Bytes, ranks: u32, link: Pace) -> Seconds {
    let n = ranks.max(1);
    let messages = if op == Collective::PingPong { 2.0 } else { 1.0 };
    let latency = f64::from(steps(op, n).max(1)) * link.latency.0;
    let transfer = messages * op.bus_factor(n) * bytes.0 as f64 / link.bandwidth.0;
    Seconds(latency + transfer)
}

/// Messages that wait for each other.
fn steps(op: Collective, n: u32) -> u32 {
    match op {
        Collective::AllReduce => 2 * (n - 1),
        Collective::AllGather
        | Collective::ReduceScatter
        | Collective::AllToAll
        | Collective::AllToAllV
        | Collective::Gather
        | Collective::Scatter
        | Collective::Broadcast
        | Collective::Reduce => n - 1,
        Collective::SendRecv => 1,
        Collective::PingPong => 2,
        Collective::Barrier => n.next_power_of_two().trailing_zeros(),
    }
}

/// Whether `rank` cannot leave before `other` has entered.
pub(super) fn waits_for(operation: &Operation, rank: u32, other: u32, ranks: u32) -> bool {
    let Operation { op, peer, direction, .. } = *operation;
    match op {
        Collective::Reduce | Collective::Gather => rank == peer,
        Collective::Broadcast | Collective::Scatter => other == peer,
        Collective::SendRecv => {
            let before = other == (rank + ranks - 1) % ranks;
            let after = other == (rank + 1) % ranks;
            before || (direction == Direction::BothWays && after)
        }
        Collective::PingPong => other == 0 || other == peer,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_table() {
        let link = Pace { bandwidth: Bandwidth(1e9), latency: Seconds(1e-6) };
        let ns = |op, bytes, ranks| (cost(op, Bytes(bytes), ranks, link).0 * 1e9).round() as u64;
        assert_eq!(ns(Collective::AllReduce, 4000, 4), 6_000 + 6_000);
        assert_eq!(ns(Collective::AllGather, 4000, 4), 3_000 + 3_000);
        assert_eq!(ns(Collective::Broadcast, 4000, 4), 3_000 + 4_000);
        assert_eq!(ns(Collective::Gather, 4000, 4), 3_000 + 3_000);
        assert_eq!(ns(Collective::SendRecv, 4000, 4), 1_000 + 4_000);
        assert_eq!(ns(Collective::PingPong, 4000, 2), 2_000 + 8_000);
        assert_eq!(ns(Collective::Barrier, 0, 5), 3_000);
        assert_eq!(ns(Collective::AllReduce, 4000, 1), 1_000);
    }
}
