//! Hangs by hand: who is the cause, who only waits, and what the ranks themselves wrote.

use std::path::PathBuf;

use crate::traces::{Difference, FlightReport, HangCause, Problem, Traces, read_timeline};

/// An entry of a dump.
#[derive(Clone)]
struct Made {
    group: &'static str,
    sequence: u64,
    name: String,
    elements: u64,
    dtype: &'static str,
    ended: bool,
    is_p2p: bool,
}

fn call(group: &'static str, sequence: u64, name: &str, ended: bool) -> Made {
    Made { group, sequence, name: name.to_owned(), elements: 8, dtype: "Float", ended, is_p2p: false }
}

fn transfer(sequence: u64, name: &str, ended: bool) -> Made {
    Made { is_p2p: true, ..call("world", sequence, name, ended) }
}

/// A dump, with communicators and the ranks of each.
fn dump(groups: &[(&str, &str)], entries: &[Made]) -> String {
    let groups: Vec<String> = groups
        .iter()
        .map(|(name, ranks)| format!(r#""{name}":{{"name":"{name}","desc":"","ranks":"[{ranks}]"}}"#))
        .collect();
    let entry = |(at, made): (usize, &Made)| {
        let Made { group, sequence, name, elements, dtype, ended, is_p2p } = made;
        let (collective, p2p) = if *is_p2p { (0, *sequence) } else { (*sequence, 0) };
        let sizes = format!(r#"[[{elements}]]"#);
        format!(
            r#"{{"record_id":{at},"process_group":["{group}",""],"collective_seq_id":{collective},"p2p_seq_id":{p2p},
            "profiling_name":"nccl:{name}","input_sizes":{sizes},"input_dtypes":["{dtype}"],"output_sizes":{sizes},
            "output_dtypes":["{dtype}"],"state":"{}","time_created_ns":{},"retired":{ended},"is_p2p":{is_p2p},
            "frames":[{{"name":"step","filename":"a.py","line":{at}}}]}}"#,
            if *ended { "completed" } else { "scheduled" },
            1000 + at
        )
    };
    let entries: Vec<String> = entries.iter().enumerate().map(entry).collect();
    format!(
        r#"{{"version":"2.5","pg_config":{{{}}},"pg_status":{{}},"entries":[{}]}}"#,
        groups.join(","),
        entries.join(",")
    )
}

fn read(files: &[(String, String)]) -> Traces {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, text): &(String, String)| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    read_timeline(&files.iter().map(write).collect::<Vec<_>>()).unwrap()
}

/// The report of ranks from 0; a rank without entries has no file.
fn report(groups: &[(&str, &str)], ranks: &[Option<Vec<Made>>]) -> FlightReport {
    let file = |(rank, entries): (usize, &Option<Vec<Made>>)| {
        Some((format!("fr_rank_{rank}.json"), dump(groups, entries.as_ref()?)))
    };
    read(&ranks.iter().enumerate().filter_map(file).collect::<Vec<_>>()).flight.unwrap()
}

/// Problem, ranks that cause it, and ranks that arrived.
fn causes(report: &FlightReport) -> Vec<(Problem, Vec<u32>, Vec<u32>)> {
    let ranks = |one: &HangCause| one.missing.iter().map(|missing| missing.rank).collect();
    report.findings.iter().map(|one| (one.problem, ranks(one), one.arrived.clone())).collect()
}

fn waits(report: &FlightReport) -> Vec<(u32, Vec<u32>)> {
    report.waiting.iter().map(|one| (one.rank, one.awaits.clone())).collect()
}

const WORLD: &[(&str, &str)] = &[("world", "0, 1, 2, 3")];

#[test]
fn only_the_rank_that_waits_nowhere_is_the_cause() {
    // Two by two ranks: rank 3 is missing, rank 2 waits for it, rank 1 for it in another communicator, and rank 0 for rank 2.
    let groups = [("tp0", "0, 1"), ("tp1", "2, 3"), ("dp0", "0, 2"), ("dp1", "1, 3")];
    let both = |tp, dp, last: &[Made]| {
        let mut all = vec![call(tp, 1, "all_reduce", true), call(dp, 1, "all_reduce", true)];
        all.extend_from_slice(last);
        Some(all)
    };
    let ranks = [
        both("tp0", "dp0", &[call("tp0", 2, "all_reduce", true), call("dp0", 2, "all_reduce", false)]),
        both("tp0", "dp1", &[call("tp0", 2, "all_reduce", true), call("dp1", 2, "all_reduce", false)]),
        both("tp1", "dp0", &[call("tp1", 2, "all_reduce", false)]),
        both("tp1", "dp1", &[]),
    ];
    let found = report(&groups, &ranks);
    assert_eq!(causes(&found), [(Problem::NotReached, vec![3], vec![2])]);
    assert_eq!(waits(&found), [(0, vec![2]), (1, vec![3]), (2, vec![3])]);
    assert_eq!(found.findings[0].missing[0].last.as_ref().unwrap().group, "dp1");
}

#[test]
fn sizes_and_types_of_every_operation_are_compared() {
    let operations =
        ["all_reduce", "_all_gather_base", "reduce_scatter", "broadcast", "gather", "scatter", "all_to_all"];
    for operation in operations {
        let of_size = |elements, dtype| Some(vec![Made { elements, dtype, ..call("world", 4, operation, false) }]);
        let usual = || of_size(1024, "Float");
        let found = report(WORLD, &[usual(), of_size(1025, "Float"), usual(), usual()]);
        let size = Problem::Mismatch(Difference::Size);
        assert_eq!(causes(&found), [(size, vec![1], vec![0, 2, 3])], "{operation}");
        // The lowest rank can be the odd one.
        let found = report(WORLD, &[of_size(1025, "Float"), usual(), usual(), usual()]);
        assert_eq!(causes(&found), [(size, vec![0], vec![1, 2, 3])], "{operation}");
        let found = report(WORLD, &[usual(), usual(), of_size(1024, "Half"), usual()]);
        assert_eq!(causes(&found), [(Problem::Mismatch(Difference::Dtype), vec![2], vec![0, 1, 3])], "{operation}");
    }
}

#[test]
fn another_operation_under_the_same_number_is_the_cause() {
    let usual = || Some(vec![call("world", 4, "all_reduce", false)]);
    let found = report(WORLD, &[usual(), usual(), usual(), Some(vec![call("world", 4, "broadcast", false)])]);
    assert_eq!(causes(&found), [(Problem::Mismatch(Difference::Operation), vec![3], vec![0, 1, 2])]);
}

#[test]
fn ranks_of_an_all_to_all_may_split_as_they_like() {
    let of_size = |elements, ended| Some(vec![Made { elements, ..call("world", 4, "all_to_allv", ended) }]);
    assert_eq!(
        report(WORLD, &[of_size(10, true), of_size(20, true), of_size(30, true), of_size(40, true)]).findings,
        []
    );
}

#[test]
fn a_pipeline_waits_for_the_stage_that_sends_and_receives_nothing() {
    let first = |name: &str| vec![call("world", 1, "all_reduce", true), transfer(1, name, true)];
    let with = |mut entries: Vec<Made>, last: Made| {
        entries.push(last);
        Some(entries)
    };
    let ranks = [
        Some(first("send 0->1")),
        with(first("send 1->2"), transfer(2, "send 1->2", false)),
        Some(first("recv 2<-1")),
        with(first("recv 3<-2"), transfer(2, "recv 3<-2", false)),
    ];
    let found = report(WORLD, &ranks);
    assert_eq!(causes(&found), [(Problem::NotReached, vec![2], vec![1])]);
    assert_eq!(waits(&found), [(1, vec![2]), (3, vec![2])]);
    assert_eq!(found.findings[0].call.peers, Some((1, 2)));
}

#[test]
fn places_in_a_communicator_become_ranks_of_the_job() {
    let groups = [("pp", "1, 3")];
    let transfer_named = |name: &str| Some(vec![Made { group: "pp", ..transfer(1, name, false) }]);
    let found = report(&groups, &[Some(Vec::new()), transfer_named("send 0->1"), Some(Vec::new()), Some(Vec::new())]);
    assert_eq!((causes(&found), waits(&found)), (vec![(Problem::NotReached, vec![3], vec![1])], vec![(1, vec![3])]));
}

#[test]
fn both_sides_of_a_transfer_give_and_take_as_much() {
    let transfer_of = |name: &str, elements| Some(vec![Made { elements, ..transfer(1, name, false) }]);
    let found = report(
        WORLD,
        &[transfer_of("send 0->1", 4096), transfer_of("recv 1<-0", 1024), Some(Vec::new()), Some(Vec::new())],
    );
    assert_eq!(causes(&found), [(Problem::Mismatch(Difference::Size), vec![1], vec![0])]);
}

/// PyTorch leaves the transfers of a batch as `scheduled`, also when the batch has ended.
#[test]
fn transfers_of_a_batch_end_with_the_batch() {
    let batch = |ended| {
        let both = |send: &str, receive: &str| {
            Some(vec![transfer(1, send, false), transfer(1, receive, false), transfer(1, "coalesced", ended)])
        };
        report(&[("world", "0, 1")], &[both("send 0->1", "recv 0<-1"), both("send 1->0", "recv 1<-0")])
    };
    assert_eq!(batch(true).findings, []);
    assert_eq!(causes(&batch(false)).len(), 1);
    assert_eq!(causes(&batch(false))[0].0, Problem::NotFinished);
}

#[test]
fn ranks_that_wait_for_each_other_are_a_deadlock() {
    let groups = [("a", "0, 1"), ("b", "0, 1"), ("c", "1, 2")];
    let ranks = [
        Some(vec![call("a", 1, "all_reduce", false)]),
        Some(vec![call("b", 1, "all_reduce", false)]),
        Some(vec![call("c", 1, "all_reduce", false)]),
    ];
    let found = report(&groups, &ranks);
    assert_eq!(causes(&found), [(Problem::Deadlock, vec![0, 1], vec![])]);
    assert_eq!(waits(&found), [(2, vec![1])]);
}

#[test]
fn a_rank_that_is_in_an_older_call_is_waited_for() {
    // Ranks enqueue both calls. The first waits for rank 2, and the second behind it for rank 1.
    let groups = [("a", "1, 2"), ("b", "0, 1")];
    let ranks = [
        Some(vec![call("b", 1, "all_reduce", false)]),
        Some(vec![call("a", 1, "all_reduce", false), call("b", 1, "all_reduce", false)]),
        Some(vec![]),
    ];
    let found = report(&groups, &ranks);
    assert_eq!(
        (causes(&found), waits(&found)),
        (vec![(Problem::NotReached, vec![2], vec![1])], vec![(0, vec![1]), (1, vec![2])])
    );
}

#[test]
fn a_rank_without_a_dump_is_named() {
    let open = || Some(vec![call("world", 4, "all_reduce", false)]);
    let found = report(WORLD, &[open(), open(), None, open()]);
    assert_eq!(causes(&found), [(Problem::NoDump, vec![2], vec![0, 1, 3])]);
}

#[test]
fn a_root_that_is_ahead_is_no_hang() {
    // The root of a broadcast may leave before the others arrive.
    let sent = Some(vec![call("world", 1, "all_reduce", true), call("world", 2, "broadcast", true)]);
    let behind = || Some(vec![call("world", 1, "all_reduce", true)]);
    let found = report(WORLD, &[sent, behind(), behind(), behind()]);
    assert_eq!((found.findings, found.waiting), (vec![], vec![]));
}

/// What a rank that hangs writes, as the agent of a profiled job does: the recorder and the stack.
fn hang_file(rank: u32, recorder: &str) -> String {
    format!(
        r#"{{"rank":{rank},"world":2,"since_last_step_s":15.5,"median_step_s":0.03,"steps_ended":40,
        "stack":[{{"name":"inner","filename":"job.py","line":{rank}}}],"flight_recorder":{recorder},"step_ended_after_s":null}}"#
    )
}

/// gloo lists the ranks of no communicator. Rank 1 was stopped and wrote nothing; the notes of the others say how many ranks
/// there are.
#[test]
fn a_rank_of_gloo_that_wrote_nothing_is_named() {
    let entries = [call("world", 46, "all_reduce", true), call("world", 47, "all_reduce", false)];
    let recorder = dump(&[], &entries).replace(r#"["world",""]"#, r#"["0","default_pg"]"#);
    let of_world = |world: u32| {
        let note = |rank: u32| {
            let text = hang_file(rank, &recorder).replace(r#""world":2"#, &format!(r#""world":{world}"#));
            (format!("hang-rank{rank}.json"), text)
        };
        read(&[0, 2, 3].map(note)).hang.unwrap()
    };
    let hang = of_world(4);
    assert_eq!(causes(&hang), [(Problem::NoDump, vec![1], vec![0, 2, 3])]);
    assert_eq!((hang.findings[0].call.group.as_str(), hang.findings[0].call.sequence), ("0 (default_pg)", 47));
    // What no dump lists is not shown as listed.
    assert_eq!(hang.groups, []);
    // A number of ranks that cannot be lists nobody.
    assert_eq!(causes(&of_world(4_000_000_000)), [(Problem::NotFinished, vec![0, 2, 3], vec![])]);
}

#[test]
fn what_our_own_ranks_wrote_names_the_missing_rank_and_its_stack() {
    let both = |last: bool| {
        let mut entries = vec![call("world", 46, "all_reduce", true)];
        entries.extend(last.then(|| call("world", 47, "all_reduce", false)));
        dump(&[("world", "0, 1")], &entries)
    };
    let bare = |text: String| text.replace("frames", "no_frames");
    let files = [
        ("hang-rank0.json".to_owned(), hang_file(0, &bare(both(true)))),
        ("hang-rank1.json".to_owned(), hang_file(1, &bare(both(false)))),
        ("hang-flight-rank0.json".to_owned(), both(true)),
    ];
    let traces = read(&files);
    assert_eq!((&traces.timeline, &traces.flight, &traces.notes), (&None, &None, &Vec::new()));
    let hang = traces.hang.unwrap();
    assert_eq!(causes(&hang), [(Problem::NotReached, vec![1], vec![0])]);
    // The file next to the note has stacks of calls, and is used.
    assert_eq!((hang.findings[0].frames().len(), &hang.notes), (1, &Vec::new()));
    let notes: Vec<(u32, u32)> = traces.hang_notes.iter().map(|note| (note.rank, note.stack[0].line)).collect();
    assert_eq!((notes, traces.hang_notes[1].since_last_step_s), (vec![(0, 0), (1, 1)], Some(15.5)));
    // A rank that was killed while it wrote does not hide the others.
    let cut = hang_file(1, "{}");
    let traces = read(&[files[0].clone(), ("hang-rank1.json".to_owned(), cut[..cut.len() - 9].to_owned())]);
    assert_eq!((traces.hang_notes.len(), traces.notes.len()), (1, 1), "{:?}", traces.notes);
}
