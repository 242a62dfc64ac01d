//! What stages exchange: which of it crosses nodes, and how much of it there is.

use super::*;
use crate::machines::machine;
use crate::tests::workload;
use crate::{Constants, Software, Workload};

/// The times of a workload on a machine whose exchanges take the time of their bytes alone, and far more of it between nodes.
fn slow_network_times(workload: &Workload) -> Times {
    let mut profile = machine("a100-nvlink").unwrap().profile();
    for constant in &mut profile.constants {
        match constant.name {
            ConstantName::NetworkRate => constant.value = 1e6,
            ConstantName::LinkLatency | ConstantName::NetworkLatency => constant.value = 1e-15,
            _ => {}
        }
    }
    let costs = Costs::new(&profile, Constants::of(&profile), Software::Rankmark, 8);
    Times::new(&workload.step().unwrap(), &costs)
}

/// Whether each link of a pipeline crosses nodes of so many ranks, and whether both ends of it do.
fn crossings(mesh: Mesh, node: usize) -> (Vec<bool>, bool) {
    let times = slow_network_times(&Workload { ranks_per_node: node, ..workload(mesh) });
    let is_slow = |seconds: f64| seconds > 1e-3;
    (times.links.iter().map(|seconds| is_slow(*seconds)).collect(), is_slow(times.ends))
}

#[test]
fn both_ends_of_a_pipeline_on_one_node_exchange_within_it() {
    for (pipeline, node) in [(3, 3), (4, 4), (4, 8), (6, 8)] {
        let mesh = Mesh { data: 1, tensor: 1, pipeline };
        assert_eq!(crossings(mesh, node), (vec![false; pipeline], false), "{mesh} on nodes of {node}");
    }
    let (_, ends) = crossings(Mesh { data: 1, tensor: 1, pipeline: 4 }, 2);
    assert!(ends, "they are on two nodes");
}

#[test]
fn each_link_of_a_pipeline_crosses_nodes_where_its_own_ranks_do() {
    // Two stages on each node: the last link joins the last stage and the first.
    let every_second = vec![false, true, false, true, false, true];
    assert_eq!(crossings(Mesh { data: 1, tensor: 2, pipeline: 6 }, 4), (every_second, true));
    // The third node has the last stage only.
    assert_eq!(crossings(Mesh { data: 1, tensor: 1, pipeline: 5 }, 2).0, [false, true, false, true, true]);
    // Of three pairs, one is on one node.
    assert_eq!(crossings(Mesh { data: 3, tensor: 1, pipeline: 2 }, 4), (vec![true; 2], true));
}

#[test]
fn stages_sum_their_own_shard_alone_of_what_they_share() {
    let ends = |sharded: u8| {
        let mut sharing = workload(Mesh { data: 2, tensor: 1, pipeline: 2 });
        sharing.recipe.sharded = sharded;
        slow_network_times(&sharing).ends
    };
    for (sharded, share) in [(1, 1.0), (2, 0.5), (3, 0.5)] {
        let ratio = ends(sharded) / ends(0);
        assert!((ratio - share).abs() < 1e-6, "sharded {sharded}: {ratio} of the whole");
    }
}
