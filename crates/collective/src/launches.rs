//! Fields of how operations are launched and how the library knows their buffers: what only native ranks on GPUs have, and what
//! excludes what.

use contract::fields::{Sampling, problem};
use contract::runtime::{is_on_gpus, is_pytorch};
use record::Case;
use terms::{BufferKind, Collective, FieldError, Reduce, Registration};

use super::data::InputSource;
use super::fields::Fields;

/// Refuses what cannot be. After the operation's own fields are settled.
pub(super) fn check(case: &Case, fields: &Fields) -> Result<(), FieldError> {
    check_offset(case, fields)?;
    let together = [("graph", fields.graph), ("aggregate", fields.aggregate)];
    let given = together.iter().find_map(|(name, count)| Some((*name, (*count)?)));
    let name = given.map(|(name, _)| name).or(fields.registration.map(|_| "registration"));
    let Some(name) = name else { return Ok(()) };
    let backend = fields.backend.as_deref().and_then(comm::backend);
    if is_pytorch(case) || !is_on_gpus(case) || !backend.is_some_and(|backend| backend.records_launches()) {
        let able = comm::backends().filter(|backend| backend.records_launches());
        let able = able.map(|backend| format!("`{}`", backend.about().name)).collect::<Vec<_>>().join(" or ");
        let message = format!("`{name}` is for native ranks on GPUs, with backend {able}");
        return Err(problem(name, message, format!("use backend {able} without `python`")));
    }
    check_registration(fields)?;
    let Some((name, count)) = given else { return Ok(()) };
    if fields.graph.is_some() && fields.aggregate.is_some() {
        return Err(problem("aggregate", "`graph` and `aggregate` exclude each other", "give one of the two"));
    }
    if fields.mode.is_single() {
        let message = format!("`mode: {}` times each call, but `{name}` launches {count} at once", fields.mode);
        return Err(problem("mode", message, "`mode: streaming`"));
    }
    if fields.touch {
        let message = format!("`touch` rewrites buffers before each call, but `{name}` launches {count} at once");
        return Err(problem("touch", message, "leave one of the two out"));
    }
    if !Sampling::of(case)?.inject.is_empty() {
        let message = format!("faults are injected into single calls, but `{name}` launches {count} at once");
        return Err(problem("inject", message, "leave one of the two out"));
    }
    if fields.op == Collective::Barrier {
        return Err(problem(name, "a barrier between calls has no data to check", "use another operation"));
    }
    if fields.aggregate.is_some() {
        return check_group(fields);
    }
    check_sums(fields, count)
}

fn check_offset(case: &Case, fields: &Fields) -> Result<(), FieldError> {
    if fields.offset_bytes.is_some() && is_pytorch(case) {
        let message = "`offset_bytes` is for runtime `native`: torch's tensors begin where torch puts them";
        return Err(problem("offset_bytes", message, "leave it out for `pytorch`"));
    }
    let (offset, element) = (fields.offset_bytes.unwrap_or(0), fields.dtype.bytes());
    if offset.is_multiple_of(element) && offset <= 1 << 30 {
        return Ok(());
    }
    let message = format!("an offset of {offset} bytes is not a multiple of the element size, {element} bytes");
    Err(problem("offset_bytes", message, "use a multiple of the element size, at most 1GiB"))
}

fn check_registration(fields: &Fields) -> Result<(), FieldError> {
    let is_window = fields.registration == Some(Registration::Window);
    if is_window && fields.buffers == Some(BufferKind::Private) {
        let message = "a window needs memory that the library allocated";
        return Err(problem("registration", message, "`buffers: registered`"));
    }
    Ok(())
}

/// Operations of a group run in any order: none may read what another writes.
fn check_group(fields: &Fields) -> Result<(), FieldError> {
    if fields.in_place == Some(true) {
        let message = "operations of a group run in any order: in place, each would read what another writes";
        return Err(problem("aggregate", message, "`in_place: false`"));
    }
    if fields.op == Collective::PingPong {
        let message = "operations of a group run in any order: a message would not wait for its answer";
        return Err(problem("aggregate", message, "`op: send_recv`"));
    }
    Ok(())
}

/// A graph runs to its end between two checks.
fn check_sums(fields: &Fields, count: u32) -> Result<(), FieldError> {
    let (ranks, in_place) = (fields.ranks_of_a_call(), fields.in_place.unwrap_or(false));
    let reduce = fields.reduce.unwrap_or(Reduce::Sum);
    let source = InputSource::new(fields.data, (fields.op, reduce), fields.dtype, ranks, in_place, 1);
    let exact = source.map_or(1, |source| source.max_calls());
    if u64::from(count) <= exact {
        return Ok(());
    }
    let message = format!(
        "{reduce} of {} in place stays exact for {exact} calls in a row, but the graph makes {count}",
        fields.dtype
    );
    Err(problem("graph", message, format!("`graph: {exact}`, or `in_place: false`")))
}
