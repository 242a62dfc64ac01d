//! Chrome-trace export: spans of ranks as gzipped JSON that Perfetto and chrome://tracing open.
//!
//! One process a rank, complete events ("X"), microseconds with the nanoseconds as fraction: "Trace Event Format",
//! Google, <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>. Knows spans only; which
//! file they belong in is `record`'s.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use serde::Serialize;
use terms::{Named, Rank};

use crate::Span;

/// Writes the spans of `ranks` to `to`, gzipped. The same spans always give the same bytes: the gzip header carries no
/// time and no name, and events are ordered by rank as given, then by beginning.
///
/// Times are shifted so that the earliest span begins at zero (`otherData.origin_ns` keeps the shift): an f64 of
/// microseconds would lose nanoseconds after 104 days of uptime. All ranks must share one clock.
///
/// # Errors
/// What `to` reports; [`io::ErrorKind::InvalidData`] for a span that ends before it begins, which no viewer can draw
/// and which a clock that runs backwards must not hide behind.
pub fn write(to: impl Write, ranks: &[(Rank, Vec<Span>)]) -> io::Result<()> {
    let origin_ns = ranks.iter().flat_map(|(_, spans)| spans).map(|span| span.begin_ns).min().unwrap_or(0);
    let mut events = Vec::new();
    for (rank, spans) in ranks {
        events.extend(names(*rank));
        let mut spans: Vec<&Span> = spans.iter().collect();
        spans.sort_by_key(|span| (span.begin_ns, span.number));
        for span in spans {
            events.push(complete(*rank, span, origin_ns)?);
        }
    }
    let other_data = OtherData { origin_ns, clock: "CLOCK_MONOTONIC_RAW of the host, or a simulated one" };
    let trace = Trace { trace_events: events, display_time_unit: "ns", other_data };
    let mut gzip = GzBuilder::new().write(to, Compression::default());
    serde_json::to_writer(&mut gzip, &trace)?;
    gzip.finish()?.flush()
}

/// The metadata that gives a rank its name and its place from top to bottom.
fn names(rank: Rank) -> [Event; 2] {
    let metadata = |name, args| Event { name, ph: "M", pid: rank.0, tid: 0, cat: None, ts: None, dur: None, args };
    [
        metadata("process_name", Arguments::Name { name: rank.to_string() }),
        metadata("process_sort_index", Arguments::Sort { sort_index: rank.0 }),
    ]
}

fn complete(rank: Rank, span: &Span, origin_ns: u64) -> io::Result<Event> {
    let (name, number) = (span.operation.name(), span.number);
    let duration_ns = span.end_ns.checked_sub(span.begin_ns).ok_or_else(|| {
        let (begin, end) = (span.begin_ns, span.end_ns);
        let what = format!("{rank}: {name} #{number} ends at {end} ns, before it begins at {begin} ns");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })?;
    Ok(Event {
        name,
        ph: "X",
        pid: rank.0,
        tid: 0,
        cat: Some("collective"),
        ts: Some(microseconds(span.begin_ns - origin_ns)),
        dur: Some(microseconds(duration_ns)),
        args: Arguments::Span { number, bytes: span.bytes },
    })
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    trace_events: Vec<Event>,
    display_time_unit: &'static str,
    other_data: OtherData,
}

#[derive(Serialize)]
struct OtherData {
    origin_ns: u64,
    clock: &'static str,
}

#[derive(Serialize)]
struct Event {
    name: &'static str,
    ph: &'static str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Arguments,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments {
    Name { name: String },
    Sort { sort_index: u32 },
    Span { number: u64, bytes: u64 },
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use serde_json::{Value, json};
    use terms::Collective;

    use super::*;

    fn span(number: u64, begin_ns: u64, end_ns: u64) -> Span {
        Span { operation: Collective::AllReduce, number, bytes: 4096, begin_ns, end_ns }
    }

    fn written(ranks: &[(Rank, Vec<Span>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, ranks).unwrap();
        bytes
    }

    fn parsed(bytes: &[u8]) -> Value {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn spans_read_back_to_the_nanosecond() {
        // An uptime of 300 days: its nanoseconds do not fit an f64 of microseconds without the shift.
        let origin = 300 * 86_400 * 1_000_000_000 + 7;
        let ranks = [
            (Rank(0), vec![span(0, origin, origin + 1_234_567), span(1, origin + 2_000_001, origin + 2_000_002)]),
            (Rank(1), vec![span(0, origin + 999, origin + 1_234_600)]),
        ];
        let trace = parsed(&written(&ranks));
        assert_eq!(trace["otherData"]["origin_ns"], origin);
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<Value> = events.iter().filter(|event| event["ph"] == "X").cloned().collect();
        let expected = |pid: u32, number: u64, ts: f64, dur: f64| {
            json!({"name": "all_reduce", "ph": "X", "pid": pid, "tid": 0, "cat": "collective", "ts": ts, "dur": dur,
                   "args": {"number": number, "bytes": 4096}})
        };
        let wanted = [expected(0, 0, 0.0, 1234.567), expected(0, 1, 2000.001, 0.001), expected(1, 0, 0.999, 1233.601)];
        assert_eq!(spans, wanted);
    }

    #[test]
    fn each_rank_is_a_named_process() {
        let trace = parsed(&written(&[(Rank(0), vec![]), (Rank(3), vec![span(0, 5, 6)])]));
        let events = trace["traceEvents"].as_array().unwrap();
        let names: Vec<_> = events.iter().filter(|event| event["name"] == "process_name").collect();
        assert_eq!(names.len(), 2);
        assert_eq!((&names[1]["pid"], &names[1]["args"]["name"]), (&json!(3), &json!("rank 3")));
        let order: Vec<_> = events.iter().filter(|event| event["name"] == "process_sort_index").collect();
        assert_eq!(order[1]["args"]["sort_index"], 3);
    }

    #[test]
    fn the_same_spans_give_the_same_bytes_in_any_order() {
        let (first, second) = (span(0, 10, 20), span(1, 30, 40));
        let sorted = written(&[(Rank(0), vec![first, second])]);
        assert_eq!(sorted, written(&[(Rank(0), vec![second, first])]));
        // Bytes 4..8 of a gzip header are the modification time (RFC 1952).
        assert_eq!(sorted[4..8], [0; 4]);
    }

    #[test]
    fn a_clock_that_runs_backwards_is_an_error() {
        let error = write(Vec::new(), &[(Rank(2), vec![span(7, 20, 10)])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "rank 2: all_reduce #7 ends at 10 ns, before it begins at 20 ns");
    }

    #[test]
    fn no_spans_are_an_empty_trace() {
        assert_eq!(parsed(&written(&[]))["traceEvents"], json!([]));
    }

    #[test]
    fn what_the_writer_reports_comes_back() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(write(Full, &[]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
