//! The model without ranks: operations move the clocks of all ranks at once.

use terms::{Collective, Direction};

use super::cost::cost;
use super::noise::Factors;
use crate::{Clocks, Model, Operation, Pace};

/// A link, and its noise where there is some.
pub(super) struct LinkModel {
    pub(super) link: Pace,
    pub(super) factors: Option<Factors>,
}

impl Model for LinkModel {
    fn run(&mut self, operation: &Operation, clocks: &mut Clocks) {
        let factor = self.factors.as_mut().map_or(1.0, Factors::next);
        let lasts = cost(operation.op, operation.bytes(), clocks.ranks(), self.link).0 * factor;
        leave(operation, clocks, (lasts * 1e9).round() as u64);
    }

    fn is_constant(&self) -> bool {
        self.factors.is_none()
    }
}

/// Moves each rank from where it enters an operation to where it leaves: that of [`super::cost::waits_for`] for all ranks.
fn leave(operation: &Operation, clocks: &mut Clocks, lasts_ns: u64) {
    let Operation { op, peer, direction, .. } = *operation;
    if op == Collective::PingPong {
        let entered = clocks.get(0).max(clocks.get(peer));
        return [0, peer].into_iter().for_each(|rank| clocks.set(rank, entered + lasts_ns));
    }
    let entries = match clocks {
        // All enter together, so nobody waits.
        Clocks::Same { ns, .. } => return *ns += lasts_ns,
        Clocks::Each(entries) => entries,
    };
    let last = entries.iter().copied().max().unwrap_or(0);
    match op {
        Collective::Reduce | Collective::Gather => entries[peer as usize] = last,
        Collective::Broadcast | Collective::Scatter => {
            let root = entries[peer as usize];
            entries.iter_mut().for_each(|entry| *entry = root.max(*entry));
        }
        Collective::SendRecv => {
            let (ranks, before) = (entries.len(), entries.clone());
            for (rank, entry) in entries.iter_mut().enumerate() {
                *entry = (*entry).max(before[(rank + ranks - 1) % ranks]);
                if direction == Direction::BothWays {
                    *entry = (*entry).max(before[(rank + 1) % ranks]);
                }
            }
        }
        _ => return *clocks = Clocks::Same { ns: last + lasts_ns, ranks: clocks.ranks() },
    }
    entries.iter_mut().for_each(|entry| *entry += lasts_ns);
}

#[cfg(test)]
mod tests {
    use terms::{Dtype, Named, Reduce};

    use super::super::cost::waits_for;
    use super::*;

    /// The rule of a rank, for all ranks.
    fn one_by_one(operation: &Operation, entries: &[u64], lasts_ns: u64) -> Vec<u64> {
        let ranks = entries.len() as u32;
        let leaves = |rank: u32| {
            if operation.op == Collective::PingPong && rank != 0 && rank != operation.peer {
                return entries[rank as usize];
            }
            let awaited = (0..ranks).filter(|other| *other == rank || waits_for(operation, rank, *other, ranks));
            awaited.map(|other| entries[other as usize]).max().unwrap_or(0) + lasts_ns
        };
        (0..ranks).map(leaves).collect()
    }

    #[test]
    fn all_ranks_at_once_leave_when_each_by_itself_does() {
        for op in Collective::ALL.iter().copied() {
            for (direction, peer) in [(Direction::OneWay, 1), (Direction::BothWays, 3)] {
                let (dtype, reduce) = (Dtype::F32, Reduce::Sum);
                let operation = Operation { op, count: 8, dtype, reduce, peer, direction, counts: None };
                for entries in [vec![7; 5], vec![3, 90, 7, 50, 0], vec![10, 0, 0, 0, 99], vec![1, 2, 3, 400, 5]] {
                    let mut clocks = Clocks::Each(entries.clone());
                    leave(&operation, &mut clocks, 1000);
                    let found: Vec<u64> = (0..5).map(|rank| clocks.get(rank)).collect();
                    assert_eq!(found, one_by_one(&operation, &entries, 1000), "{op} {direction} {entries:?}");
                }
                let mut clocks = Clocks::Same { ns: 7, ranks: 5 };
                leave(&operation, &mut clocks, 1000);
                let found: Vec<u64> = (0..5).map(|rank| clocks.get(rank)).collect();
                assert_eq!(found, one_by_one(&operation, &[7; 5], 1000), "{op} {direction}, all at once");
            }
        }
    }
}
