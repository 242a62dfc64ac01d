//! Dumps by hand: versions, the traps of gloo, findings, and joining with a timeline.

use std::collections::BTreeMap;

use trace::timeline::{RankTimeline, Timeline};

use super::*;
use crate::traces::{Traces, UNKNOWN_GROUP, read_timeline, words};

/// An entry of gloo: its state stays `scheduled`.
fn entry(sequence: u64, operation: &str, elements: u64, created_ns: i64, retired: bool) -> String {
    format!(
        r#"{{"record_id":{sequence},"pg_id":0,"process_group":["0","default_pg"],"collective_seq_id":{sequence},"p2p_seq_id":0,
        "op_id":{sequence},"profiling_name":"gloo:{operation}","input_sizes":[[{elements}]],"input_dtypes":["Float"],
        "output_sizes":[[{elements}]],"state":"scheduled","time_created_ns":{created_ns},"retired":{retired},"is_p2p":false,
        "frames":[{{"name":"inner","filename":"a.py","line":{sequence}}},{{"name":"main","filename":"a.py","line":1}}]}}"#
    )
}

fn file(version: &str, entries: &[String]) -> String {
    // gloo has one communicator without a name.
    format!(
        r#"{{"version":"{version}","pg_config":{{"0":{{"name":"","desc":"","ranks":""}}}},"pg_status":{{"0":{{"last_enqueued_collective":"3"}}}},"entries":[{}]}}"#,
        entries.join(",")
    )
}

fn read(files: &[(&str, String)]) -> Result<Traces, Error> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, text): &(&str, String)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    read_timeline(&files.iter().map(write).collect::<Vec<_>>())
}

fn flight(files: &[(&str, String)]) -> FlightReport {
    read(files).unwrap().flight.unwrap()
}

#[test]
fn a_rank_that_does_not_arrive_is_named() {
    let done =
        |to: u64| -> Vec<String> { (1..=to).map(|at| entry(at, "all_reduce", 10, at as i64 * 100, true)).collect() };
    let mut ahead = done(2);
    ahead.push(entry(3, "all_reduce", 1000, 300, false));
    let report = flight(&[("fr_rank0", file("2.10", &ahead)), ("fr_rank1", file("2.10", &done(2)))]);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    let found = &report.findings[0];
    let call = &found.call;
    assert_eq!((found.problem, call.group.as_str(), call.sequence), (Problem::NotReached, "0 (default_pg)", 3));
    assert_eq!((call.operation.as_str(), &call.input_sizes), ("all_reduce", &vec![vec![1000]]));
    assert_eq!((&found.arrived, found.missing.len(), found.missing[0].rank), (&vec![0], 1, 1));
    assert_eq!((found.frames()[0].line, &*found.frames()[1].name), (3, "main"));
    let last = found.missing[0].last.as_ref().unwrap();
    assert_eq!((last.sequence, last.frames[0].line, last.is_finished), (2, 2, true));
}

#[test]
fn what_ranks_disagree_on_and_what_does_not_end_are_told() {
    let ended = |operation, elements| vec![entry(1, operation, elements, 100, true)];
    let two = |first: Vec<String>, second: Vec<String>| {
        flight(&[("fr_rank0", file("2.4", &first)), ("fr_rank1", file("2.4", &second))]).findings
    };
    let found = two(ended("all_reduce", 10), ended("broadcast", 10));
    assert_eq!((found[0].problem, found[0].missing[0].rank), (Problem::Mismatch(Difference::Operation), 1));
    let size = two(ended("all_reduce", 10), ended("all_reduce", 11));
    assert_eq!(size[0].problem, Problem::Mismatch(Difference::Size));
    assert_eq!(two(ended("all_gather", 10), ended("all_gather", 10)), []);
    let open = vec![entry(1, "all_reduce", 10, 100, false)];
    let found = two(ended("all_reduce", 10), open);
    assert_eq!((found[0].problem, &found[0].arrived, found[0].missing[0].rank), (Problem::NotFinished, &vec![0], 1));
}

#[test]
fn rings_may_begin_at_different_calls() {
    let ring =
        |from: u64| -> Vec<String> { (from..=9).map(|at| entry(at, "all_reduce", 10, at as i64, true)).collect() };
    let report = flight(&[("fr_rank0", file("2.3", &ring(1))), ("fr_rank1", file("2.3", &ring(7)))]);
    assert_eq!((report.findings.len(), report.ranks[1].entries.len()), (0, 3));
}

#[test]
fn a_member_without_calls_has_not_arrived() {
    let named = |entries: &[String]| {
        file("2.7", entries)
            .replace(r#""name":"","desc":"","ranks":"""#, r#""name":"0","desc":"default_pg","ranks":"[0, 1]""#)
    };
    let one = entry(1, "all_reduce", 10, 100, false);
    let report = flight(&[("fr_rank0", named(&[one])), ("fr_rank1", named(&[]))]);
    assert_eq!(report.findings[0].missing, [Missing { rank: 1, last: None }]);
}

#[test]
fn versions_ranks_and_empty_rings() {
    let error = read(&[("fr_rank0", file("3.0", &[]))]).unwrap_err().to_string();
    assert!(error.contains("version 3.0 of the Flight Recorder's dumps is not known"), "{error}");
    let error = read(&[("dump", file("2.10", &[]))]).unwrap_err().to_string();
    assert!(error.contains("the rank of this dump is not known"), "{error}");
    let empty = r#"{"version":"2.99","pg_status":{}}"#.to_owned();
    assert_eq!(flight(&[("fr_rank0", empty)]).ranks[0].entries, []);
    let odd = entry(1, "all_reduce", 10, 0, true);
    let report = flight(&[("fr_rank0", file("2.10", &[odd, "7".to_owned()]))]);
    assert!(report.notes[0].contains("2 entries are left out"), "{:?}", report.notes);
}

#[test]
fn of_two_dumps_of_a_rank_the_one_with_frames_is_used() {
    let bare = entry(1, "all_reduce", 10, 100, true).replace("frames", "no_frames");
    let files = [
        ("a_rank0.json", file("2.10", &[bare])),
        ("b_rank0.json", file("2.10", &[entry(1, "all_reduce", 10, 100, true)])),
    ];
    let report = flight(&files);
    assert_eq!((report.ranks.len(), report.ranks[0].entries[0].frames.len()), (1, 2));
    assert!(report.notes[0].contains("is left out"), "{:?}", report.notes);
}

/// A timeline of rank 0 with calls that begin at these times.
fn timeline(calls: &[(&str, i64)]) -> Timeline {
    let mut timeline = Timeline::default();
    let mut rank = RankTimeline::default();
    for (operation, begin) in calls {
        let call = words::call(&mut timeline.names, operation, UNKNOWN_GROUP);
        rank.push_call(1, *begin, begin + 10, call);
    }
    timeline.ranks.push(rank);
    timeline
}

fn ring(entries: &[(u64, &str, i64)]) -> FlightReport {
    let made: Vec<String> = entries.iter().map(|(at, word, created)| entry(*at, word, 10, *created, true)).collect();
    flight(&[("fr_rank0", file("2.10", &made))])
}

const MS: i64 = 1_000_000;

#[test]
fn calls_get_communicator_and_number_in_order() {
    let mut traced = timeline(&[("all_reduce", 100 * MS), ("broadcast", 200 * MS), ("all_reduce", 300 * MS)]);
    let entries = [
        (1, "broadcast", 10 * MS),
        (2, "all_reduce", 20 * MS),
        (3, "all_reduce", 99 * MS),
        (4, "broadcast", 199 * MS),
        (5, "reduce_scatter", 299 * MS),
        (6, "all_reduce", 400 * MS),
    ];
    assert_eq!(join_flight(&mut traced, &ring(&entries)), 3);
    assert_eq!(traced.notes, Vec::<String>::new());
    let calls: BTreeMap<_, _> = traced.ranks[0]
        .collectives
        .iter()
        .map(|call| (call.sequence, (traced.names.get(call.group), call.bytes)))
        .collect();
    let all = ("0 (default_pg)", Some(40));
    assert_eq!(calls, BTreeMap::from([(Some(3), all), (Some(4), all), (Some(5), all)]));
}

/// A stage of a pipeline over gloo, with replicas: the profiler shows its transfers, and the recorder holds its collectives alone.
#[test]
fn transfers_are_not_joined_and_do_not_keep_collectives_from_it() {
    let calls = [("recv", 90 * MS), ("all_reduce", 100 * MS), ("send", 150 * MS), ("all_reduce", 200 * MS)];
    let mut traced = timeline(&calls);
    let entries = [(7, "all_reduce", 99 * MS), (8, "all_reduce", 199 * MS)];
    assert_eq!(join_flight(&mut traced, &ring(&entries)), 2);
    assert_eq!(traced.notes, Vec::<String>::new());
    let joined: Vec<_> =
        traced.ranks[0].collectives.iter().map(|call| (call.sequence, traced.names.get(call.group))).collect();
    let (of_ring, none) = ("0 (default_pg)", (None, UNKNOWN_GROUP));
    assert_eq!(joined, [none, (Some(7), of_ring), none, (Some(8), of_ring)]);
}

/// Two by two ranks: a split made the communicators of ranks 0, 1 and of ranks 2, 3, which have one name.
#[test]
fn communicators_that_share_a_name_are_told_apart_by_their_ranks() {
    let of = |ranks: &str, entries: &[String]| {
        let listed = format!(r#""name":"0","desc":"default_pg","ranks":"{ranks}""#);
        file("2.10", entries).replace(r#""name":"","desc":"","ranks":"""#, &listed)
    };
    let done = entry(1, "all_reduce", 10, 100, true);
    let open = [done.clone(), entry(2, "all_reduce", 10, 200, false)];
    let done = [done];
    let files = [
        ("fr_rank0", of("[0, 1]", &open)),
        ("fr_rank1", of("[0, 1]", &done)),
        ("fr_rank2", of("[2, 3]", &done)),
        ("fr_rank3", of("[2, 3]", &done)),
    ];
    let report = flight(&files);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    let found = &report.findings[0];
    let missing: Vec<u32> = found.missing.iter().map(|missing| missing.rank).collect();
    assert_eq!((found.problem, missing, &found.arrived), (Problem::NotReached, vec![1], &vec![0]));
    assert_eq!(found.call.group, "0 (default_pg) [0, 1]");
    let groups: Vec<&str> = report.groups.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(groups, ["0 (default_pg) [0, 1]", "0 (default_pg) [2, 3]"]);
}

#[test]
fn counts_that_differ_are_refused_with_a_note() {
    let entries = [(1, "all_reduce", 99 * MS), (2, "all_reduce", 199 * MS), (3, "all_reduce", 299 * MS)];
    // A call in the middle is missing, then one entry, then all.
    let mut traced = timeline(&[("all_reduce", 100 * MS), ("all_reduce", 300 * MS)]);
    assert_eq!(join_flight(&mut traced, &ring(&entries)), 0);
    assert!(traced.notes[0].contains("the ring has more entries"), "{:?}", traced.notes);
    assert!(traced.ranks[0].collectives.iter().all(|call| call.sequence.is_none()));
    let mut traced = timeline(&[("all_reduce", 100 * MS), ("all_reduce", 200 * MS)]);
    assert_eq!(join_flight(&mut traced, &ring(&entries[..1])), 0);
    assert!(traced.notes[0].contains("the timeline has 2 calls, the ring 1 entries"), "{:?}", traced.notes);
    let mut traced = timeline(&[("barrier", 100 * MS)]);
    assert_eq!(join_flight(&mut traced, &ring(&entries)), 0);
    assert!(traced.notes[0].contains("match no run of entries"), "{:?}", traced.notes);
    let mut traced = timeline(&[("all_reduce", 100 * MS)]);
    assert_eq!(join_flight(&mut traced, &FlightReport::default()), 0);
    assert!(traced.notes[0].contains("there is no dump"), "{:?}", traced.notes);
}

#[test]
fn calls_that_begin_in_the_other_order_are_told_apart_by_size() {
    let mut traced = timeline(&[("all_reduce", 100 * MS), ("all_reduce", 100 * MS + 1)]);
    traced.ranks[0].collectives[0].bytes = Some(80);
    let made = [entry(1, "all_reduce", 10, 99 * MS, true), entry(2, "all_reduce", 20, 99 * MS + 5, true)];
    assert_eq!(join_flight(&mut traced, &flight(&[("fr_rank0", file("2.10", &made))])), 2);
    let sequences: Vec<_> = traced.ranks[0].collectives.iter().map(|call| call.sequence).collect();
    assert_eq!(sequences, [Some(2), Some(1)]);
}
