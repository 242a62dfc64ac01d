//! The fields of a case, declared once as a table and as a struct.

use contract::fields::{
    ANY_BACKEND, CHAIN_MODE, COMPUTE_S, CUBLAS_LIBRARY, DEVICES, RANKS, SEED, THREADS, TUNED, groups,
};
use terms::{Dtype, Field, Kind, Label, Mode, Named, Role};

use super::words::{Drawn, Primitive, Products};
use super::{experts, implementations};

/// A parameter. Its name is that of its member.
const fn parameter(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).always().common()
}

/// A field of GPUs.
const fn of_gpus(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).group(groups::GPUS)
}

/// How f32 is multiplied.
pub const MATMUL: Field = of_gpus(Kind::Word(Products::names), Some("auto"), "tf32: rounds f32 on tensor cores");
const fn dimension(doc: &'static str) -> Field {
    parameter(Kind::Whole(1, 1 << 31), None, doc)
}

fn dtypes() -> Vec<&'static str> {
    [Dtype::F32, Dtype::F64, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8].map(Dtype::name).to_vec()
}

/// Which implementation, with its options.
pub(super) const IMPLEMENTATION: Field = parameter(
    Kind::Choice(implementations::VARIANTS),
    Some(implementations::ALL),
    "how ranks compute and communicate; all: each way of this runtime",
)
.role(Role::Implementation);

/// How tokens are spread over experts, with the options of each way.
pub(super) const TOKENS: Field =
    Field::new(Kind::Choice(experts::TOKENS), None, "ep_all_to_all: tokens of each expert (default: uniform)")
        .label(Label::Around("{} tokens"));

record::fields! {
    /// What a case is. The order is that of the case line.
    pub(super) struct PrimitiveFields {
        primitive: Primitive = parameter(Kind::Word(Primitive::names), Some("tp_columnwise"), "what is computed"),
        m: Option<u64> = dimension("rows, or tokens (default: 4096)"),
        n: Option<u64> = dimension("columns; cp_ring: heads (its default: 8)"),
        k: Option<u64> = dimension("depth, or width (default: 1024; cp_ring: 64)"),
        implementation: String = IMPLEMENTATION,
        experts: Option<u64> =
            Field::new(Kind::Whole(1, 2048), None, "ep_all_to_all: experts of all ranks (default: one a rank)")
                .label(Label::Around("{} experts")),
        top_k: Option<u64> =
            Field::new(Kind::Whole(1, 64), None, "ep_all_to_all: experts that each token goes to (default: 1)")
                .label(Label::Around("top {}")),
        tokens: Option<String> = TOKENS,
        tokens_file: Option<String> = Field::new(Kind::Text, None, "tokens=file: file of counts, one for each expert")
            .label(Label::Around("counts of {}")),
        dtype: Dtype = parameter(Kind::Word(dtypes), Some("f32"), "element type"),
        matmul: Products = MATMUL,
        tuned: bool = TUNED,
        data: Drawn = of_gpus(Kind::Word(Drawn::names), Some("exact"), "numbers of compute_only's operands"),
        cublas_library: Option<String> = CUBLAS_LIBRARY,
        ranks: u32 = RANKS,
        threads: Option<u32> = Field { doc: "threads that each rank computes with (default: 1)", ..THREADS },
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICES,
        mode: Mode = CHAIN_MODE,
        compute_s: Option<f64> = COMPUTE_S,
        seed: u64 = SEED,
    }
}
