//! What the benchmark declares: fields, metrics, and which combinations make sense.

use comm::blocks;
use record::{About, Better, Case, Caveat, Field, Kind, Metric, Problem, Shown};
use serde_json::Value;
use terms::{BufferKind, Cache, Collective, Direction, Dtype, Named, Reduce, Traffic};

use super::pattern::Pattern;
use super::{copies, torch, uneven};
use crate::fields::{ANY_BACKEND, DEVICE, MODE, RANKS, RUNTIME, SAMPLING, SEED, WORLD, how};
use crate::runtime;
use crate::runtime::is_pytorch;

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "collective",
    doc: "one collective operation: time and bandwidth",
    fields: &[FIELDS, torch::FIELDS, RUNTIME, WORLD, SAMPLING],
    metrics: METRICS,
    check,
};

const fn parameter(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { name, kind, default, unit: "", doc, shown: Shown::Always, world: false, how: false }
}

const fn extra(name: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Field {
    Field { shown: Shown::WhenSet, ..parameter(name, kind, default, doc) }
}

// The order is that of the case line.
const FIELDS: &[Field] = &[
    parameter("op", Kind::Word(Collective::names), Some("all_reduce"), "the operation"),
    RANKS,
    ANY_BACKEND,
    DEVICE,
    parameter("dtype", Kind::Word(Dtype::names), Some("f32"), "the element type"),
    parameter("reduce", Kind::Word(Reduce::names), None, "the reduction operator (sum), where the operation reduces"),
    parameter(
        "bytes",
        Kind::Bytes,
        Some("1MiB"),
        "S: bytes per rank, or of all ranks' blocks together (docs/method.md)",
    ),
    parameter("in_place", Kind::Bool, None, "output over input; the default where the operation has such a form"),
    how(parameter(
        "buffers",
        Kind::Word(BufferKind::names),
        None,
        "registered: memory that peers reach (the default); private: ordinary memory (PyTorch's)",
    )),
    extra(
        "cache",
        Kind::Word(Cache::names),
        None,
        "warm: all calls use the same buffers (the default); cold: calls rotate through copies that no cache holds",
    ),
    Field {
        shown: Shown::Setting,
        ..parameter(
            copies::COLD_BYTES,
            Kind::Bytes,
            None,
            "for cache=cold: bytes that the copies of all ranks exceed together (twice the last-level caches)",
        )
    },
    parameter("touch", Kind::Bool, Some("false"), "rewrite the buffers before each call, outside its time"),
    MODE,
    SEED,
    extra("root", Kind::Whole(0, 1023), Some("0"), "the root, for rooted operations"),
    extra("peer", Kind::Whole(1, 1023), Some("1"), "the partner of rank 0, for ping_pong"),
    extra(
        "direction",
        Kind::Word(Direction::names),
        Some("one_way"),
        "for send_recv: one way or both ways round the ring",
    ),
    extra("traffic", Kind::Word(Traffic::names), Some("uniform"), "for all_to_allv: how counts are drawn"),
    extra("traffic_file", Kind::Text, None, "for all_to_allv with traffic=file: ranks x ranks weights"),
];

static METRICS: &[Metric] = &[
    Metric { name: "algbw_gbs", unit: "GB/s", better: Better::Higher, doc: "S / time" },
    Metric { name: "busbw_gbs", unit: "GB/s", better: Better::Higher, doc: "algbw x the operation's bus factor" },
    Metric {
        name: "limit_share",
        unit: "",
        better: Better::Higher,
        doc: "time of the bare memory traffic / time, at the same working set, ranks and cores",
    },
];

/// Which parameters mean something in which operation.
fn concerns(op: Collective, field: &str) -> bool {
    match field {
        "dtype" | "bytes" | "buffers" | "touch" | "in_place" | "cache" => op != Collective::Barrier,
        "reduce" => op.reduces(),
        "root" => op.has_root(),
        "peer" => op == Collective::PingPong,
        "direction" => op == Collective::SendRecv,
        "traffic" | "traffic_file" | "traffic_sha256" => op == Collective::AllToAllV,
        _ => true,
    }
}

fn has_in_place_form(op: Collective) -> bool {
    !matches!(op, Collective::AllToAllV | Collective::SendRecv | Collective::PingPong | Collective::Barrier)
}

fn problem(field: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem { field, message: message.into(), hint: Some(hint.into()) }
}

fn check(case: &mut Case) -> Result<(), Problem> {
    let op: Collective =
        case.word("op").ok_or_else(|| problem("op", "no operation is given", "for example `op: all_reduce`"))?;
    case.parameters.retain(|name, _| concerns(op, name));
    runtime::resolve(case, &torch::fields())?;
    fill_absent(case, op);
    torch::resolve(case)?;
    check_ranks(case, op)?;
    check_in_place(case, op)?;
    crate::fields::check(case, &ABOUT)?;
    uneven::resolve(case)?;
    copies::resolve(case, op)?;
    round_size(case, op);
    copies::check(case)?;
    runtime::check(case, &torch::fields())?;
    torch::check(case, op);
    if op != Collective::Barrier {
        check_exactness(case, op)?;
    }
    crate::fields::reorder(case, &ABOUT);
    Ok(())
}

/// Values that depend on the operation, where the user gave none.
fn fill_absent(case: &mut Case, op: Collective) {
    let by_torch = is_pytorch(case);
    let mut put = |name: &str, value: Value| {
        if concerns(op, name) && !case.parameters.contains_key(name) {
            case.parameters.insert(name.to_owned(), value);
        }
    };
    put("reduce", Value::from(Reduce::Sum.name()));
    put("buffers", Value::from(if by_torch { BufferKind::Private } else { BufferKind::Registered }.name()));
    put("in_place", Value::from(if by_torch { torch::works_in_place(op) } else { has_in_place_form(op) }));
}

fn check_ranks(case: &Case, op: Collective) -> Result<(), Problem> {
    let ranks = u64::from(case.ranks());
    if let Some(root) = case.whole("root").filter(|root| *root >= ranks) {
        return Err(problem("root", format!("there is no rank {root} among {ranks}"), "ranks count from 0"));
    }
    if op == Collective::PingPong {
        if ranks < 2 {
            return Err(problem("ranks", "ping_pong needs two ranks", "for example `ranks: 2`"));
        }
        if let Some(peer) = case.whole("peer").filter(|peer| *peer >= ranks) {
            return Err(problem("peer", format!("there is no rank {peer} among {ranks}"), "ranks count from 0"));
        }
    }
    Ok(())
}

fn check_in_place(case: &Case, op: Collective) -> Result<(), Problem> {
    if case.flag("in_place") && !has_in_place_form(op) {
        return Err(problem("in_place", format!("{op} has no in-place form"), "leave `in_place` out, or give false"));
    }
    Ok(())
}

/// Sizes that do not divide round down, visibly; zero elements are skipped.
fn round_size(case: &mut Case, op: Collective) {
    let Some(requested) = case.whole("bytes") else { return };
    let element = case.word::<Dtype>("dtype").map_or(1, Dtype::bytes);
    let direction = case.word("direction").unwrap_or(Direction::OneWay);
    let blocks = blocks(op, direction, case.ranks());
    case.bytes_requested = Some(requested);
    let used = match op {
        Collective::AllToAllV => uneven::of_case(case).ok().flatten().map_or(0, |counts| counts.widest() * element),
        _ => requested / element / blocks * blocks * element,
    };
    if used != requested {
        case.parameters.insert("bytes".to_owned(), Value::from(used));
        case.caveats.push(Caveat::SizeRounded);
    }
    if used == 0 {
        let ranks = case.ranks();
        case.skip = Some(format!("{requested} bytes hold no whole element for each of {ranks} ranks: nothing to do"));
    }
}

fn check_exactness(case: &Case, op: Collective) -> Result<(), Problem> {
    let Some(dtype) = case.word("dtype") else { return Ok(()) };
    let reduce = case.word("reduce").unwrap_or(Reduce::Sum);
    match Pattern::new(op, dtype, reduce, case.ranks(), case.flag("in_place"), 1) {
        Some(_) => Ok(()),
        None => Err(problem(
            "dtype",
            format!("{reduce} of {dtype} over {} ranks has no exact result to check against", case.ranks()),
            "a wider type, for example f32",
        )),
    }
}
