//! Predictions against what follows from formulas, and against tables of others.

mod emulated;
mod formulas;
mod tables;

use parallel::{Mesh, Recipe};
use terms::Dtype;

use crate::Workload;

/// A small step of two replicas, parts or stages.
pub(crate) fn workload(mesh: Mesh) -> Workload {
    let model = model::model("gpt2-mini", &[]).unwrap();
    let recipe = Recipe {
        micro_batch: 2,
        micro_batches: vec![4; mesh.data],
        bucket_bytes: 1 << 20,
        ..Recipe::plain(model, mesh, Dtype::F32)
    };
    Workload::new(recipe, 8)
}

fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 1e-6, "{found} is not {wanted}");
}
