//! TransformerEngine's linear layer with overlapped communication, on GPUs. The ranks are PyTorch's:
//! `rankmark_worker/overlapped.py`.

use terms::{FieldError, Variant};

use crate::implementation::{Implementation, ORDER, fused_torch, gathers_first_or_scatters};
use crate::task::Options;
use crate::words::Primitive;

pub(super) const VARIANT: Variant = Variant {
    name: "transformer_engine",
    doc: "TransformerEngine's linear layer with its overlap (pytorch)",
    options: &[ORDER],
};

pub(super) const IMPLEMENTATION: Implementation = fused_torch(VARIANT.name, resolve_options);

fn resolve_options(primitive: Primitive, options: &mut Options) -> Result<(), FieldError> {
    gathers_first_or_scatters(VARIANT.name, primitive, options)
}
