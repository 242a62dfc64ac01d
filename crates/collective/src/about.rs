//! What the benchmark declares: its entry, metrics, and which combinations of fields make sense.

use comm::blocks;
use contract::fields::{Execution, MOST_STARTED, Sampling, Supports, World, problem};
use contract::runtime::{self, Native, is_on_gpus, is_pytorch};
use record::{About, Case, Caveat, Command, Sweep, WriteFields as _};
use terms::{BufferKind, Cache, Collective, FieldError, Reduce};

use super::data::Data;
use super::declared::METRICS;
use super::fields::Fields;
use super::pattern::Pattern;
use super::{copies, groups, launches, reproducible, torch, uneven};

/// The table entry.
pub(super) static ABOUT: About = About {
    name: "collective",
    doc: "one collective operation: time and bandwidth",
    fields: &[Fields::fields, torch::Fields::fields, Execution::fields, World::fields, comm::fields, Sampling::fields],
    metrics: METRICS,
    check,
    command: Some(Command {
        name: "comm",
        doc: "Measures one collective operation, or several: time, bandwidth, share of this machine's limit",
        argument: "op",
        examples: &[
            ("all_reduce", "1 KiB to 64 MiB"),
            ("all_reduce --ranks 2,4 --bytes 1MiB,16MiB", "every combination"),
            ("all_reduce,all_gather --backend shm,mpi", "compares backends"),
            ("barrier --quick", "a first look"),
        ],
        notes: "Options of nccl-tests are taken, too: -b 8 -e 128M -f 2 (sizes; 128M is 128 MiB), -n (iters), -w (warmup), \
                -g (ranks), -o (reduce), -d (dtype), -r (root); and -m MIN:MAX of the OSU benchmarks. -n without any other \
                of them is mpirun's: the number of ranks.",
        // From latency to bandwidth.
        sweep: Some(Sweep { field: "bytes", values: "1KiB..64MiB*4", unless: ("op", "barrier") }),
    }),
    show: super::show::show,
};

/// Which parameters mean something in which operation.
fn concerns(op: Collective, field: &str) -> bool {
    match field {
        "dtype" | "bytes" | "buffers" | "touch" | "in_place" | "cache" | "data" | "reproducible" => {
            op != Collective::Barrier
        }
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

/// Whether the operation of this name runs in place and out of place.
pub(super) fn works_both_ways(op: &str) -> bool {
    op.parse().is_ok_and(has_in_place_form)
}

fn check(case: &mut Case) -> Result<(), FieldError> {
    let op = Fields::of(case)?.op;
    case.parameters.retain(|name, _| concerns(op, name));
    runtime::resolve(case, &torch::names(), Native::GpusThroughHost)?;
    let given = Fields::of(case)?;
    let mut fields = given.clone();
    fill_absent(&mut fields, case);
    torch::resolve(case)?;
    groups::resolve(&mut fields, is_pytorch(case))?;
    fields.compute_s = contract::fields::chain_compute(fields.mode, fields.compute_s)?;
    check_ranks(&fields)?;
    check_in_place(&fields)?;
    check_traced(&fields)?;
    reproducible::check(&fields)?;
    let models = fields.groups.is_none() && !fields.reproducible;
    contract::fields::check(case, &ABOUT, Supports { models, ..Supports::default() })?;
    uneven::resolve(case, &fields)?;
    copies::resolve(&mut fields, case)?;
    if op != Collective::Barrier {
        round_size(&mut fields, case);
    }
    fields.write(&given, case);
    copies::check(case, &fields)?;
    runtime::check(case, &torch::names(), Native::GpusThroughHost)?;
    torch::check(case, &fields)?;
    check_on_gpus(case, &fields)?;
    check_library(case, &fields);
    launches::check(case, &fields)?;
    if op != Collective::Barrier && fields.data == Data::Exact {
        check_exactness(&fields)?;
    }
    contract::fields::reorder(case, &ABOUT);
    Ok(())
}

/// Values that depend on the operation, where the user gave none.
fn fill_absent(fields: &mut Fields, case: &Case) {
    let (op, by_torch) = (fields.op, is_pytorch(case));
    if op.reduces() {
        fields.reduce.get_or_insert(Reduce::Sum);
    }
    if op == Collective::Barrier {
        return;
    }
    fields.buffers.get_or_insert(if by_torch { BufferKind::Private } else { BufferKind::Registered });
    // NCCL sends from and receives into one buffer in no order.
    let apart = fields.aggregate.is_some() || op == Collective::AllToAll && is_on_gpus(case);
    let in_place = if by_torch { torch::works_in_place(op) } else { has_in_place_form(op) && !apart };
    fields.in_place.get_or_insert(in_place);
}

/// Refuses what native ranks cannot do on GPUs.
fn check_on_gpus(case: &Case, fields: &Fields) -> Result<(), FieldError> {
    if is_on_gpus(case) && !is_pytorch(case) && fields.cache == Some(Cache::Cold) {
        let message = "`cache: cold` is for host memory";
        return Err(problem("cache", message, "on GPUs, use `bytes` larger than the second-level cache"));
    }
    Ok(())
}

/// Skips what a library does not do, or not exactly, in both runtimes.
fn check_library(case: &mut Case, fields: &Fields) {
    let call = comm::CallForm {
        op: fields.op,
        ranks: fields.ranks_of_a_call(),
        is_exact_mean: fields.reduce == Some(Reduce::Avg) && fields.dtype.is_float() && fields.data == Data::Exact,
        in_place: !is_pytorch(case) && fields.in_place == Some(true),
    };
    let refused = fields.backend.as_deref().and_then(comm::backend).and_then(|backend| backend.refuses(call));
    if refused.is_some() {
        case.skip = refused;
    }
}

fn check_ranks(fields: &Fields) -> Result<(), FieldError> {
    let Fields { op, root, peer, .. } = *fields;
    let ranks = fields.ranks_of_a_call();
    if op == Collective::AllToAllV && ranks > MOST_STARTED {
        let message = format!("all_to_allv needs a count for each pair of ranks: {ranks} ranks are too many");
        return Err(problem("ranks", message, format!("use at most {MOST_STARTED} ranks, or all_to_all")));
    }
    if op.has_root() && root >= ranks {
        return Err(problem("root", format!("there is no rank {root} among {ranks}"), "ranks count from 0"));
    }
    if op == Collective::PingPong {
        if ranks < 2 {
            return Err(problem("ranks", "ping_pong needs two ranks", "for example `ranks: 2`"));
        }
        if peer >= ranks {
            return Err(problem("peer", format!("there is no rank {peer} among {ranks}"), "ranks count from 0"));
        }
    }
    Ok(())
}

fn check_in_place(fields: &Fields) -> Result<(), FieldError> {
    let op = fields.op;
    if fields.in_place == Some(true) && !has_in_place_form(op) {
        return Err(problem(
            "in_place",
            format!("{op} has no in-place form"),
            "set `in_place: false`, or leave it out",
        ));
    }
    Ok(())
}

/// What a trace had belongs to calls.
fn check_traced(fields: &Fields) -> Result<(), FieldError> {
    let given = [
        ("trace_steps", fields.trace_steps.is_some()),
        ("trace_s", fields.trace_s.is_some()),
        ("trace_waiting_s", fields.trace_waiting_s.is_some()),
        ("trace_overlapped", fields.trace_overlapped.is_some()),
    ];
    let Some(calls) = fields.trace_calls else {
        let Some((name, _)) = given.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
        return Err(problem(name, format!("`{name}` describes calls in the trace of a job"), "add `trace_calls`"));
    };
    if fields.trace_overlapped.is_some_and(|overlapped| overlapped > calls) {
        let message = format!("more calls overlap than the {calls} calls of the trace");
        return Err(problem("trace_overlapped", message, "give at most as many as `trace_calls`"));
    }
    Ok(())
}

/// Sizes that do not divide round down, visibly; zero elements are skipped.
fn round_size(fields: &mut Fields, case: &mut Case) {
    let Fields { op, bytes: requested, direction, .. } = *fields;
    let ranks = fields.ranks_of_a_call();
    let element = fields.dtype.bytes();
    let blocks = blocks(op, direction, ranks);
    case.bytes_requested = Some(requested);
    fields.bytes = match op {
        Collective::AllToAllV => {
            uneven::of_case(case, fields).ok().flatten().map_or(0, |counts| counts.widest() * element)
        }
        _ => requested / element / blocks * blocks * element,
    };
    if fields.bytes != requested {
        case.caveats.push(Caveat::SizeRounded);
    }
    if fields.bytes == 0 {
        case.skip = Some(format!("{requested} bytes are too few for one element on each of {ranks} ranks"));
    }
}

fn check_exactness(fields: &Fields) -> Result<(), FieldError> {
    let Fields { op, dtype, .. } = *fields;
    let ranks = fields.ranks_of_a_call();
    let reduce = fields.reduce.unwrap_or(Reduce::Sum);
    if op.reduces() && !dtype.reduces() {
        return Err(problem(
            "dtype",
            format!("{op} does not support {dtype}: sums of fp8 are not exact here"),
            "use a type that can be reduced, for example bf16; all_gather, broadcast and other moves support fp8",
        ));
    }
    match Pattern::new(op, dtype, reduce, ranks, fields.in_place.unwrap_or(false), 1) {
        Some(_) => Ok(()),
        None => Err(problem(
            "dtype",
            format!("{reduce} of {dtype} over {ranks} ranks has no exact result to check against"),
            "use a wider type, for example f32",
        )),
    }
}
