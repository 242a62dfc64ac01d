//! JAX's compiled product and collective: XLA chooses what overlaps. The ranks are PyTorch's, which load JAX in addition to
//! torch: `rankmark_worker/xla.py`.

use contract::fields::problem;
use terms::{FieldError, Variant};

use crate::implementation::{Implementation, ORDER, Runs, orders, settle_order};
use crate::task::Options;
use crate::words::Primitive;

pub(super) const VARIANT: Variant =
    Variant { name: "jax", doc: "JAX's compiled product and collective (pytorch)", options: &[ORDER] };

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { name: VARIANT.name, ways, resolve_options, task: |task, _| task, runs: Runs::Pytorch };

fn multiplies(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::TpColumnwise | Primitive::TpRowwise | Primitive::DpAllReduce)
}

fn ways(primitive: Primitive) -> Vec<&'static str> {
    if multiplies(primitive) { orders(primitive) } else { Vec::new() }
}

fn resolve_options(primitive: Primitive, options: &mut Options) -> Result<(), FieldError> {
    if !multiplies(primitive) {
        let message = format!("`jax` computes tp_columnwise, tp_rowwise and dp_all_reduce, not {primitive}");
        return Err(problem("implementation", message, "valid values: compute_only, communication_only, sequential"));
    }
    settle_order(primitive, options)
}
