//! Meshes of several axes, sharded replicas beside them, and pipelines whose stages hold several chunks: in both orders of streams.

use parallel::{Mesh, Recipe, Schedule};
use terms::Dtype;

use super::{On, SGD, again, apart, gpt2, recipe, surrounded, train, variable};

/// Streams run ahead of what nobody waits for: tests/fakes/cuda.cpp. The driver reads it once.
const EAGER: &str = "FAKE_CUDA_EAGER";

/// Four micro-batches, shared out among replicas.
fn on(data: usize, tensor: usize, pipeline: usize) -> Recipe {
    let mesh = Mesh { data, tensor, pipeline };
    Recipe { mesh, micro_batches: vec![4 / data; data], optimizer: SGD, ..recipe(gpt2(), Dtype::F64) }
}

/// Trains as on the host within 1e-9, by late streams and, in a process of its own, by eager ones.
fn trains_as_on_the_host(test: &str, recipes: &[Recipe]) {
    if surrounded(test).is_none() {
        return;
    }
    for recipe in recipes {
        let (host, there) = (train(On::Host, recipe, 2), train(On::Gpus("nccl"), recipe, 2));
        let off = apart(&there, &host);
        let Recipe { mesh, sharded, schedule, .. } = recipe;
        assert!(off <= 1e-9, "{mesh}, sharded {sharded}, {schedule}: {off:e} apart");
    }
    if variable(EAGER).is_none() {
        again(&format!("meshes::{test}"), &[(EAGER, "1")]);
    }
}

/// Shards of replicas whose layers or stages are divided, too.
#[test]
fn sharded_replicas_of_divided_models() {
    let sharded = |sharded, recipe| Recipe { sharded, ..recipe };
    let all = [sharded(1, on(2, 1, 2)), sharded(2, on(2, 2, 1)), sharded(3, on(2, 1, 2)), sharded(3, on(2, 2, 1))];
    trains_as_on_the_host("sharded_replicas_of_divided_models", &all);
}

/// Two chunks of the model on each of two stages: the last stage sends to the first.
#[test]
fn interleaved_pipelines() {
    let interleaved = |recipe| Recipe { schedule: Schedule::Interleaved, chunks: 2, ..recipe };
    trains_as_on_the_host("interleaved_pipelines", &[interleaved(on(1, 1, 2)), interleaved(on(2, 1, 2))]);
}

/// Each two of the three axes.
#[test]
fn meshes_of_two_axes() {
    let sequence_parallel = Recipe { sequence_parallel: true, recompute: true, ..on(1, 2, 2) };
    let all = [on(2, 2, 1), on(2, 1, 2), on(1, 2, 2), sequence_parallel];
    trains_as_on_the_host("meshes_of_two_axes", &all);
}
