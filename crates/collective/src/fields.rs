//! The fields of a collective case, declared once as a table and as a struct.

use terms::{
    BufferKind, Cache, Collective, Direction, Dtype, Field, Kind, Label, Mode, Named, Reduce, Registration, Role,
    Traffic,
};

use super::data::Data;
use super::groups::RankGroups;
use contract::fields::{ANY_BACKEND, CHAIN_MODE, COMPUTE_S, DEVICES, MOST_MODELLED, RANKS, SEED, groups, setting};

/// A parameter. Its name is that of its member.
const fn parameter(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc).always()
}

const fn extra(kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field::new(kind, default, doc)
}

/// Calls and steps that a trace may have: more than any has, and exact as a number.
const MOST_CALLS: u64 = 1 << 40;

/// What the trace of a job had of this collective: it changes nothing that is measured.
const fn traced(kind: Kind, doc: &'static str) -> Field {
    setting(kind, None, doc).group(groups::JOB)
}

record::fields! {
    /// What a case is. The order is that of the case line. Fields that mean nothing in an operation have their defaults.
    pub(super) struct Fields {
        op: Collective = parameter(Kind::Word(Collective::names), Some("all_reduce"), "the operation").common(),
        ranks: u32 = RANKS,
        backend: Option<String> = ANY_BACKEND,
        device: String = DEVICES,
        dtype: Dtype = parameter(Kind::Word(Dtype::names), Some("f32"), "element type").common(),
        reduce: Option<Reduce> = parameter(
            Kind::Word(Reduce::names),
            None,
            "reduction (default: sum)",
        )
        .common(),
        bytes: u64 = parameter(
            Kind::Bytes,
            Some("1MiB"),
            "message size (docs/explanation/bandwidth.md)",
        )
        .common(),
        in_place: Option<bool> = parameter(
            Kind::Bool,
            None,
            "output overwrites input (default: where possible)",
        )
        .label(Label::Switch("in place", "out of place")),
        buffers: Option<BufferKind> = parameter(
            Kind::Word(BufferKind::names),
            None,
            "registered: memory that peers can access",
        )
        .role(Role::Implementation)
        .label(Label::Around("{} buffers")),
        registration: Option<Registration> = extra(
            Kind::Word(Registration::names),
            None,
            "nccl: how buffers are registered (default: not at all)",
        )
        .role(Role::Implementation)
        .label(Label::Around("{} registration")),
        graph: Option<u32> = extra(Kind::Whole(1, 4096), None, "nccl: number of calls replayed as one CUDA graph")
            .role(Role::Implementation)
            .label(Label::Around("graph of {}")),
        aggregate: Option<u32> = extra(Kind::Whole(1, 4096), None, "nccl: number of calls launched as one group")
            .role(Role::Implementation)
            .label(Label::Around("{} in a group")),
        offset_bytes: Option<u64> = extra(Kind::Bytes, None, "offset of buffers from the start of their memory")
            .label(Label::Around("offset {}")),
        data: Data = extra(
            Kind::Word(Data::names),
            Some("exact"),
            "inputs: exact (small integers), or random floats",
        )
        .label(Label::Around("{} data")),
        reproducible: bool = extra(
            Kind::Bool,
            Some("false"),
            "compares all bits of results across ranks, calls, trials and cases (--data random)",
        )
        .label(Label::Quiet),
        cache: Option<Cache> = extra(
            Kind::Word(Cache::names),
            None,
            "cold: no call finds its buffers in a cache",
        ),
        cold_bytes: Option<u64> = setting(
            Kind::Bytes,
            None,
            "cold: minimum size of copies (twice the last-level caches)",
        ),
        touch: bool = parameter(Kind::Bool, Some("false"), "rewrites buffers before each call, untimed"),
        mode: Mode = CHAIN_MODE,
        compute_s: Option<f64> = COMPUTE_S,
        seed: u64 = SEED,
        root: u32 = extra(Kind::Whole(0, MOST_MODELLED as u64 - 1), Some("0"), "root rank of rooted operations")
            .label(Label::Around("root {}")),
        peer: u32 = extra(Kind::Whole(1, MOST_MODELLED as u64 - 1), Some("1"), "partner of rank 0 in ping_pong"),
        direction: Direction = extra(
            Kind::Word(Direction::names),
            Some("one_way"),
            "send_recv: one way or both ways round the ring",
        ),
        groups: Option<String> = extra(
            Kind::Text,
            None,
            "several communicators at once: `mod 8`, `div 8` (docs/how-to/groups.md)",
        )
        .label(Label::Around("groups {}")),
        alone: Option<u32> = extra(Kind::Whole(0, 1023), None, "runs only this group")
            .role(Role::Implementation)
            .label(Label::Around("group {} alone")),
        traffic: Traffic = extra(Kind::Word(Traffic::names), Some("uniform"), "counts of an all_to_allv"),
        traffic_file: Option<String> = extra(
            Kind::Text,
            None,
            "traffic=file: file of ranks x ranks weights",
        ),
        refine: Option<u32> = setting(
            Kind::Whole(3, 64),
            None,
            "maximum number of sizes; adds sizes where the time curve bends",
        ),
        trace_calls: Option<u64> = traced(Kind::Whole(1, MOST_CALLS), "calls of a rank"),
        trace_steps: Option<u64> =
            traced(Kind::Whole(1, MOST_CALLS), "steps that these calls belong to (default: the trace is one step)"),
        trace_s: Option<f64> = traced(Kind::Seconds, "time of a call without waiting for other ranks"),
        trace_waiting_s: Option<f64> = traced(Kind::Seconds, "time of a call with waiting"),
        trace_overlapped: Option<u64> =
            traced(Kind::Whole(0, MOST_CALLS), "how many of the calls ran while another call ran"),
    }
}

impl Fields {
    /// How many ranks make one call: those of a group, where they are in groups.
    pub(super) fn ranks_of_a_call(&self) -> u32 {
        RankGroups::of_fields(self).ok().flatten().map_or(self.ranks, |groups| groups.size())
    }
}
