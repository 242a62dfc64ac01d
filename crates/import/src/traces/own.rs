//! Rankmark's own traces, read back.

use std::collections::BTreeMap;

use serde_json::Value;
use terms::Error;
use trace::timeline::{CollectiveCall, Kind, NO_CALL, RankTimeline, Recording, Span, Timeline, synchronises};

use super::events::{Header, TraceEvent, nanoseconds, scan};
use super::input::Input;
use super::scan::Stop;
use super::{Spans, TraceContent, TraceFormat};
use crate::counted::counted;

/// The version that is read.
const VERSION: u64 = 1;

/// Ranks of one trace.
const MOST_RANKS: usize = 1 << 16;

/// The format of Rankmark.
pub(super) const OWN: TraceFormat =
    TraceFormat { name: "rankmark", doc: "Rankmark: a trace of its own", recognises, read };

/// The header may stand behind the events: then the file is passed once to find it.
fn recognises(input: &Input) -> bool {
    if input.first() != Some(b'{') || !input.head_holds("\"traceEvents\"") || input.head_holds("\"schemaVersion\"") {
        return false;
    }
    let mut header = Header::default();
    let Ok(reader) = input.reader() else { return false };
    // A damaged end matters only to the reader of the format.
    let _ = scan(reader, &mut header, None);
    header.value("otherData").is_some_and(|other| other.get("rankmark_trace").is_some())
}

fn read(input: &Input) -> Result<TraceContent, Error> {
    let (mut header, mut read) = (Header::default(), Read::default());
    let scanned = scan(input.reader()?, &mut header, Some(&mut |event| read.event(event)));
    if let Err(stop @ Stop::Unreadable { .. }) = &scanned {
        return Err(input.failed(stop));
    }
    let other = header.value("otherData").unwrap_or_default();
    let version = other.get("rankmark_trace").unwrap_or(&Value::Null);
    if version.as_u64() != Some(VERSION) {
        return Err(Error::new(format!("{}: version {version} of Rankmark's traces is not known", input.name()))
            .cause("a newer Rankmark wrote it")
            .hint(format!("valid values: {VERSION}")));
    }
    let whole = |key: &str| other.get(key).and_then(Value::as_i64);
    let origin = whole("origin_ns")
        .ok_or_else(|| Error::new(format!("{}: `otherData.origin_ns` is not a whole number", input.name())))?;
    let mut notes = Vec::new();
    if let Err(stop) = scanned {
        notes.push(format!("{stop}; what stands before is used"));
    }
    if read.odd > 0 {
        notes.push(format!(
            "{} left out without a rank, kind, time or duration",
            counted(read.odd, "event is", "events are")
        ));
    }
    read.finish(origin, &other)
        .map(|(ranks, names)| {
            let timeline = Timeline {
                source: other.get("source").and_then(Value::as_str).unwrap_or("rankmark").to_owned(),
                ranks,
                world: whole("world").and_then(|world| world.try_into().ok()),
                clock_error_ns: whole("clock_error_ns").and_then(|error| error.try_into().ok()),
                names,
                notes,
                recording: recording(&other),
                groups: Vec::new(),
            };
            TraceContent::Spans(Box::new(Spans { timeline, rank: None, is_numbered: true, is_calendar: false }))
        })
        .ok_or_else(|| Error::new(format!("{}: a time is out of range", input.name())))
}

/// What recording took, as the writer measured it.
fn recording(other: &Value) -> Option<Recording> {
    let recording = other.get("recording")?;
    let seconds = |key: &str| -> Vec<f64> {
        let values = recording.get(key).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(Value::as_f64).filter(|seconds| *seconds >= 0.0).collect()
    };
    let span_ns = recording.get("span_ns").and_then(Value::as_f64);
    Some(Recording { with_s: seconds("with_s"), without_s: seconds("without_s"), span_ns })
}

#[derive(Default)]
struct Read {
    ranks: BTreeMap<u32, RankTimeline>,
    names: trace::timeline::Names,
    odd: u64,
}

impl Read {
    fn event(&mut self, event: &TraceEvent) {
        let rank = std::str::from_utf8(&event.process).ok().and_then(|rank| rank.parse().ok());
        if let (b'M', Some(rank), b"process_name") = (event.phase, rank, event.name.as_slice()) {
            // A rank without spans is one, too.
            self.rank(rank);
        }
        if event.phase != b'X' {
            return;
        }
        let span = rank.and_then(|rank| Some((rank, self.span(event)?)));
        let Some((rank, (mut span, call))) = span.filter(|(rank, _)| self.rank(*rank).is_some()) else {
            self.odd += 1;
            return;
        };
        let Some(timeline) = self.rank(rank) else { return };
        let descheduled = event.argument("descheduled_us").and_then(|time| nanoseconds(time.as_bytes()));
        if let (Kind::Step, Some(ns)) = (span.kind, descheduled.and_then(|ns| u64::try_from(ns).ok())) {
            timeline.descheduled.push((span.number, ns));
        }
        if let Some(call) = call {
            span.collective = timeline.collectives.len() as u32;
            timeline.collectives.push(call);
        }
        timeline.spans.push(span);
    }

    fn rank(&mut self, rank: u32) -> Option<&mut RankTimeline> {
        if self.ranks.len() >= MOST_RANKS && !self.ranks.contains_key(&rank) {
            return None;
        }
        Some(self.ranks.entry(rank).or_insert_with(|| RankTimeline { rank, ..RankTimeline::default() }))
    }

    fn span(&mut self, event: &TraceEvent) -> Option<(Span, Option<CollectiveCall>)> {
        let kind = Kind::from_name(std::str::from_utf8(&event.category).ok()?)?;
        let begin_ns = event.begin_ns?;
        let end_ns = begin_ns.checked_add(event.duration_ns.filter(|duration| *duration >= 0)?)?;
        let text = event.name();
        let name = self.names.intern(&text);
        let call = event.argument("group").map(|group| CollectiveCall {
            operation: name,
            group: self.names.intern(group),
            sequence: event.number("sequence"),
            ranks: event.number("ranks"),
            bytes: event.number("bytes"),
            input_bytes: None,
            dtype: None,
            synchronises: synchronises(&text),
            first_byte_ns: event.argument("first_byte_us").and_then(|time| nanoseconds(time.as_bytes())),
        });
        let queue = std::str::from_utf8(&event.thread).ok()?.parse().ok()?;
        let number = event.number("number").unwrap_or(0);
        Some((Span { begin_ns, end_ns, kind, queue, name, number, collective: NO_CALL }, call))
    }

    /// All ranks with times after the origin of the clock, not of the file.
    fn finish(self, origin: i64, other: &Value) -> Option<(Vec<RankTimeline>, trace::timeline::Names)> {
        let mut ranks: Vec<RankTimeline> = self.ranks.into_values().collect();
        for rank in &mut ranks {
            let lost = other.get("lost").and_then(|lost| lost.get(rank.rank.to_string()));
            rank.lost = lost.and_then(Value::as_u64).unwrap_or(0);
            rank.descheduled.sort_unstable();
            for span in &mut rank.spans {
                span.begin_ns = span.begin_ns.checked_add(origin)?;
                span.end_ns = span.end_ns.checked_add(origin)?;
            }
            for call in &mut rank.collectives {
                if let Some(first) = &mut call.first_byte_ns {
                    *first = first.checked_add(origin)?;
                }
            }
            rank.sort();
        }
        Some((ranks, self.names))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::traces::{Traces, read_timeline};

    fn read(text: &str) -> Result<Traces, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("trace.json");
        std::fs::write(&path, text).unwrap();
        read_timeline(&[path])
    }

    /// The order of fields that our writer has: the header stands last.
    fn sample(version: &str) -> String {
        format!(
            r#"{{"traceEvents":[
            {{"name":"process_name","ph":"M","pid":0,"tid":0,"args":{{"name":"rank 0"}}}},
            {{"name":"process_name","ph":"M","pid":3,"tid":0,"args":{{"name":"rank 3"}}}},
            {{"name":"step","ph":"X","pid":3,"tid":0,"cat":"step","ts":0.0,"dur":12.5,"args":{{"number":7,"descheduled_us":2.5}}}},
            {{"name":"all_reduce","ph":"X","pid":3,"tid":1,"cat":"collective","ts":1.001,"dur":0.0,
              "args":{{"number":0,"bytes":64,"group":"world","sequence":9,"ranks":4,"first_byte_us":1.001}}}},
            {{"name":"odd","ph":"X","pid":3,"tid":1,"cat":"nothing","ts":1,"dur":1,"args":{{}}}}],
            "displayTimeUnit":"ns",
            "otherData":{{"rankmark_trace":{version},"origin_ns":25920000000000007,"clock_error_ns":40,"world":8,"lost":{{"3":2}}}}}}"#
        )
    }

    #[test]
    fn spans_are_read_back_to_the_nanosecond() {
        let timeline = read(&sample("1")).unwrap().timeline.unwrap();
        assert_eq!((timeline.world, timeline.clock_error_ns, timeline.ranks.len()), (Some(8), Some(40), 2));
        let rank = &timeline.ranks[1];
        assert_eq!((rank.rank, rank.lost, rank.spans.len()), (3, 2, 2));
        assert_eq!(rank.descheduled, [(7, 2_500)]);
        let (step, call) = (rank.spans[0], rank.spans[1]);
        assert_eq!((step.kind, step.number, step.begin_ns), (Kind::Step, 7, 25_920_000_000_000_007));
        assert_eq!((step.duration_ns(), call.duration_ns(), call.queue), (12_500, 0, 1));
        let known = rank.call(&call).unwrap();
        assert_eq!((known.sequence, known.ranks, known.bytes), (Some(9), Some(4), Some(64)));
        assert_eq!(known.first_byte_ns, Some(25_920_000_000_001_008));
        assert!(known.synchronises);
        assert_eq!(timeline.names.get(known.group), "world");
        let notes = [
            "1 event is left out without a rank, kind, time or duration",
            "ranks have different steps: rank 0 has none, rank 3 has step 7",
        ];
        assert_eq!(timeline.notes, notes);
    }

    #[test]
    fn another_version_is_refused_by_its_number() {
        let error = read(&sample("2")).unwrap_err().to_string();
        assert!(error.contains("version 2 of Rankmark's traces is not known"), "{error}");
    }

    #[test]
    fn a_zero_origin_is_needed() {
        let error = read(&sample("1").replace("\"origin_ns\":25920000000000007,", "")).unwrap_err().to_string();
        assert!(error.contains("otherData.origin_ns"), "{error}");
    }
}
