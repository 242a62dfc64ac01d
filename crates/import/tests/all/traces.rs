//! Traces: files that PyTorch writes here, and damage that must not panic any reader.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use import::traces::{FlightReport, Problem, Traces, join_flight, read_timeline};
use proptest::prelude::*;
use trace::timeline::{Kind, RankTimeline, Span, Timeline};

use crate::skip::skip;

/// A Python with torch: RANKMARK_TEST_PYTHON, which is taken at its word (to import torch takes seconds), or `python3`.
#[expect(clippy::disallowed_methods, reason = "the variable says what is tested")]
fn python() -> Option<std::ffi::OsString> {
    if let Some(python) = std::env::var_os("RANKMARK_TEST_PYTHON") {
        return Some(python);
    }
    let python: std::ffi::OsString = "python3".into();
    let has = Command::new(&python).args(["-c", "import torch.distributed"]).stderr(Stdio::null()).status();
    has.is_ok_and(|status| status.success()).then_some(python)
}

/// Profiles a job of two ranks in a folder; false where there is no torch.
fn job(folder: &Path, test: &str) -> bool {
    let Some(python) = python() else {
        skip(test, "torch is missing (hint: RANKMARK_TEST_PYTHON names a Python that has it)");
        return false;
    };
    for part in ["trace", "pickle", "json"] {
        std::fs::create_dir(folder.join(part)).unwrap();
    }
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "python", "ddp.py"].iter().collect();
    let start = |rank: u32| {
        let mut command = Command::new(&python);
        command.arg(&script).arg(folder).args([rank.to_string(), "2".to_owned()]);
        command.env("TORCH_FR_BUFFER_SIZE", "2000").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for rank in [start(0), start(1)] {
        let ended = rank.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    true
}

fn count(rank: &RankTimeline, kind: Kind) -> usize {
    rank.spans.iter().filter(|span| span.kind == kind).count()
}

#[test]
fn a_job_of_torch_has_steps_phases_and_numbered_collectives() {
    let folder = tempfile::tempdir().unwrap();
    if !job(folder.path(), "traces of torch") {
        return;
    }
    let read = read_timeline(&[folder.path().join("trace")]).unwrap();
    assert!(read.files.iter().all(|(_, format)| *format == "pytorch_profiler"), "{:?}", read.files);
    let mut timeline = read.timeline.unwrap();
    assert_eq!((timeline.ranks.len(), timeline.world), (2, Some(2)), "{:?}", timeline.notes);
    assert_eq!(timeline.notes, Vec::<String>::new());
    for rank in &timeline.ranks {
        let steps: Vec<u32> =
            rank.spans.iter().filter(|span| span.kind == Kind::Step).map(|span| span.number).collect();
        assert_eq!(steps, [2, 3, 4]);
        assert_eq!((count(rank, Kind::Forward), count(rank, Kind::Backward)), (3, 3));
        assert!((2..=3).contains(&count(rank, Kind::Input)), "{}", count(rank, Kind::Input));
        // `zero_grad` and `step`.
        assert_eq!(count(rank, Kind::Optimizer), 6);
        assert!(matches!(count(rank, Kind::Collective), 6 | 9), "{:?}", rank.collectives);
        assert!(rank.collectives.iter().all(|call| timeline.names.get(call.operation) == "all_reduce"));
        // How often a step waits is for the machine to say; where it does, a transfer is under way.
        for wait in rank.spans.iter().filter(|span| span.kind == Kind::Wait) {
            let spans = |kind| rank.spans.iter().filter(move |span| span.kind == kind);
            let is_inside = |step: &&Span| step.begin_ns <= wait.begin_ns && wait.end_ns <= step.end_ns;
            assert_eq!(spans(Kind::Step).filter(is_inside).count(), 1);
            let transfer = spans(Kind::Collective).find(|span| span.collective == wait.collective).unwrap();
            assert!(transfer.begin_ns < wait.end_ns && wait.begin_ns < transfer.end_ns, "{wait:?} {transfer:?}");
        }
    }
    let report = flight(&folder.path().join("pickle"));
    joined(&mut timeline, &report);
    let json = flight(&folder.path().join("json"));
    let calls = |report: &FlightReport| -> Vec<(u64, i64)> {
        let entries = report.ranks.iter().flat_map(|rank| &rank.entries);
        entries.map(|entry| (entry.sequence, entry.created_ns)).collect()
    };
    assert_eq!(calls(&report), calls(&json));
    assert!(report.ranks[0].entries.iter().any(|entry| entry.frames.iter().any(|frame| frame.file.contains("ddp.py"))));
}

fn flight(folder: &Path) -> FlightReport {
    let report = read_timeline(&[folder.to_owned()]).unwrap().flight.unwrap();
    assert_eq!((report.ranks.len(), &report.notes), (2, &Vec::new()));
    let bad: Vec<_> = report.findings.iter().filter(|found| found.problem != Problem::NotFinished).collect();
    assert!(bad.is_empty(), "{bad:?}");
    report
}

/// Joins, and compares the numbers and sizes of both ranks.
fn joined(timeline: &mut Timeline, report: &FlightReport) {
    let calls = timeline.ranks[0].collectives.len();
    assert_eq!(join_flight(timeline, report), 2 * calls, "{:?}", timeline.notes);
    let numbers = |rank: &RankTimeline| -> Vec<(Option<u64>, Option<u64>)> {
        rank.collectives.iter().map(|call| (call.sequence, call.bytes)).collect()
    };
    let (mut first, mut second) = (numbers(&timeline.ranks[0]), numbers(&timeline.ranks[1]));
    first.sort_unstable();
    second.sort_unstable();
    assert_eq!(first, second);
    // Numbers run without a gap, and sizes repeat with each step.
    assert!(first.windows(2).all(|pair| pair[1].0 == pair[0].0.map(|number| number + 1)), "{first:?}");
    let a_step = calls / 3;
    assert!(first.iter().zip(&first[a_step..]).all(|(one, next)| one.1 == next.1 && one.1.is_some()), "{first:?}");
    // The profile covers steps 2 to 4 of 8, so calls stand before and behind it in the ring.
    let ring = &report.ranks[0].entries;
    assert!(ring[0].sequence < first[0].0.unwrap() && ring[ring.len() - 1].sequence > first[calls - 1].0.unwrap());
}

#[test]
fn directories_leave_out_what_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "a note").unwrap();
    let error = read_timeline(&[folder.path().to_owned()]).unwrap_err().to_string();
    assert!(error.starts_with("no trace in"), "{error}");
    std::fs::write(folder.path().join("rank0.json"), SEEDS[0]).unwrap();
    let read = read_timeline(&[folder.path().to_owned()]).unwrap();
    assert_eq!((read.files.len(), read.notes.len()), (1, 1), "{:?}", read.notes);
    let error = read_timeline(&[folder.path().join("none.json")]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read"), "{error}");
}

/// One small file of each format.
const SEEDS: &[&[u8]] = &[
    br#"{"schemaVersion":1,"distributedInfo":{"rank":0,"world_size":8,"pg_config":[{"pg_name":"0","ranks":[0]}]},"baseTimeNanoseconds":1700000000000000000,
    "traceEvents":[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1.5,"dur":90},
    {"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: A","pid":1,"tid":1,"ts":10,"dur":5},
    {"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":1,"tid":2,"ts":12,"dur":9,"args":{"Input Dims":[[4,5]],"Input type":["float"]}},
    {"ph":"X","cat":"cpu_op","name":"torch.distributed.ddp.reducer::copy_bucket_to_grad","pid":1,"tid":1,"ts":22,"dur":0},
    {"ph":"X","cat":"user_annotation","name":"Optimizer.step#A.step","pid":1,"tid":1,"ts":50,"dur":5},
    {"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_x","pid":0,"tid":7,"ts":12,"dur":9,"args":{"Collective name":"allreduce","In msg nelems":9,"dtype":"Float","Seq":1}},
    {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":22,"dur":9}]}"#,
    br#"{"version":"2.10","pg_config":{"0":{"name":"0","desc":"d","ranks":"[0, 1]"}},"pg_status":{},"entries":[{"record_id":0,"process_group":["0","d"],"collective_seq_id":1,
    "profiling_name":"nccl:all_reduce","input_sizes":[[3,4]],"input_dtypes":["Float"],"output_sizes":[[3]],"state":"completed","time_created_ns":1700000000000000000,"retired":true,"is_p2p":false,"frames":[{"name":"a","filename":"b","line":3}]}]}"#,
    b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x03\x00\x00\x002.7q\x02X\x07\x00\x00\x00entriesq\x03]q\x04}q\x05(X\x11\x00\x00\x00collective_seq_idK\x05\
    X\x0e\x00\x00\x00profiling_nameX\x0f\x00\x00\x00nccl:all_reduceX\x0d\x00\x00\x00process_groupX\x01\x00\x00\x000X\x01\x00\x00\x00d\x86\
    X\x0f\x00\x00\x00time_created_ns\x8a\x03\x01\x02\x03uau.",
    br#"{"header":{"id":"0xab","rank":0,"n_ranks":8},"metadata":{"inspector_output_format_version":"v4.0","hostname":"h","pid":7},"coll_perf":{"coll":"AllReduce","coll_sn":3,
    "coll_msg_size_bytes":4096,"coll_exec_time_us":41.5,"event_trace_ts":{"coll_start_ts":1000,"kernel_events":[{"kernel_start_ts":1100,"kernel_stop_ts":1200}]}}}"#,
    br#"{"traceEvents":[{"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"rank 0"}},{"name":"all_reduce","ph":"X","pid":0,"tid":1,"cat":"collective","ts":1.001,"dur":2,
    "args":{"number":0,"bytes":64,"group":"world","sequence":9,"ranks":4,"first_byte_us":1.5}}],"otherData":{"rankmark_trace":1,"origin_ns":7,"world":8,"lost":{"0":1}}}"#,
    b"SQLite format 3\0\x10\x00\x01\x01\x00\x40\x20\x20",
    br#"{"rank":0,"world":2,"since_last_step_s":15.5,"steps_ended":4,"stack":[{"name":"a","filename":"b","line":3}],"step_ended_after_s":null,
    "flight_recorder":{"version":"2.10","pg_config":{"0":{"name":"0","desc":"d","ranks":"[0, 1]"}},"entries":[{"record_id":0,"process_group":["0","d"],
    "collective_seq_id":0,"p2p_seq_id":1,"profiling_name":"nccl:send 0->1","input_sizes":[[3]],"state":"scheduled","time_created_ns":17,"is_p2p":true}]}}"#,
];

const WORDS: &[&[u8]] = &[
    b"",
    b"-1",
    b"1e99",
    b"99999999999999999999",
    b"9223372036854775807",
    b"-9223372036854775808.999",
    b"NaN",
    b"null",
    b"\"",
    b"\\",
    b"\\ud83d",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\xff\xfe",
    b"\x80\x02",
    b"(",
    b"h\x00",
    b"X\xff\xff\xff\xff",
    b"3.0",
];

fn read_bytes(bytes: &[u8], gzip: bool) -> Result<Traces, terms::Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x_rank0");
    let mut file = std::fs::File::create(&path).unwrap();
    if gzip {
        let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap();
    } else {
        file.write_all(bytes).unwrap();
    }
    read_timeline(&[path])
}

/// What every timeline promises, however odd the file.
fn check(read: Result<Traces, terms::Error>) {
    let Ok(mut read) = read else { return };
    if let (Some(timeline), Some(flight)) = (&mut read.timeline, &read.flight) {
        join_flight(timeline, flight);
    }
    for rank in read.timeline.iter().flat_map(|timeline| &timeline.ranks) {
        assert!(rank.spans.iter().all(|span| span.begin_ns <= span.end_ns), "{:?}", rank.spans);
        assert!(rank.spans.is_sorted_by_key(|span| span.begin_ns));
        let calls = rank.spans.iter().filter(|span| span.collective != trace::timeline::NO_CALL);
        assert!(calls.into_iter().all(|span| rank.call(span).is_some()));
    }
}

#[test]
fn every_seed_is_read() {
    for (seed, is_trace) in SEEDS.iter().zip([true, true, true, true, true, false, true]) {
        assert_eq!(read_bytes(seed, false).is_ok(), is_trace, "{:?}", read_bytes(seed, false));
    }
}

#[test]
fn a_trace_may_end_anywhere() {
    for seed in SEEDS {
        for end in 0..seed.len() {
            check(read_bytes(&seed[..end], false));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_a_trace_panics(
        seed in 0..SEEDS.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0..WORDS.len()), 1..8),
        gzip in any::<bool>(),
    ) {
        let mut bytes = SEEDS[seed].to_vec();
        for (place, length, word) in cuts {
            let from = place.index(bytes.len() + 1);
            let to = (from + length).min(bytes.len());
            bytes.splice(from..to, WORDS[word].iter().copied());
        }
        check(read_bytes(&bytes, gzip));
    }

    #[test]
    fn no_mutation_of_the_dumps_of_two_ranks_panics(
        seeds in prop::array::uniform2(prop::sample::select(vec![1usize, 2, 6])),
        cuts in prop::collection::vec((0..2usize, any::<prop::sample::Index>(), 0usize..12, 0..WORDS.len()), 1..8),
    ) {
        let mut files = seeds.map(|seed| SEEDS[seed].to_vec());
        for (file, place, length, word) in cuts {
            let bytes = &mut files[file];
            let from = place.index(bytes.len() + 1);
            let to = (from + length).min(bytes.len());
            bytes.splice(from..to, WORDS[word].iter().copied());
        }
        let folder = tempfile::tempdir().unwrap();
        let write = |(rank, bytes): (usize, &Vec<u8>)| {
            let path = folder.path().join(format!("x_rank{rank}"));
            std::fs::write(&path, bytes).unwrap();
            path
        };
        check(read_timeline(&files.iter().enumerate().map(write).collect::<Vec<_>>()));
    }

    #[test]
    fn no_bytes_panic(
        front in prop::sample::select(vec![&b""[..], b"\x80\x02", b"{\"traceEvents\":[", b"{\"pg_status\":", b"{\"coll_perf\":", b"\x1f\x8b\x08\x00", b"SQLite format 3\0"]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        check(read_bytes(&[front, &rest].concat(), false));
    }
}
