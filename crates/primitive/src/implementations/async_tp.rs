//! torch's asynchronous tensor parallelism: a product fused with its collective, on GPUs with symmetric memory. The ranks
//! are PyTorch's: `rankmark_worker/overlapped.py`.

use terms::{FieldError, Variant};

use crate::implementation::{Implementation, ORDER, fused_torch, gathers_first_or_scatters};
use crate::task::Options;
use crate::words::Primitive;

pub(super) const VARIANT: Variant = Variant {
    name: "async_tp",
    doc: "torch's fused product and collective, on symmetric memory (pytorch)",
    options: &[ORDER],
};

pub(super) const IMPLEMENTATION: Implementation = fused_torch(VARIANT.name, resolve_options);

fn resolve_options(primitive: Primitive, options: &mut Options) -> Result<(), FieldError> {
    gathers_first_or_scatters(VARIANT.name, primitive, options)
}
