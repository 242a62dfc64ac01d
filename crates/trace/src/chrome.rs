//! Chrome-trace export of a timeline: gzipped JSON that Perfetto opens, and that `import` reads back without loss.
//!
//! One process a rank, one thread a queue, complete events ("X"), microseconds with the nanoseconds as fraction. What the
//! format has no place for is in `args` and `otherData`. Events are written one by one, so that a trace needs no second copy in
//! memory.

use std::io::{self, BufWriter, Write};

use flate2::{Compression, GzBuilder};
use serde::Serialize;
use serde_json::{Map, Value, json};
use terms::outside;

use crate::timeline::{Kind, RankTimeline, Span, Timeline};

/// The version of what is in `otherData.rankmark_trace`.
pub const VERSION: u64 = 1;

/// Writes a timeline, gzipped. The same timeline always gives the same bytes.
///
/// Times are shifted so that the earliest span begins at zero; `otherData.origin_ns` keeps the shift.
///
/// # Errors
/// What `to` reports; [`io::ErrorKind::InvalidData`] for a span that ends before it begins.
pub fn write(to: impl Write, timeline: &Timeline) -> io::Result<()> {
    let origin_ns = timeline.ranks.iter().flat_map(|rank| &rank.spans).map(|span| span.begin_ns).min().unwrap_or(0);
    let gzip = GzBuilder::new().write(to, Compression::fast());
    let mut to = BufWriter::new(gzip);
    to.write_all(b"{\"displayTimeUnit\":\"ns\",\"otherData\":")?;
    to.write_all(outside::original_json(&serde_json::to_string(&other(timeline, origin_ns))?).as_bytes())?;
    to.write_all(b",\"traceEvents\":[")?;
    let mut events = Events { to: &mut to, first: true };
    for rank in &timeline.ranks {
        events.names(rank)?;
        for span in &rank.spans {
            events.span(timeline, rank, span, origin_ns)?;
        }
    }
    to.write_all(b"\n]}\n")?;
    to.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
}

fn other(timeline: &Timeline, origin_ns: i64) -> Value {
    let lost = timeline.ranks.iter().filter(|rank| rank.lost > 0).map(|rank| (rank.rank.to_string(), json!(rank.lost)));
    let hosts = timeline.ranks.iter().filter_map(|rank| Some((rank.rank.to_string(), json!(rank.host.as_ref()?))));
    let mut other = Map::new();
    let mut put = |name: &str, value: Value| other.insert(name.to_owned(), value);
    put("rankmark_trace", json!(VERSION));
    put("source", json!(timeline.source));
    put("origin_ns", json!(origin_ns));
    put("lost", Value::Object(lost.collect()));
    put("hosts", Value::Object(hosts.collect()));
    if let Some(error_ns) = timeline.clock_error_ns {
        put("clock_error_ns", json!(error_ns));
    }
    if let Some(world) = timeline.world {
        put("world", json!(world));
    }
    if !timeline.notes.is_empty() {
        put("notes", json!(timeline.notes));
    }
    if let Some(recording) = &timeline.recording {
        let span_ns = recording.span_ns;
        put("recording", json!({"with_s": recording.with_s, "without_s": recording.without_s, "span_ns": span_ns}));
    }
    Value::Object(other)
}

#[derive(Serialize)]
struct ChromeEvent<'a> {
    name: &'a str,
    cat: &'a str,
    ph: &'a str,
    pid: u32,
    tid: u32,
    ts: f64,
    dur: f64,
    args: Arguments<'a>,
}

#[derive(Serialize)]
struct Arguments<'a> {
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    synchronises: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    descheduled_us: Option<f64>,
}

struct Events<'w, W: Write> {
    to: &'w mut W,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    fn event(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.to.write_all(if std::mem::take(&mut self.first) { b"\n" } else { b",\n" })?;
        self.to.write_all(outside::original_json(&serde_json::to_string(event)?).as_bytes())
    }

    /// Names of the rank and of its queues, from top to bottom.
    fn names(&mut self, rank: &RankTimeline) -> io::Result<()> {
        let name = |what: &str, tid: u32, args: Value| json!({"name": what, "ph": "M", "pid": rank.rank, "tid": tid, "args": args});
        let title = match &rank.host {
            Some(host) => format!("rank {} on {host}", rank.rank),
            None => format!("rank {}", rank.rank),
        };
        self.event(&name("process_name", 0, json!({"name": title})))?;
        self.event(&name("process_sort_index", 0, json!({"sort_index": rank.rank})))?;
        let mut queues: Vec<u32> = rank.spans.iter().map(|span| span.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        for queue in queues {
            let is_communication =
                rank.spans.iter().filter(|span| span.queue == queue).all(|span| span.kind == Kind::Collective);
            let title = match queue {
                0 => "step".to_owned(),
                _ if is_communication => "communication".to_owned(),
                _ => format!("queue {queue}"),
            };
            self.event(&name("thread_name", queue, json!({"name": title})))?;
        }
        Ok(())
    }

    fn span(&mut self, timeline: &Timeline, rank: &RankTimeline, span: &Span, origin_ns: i64) -> io::Result<()> {
        let name = timeline.names.get(span.name);
        if span.end_ns < span.begin_ns {
            let what = format!("rank {}: {name} ends before it begins", rank.rank);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let microseconds = |ns: i64| ns as f64 / 1e3;
        let call = rank.call(span);
        self.event(&ChromeEvent {
            name,
            cat: span.kind.name(),
            ph: "X",
            pid: rank.rank,
            tid: span.queue,
            ts: microseconds(span.begin_ns - origin_ns),
            dur: microseconds(span.duration_ns()),
            args: Arguments {
                number: span.number,
                group: call.map(|call| timeline.names.get(call.group)),
                sequence: call.and_then(|call| call.sequence),
                ranks: call.and_then(|call| call.ranks),
                bytes: call.and_then(|call| call.bytes),
                synchronises: call.map(|call| call.synchronises),
                first_byte_us: call.and_then(|call| call.first_byte_ns).map(|ns| microseconds(ns - origin_ns)),
                descheduled_us: descheduled(rank, span).map(|ns| microseconds(ns as i64)),
            },
        })
    }
}

/// How long the thread of a step waited for a processor.
fn descheduled(rank: &RankTimeline, span: &Span) -> Option<u64> {
    if span.kind != Kind::Step {
        return None;
    }
    let place = rank.descheduled.binary_search_by_key(&span.number, |(number, _)| *number).ok()?;
    Some(rank.descheduled[place].1)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::timeline::{CollectiveCall, Recording};

    fn timeline() -> Timeline {
        let mut timeline =
            Timeline { source: "rankmark".to_owned(), world: Some(2), clock_error_ns: Some(0), ..Timeline::default() };
        let (step, operation, group) =
            (timeline.names.intern("step"), timeline.names.intern("all_reduce"), timeline.names.intern("data 0"));
        let mut rank = RankTimeline { rank: 1, host: Some("node-b".to_owned()), lost: 3, ..RankTimeline::default() };
        rank.push(Kind::Step, step, 4, 5_000_000_000, 5_000_002_500);
        rank.descheduled.push((4, 1_500));
        let call = CollectiveCall {
            operation,
            group,
            sequence: Some(8),
            ranks: Some(2),
            bytes: Some(64),
            input_bytes: None,
            dtype: None,
            synchronises: true,
            first_byte_ns: Some(5_000_001_200),
        };
        rank.push_call(1, 5_000_001_000, 5_000_002_000, call);
        timeline.ranks.push(rank);
        timeline.recording = Some(Recording { with_s: vec![2.0], without_s: vec![1.5], span_ns: Some(30.0) });
        timeline
    }

    fn json_of(timeline: &Timeline) -> Value {
        let mut bytes = Vec::new();
        write(&mut bytes, timeline).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn every_event_has_what_viewers_need() {
        let read = json_of(&timeline());
        let events = read["traceEvents"].as_array().unwrap();
        let named: Vec<&str> =
            events.iter().filter(|event| event["ph"] == "M").map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(named, ["process_name", "process_sort_index", "thread_name", "thread_name"]);
        assert_eq!(events[0]["args"]["name"], "rank 1 on node-b");
        let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(
            spans[0],
            &json!({"name": "step", "cat": "step", "ph": "X", "pid": 1, "tid": 0, "ts": 0.0, "dur": 2.5, "args": {"number": 4, "descheduled_us": 1.5}})
        );
        assert_eq!(
            spans[1]["args"],
            json!({"number": 0, "group": "data 0", "sequence": 8, "ranks": 2, "bytes": 64, "synchronises": true, "first_byte_us": 1.2})
        );
        assert_eq!((&spans[1]["ts"], &spans[1]["tid"]), (&json!(1.0), &json!(1)));
        assert_eq!(read["otherData"]["origin_ns"], 5_000_000_000_u64);
        assert_eq!(read["otherData"]["recording"]["with_s"], json!([2.0]));
    }

    #[test]
    fn an_empty_timeline_is_still_a_trace() {
        assert_eq!(json_of(&Timeline::default())["traceEvents"], json!([]));
    }

    #[test]
    fn a_span_that_ends_before_it_begins_is_refused() {
        let mut timeline = timeline();
        timeline.ranks[0].spans[0].end_ns = 0;
        assert_eq!(write(Vec::new(), &timeline).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
