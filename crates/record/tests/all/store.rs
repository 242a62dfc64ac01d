//! The record on disk: what survives crashes, full disks and strangers.

use std::fs;
use std::path::Path;

use record::store::{CASES_FILE, LOCK_FILE, RUN_FILE, SAMPLES_FILE};
use record::{
    CaseLine, CaseSamples, Machine, Plan, Record, RunFile, Store, StoreError, Tool, directory_name, fresh_directory,
    plan, read_run, read_samples,
};
use terms::Status;

use crate::skip;
use crate::table::{TABLE, pairs};

fn ten_cases() -> Plan {
    let given = pairs(&[("op", "all_reduce"), ("bytes", "8..4KiB*2")]);
    plan::from_flags(TABLE[0], &given, &[]).unwrap()
}

pub(crate) fn run_file() -> RunFile {
    let tool = Tool { name: "rankmark".to_owned(), version: "0.1.0".to_owned() };
    let machine = Machine { host: "node-a".to_owned(), cores: Some(2), ..Machine::default() };
    let started = "2026-11-20T10:15:00Z".parse().unwrap();
    let mut run = RunFile::new(tool, started, machine, ten_cases(), &TABLE);
    run.command_line = vec!["rankmark".to_owned(), "run".to_owned()];
    run
}

pub(crate) fn samples(id: &str, launch: u32) -> CaseSamples {
    CaseSamples {
        id: id.to_owned(),
        trial: launch,
        calls: 2,
        ns: vec![vec![1500, 1501], vec![1600, u64::MAX]],
        ..CaseSamples::default()
    }
}

/// A line of a case of the plan.
pub(crate) fn line(run: &RunFile, index: usize, status: Status) -> CaseLine {
    let mut line = CaseLine::unmeasured(&run.plan.cases[index], status, "because");
    if status == Status::Ok {
        line.reason = None;
        line.metrics.insert("busbw_gbs".to_owned(), 69.9.into());
    }
    line
}

pub(crate) fn write(directory: &Path, cases: &[(usize, Status)]) -> RunFile {
    let run = run_file();
    let mut store = Store::create(directory, &run).unwrap();
    for (index, status) in cases {
        let line = line(&run, *index, *status);
        let samples = samples(&line.id, 0);
        store.append(&line, &[samples]).unwrap();
    }
    run
}

/// The lines that a record has: without cases of the plan that it does not have.
pub(crate) fn written(record: &Record) -> Vec<CaseLine> {
    let is_written = |line: &&CaseLine| line.reason.as_deref().is_none_or(|reason| reason == "because");
    record.cases.iter().filter(is_written).cloned().collect()
}

pub(crate) fn message<T>(result: Result<T, StoreError>) -> String {
    result.err().expect("it must be refused").to_string()
}

#[test]
fn what_is_written_is_read() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a/b");
    let run = write(&directory, &[(2, Status::Ok), (0, Status::Failed)]);
    let read = read_run(&directory).unwrap();
    assert_eq!(read.file, run);
    assert_eq!(read.file.metric("collective", "busbw_gbs").unwrap().unit, "GB/s");
    // In the plan's order, not in the file's.
    assert_eq!(written(&read), [line(&run, 0, Status::Failed), line(&run, 2, Status::Ok)]);
    assert_eq!(
        read_samples(&directory, &run.id).unwrap().of_case(&run.plan.cases[2].id).unwrap(),
        [samples(&run.plan.cases[2].id, 0)]
    );
    assert!(read.notes.is_empty());
    // What cases have in common is in memory once: a record may hold 100,000 of them.
    let (cases, of_line) = (&read.file.plan.cases, &read.cases[2].parameters);
    assert!(of_line.is_shared_with(&cases[2].parameters) && !of_line.is_shared_with(&cases[1].parameters));
    assert!(cases[0].settings.is_shared_with(&cases[9].settings) && cases[0].world.is_shared_with(&cases[9].world));
    // Nothing else is left behind: no lock, no temporary file.
    let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [CASES_FILE, RUN_FILE, SAMPLES_FILE]);
    let text = fs::read_to_string(directory.join(SAMPLES_FILE)).unwrap();
    let first = format!(
        r#"{{"id":"{}","trial":0,"round":0,"begun_s":0.0,"fresh":false,"calls":2,"ns":[[1500,1501],[1600,18446744073709551615]],"run":"{}","crc32":""#,
        run.plan.cases[2].id, run.id
    );
    assert!(text.starts_with(&first), "{text}");
}

#[test]
fn a_record_is_not_overwritten_and_not_shared() {
    let root = tempfile::tempdir().unwrap();
    let shown = root.path().display();
    let run = run_file();
    let store = Store::create(root.path(), &run).unwrap();
    let pid = std::process::id();
    let in_use = format!(
        "{shown} is in use by a live run (pid {pid})\nhint:  wait for it, or choose another place with `--output-dir DIR`"
    );
    assert_eq!(message(Store::create(root.path(), &run)), in_use);
    assert_eq!(message(Store::resume(root.path())), in_use);
    // Reading needs no lock.
    assert_eq!(read_run(root.path()).unwrap().file, run);
    drop(store);
    assert_eq!(
        message(Store::create(root.path(), &run)),
        format!(
            "{shown} holds a record already (`run.json`)\nhint:  continue it with `--resume {shown}`, or choose another \
             place with `--output-dir DIR`"
        )
    );
    // What a run that was killed leaves is not an obstacle.
    fs::write(root.path().join(LOCK_FILE), "1\n").unwrap();
    Store::resume(root.path()).unwrap();
}

#[test]
fn lines_without_a_run_file_are_not_written_over() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(CASES_FILE), "something\n").unwrap();
    assert!(message(Store::create(root.path(), &run_file())).contains("holds a record already (`cases.jsonl`)"));
    assert_eq!(fs::read_to_string(root.path().join(CASES_FILE)).unwrap(), "something\n");
}

#[test]
fn no_record_no_resume_and_no_trace() {
    let root = tempfile::tempdir().unwrap();
    let expected = format!("{} holds no record\ncause: there is no run.json in it", root.path().display());
    assert_eq!(message(Store::resume(root.path())), expected);
    assert_eq!(message(read_run(root.path())), expected);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn resuming_keeps_what_is_ok_and_repeats_the_rest() {
    let root = tempfile::tempdir().unwrap();
    let before = [(0, Status::Ok), (1, Status::Failed), (2, Status::Skipped), (3, Status::NotRun), (4, Status::Ok)];
    let run = write(root.path(), &before);
    let (mut store, resumed) = Store::resume(root.path()).unwrap();
    assert_eq!(resumed.file.plan, run.plan);
    let ids = [0, 4].map(|index: usize| run.plan.cases[index].id.clone());
    assert_eq!(resumed.done, ids.into_iter().collect());
    assert_eq!(resumed.cases.len(), 5);
    let again = line(&run, 1, Status::Ok);
    store.append(&again, &[samples(&again.id, 0), samples(&again.id, 1)]).unwrap();
    drop(store);
    let read = written(&read_run(root.path()).unwrap());
    assert_eq!(read.len(), 5);
    assert_eq!(read[1], again);
    // Of the first attempt no samples remain.
    assert_eq!(read_samples(root.path(), "").unwrap().of_case(&again.id).unwrap().len(), 2);
}

#[test]
fn a_crash_at_any_byte_loses_at_most_the_last_case() {
    let root = tempfile::tempdir().unwrap();
    let run = write(root.path(), &[(0, Status::Ok), (1, Status::Ok), (2, Status::Ok)]);
    let whole = fs::read(root.path().join(CASES_FILE)).unwrap();
    // What is near the end of a line, and some of the rest, or every byte there is.
    let step = if skip::heavy("a crash at every byte of a record") { 1 } else { 13 };
    let breaks_at: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    let is_near_a_break = |length: &usize| breaks_at.iter().any(|at| at.abs_diff(*length) <= 2);
    for length in (0..=whole.len()).filter(|length| length % step == 0 || is_near_a_break(length)) {
        fs::write(root.path().join(CASES_FILE), &whole[..length]).unwrap();
        let breaks = whole[..length].iter().filter(|byte| **byte == b'\n').count();
        // A line that lacks nothing but its break is whole.
        let complete = breaks + usize::from(whole.get(length) == Some(&b'\n') && length > 0);
        let cut = length > 0 && complete == breaks && whole[length - 1] != b'\n';

        let read = read_run(root.path()).unwrap();
        let (lines, notes) = (written(&read).len(), read.notes.len());
        assert_eq!((lines, notes, read.damaged.len()), (complete, usize::from(cut), 0), "read at {length}");
        let (mut store, resumed) = Store::resume(root.path()).unwrap();
        assert_eq!((resumed.done.len(), resumed.notes.len()), (complete, usize::from(cut)), "resumed at {length}");
        let next = line(&run, 5, Status::Ok);
        store.append(&next, &[]).unwrap();
        drop(store);
        let read = read_run(root.path()).unwrap();
        let found = (written(&read).len(), read.notes.len(), read.damaged.len());
        assert_eq!(found, (complete + 1, 0, 0), "after {length}");
    }
}

#[test]
fn samples_cut_short_are_repaired() {
    let root = tempfile::tempdir().unwrap();
    let run = write(root.path(), &[(0, Status::Ok), (1, Status::Ok)]);
    let path = root.path().join(SAMPLES_FILE);
    let whole = fs::read(&path).unwrap();
    for length in [whole.len() - 1, whole.len() / 2 + 1, 1, 0] {
        fs::write(&path, &whole[..length]).unwrap();
        let note = length != 0;
        assert_eq!(!read_samples(root.path(), "").unwrap().notes.is_empty(), note);
        let (store, resumed) = Store::resume(root.path()).unwrap();
        assert_eq!(!resumed.notes.is_empty(), note, "{length}");
        drop(store);
        assert!(read_samples(root.path(), "").unwrap().notes.is_empty());
    }
    assert!(read_samples(root.path(), "").unwrap().of_case(&run.plan.cases[0].id).unwrap().is_empty());
}

#[test]
fn lines_of_another_version_are_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &[(0, Status::Ok), (1, Status::Ok), (2, Status::Ok)]);
    let path = root.path().join(CASES_FILE);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let shown = path.display();
    // What the checksum vouches for was written so, by somebody else.
    let sealed = |text: &str| {
        let sum = crc32fast::hash(text.as_bytes());
        format!("{},\"crc32\":\"{sum:08x}\"}}", text.strip_suffix('}').unwrap())
    };
    let second = &lines[1][..lines[1].rfind(",\"crc32\"").unwrap()];
    let take_out = "nothing was changed; take that line out, or start a new record with `--output-dir DIR`";
    let of_schema = |schema: u32| format!("{second}}}").replace("\"schema\":1", &format!("\"schema\":{schema}"));
    for (middle, cause, hint) in [
        (r#"{"schema":1}"#.to_owned(), "missing field `id` at line 1 column 12", take_out),
        (of_schema(0), "schema 0; this program reads 1", take_out),
        (of_schema(2), "schema 2; this program reads 1", "a newer version wrote it: update rankmark"),
    ] {
        let damaged = format!("{}\n{}\n{}\n", lines[0], sealed(&middle), lines[2]);
        fs::write(&path, &damaged).unwrap();
        let expected = format!("{shown}:2: not a line of this record\ncause: {cause}\nhint:  {hint}");
        assert_eq!(message(Store::resume(root.path())), expected);
        assert_eq!(message(read_run(root.path())), expected);
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
    }
}

/// A run file as somebody edits it.
pub(crate) fn without_checksum(text: &str) -> String {
    format!("{}\n}}\n", &text[..text.rfind(",\n  \"crc32\"").expect("it has a checksum")])
}

#[test]
fn a_damaged_run_file_is_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &[(0, Status::Ok)]);
    let path = root.path().join(RUN_FILE);
    let whole = fs::read_to_string(&path).unwrap();
    let newer = without_checksum(&whole).replacen("\"schema\": 1", "\"schema\": 2", 1);
    let deep = "[".repeat(1_000_000);
    for damaged in [&whole[..whole.len() / 2], "", "[]", newer.as_str(), "{\"schema\":1}", deep.as_str()] {
        fs::write(&path, damaged).unwrap();
        let said = message(Store::resume(root.path()));
        assert!(said.starts_with(&format!("{} is not a run file\ncause: ", path.display())), "{said}");
        assert_eq!(said.ends_with("hint:  a newer version wrote it: update rankmark"), damaged == newer, "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
    }
}

#[test]
fn numbers_that_json_lacks_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let run = run_file();
    let mut store = Store::create(root.path(), &run).unwrap();
    let mut wrong = line(&run, 0, Status::Ok);
    wrong.per_rank_median_s = Some(vec![f64::NAN]);
    assert!(message(store.append(&wrong, &[])).contains("cannot be written as it is"));
    let mut wrong = line(&run, 0, Status::Ok);
    wrong.metrics.insert("busbw_gbs".to_owned(), f64::INFINITY.into());
    assert!(message(store.append(&wrong, &[])).contains("NaN or infinity"));
    assert_eq!(fs::metadata(root.path().join(CASES_FILE)).unwrap().len(), 0);
}

#[test]
fn the_run_file_is_replaced_whole() {
    let root = tempfile::tempdir().unwrap();
    let mut run = run_file();
    let store = Store::create(root.path(), &run).unwrap();
    run.overhead = Some(record::Overhead { sample_ns: 45.5, call_ns: 1.25 });
    store.write_run(&run).unwrap();
    assert_eq!(read_run(root.path()).unwrap().file, run);
    assert!(!root.path().join("run.json.new").exists());
}

#[test]
fn directories_are_named_by_time_and_never_shared() {
    let root = tempfile::tempdir().unwrap();
    let started = "2026-11-20T11:15:00.9+01:00".parse().unwrap();
    assert_eq!(directory_name(started, "quick"), "20261120T101500Z-quick");
    let results = root.path().join("results");
    for expected in ["20261120T101500Z-quick", "20261120T101500Z-quick-2", "20261120T101500Z-quick-3"] {
        assert_eq!(fresh_directory(&results, started, "quick").unwrap(), results.join(expected));
    }
}

#[test]
fn a_file_in_the_way() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "mine").unwrap();
    for directory in [file.clone(), file.join("below")] {
        let said = message(Store::create(&directory, &run_file()));
        assert!(said.contains("cannot create") && said.contains("--output-dir"), "{said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn many_lines_are_all_there_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_file();
    let mut store = Store::create(folder.path(), &run).unwrap();
    // Each is written in several blocks.
    let of = |number: usize| {
        let mut line = line(&run, number % 10, Status::Ok);
        line.id = format!("{number:012x}");
        line
    };
    let mut lines: Vec<CaseLine> = (0..5_000).map(of).collect();
    lines[4_999].metrics.insert("busbw_gbs".to_owned(), serde_json::Value::Null);
    store.append_all(&lines).unwrap_err();
    assert_eq!(fs::metadata(folder.path().join(CASES_FILE)).unwrap().len(), 0, "the blocks before are taken back");
    lines.truncate(4_999);
    store.append_all(&lines).unwrap();
    store.finish(&mut run.clone()).unwrap();
    let read = read_run(folder.path()).unwrap();
    assert_eq!((read.cases.len(), read.damaged.len()), (4_999 + 10, 0), "and those of the plan");
}
