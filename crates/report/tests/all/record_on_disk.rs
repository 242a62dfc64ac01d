//! From a record's directory to a report, with samples of long cases.

use std::path::Path;

use record::{CaseSamples, Caveat, RunFile, Store};
use report::Run;
use serde_json::json;

use crate::data::{self, Invented};

fn run_file() -> RunFile {
    let machine = json!({"host": "h", "os": "Debian", "kernel": "6.18", "arch": "x86_64", "cpu_model": "EPYC",
        "cores": 2, "allowed_cpus": [0, 1], "memory_bytes": 25769803776u64});
    let file = json!({"schema": 1, "tool": {"name": "rankmark", "version": "0.1.0"}, "experiment": "soak",
        "started": "2026-11-20T10:15:00Z", "command_line": ["rankmark", "run", "my plan.yaml"], "machine": machine,
        "environment": {"UCX_TLS": "shm"},
        "plan": {"experiment": "soak", "profiling": false, "cases": []}, "benchmarks": [],
        "overhead": {"sample_ns": 40.0, "call_ns": 1.0}, "simulated": false});
    serde_json::from_value(file).unwrap()
}

/// Writes a record of two cases with samples.
pub(crate) fn record(directory: &Path) {
    let mut store = Store::create(directory, &run_file()).unwrap();
    let mut long = Invented { caveats: vec![Caveat::Drift], ..Invented::new(2, 1 << 20, 1e-3) }.line();
    long.samples = Some(400);
    // 10 calls a sample; one sample in three of rank 1 is the slower one.
    let ns =
        (0..2).map(|rank| (0..400u64).map(|i| 10_000_000 + 5_000 * i + 1_000 * rank * (i % 3)).collect()).collect();
    let samples = CaseSamples { id: long.id.clone(), trial: 0, calls: 10, ns, ..CaseSamples::default() };
    store.append(&long, &[samples]).unwrap();
    let short = Invented::new(4, 1 << 20, 1e-3).line();
    store
        .append(
            &short,
            &[CaseSamples {
                id: short.id.clone(),
                trial: 0,
                calls: 1,
                ns: vec![vec![5; 3]; 4],
                ..CaseSamples::default()
            }],
        )
        .unwrap();
}

#[test]
fn a_record_becomes_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("run");
    record(&directory);
    let run = Run::read(&directory, benchmarks::VIEWS).unwrap();
    assert_eq!(run.command, "rankmark run 'my plan.yaml'");
    assert_eq!(run.machine, "2 cores EPYC, 24.0 GiB, Linux 6.18");
    assert_eq!((run.cores, run.cases.len(), run.samples.len()), (Some(2), 2, 1));
    let samples = run.samples.values().next().unwrap();
    assert_eq!((samples.len(), samples[2]), (400, 10_012_000.0 / 10.0 / 1e9));
    let written = report::write(&run, &directory).unwrap();
    assert!(written.iter().any(|path| path.to_string_lossy().contains("drift")));
    let markdown = std::fs::read_to_string(directory.join("report.md")).unwrap();
    for expected in ["slower over its 400 samples", "UCX_TLS=shm rankmark run 'my plan.yaml'", "40.0 ns a sample"] {
        assert!(markdown.contains(expected), "{expected} is not in {markdown}");
    }
}

#[test]
fn a_record_without_samples_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("run");
    record(&directory);
    std::fs::remove_file(directory.join("samples.jsonl")).unwrap();
    let run = Run::read(&directory, benchmarks::VIEWS).unwrap();
    assert_eq!(run.notes, ["samples.jsonl is missing: drift cannot be shown"]);
    assert!(run.samples.is_empty());
}

#[test]
fn no_record_is_an_error_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let error = Run::read(folder.path(), benchmarks::VIEWS).unwrap_err();
    assert!(error.to_string().contains("holds no record"), "{error}");
    assert!(error.cause.is_some_and(|cause| cause.contains("run.json")));
    assert!(error.hint.is_some());
}

#[test]
fn only_long_cases_have_drift() {
    let drifts = |run: &Run| report::sentences(run).iter().any(|sentence| sentence.contains("samples"));
    assert!(drifts(&data::soak(0.03)));
    let mut short = data::soak(0.03);
    short.cases[0].calls_per_sample = Some(1);
    short.cases[0].samples = Some(100);
    assert!(!drifts(&short));
}

#[test]
fn damaged_lines_are_a_banner_and_a_list() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path());
    assert!(!written(folder.path()).contains("DAMAGED"));
    let change = |file: &str, from: &str, to: &str| {
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    // Of the second case, which needs no samples, and of its line.
    change("samples.jsonl", "[5,5,5]", "[5,6,5]");
    let second = record::read_run(folder.path()).unwrap().cases[1].id.clone();
    let markdown = written(folder.path());
    let banner = "> **DAMAGED RECORD: 1 line is damaged and is left out, so cases or samples may be missing**";
    assert!(markdown.contains(banner), "{markdown}");
    change("cases.jsonl", "\"ranks\":4", "\"ranks\":3");
    let markdown = written(folder.path());
    assert!(markdown.contains("> **DAMAGED RECORD: 2 lines are damaged and are left out"), "{markdown}");
    assert!(markdown.contains("1 case: 1 ok"), "{markdown}");
    for file in ["cases", "samples"] {
        let named = format!("* {file}.jsonl:2 (case {second}): its checksum does not match");
        assert!(markdown.contains(&named), "{named} is not in {markdown}");
    }
}

/// The Markdown of a record's report.
fn written(directory: &Path) -> String {
    report::write(&Run::read(directory, benchmarks::VIEWS).unwrap(), directory).unwrap();
    std::fs::read_to_string(directory.join("report.md")).unwrap()
}
