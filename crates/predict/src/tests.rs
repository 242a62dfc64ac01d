//! Predictions against what follows from formulas, and against tables of others.

mod emulated;
mod formulas;
mod tables;

use engine::Matmul;
use parallel::{Mesh, Optimizer, Recipe, Schedule};
use terms::Dtype;

use crate::Workload;

/// A small step of two replicas, parts or stages.
pub(crate) fn workload(mesh: Mesh) -> Workload {
    let model = model::model("gpt2-mini", &[]).unwrap();
    let recipe = Recipe {
        model,
        mesh,
        precision: Dtype::F32,
        matmul: Matmul::Auto,
        micro_batch: 2,
        micro_batches: vec![4; mesh.data],
        schedule: Schedule::OneForwardOneBackward,
        chunks: 1,
        stages: Vec::new(),
        sharded: 0,
        bucket_bytes: 1 << 20,
        overlap: true,
        sequence_parallel: false,
        recompute: false,
        synchronised: false,
        optimizer: Optimizer::AdamW { rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01 },
        clip: None,
        seed: 1,
        logits_multiple: 1,
        communicate: true,
    };
    Workload::new(recipe, 8)
}
