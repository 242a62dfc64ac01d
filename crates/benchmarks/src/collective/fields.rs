//! The fields of a collective case, declared once as a table and as a struct.

use terms::{BufferKind, Cache, Collective, Direction, Dtype, Field, Kind, Label, Mode, Named, Reduce, Role, Traffic};

use crate::fields::{ANY_BACKEND, DEVICE, MODE, RANKS, SEED, setting};

/// A parameter. Its name is that of its member.
const fn parameter(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).always()
}

const fn extra(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc)
}

record::fields! {
    /// What a case is. The order is that of the case line. Fields that mean nothing in an operation have their defaults.
    pub(super) struct Fields {
        op: Collective = parameter(Kind::Word(Collective::names), Some("all_reduce"), "the operation"),
        ranks: u32 = RANKS,
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICE,
        dtype: Dtype = parameter(Kind::Word(Dtype::names), Some("f32"), "the element type"),
        reduce: Option<Reduce> = parameter(
            Kind::Word(Reduce::names),
            None,
            "the reduction operator (sum), where the operation reduces",
        ),
        bytes: u64 = parameter(
            Kind::Bytes,
            Some("1MiB"),
            "S: bytes per rank, or of all ranks' blocks together (docs/method.md)",
        ),
        in_place: Option<bool> = parameter(
            Kind::Bool,
            None,
            "output over input; the default where the operation has such a form",
        )
        .label(Label::Switch("in place", "out of place")),
        buffers: Option<BufferKind> = parameter(
            Kind::Word(BufferKind::names),
            None,
            "registered: memory that peers reach (the default); private: ordinary memory (PyTorch's)",
        )
        .role(Role::Implementation)
        .label(Label::Around("{} buffers")),
        cache: Option<Cache> = extra(
            Kind::Word(Cache::names),
            None,
            "warm: all calls use the same buffers (the default); cold: calls rotate through copies that no cache holds",
        ),
        cold_bytes: Option<u64> = setting(
            Kind::Bytes,
            None,
            "for cache=cold: bytes that the copies of all ranks exceed together (twice the last-level caches)",
        ),
        touch: bool = parameter(Kind::Bool, Some("false"), "rewrite the buffers before each call, outside its time"),
        mode: Mode = MODE,
        seed: u64 = SEED,
        root: u32 = extra(Kind::Whole(0, 1023), Some("0"), "the root, for rooted operations")
            .label(Label::Around("root {}")),
        peer: u32 = extra(Kind::Whole(1, 1023), Some("1"), "the partner of rank 0, for ping_pong"),
        direction: Direction = extra(
            Kind::Word(Direction::names),
            Some("one_way"),
            "for send_recv: one way or both ways round the ring",
        ),
        traffic: Traffic = extra(Kind::Word(Traffic::names), Some("uniform"), "for all_to_allv: how counts are drawn"),
        traffic_file: Option<String> = extra(
            Kind::Text,
            None,
            "for all_to_allv with traffic=file: ranks x ranks weights",
        ),
    }
}
