//! Logs of NCCL Inspector: one JSON object a line, one line a call.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::PathBuf;

use serde_json::Value;
use terms::Error;
use trace::timeline::{RankTimeline, Timeline};

use super::input::Input;
use super::{Spans, TraceContent, TraceFormat, words};
use crate::counted::counted;

/// The longest line that is read.
const LONGEST_LINE: u64 = 1 << 20;

/// Calls that are kept: 400 MB.
const MOST_CALLS: usize = 2_000_000;

/// The format of NCCL Inspector.
pub(super) const INSPECTOR: TraceFormat = TraceFormat {
    name: "nccl_inspector",
    doc: "NCCL Inspector: the logs below NCCL_INSPECTOR_DUMP_DIR",
    recognises: |input| {
        let keys = ["\"inspector_output_format_version\"", "\"coll_perf\"", "\"p2p_perf\""];
        input.first() == Some(b'{') && keys.iter().any(|key| input.head_holds(key))
    },
    read,
};

/// Calls of NCCL in logs of its Inspector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectorReport {
    /// In the order of the logs.
    pub calls: Vec<InspectorCall>,
    /// What could not be read, and what the logs lack, one sentence each.
    pub notes: Vec<String>,
}

/// One call of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct InspectorCall {
    /// The communicator.
    pub communicator: String,
    /// The rank in the communicator, not in the job.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The host.
    pub host: String,
    /// The process.
    pub pid: u64,
    /// `all_reduce`, ..., or NCCL's own word.
    pub operation: String,
    /// The number of the call among those of this operation in the communicator. Calls of different ranks belong together when
    /// communicator, operation and number are equal. A transfer between two ranks has a number of its own on each.
    pub sequence: u64,
    /// Whether it is a transfer between two ranks.
    pub is_p2p: bool,
    /// Bytes, as NCCL counts them.
    pub bytes: u64,
    /// How long it took, with waiting for other ranks.
    pub time_us: f64,
    /// What measured it: `kernel_gpu`, `kernel_cpu` or `collective_cpu`.
    pub timing_source: String,
    /// When it began and ended, in Unix nanoseconds. Only a verbose log says.
    pub times_ns: Option<(i64, i64)>,
}

fn read(input: &Input) -> Result<TraceContent, Error> {
    let mut report = InspectorReport::default();
    let mut lines = BufReader::with_capacity(64 << 10, input.reader()?);
    let (mut line, mut number, mut odd, mut last_is_cut) = (Vec::new(), 0_u64, Vec::new(), false);
    loop {
        line.clear();
        match lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                report.notes.push(format!("{}: the file is cut after line {number}", input.name()));
                break;
            }
            Err(error) => return Err(input.failed(format!("after line {number}: {error}"))),
        }
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        last_is_cut = !line.ends_with(b"\n");
        match record::from_json::<Value>(&line) {
            Err(_) => odd.push(number),
            Ok(value) => {
                version(input, number, &value)?;
                match call(&value) {
                    Some(call) if report.calls.len() < MOST_CALLS => report.calls.push(call),
                    Some(_) => {
                        report.notes.push(format!("{}: only the first {MOST_CALLS} calls are read", input.name()));
                        break;
                    }
                    None if is_call(&value) => odd.push(number),
                    None => {}
                }
            }
        }
        odd.truncate(1 << 16);
    }
    if last_is_cut && odd.last() == Some(&number) {
        odd.pop();
        report.notes.push(format!("{}: the last line is cut", input.name()));
    }
    if let Some(first) = odd.first() {
        report.notes.push(format!(
            "{}: {} cannot be read, the first is line {first}",
            input.name(),
            counted(odd.len(), "line", "lines")
        ));
    }
    gaps(input, &mut report);
    Ok(TraceContent::Calls(Box::new(report)))
}

fn version(input: &Input, number: u64, value: &Value) -> Result<(), Error> {
    let version = value.pointer("/metadata/inspector_output_format_version").and_then(Value::as_str);
    match version {
        Some(version) if version.trim_start_matches('v').split('.').next() != Some("4") => {
            let what = format!("{}:{number}: version {version} of NCCL Inspector's logs is not known", input.name());
            Err(Error::new(what).hint("valid values: v4.0 and later below v5"))
        }
        _ => Ok(()),
    }
}

fn is_call(value: &Value) -> bool {
    value.get("coll_perf").is_some() || value.get("p2p_perf").is_some()
}

fn call(value: &Value) -> Option<InspectorCall> {
    let (prefix, perf) = match value.get("coll_perf") {
        Some(perf) => ("coll", perf),
        None => ("p2p", value.get("p2p_perf")?),
    };
    let field = |name: &str| perf.get(format!("{prefix}_{name}"));
    let whole = |name: &str| field(name).and_then(Value::as_u64);
    let header = |name: &str| value.get("header").and_then(|header| header.get(name));
    let metadata = |name: &str| value.get("metadata").and_then(|metadata| metadata.get(name));
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let time_us = field("exec_time_us").and_then(Value::as_f64).filter(|time| time.is_finite() && *time >= 0.0)?;
    Some(InspectorCall {
        communicator: header("id").and_then(Value::as_str)?.to_owned(),
        rank: header("rank")?.as_u64()?.try_into().ok()?,
        ranks: header("n_ranks")?.as_u64()?.try_into().ok()?,
        host: text(metadata("hostname")),
        pid: metadata("pid").and_then(Value::as_u64).unwrap_or(0),
        operation: words::operation(perf.get(prefix)?.as_str()?).into_owned(),
        sequence: whole("sn")?,
        is_p2p: prefix == "p2p",
        bytes: whole("msg_size_bytes")?,
        time_us,
        timing_source: text(field("timing_source")),
        times_ns: times(perf.get("event_trace_ts"), prefix, time_us),
    })
}

/// From the first channel's kernel to the end of the last; without kernels, from the call for as long as it took.
fn times(trace: Option<&Value>, prefix: &str, time_us: f64) -> Option<(i64, i64)> {
    let trace = trace?;
    let ns = |value: &Value| value.as_i64().filter(|us| *us > 0)?.checked_mul(1000);
    let kernels = trace.get("kernel_events").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let side = |key: &'static str| kernels.iter().filter_map(move |kernel| kernel.get(key).and_then(ns));
    if let (Some(begin), Some(end)) = (side("kernel_start_ts").min(), side("kernel_stop_ts").max()) {
        return (begin <= end).then_some((begin, end));
    }
    let begin = trace.get(format!("{prefix}_start_ts")).and_then(ns)?;
    // `as` stops at the largest number.
    Some((begin, begin.checked_add((time_us * 1e3) as i64)?))
}

/// NCCL before 2.30 keeps one call between two dumps: calls between are not in the log.
fn gaps(input: &Input, report: &mut InspectorReport) {
    let mut last: HashMap<(&str, &str), u64> = HashMap::new();
    let mut missing = 0_u64;
    for call in report.calls.iter().filter(|call| !call.is_p2p) {
        if let Some(before) = last.insert((&call.communicator, &call.operation), call.sequence) {
            missing = missing.saturating_add(call.sequence.saturating_sub(before.saturating_add(1)));
        }
    }
    if missing > 0 {
        report.notes.push(format!(
            "{}: {missing} calls between those of the log are missing (NCCL before 2.30 keeps one call between two dumps)",
            input.name()
        ));
    }
}

impl InspectorReport {
    /// Adds the report of another file.
    pub(super) fn add(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.notes.extend(other.notes);
    }

    /// The rank of each process in the job, by host and process number. A log has ranks of communicators: the job's ranks are
    /// those of the largest communicator, if it is the only one of its size.
    ///
    /// # Errors
    /// Why they are not known, in one sentence.
    pub fn job_ranks(&self) -> Result<HashMap<(&str, u64), u32>, String> {
        let world = self.calls.iter().map(|call| call.ranks).max().unwrap_or(0);
        let mut largest = self.calls.iter().filter(|call| call.ranks == world);
        let communicator = largest.next().map_or("", |call| &call.communicator);
        if largest.any(|call| call.communicator != communicator) {
            return Err(format!("several communicators have {world} ranks, so the ranks of the job are not known"));
        }
        let mut processes: HashMap<(&str, u64), u32> = HashMap::new();
        for call in self.calls.iter().filter(|call| call.communicator == communicator) {
            if processes.insert((&call.host, call.pid), call.rank).is_some_and(|rank| rank != call.rank) {
                return Err(
                    "the logs do not name the process of each rank, so the ranks of the job are not known".to_owned()
                );
            }
        }
        Ok(processes)
    }

    /// The calls as a timeline. None where no log has times, or where the ranks of the job are not known.
    pub(super) fn take_spans(&mut self) -> Option<(PathBuf, Spans)> {
        let timed = self.calls.iter().filter(|call| call.times_ns.is_some()).count();
        if timed == 0 {
            self.notes.push(
                "the logs have no times, so there is no timeline (hint: NCCL_INSPECTOR_DUMP_VERBOSE=1)".to_owned(),
            );
            return None;
        }
        match self.job_ranks().map(|processes| timeline(&self.calls, &processes)) {
            Ok(mut timeline) => {
                if self.calls.len() > timed {
                    let untimed = self.calls.len() - timed;
                    let calls = counted(untimed, "call is", "calls are");
                    timeline.notes.push(format!("{calls} not in the timeline for lack of a time"));
                }
                let spans = Spans { timeline, rank: None, is_numbered: true, is_calendar: true };
                Some((PathBuf::from("logs of NCCL Inspector"), spans))
            }
            Err(why) => {
                self.notes.push(format!("{why} and there is no timeline"));
                None
            }
        }
    }
}

fn timeline(calls: &[InspectorCall], processes: &HashMap<(&str, u64), u32>) -> Timeline {
    let world = calls.iter().map(|call| call.ranks).max();
    let mut timeline = Timeline { source: "NCCL Inspector".to_owned(), world, ..Timeline::default() };
    let mut ranks: BTreeMap<u32, RankTimeline> = BTreeMap::new();
    let mut unknown = 0_u64;
    for call in calls {
        let Some((begin, end)) = call.times_ns else { continue };
        let Some(rank) = processes.get(&(call.host.as_str(), call.pid)) else {
            unknown += 1;
            continue;
        };
        let rank = ranks.entry(*rank).or_insert_with(|| RankTimeline {
            rank: *rank,
            host: (!call.host.is_empty()).then(|| call.host.clone()),
            ..RankTimeline::default()
        });
        let mut known = words::call(&mut timeline.names, &call.operation, &call.communicator);
        known.sequence = (!call.is_p2p).then_some(call.sequence);
        (known.ranks, known.bytes) = (Some(call.ranks), Some(call.bytes));
        rank.push_call(queue(call), begin, end, known);
    }
    if unknown > 0 {
        let calls = counted(unknown, "call is", "calls are");
        timeline.notes.push(format!("{calls} not in the timeline: the rank is not known"));
    }
    timeline.ranks = ranks.into_values().collect();
    timeline.ranks.iter_mut().for_each(RankTimeline::sort);
    timeline
}

/// NCCL runs calls on streams of the device, never on the step's thread.
fn queue(call: &InspectorCall) -> u32 {
    if call.is_p2p { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::{Traces, read_timeline};

    fn line(rank: u32, coll: &str, sn: u64, version: &str, more: &str) -> String {
        format!(
            r#"{{"header":{{"id":"0xab","rank":{rank},"n_ranks":8,"nnodes":1}},"metadata":{{"inspector_output_format_version":"{version}","dump_timestamp_us":1752867229276385,"hostname":"h","pid":{}}},"coll_perf":{{"coll":"{coll}","coll_sn":{sn},"coll_msg_size_bytes":4096,"coll_exec_time_us":41.5,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1.5,"coll_busbw_gbs":1.2{more}}}}}"#,
            100 + rank
        )
    }

    fn read(texts: &[String]) -> Result<Traces, Error> {
        let folder = tempfile::tempdir().unwrap();
        let write = |(at, text): (usize, &String)| {
            let path = folder.path().join(format!("h-pid{at}.log"));
            std::fs::write(&path, text).unwrap();
            path
        };
        read_timeline(&texts.iter().enumerate().map(write).collect::<Vec<_>>())
    }

    #[test]
    fn calls_without_times_are_a_summary() {
        let text = format!("{}\n{}\n", line(4, "AllReduce", 3, "v4.0", ""), line(4, "AllReduce", 7, "v4.1", ""));
        let traces = read(&[text]).unwrap();
        let report = traces.inspector.unwrap();
        assert_eq!((traces.timeline, report.calls.len()), (None, 2));
        let call = &report.calls[0];
        assert_eq!((call.operation.as_str(), call.sequence, call.bytes, call.time_us), ("all_reduce", 3, 4096, 41.5));
        assert!(report.notes[0].contains("3 calls between those of the log are missing"), "{:?}", report.notes);
        assert!(report.notes[1].contains("no timeline"), "{:?}", report.notes);
    }

    #[test]
    fn a_verbose_log_is_a_timeline() {
        let times = r#","event_trace_ts":{"coll_start_ts":1000,"coll_stop_ts":1005,"kernel_events":[{"channel_id":0,"kernel_start_ts":1100,"kernel_stop_ts":1200},{"channel_id":1,"kernel_start_ts":1090,"kernel_stop_ts":1190}]}"#;
        let texts = [line(0, "AllReduce", 3, "v4.0", times) + "\n", line(1, "AllReduce", 3, "v4.0", times) + "\n"];
        let timeline = read(&texts).unwrap().timeline.unwrap();
        assert_eq!((timeline.world, timeline.ranks.len(), timeline.clock_error_ns), (Some(8), 2, None));
        let span = timeline.ranks[1].spans[0];
        assert_eq!((span.begin_ns, span.end_ns), (1_090_000, 1_200_000));
        assert_eq!(timeline.ranks[1].call(&span).unwrap().sequence, Some(3));
    }

    #[test]
    fn other_versions_cuts_and_odd_lines_are_told() {
        let error = read(&[line(0, "AllReduce", 1, "v5.0", "")]).unwrap_err().to_string();
        assert!(error.contains(":1: version v5.0"), "{error}");
        let whole = line(0, "AllReduce", 1, "v4.0", "");
        let text = format!("{whole}\nnothing\n{}", &whole[..whole.len() / 2]);
        let notes = read(&[text]).unwrap().inspector.unwrap().notes;
        assert!(notes[0].ends_with("the last line is cut"), "{notes:?}");
        assert!(notes[1].contains("1 line cannot be read, the first is line 2"), "{notes:?}");
    }
}
