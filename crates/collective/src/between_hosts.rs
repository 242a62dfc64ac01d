//! What the link of a host must carry in a call, whatever the algorithm: with it, a link's speed bounds the time.

use std::collections::BTreeMap;

use terms::Collective;

/// Bytes in one direction through the link that has most to carry. None where they depend on more than sizes, or no link is used.
/// `hosts`: the host of each rank.
pub(super) fn bytes(op: Collective, bytes: u64, hosts: &[u32]) -> Option<f64> {
    let mut ranks: BTreeMap<u32, f64> = BTreeMap::new();
    hosts.iter().for_each(|host| *ranks.entry(*host).or_default() += 1.0);
    let (all, size) = (hosts.len() as f64, bytes as f64);
    if ranks.len() < 2 {
        return None;
    }
    let largest = |of: &dyn Fn(f64) -> f64| ranks.values().map(|own| of(*own)).fold(0.0, f64::max);
    let carried = match op {
        // A host can reduce its own ranks first: then it is one.
        Collective::AllReduce => op.bus_factor(ranks.len() as u32) * size,
        // All blocks but its own.
        Collective::AllGather | Collective::ReduceScatter => largest(&|own| size * (all - own) / all),
        Collective::AllToAll => largest(&|own| size / all * own * (all - own)),
        Collective::Broadcast | Collective::Reduce => size,
        Collective::PingPong if hosts.len() == 2 => size,
        Collective::SendRecv => {
            let next = hosts.iter().cycle().skip(1);
            let leaves = hosts.iter().zip(next).filter(|(own, next)| own != next);
            let mut of: BTreeMap<u32, f64> = BTreeMap::new();
            leaves.for_each(|(own, _)| *of.entry(*own).or_default() += size);
            of.into_values().fold(0.0, f64::max)
        }
        _ => return None,
    };
    (carried > 0.0).then_some(carried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_what_its_ranks_lack() {
        let on = |op, hosts: &[u32]| bytes(op, 1200, hosts);
        // Two hosts of three ranks each, one after another and interleaved.
        let (block, turns) = ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]);
        for hosts in [block, turns] {
            assert_eq!(on(Collective::AllReduce, &hosts), Some(1200.0), "as two ranks");
            assert_eq!(on(Collective::AllGather, &hosts), Some(600.0), "the other half");
            assert_eq!(on(Collective::AllToAll, &hosts), Some(1800.0), "200 from each of three to each of three");
            assert_eq!(on(Collective::Broadcast, &hosts), Some(1200.0));
        }
        assert_eq!(on(Collective::SendRecv, &block), Some(1200.0), "one of its ranks sends to the other host");
        assert_eq!(on(Collective::SendRecv, &turns), Some(3600.0));
        assert_eq!(on(Collective::AllGather, &[0, 0, 0, 1]), Some(900.0), "the host of one rank lacks most");
        assert_eq!(on(Collective::ReduceScatter, &[0, 0, 1, 1, 2, 2]), Some(800.0), "the blocks of two other hosts");
        assert_eq!(on(Collective::PingPong, &[0, 1]), Some(1200.0));
        assert_eq!(on(Collective::PingPong, &[0, 1, 1]), None, "its peer may be on either");
        assert_eq!(on(Collective::AllReduce, &[0; 4]), None);
        assert_eq!(on(Collective::Barrier, &block), None);
    }
}
