//! The time of an exchange.

use parallel::Mesh;
use record::{ConstantName, TransferTime};
use terms::Collective;

use super::Costs;

/// The ranks of an exchange, and what they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeGroup {
    /// Ranks of the group.
    pub ranks: u32,
    /// Of these, how many are on one node.
    pub per_node: u32,
    /// Groups with ranks on the same node, which exchange at the same time.
    pub groups: u32,
    /// Ranks on one node.
    pub node: u32,
}

impl ExchangeGroup {
    /// The group of ranks at this distance from each other, on nodes of `node` ranks each, of `all` ranks. All such
    /// groups exchange at once, and are taken to be on two nodes where any of them is, because the step waits for the
    /// slowest.
    pub fn strided(ranks: usize, stride: usize, node: usize, all: usize) -> Self {
        let node = node.min(all).max(1);
        let (ranks, stride) = (ranks.max(1), stride.max(1));
        let most = (node / stride).clamp(1, ranks);
        // Groups that a node has room for cross its end somewhere, unless they fill it.
        let crosses = most == ranks && all > node && !node.is_multiple_of(ranks * stride);
        let per_node = if crosses { ranks.div_ceil(2) } else { most };
        Self {
            ranks: ranks as u32,
            per_node: per_node as u32,
            groups: (node / per_node).max(1) as u32,
            node: node as u32,
        }
    }

    /// A rank of one stage and the rank at its place in another, on nodes of `node` ranks each. All such pairs exchange at once, and
    /// are taken to be on two nodes where any of them is, because the step waits for the slowest. Each rank then has its own part of
    /// its node's links, however few ranks of these stages are there: those of other stages send, too.
    pub fn of_stages(mesh: Mesh, one: usize, other: usize, node: usize) -> Self {
        let node = node.min(mesh.ranks()).max(1);
        let of_stage = (mesh.tensor * mesh.data).max(1);
        let first = one.min(other) * of_stage;
        let last = (one.max(other) + 1) * of_stage - 1;
        // All pairs lie between these two ranks. Where they are on different nodes, at least one pair is, too.
        let per_node = if first / node == last / node { 2 } else { 1 };
        Self { ranks: 2, per_node: per_node as u32, groups: (node / per_node).max(1) as u32, node: node as u32 }
    }

    /// Nodes that the group spans.
    pub fn nodes(self) -> u32 {
        self.ranks.div_ceil(self.per_node)
    }
}

/// Steps of a ring take about this share of an exchange's own latency each.
const STEP_OF_LATENCY: f64 = 0.1;

impl Costs<'_> {
    /// The time of an exchange of these bytes (S of docs/explanation/bandwidth.md).
    pub fn exchange(&self, operation: Collective, group: ExchangeGroup, bytes: u64) -> f64 {
        if group.ranks <= 1 {
            return 0.0;
        }
        let modelled = self.modelled_exchange(operation, group, bytes);
        let own = modelled * self.measured_ratio(operation, group, bytes).unwrap_or(1.0);
        // Data moves as fast as the machine moves it; the exchange ends no earlier than the slow link lets it.
        let paced = self
            .pace
            .map_or(0.0, |pace| pace.latency.0 + operation.bus_factor(group.ranks) * bytes as f64 / pace.bandwidth.0);
        own.max(paced)
    }

    /// The time that constants give: a ring within a node, a ring over nodes whose links its groups share.
    fn modelled_exchange(&self, operation: Collective, group: ExchangeGroup, bytes: u64) -> f64 {
        let (ranks, nodes) = (f64::from(group.ranks), f64::from(group.nodes()));
        let (share, steps) = match operation {
            Collective::AllReduce => (2.0 * (ranks - 1.0) / ranks, 2.0 * (ranks - 1.0)),
            Collective::AllGather | Collective::ReduceScatter => ((ranks - 1.0) / ranks, ranks - 1.0),
            _ => (1.0, 1.0),
        };
        let own = self.get(ConstantName::LinkRate);
        // All links of a node serve the groups that leave it: each has an equal part of them.
        let of_node = self.get(ConstantName::NetworkRate) * f64::from(group.node) / f64::from(group.groups.max(1));
        let (rate, latency) = match nodes > 1.0 {
            false => (own, self.get(ConstantName::LinkLatency) * (1.0 + STEP_OF_LATENCY * (steps - 2.0).max(0.0))),
            true => {
                // Long rings become trees: the number of hops grows with the logarithm.
                let hops = 1.0 + nodes.log2();
                (own.min(of_node), self.get(ConstantName::LinkLatency) + self.get(ConstantName::NetworkLatency) * hops)
            }
        };
        latency + share * bytes as f64 / rate
    }

    /// Measured over modelled time, of the measured curve that is nearest to the group, at these bytes.
    fn measured_ratio(&self, operation: Collective, group: ExchangeGroup, bytes: u64) -> Option<f64> {
        let of = |is_wanted: &dyn Fn(Collective) -> bool| -> Vec<&TransferTime> {
            let measured = self.profile.transfers.iter().filter(|transfer| transfer.ranks > 1);
            measured.filter(|transfer| is_wanted(transfer.operation)).collect()
        };
        // Other ways to send only where nobody measured this one: a broadcast of two ranks may take half the time of a send.
        let own = of(&|measured| measured == operation);
        let all = if own.is_empty() { of(&|measured| serves(measured, operation)) } else { own };
        let far = |transfer: &TransferTime| {
            let apart = |a: u32, b: u32| (f64::from(a.max(1)) / f64::from(b.max(1))).ln().abs();
            apart(transfer.ranks, group.ranks)
                + apart(transfer.groups, group.groups)
                + 2.0 * apart(transfer.ranks.div_ceil(transfer.ranks_per_node), group.nodes())
        };
        let nearest = all.iter().map(|transfer| far(transfer)).min_by(f64::total_cmp)?;
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for transfer in all.iter().filter(|transfer| far(transfer) <= nearest + 1e-9) {
            let of = ExchangeGroup {
                ranks: transfer.ranks,
                per_node: transfer.ranks_per_node,
                groups: transfer.groups,
                node: group.node,
            };
            let modelled = self.modelled_exchange(transfer.operation, of, transfer.bytes);
            curve.push(((transfer.bytes as f64).max(1.0).ln(), (transfer.seconds / modelled).ln()));
        }
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(interpolated(&curve, (bytes as f64).max(1.0).ln()).exp())
    }
}

/// Whether the times of one operation tell those of another: between two ranks, sending is sending.
fn serves(measured: Collective, wanted: Collective) -> bool {
    let sends = |operation| matches!(operation, Collective::SendRecv | Collective::PingPong | Collective::Broadcast);
    measured == wanted || sends(measured) && sends(wanted)
}

/// The value on the line through the neighbours; beyond them, that of the nearest.
fn interpolated(curve: &[(f64, f64)], x: f64) -> f64 {
    match curve.iter().position(|point| point.0 >= x) {
        Some(0) => curve[0].1,
        None => curve.last().map_or(0.0, |point| point.1),
        Some(above) => {
            let ((low, from), (high, to)) = (curve[above - 1], curve[above]);
            if high > low { from + (x - low) / (high - low) * (to - from) } else { (from + to) / 2.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Constants;
    use crate::machines::machine;
    use crate::software::Software;

    #[test]
    fn a_group_knows_who_shares_the_links_of_its_node() {
        // 64 ranks, 8 a node. Tensor groups of 4 stay on a node.
        let tensor = ExchangeGroup::strided(4, 1, 8, 64);
        assert_eq!((tensor.per_node, tensor.groups, tensor.nodes()), (4, 2, 1));
        // Replicas of such groups: two members a node, four groups share it.
        let data = ExchangeGroup::strided(16, 4, 8, 64);
        assert_eq!((data.per_node, data.groups, data.nodes()), (2, 4, 8));
        // Stages on different nodes: all eight ranks of a node send at once.
        let link = ExchangeGroup::of_stages(Mesh { data: 4, tensor: 4, pipeline: 4 }, 0, 1, 8);
        assert_eq!((link.per_node, link.groups, link.nodes()), (1, 8, 2));
        assert_eq!(ExchangeGroup::strided(2, 1, 8, 2).nodes(), 1);
    }

    #[test]
    fn groups_are_on_two_nodes_where_any_of_them_crosses_the_end_of_one() {
        for (tensor, data, pipeline) in [(3, 8, 1), (6, 4, 1), (2, 3, 4), (4, 6, 1), (3, 2, 4), (1, 6, 4), (2, 2, 6)] {
            let all = tensor * data * pipeline;
            for node in [2, 3, 4, 6, 8, 12, all, 2 * all] {
                for (ranks, stride) in [(tensor, 1), (data, tensor)] {
                    let crosses = (0..all).any(|first| {
                        let (last, at) = (first + (ranks - 1) * stride, first % (ranks * stride));
                        at < stride && first / node != last / node
                    });
                    let group = ExchangeGroup::strided(ranks, stride, node, all);
                    let place = format!("{ranks} ranks at {stride} of {all} on nodes of {node}");
                    assert_eq!(ranks > 1 && group.nodes() > 1, crosses, "{place}");
                }
            }
        }
    }

    #[test]
    fn stages_are_on_two_nodes_where_any_pair_of_their_ranks_is() {
        for (data, tensor, pipeline) in [(1, 1, 8), (1, 2, 6), (3, 1, 4), (2, 2, 3), (1, 5, 2), (8, 1, 3)] {
            let mesh = Mesh { data, tensor, pipeline };
            for node in 1..=mesh.ranks() + 1 {
                for (one, other) in (0..pipeline).flat_map(|one| (0..pipeline).map(move |other| (one, other))) {
                    let rank = |stage: usize, at: usize| stage * data * tensor + at;
                    let crosses = (0..data * tensor).any(|at| rank(one, at) / node != rank(other, at) / node);
                    let group = ExchangeGroup::of_stages(mesh, one, other, node);
                    assert!(one == other || (group.nodes() > 1) == crosses, "{mesh}, {node}: {one} and {other}");
                }
            }
        }
        // The ends of a pipeline that is on one node, and a link of a longer one.
        let ends = ExchangeGroup::of_stages(Mesh { data: 1, tensor: 1, pipeline: 4 }, 0, 3, 4);
        assert_eq!((ends.per_node, ends.groups, ends.nodes()), (2, 2, 1));
        let long = Mesh { data: 1, tensor: 4, pipeline: 16 };
        let links = (0..15).map(|stage| ExchangeGroup::of_stages(long, stage, stage + 1, 8));
        assert_eq!(links.filter(|link| link.nodes() > 1).count(), 7);
    }

    #[test]
    fn measured_times_are_met_and_carried_to_other_numbers_of_ranks() {
        let mut profile = machine("a100-nvlink").unwrap().profile();
        let group = ExchangeGroup { ranks: 2, per_node: 2, groups: 1, node: 8 };
        let time = |profile: &record::MachineProfile, group, bytes| {
            let costs = Costs::new(profile, Constants::of(profile), Software::Rankmark, 8);
            costs.exchange(Collective::AllReduce, group, bytes)
        };
        let (small, large) = (time(&profile, group, 1 << 20), time(&profile, group, 1 << 24));
        for (bytes, seconds) in [(1 << 20, 2.0 * small), (1 << 24, 3.0 * large)] {
            profile.transfers.push(TransferTime {
                operation: Collective::AllReduce,
                backend: "nccl".to_owned(),
                ranks: 2,
                ranks_per_node: 2,
                groups: 1,
                bytes,
                seconds,
                spread: 0.0,
            });
        }
        assert!((time(&profile, group, 1 << 24) / large - 3.0).abs() < 1e-9);
        let four = ExchangeGroup { ranks: 4, per_node: 4, ..group };
        let plain = machine("a100-nvlink").unwrap().profile();
        assert!((time(&profile, four, 1 << 20) / time(&plain, four, 1 << 20) - 2.0).abs() < 1e-9);
        assert_eq!(time(&profile, ExchangeGroup { ranks: 1, ..group }, 1 << 20), 0.0);
    }

    #[test]
    fn a_send_takes_the_time_of_sends_where_they_were_measured() {
        let mut profile = machine("a100-nvlink").unwrap().profile();
        let group = ExchangeGroup { ranks: 2, per_node: 2, groups: 1, node: 2 };
        let mut add = |operation, seconds| {
            profile.transfers.push(TransferTime {
                operation,
                backend: "shm".to_owned(),
                ranks: 2,
                ranks_per_node: 2,
                groups: 1,
                bytes: 1 << 20,
                seconds,
                spread: 0.0,
            });
            let costs = Costs::new(&profile, Constants::of(&profile), Software::Rankmark, 2);
            costs.exchange(Collective::SendRecv, group, 1 << 20)
        };
        assert!(
            (add(Collective::Broadcast, 1e-3) / 1e-3 - 1.0).abs() < 1e-9,
            "sending is sending, where nothing else is known"
        );
        assert!((add(Collective::SendRecv, 3e-3) / 3e-3 - 1.0).abs() < 1e-9);
    }
}
