//! Plans and records of the most cases there may be: what they cost, and that Ctrl-C does not wait for them. The bounds
//! here are several times those that `cargo xtask scale` measures, because tests run unoptimized and next to others.

use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Live, Place};
use crate::processes::wait_until;
use crate::skip;

/// What these tests are, where they do not run.
const NAME: &str = "plans and records of the most cases";

/// As many cases as a plan may stand for.
const CASES: usize = 20_000;

/// After Ctrl-C the program is gone within this time: 0.5 s, and as much again for a machine that has other work.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A plan of so many cases, of both kinds of benchmark.
fn plan() -> String {
    let seeds = |count: usize| (1..=count).map(|seed| seed.to_string()).collect::<Vec<_>>().join(", ");
    format!(
        "experiment: huge\ncases:\n  - {{benchmark: collective, op: [all_reduce, broadcast], ranks: 2, backend: [shm, sim], \
         bytes: [1KiB, 1MiB], seed: [{}]}}\n  - {{benchmark: training, model: mlp, ranks: 2, overlap: [true, false], \
         seed: [{}]}}\n",
        seeds(CASES / 16),
        seeds(CASES / 4)
    )
}

/// The record of a run with all cases done.
fn record(place: &Place, name: &str) {
    let (mut lines, mut cases) = (String::new(), Vec::new());
    for number in 0..CASES {
        let (id, bytes) = (format!("{number:012x}"), 8_u64 << (number % 20));
        let parameters = json!({
            "op": "all_reduce", "ranks": 2, "backend": "sim", "device": "cpu", "dtype": "f32", "reduce": "sum",
            "bytes": bytes, "in_place": true, "buffers": "registered", "touch": false, "mode": "streaming",
            "seed": number / 20
        });
        let time = bytes as f64 * 1e-9 + 1e-6;
        let times = json!({
            "median": time, "ci95": [time, time], "mean": time, "p05": time, "p50": time, "p95": time, "p99": time,
            "min": time, "max": time
        });
        let line = json!({
            "schema": 1, "id": id, "benchmark": "collective", "parameters": parameters, "status": "ok", "ranks": 2,
            "runtime": "native", "backend": "sim", "device": "cpu", "dtype": "f32", "mode": "streaming", "bytes": bytes,
            "samples": 60, "trials": 6, "time_s": times, "trial_median_s": [time, time, time, time, time, time],
            "trial_round": [0, 1, 2, 3, 4, 5], "algbw_gbs": 1.0, "busbw_gbs": 1.0, "wrong": 0, "caveats": ["simulated"],
            "simulated": true
        });
        writeln!(lines, "{line}").unwrap();
        cases.push(json!({
            "id": id, "benchmark": "collective", "parameters": parameters, "settings": {"max_seconds": 5},
            "world": {"ranks": 2, "backend": "sim"}, "caveats": [], "bytes_requested": bytes, "skip": null
        }));
    }
    let machine = json!({"host": "h", "os": "", "kernel": "", "arch": "x86_64", "cpu_model": "invented"});
    let declared = record::Declared::of(benchmarks::benchmark("collective").unwrap().about());
    let about: Value = json!({
        "schema": 1, "tool": {"name": "rankmark", "version": "0.1.0"}, "experiment": "huge",
        "started": "2026-11-20T10:15:00Z", "command_line": [], "machine": machine, "benchmarks": [declared], "simulated": true,
        "plan": {"experiment": "huge", "profiling": false, "cases": cases}
    });
    std::fs::create_dir(place.path(name)).unwrap();
    place.write(&format!("{name}/run.json"), about.to_string()).write(&format!("{name}/cases.jsonl"), lines);
    place.write(&format!("{name}/samples.jsonl"), "");
}

/// Bytes that a live process has held at most; 0 once it has ended.
fn most_memory(live: &Live<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", live.pid())).unwrap_or_default();
    let held =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    held.unwrap_or(0) * 1024
}

/// Ctrl-C ends it at once, as it ends any program; a shell calls that 130.
fn ends_at_once(live: Live<'_>) {
    live.signal(libc::SIGINT);
    let since = Instant::now();
    let ended = live.wait();
    let took = since.elapsed();
    let code = ended.status.code().or_else(|| ended.status.signal().map(|signal| 128 + signal));
    assert_eq!(code, Some(130), "{}{}", ended.out, ended.err);
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn a_plan_of_the_most_cases_is_checked_in_seconds() {
    if !skip::heavy(NAME) {
        return;
    }
    let place = Place::new();
    place.write("plan.yaml", plan());
    let ended = place.run("validate --quick --json --plan plan.yaml");
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    // The plan's own, and the training cases that overlap needs.
    assert_eq!(told["plan"]["cases"], CASES + CASES / 4, "{}", ended.err);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
}

#[test]
fn a_report_of_many_cases_takes_seconds_and_little_memory() {
    if !skip::heavy(NAME) {
        return;
    }
    let place = Place::new();
    record(&place, "out");
    let mut live = place.start("report out");
    let mut most = 0;
    assert!(wait_until(Duration::from_secs(60), || {
        most = most.max(most_memory(&live));
        live.has_ended()
    }));
    let ended = live.wait().exits(0);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    // 5 KB a case, and what a report takes whatever it is of.
    let bound = CASES as u64 * 5_000 + (48 << 20);
    assert!((1..bound).contains(&most), "{most} bytes of {bound}");
    assert_eq!(place.read("out/cases.csv").lines().count(), 1 + CASES);
}

#[test]
fn ctrl_c_ends_the_reading_of_a_plan() {
    if !skip::heavy(NAME) {
        return;
    }
    let place = Place::new();
    place.write("plan.yaml", plan());
    for command in ["validate --quick --plan plan.yaml", "run plan.yaml --output-dir out"] {
        let mut live = place.start(command);
        // It says nothing meanwhile. Reading takes longer than this, which is seen where it has ended.
        assert!(wait_until(Duration::from_secs(60), || most_memory(&live) > 24 << 20), "{command}");
        assert!(!live.has_ended() && !place.path("out").exists(), "{command} was over too soon to be interrupted");
        ends_at_once(live);
    }
    assert!(!place.path("out").exists());
}

#[test]
fn ctrl_c_ends_the_writing_of_a_report() {
    if !skip::heavy(NAME) {
        return;
    }
    let place = Place::new();
    for (name, command) in [("one", "report one"), ("other", "run --resume other")] {
        record(&place, name);
        let live = place.start(command);
        let written = place.path(&format!("{name}/report.md"));
        assert!(wait_until(Duration::from_secs(60), || written.exists()), "{command}");
        ends_at_once(live);
        assert!(!place.path(&format!("{name}/charts/all_reduce-time.png")).exists(), "{command} was over already");
        place.run(&format!("report {name}")).exits(0);
        assert!(place.path(&format!("{name}/charts/all_reduce-time.png")).exists());
    }
}
