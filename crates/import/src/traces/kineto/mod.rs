//! Traces of PyTorch's profiler (Kineto JSON), of 2021 and later, read as a stream.

mod calls;
mod collect;
mod launches;
mod phases;
mod waits;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::Value;
use terms::Error;
use trace::timeline::{ONE_OF_SEVERAL, RankTimeline, Timeline};

use self::collect::Collected;
use super::events::{Header, scan};
use super::input::Input;
use super::scan::Stop;
use super::{Spans, TraceContent, TraceFormat};
use crate::counted::counted;

/// The format of PyTorch's profiler.
pub(super) const KINETO: TraceFormat = TraceFormat {
    name: "pytorch_profiler",
    doc: "PyTorch: the file that export_chrome_trace or tensorboard_trace_handler writes",
    recognises,
    read,
};

/// Keys that tell a trace of PyTorch's profiler apart in its first bytes.
const KEYS: &[&str] = &["\"traceEvents\"", "\"schemaVersion\"", "\"baseTimeNanoseconds\"", "\"deviceProperties\""];

/// Times later than this many nanoseconds after 1970 (in 2001) are times of a calendar.
const CALENDAR_NS: i64 = 1_000_000_000_000_000_000;

fn recognises(input: &Input) -> bool {
    input.first() == Some(b'{') && KEYS.iter().any(|key| input.head_holds(key))
}

fn read(input: &Input) -> Result<TraceContent, Error> {
    let (mut header, mut collected) = (Header::default(), Collected::default());
    let stop = scan(input.reader()?, &mut header, Some(&mut |event| collected.event(event)));
    let mut notes = Vec::new();
    if let Err(stop) = stop {
        if matches!(stop, Stop::Unreadable { .. }) {
            return Err(input.failed(stop));
        }
        if collected.is_empty() {
            return Err(Error::new(format!("{} holds no event that is whole", input.name())).cause(stop.to_string()));
        }
        notes.push(format!("{stop}; what stands before is used"));
    }
    if collected.is_empty() {
        return Err(Error::new(format!("{} holds no event of PyTorch's profiler", input.name()))
            .hint("traces of other programs cannot be read"));
    }
    timeline(input, &header, collected, notes).map(|spans| TraceContent::Spans(Box::new(spans)))
}

/// What `distributedInfo` says.
#[derive(Default)]
struct DistributedJob {
    rank: Option<u32>,
    world: Option<u32>,
    /// Name and ranks of the communicator, where there is only one.
    only_group: Option<(String, Option<u32>)>,
    /// Whether the rank is in several communicators, of which one is a part of the job: a call that names none may be of any.
    has_parts: bool,
    /// Communicators whose ranks are listed.
    groups: Vec<(String, Vec<u32>)>,
}

impl DistributedJob {
    fn from_header(header: &Header, notes: &mut Vec<String>) -> Self {
        let Some(info) = header.value("distributedInfo") else {
            if header.has("distributedInfo") {
                notes.push("`distributedInfo` is damaged or larger than 8 MiB".to_owned());
            }
            return Self::default();
        };
        let groups = info.get("pg_config").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let name = |group: &Value| {
            let text = |key: &str| group.get(key).and_then(Value::as_str).unwrap_or_default();
            super::words::group(text("pg_name"), text("pg_desc"))
        };
        let only_group = match groups {
            [group] => Some((name(group), group.get("pg_size").and_then(whole))),
            _ => None,
        };
        let listed = groups.iter().take(calls::MOST_GROUPS).map(|group| (name(group), members(group)));
        let world = info.get("world_size").and_then(whole);
        let is_part = |group: &Value| world.is_none() || group.get("pg_size").and_then(whole) != world;
        Self {
            rank: info.get("rank").and_then(whole),
            world,
            only_group,
            has_parts: groups.len() > 1 && groups.iter().any(is_part),
            groups: listed.filter(|(_, ranks)| !ranks.is_empty()).collect(),
        }
    }
}

/// Ranks of a communicator: a list, or one written as a text. None of a list in which something else stands.
fn members(group: &Value) -> Vec<u32> {
    let ranks: Option<Vec<u32>> = match group.get("ranks") {
        Some(Value::Array(ranks)) => ranks.iter().map(whole).collect(),
        Some(Value::String(text)) => calls::listed(text),
        _ => None,
    };
    ranks.unwrap_or_default()
}

/// A number that may be written as a text.
fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_u64()?.try_into().ok(),
    }
}

fn timeline(input: &Input, header: &Header, mut collected: Collected, mut notes: Vec<String>) -> Result<Spans, Error> {
    let job = DistributedJob::from_header(header, &mut notes);
    if let Some(error) = header.text("ERROR") {
        notes.push(format!("the profiler says: {error}"));
    }
    let base = match header.text("baseTimeNanoseconds") {
        None => 0,
        Some(text) => text.trim().parse::<i64>().map_err(|_| {
            Error::new(format!("{}: `baseTimeNanoseconds` is {text}", input.name())).cause("expected a whole number")
        })?,
    };
    collected.complain(&mut notes);
    let mut rank = RankTimeline { rank: job.rank.unwrap_or(0), host: host(header, input), ..RankTimeline::default() };
    (rank.lost, rank.endless) = (collected.lost, collected.endless());
    let Collected { launches, calls, spans, names, .. } = &mut collected;
    launches.collectives(calls, spans);
    launches.name(calls, spans, names);
    match &job.only_group {
        Some((name, ranks)) => collected.name_group(name, *ranks),
        None if job.has_parts => collected.name_group(ONE_OF_SEVERAL, None),
        None => {}
    }
    phases::build(&mut collected, &mut rank, &mut notes);
    let out_of_range = shift(&mut rank, base);
    if out_of_range > 0 {
        notes.push(format!("{} left out: out of range", counted(out_of_range, "span is", "spans are")));
    }
    rank.sort();
    let is_calendar = rank.spans.first().is_none_or(|span| span.begin_ns >= CALENDAR_NS);
    if !is_calendar {
        notes.push("the times have no calendar: they cannot be compared with those of other ranks".to_owned());
    }
    let members = collected.take_members();
    let timeline = Timeline {
        source: "PyTorch profiler".to_owned(),
        ranks: vec![rank],
        world: job.world,
        clock_error_ns: None,
        names: std::mem::take(&mut collected.names),
        notes,
        recording: None,
        groups: with_unlisted(job.groups, members),
    };
    Ok(Spans { timeline, rank: job.rank, is_numbered: false, is_calendar })
}

/// Adds the communicators of kernels that the header does not list.
fn with_unlisted(mut groups: Vec<(String, Vec<u32>)>, of_kernels: Vec<(String, Vec<u32>)>) -> Vec<(String, Vec<u32>)> {
    let known: HashSet<String> = groups.iter().map(|(name, _)| name.clone()).collect();
    groups.extend(of_kernels.into_iter().filter(|(name, _)| !known.contains(name)));
    groups
}

/// Adds the base time to every time. Returns how many spans were dropped because the sum is not a time.
fn shift(rank: &mut RankTimeline, base: i64) -> usize {
    let before = rank.spans.len();
    rank.spans.retain_mut(|span| match (span.begin_ns.checked_add(base), span.end_ns.checked_add(base)) {
        (Some(begin), Some(end)) => {
            (span.begin_ns, span.end_ns) = (begin, end);
            true
        }
        _ => false,
    });
    before - rank.spans.len()
}

/// The host: in the header, or in the name that PyTorch's TensorBoard handler gives, `HOST_PID.NS.pt.trace.json`.
fn host(header: &Header, input: &Input) -> Option<String> {
    if let Some(host) = header.text("host_name").filter(|host| !host.is_empty()) {
        return Some(host.into_owned());
    }
    let name = input.path().file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".pt.trace.json")?;
    let (host, numbers) = stem.rsplit_once('_')?;
    // Milliseconds in old versions. Other programs end names with shorter numbers.
    let (process, time) = numbers.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(time) && time.len() >= 13 && !host.is_empty()).then(|| host.to_owned())
}
