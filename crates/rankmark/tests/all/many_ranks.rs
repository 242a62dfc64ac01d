//! Simulated worlds of many ranks: what runs and their records take does not grow with the ranks. The bounds are several times
//! those of a release build: tests run unoptimised, and next to others.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::{Value, json};

use crate::place::{Place, statuses};

/// Seconds of processor time that a command may take, and bytes that it may hold.
const SECONDS: f64 = 10.0;
const BYTES: u64 = 200 << 20;
/// Bytes that a file of a record or report may have.
const FILE: u64 = 2 << 20;

/// Runs the program to its end within these bounds.
#[expect(clippy::zombie_processes, reason = "wait4 waits, and also tells what the process took")]
fn runs(place: &Place, arguments: &str, codes: &[i32]) {
    let child = place.command(arguments).command.spawn().unwrap();
    let mut status = 0;
    // SAFETY: `rusage` is plain data, for which all zeros are valid; both pointers are valid for the call, and the process is a
    // child that nobody else waits for.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::wait4(child.id() as i32, &mut status, 0, &mut usage), child.id() as i32);
        usage
    };
    let code = ExitStatus::from_raw(status).code();
    assert!(code.is_some_and(|code| codes.contains(&code)), "{arguments}: {code:?}");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let (took, held) = (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss as u64 * 1024);
    assert!(took < SECONDS && held < BYTES, "{arguments}: {took} s, {held} bytes");
}

fn files(folder: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of = |entry: std::fs::DirEntry| match entry.file_type().unwrap().is_dir() {
        true => files(&entry.path()),
        false => vec![(entry.path().display().to_string(), entry.metadata().unwrap().len())],
    };
    entries.flat_map(of).collect()
}

#[test]
fn a_thousand_ranks_take_what_two_take() {
    let place = Place::new();
    runs(&place, "comm all_reduce --backend sim --ranks 1024 --bytes 1KiB --quiet --output-dir out", &[0]);
    let line = &place.cases("out")[0];
    assert_eq!((&line["samples"], &line["wrong"], line.get("checked")), (&1.into(), &0.into(), None), "{line}");
    // Noise has several trials of many samples, and these are equal on all ranks.
    runs(
        &place,
        "comm all_reduce --backend sim --ranks 1024 --bytes 1KiB --noise 5% --trials 6 --quiet --output-dir noisy",
        &[0],
    );
    let line = &place.cases("noisy")[0];
    assert!(line["samples"].as_u64() > Some(100), "{line}");
    for (name, bytes) in files(&place.path("noisy")) {
        assert!(bytes < FILE, "{name}: {bytes} bytes");
    }
}

#[test]
fn records_of_sixteen_thousand_ranks_are_small_and_quickly_read() {
    let place = Place::new();
    let run = "comm all_reduce,barrier --backend sim --ranks 16384 --bytes 1KiB,1MiB --quiet --output-dir";
    runs(&place, &format!("{run} one"), &[0]);
    // A rank that is late has a row of its own.
    runs(&place, &format!("{run} other --inject delay:rank=9000,time=1ms --iters 50"), &[0]);
    let lines = place.cases("one");
    assert_eq!(statuses(&lines), [3, 0, 0, 0]);
    assert!(lines.iter().all(|line| line["ranks"] == 16384 && line.get("per_rank_median_s").is_none()));
    runs(&place, "report one", &[0]);
    runs(&place, "list records .", &[0]);
    runs(&place, "compare one other", &[0, 1, 3]);
    for (name, bytes) in files(&place.path("one")) {
        assert!(bytes < FILE, "{name}: {bytes} bytes");
    }
}

/// Nobody needs as many cores to learn what a mesh would hold.
#[test]
fn memory_of_more_ranks_than_cores_is_planned_and_nothing_is_started() {
    let place = Place::new();
    let dry = place.run("memory --ranks 1024 --model gpt2 --dry-run").exits(0).out;
    assert!(dry.contains("times are computed: no waiting") && dry.contains("1 would run"), "{dry}");
    let ended = place.run("memory --ranks 1024 --model gpt2 --sharded 0,3 --output-dir r").exits(0);
    assert!(ended.took.as_secs() < 60 && ended.out.contains("SIMULATED: computed, not measured"), "{ended:?}");
    let cases = place.cases("r");
    let predicted = |case: &Value| {
        assert_eq!((&case["status"], &case["simulated"]), (&json!("ok"), &json!(true)), "{case}");
        assert!(case["time_s"].is_null() && case["memory"]["measured"]["total"].as_u64().unwrap_or(0) == 0, "{case}");
        case["memory"]["predicted"]["parameters"].as_f64().unwrap()
    };
    let [replicated, sharded] = [predicted(&cases[0]), predicted(&cases[1])];
    assert!(replicated > 100.0 * sharded, "each of 1024 ranks has a part: {replicated} and {sharded}");
    place.run("run --resume r").exits(0);
    // A search without a limit is for what fits this machine.
    let out = place.run("memory --ranks 1024 --model gpt2 --find-max-batch --dry-run").exits(2).out;
    assert!(out.contains("not enough memory"), "{out}");
}

#[test]
fn a_plan_says_whether_many_ranks_keep_a_limit_and_with_which_batch() {
    let place = Place::new();
    let memory = "memory --model gpt2 --ranks 64 --strategy hybrid";
    let words = |out: String| out.split_whitespace().collect::<Vec<&str>>().join(" ");
    let fits = words(place.run(&format!("{memory} --limit 80GiB --output-dir fits")).exits(0).out);
    let verdict = "Planned, not measured: all figures are computed from the plan.";
    assert!(fits.contains(verdict) && fits.contains("the fullest, holds 1."), "{fits}");
    let page = place.read("fits/report.html");
    let shows = |words: &str| page.contains(words);
    // The figures of the only row, and no cores of ranks that never ran.
    assert!(shows("Planned, not measured") && shows("89.8 GiB") && !shows("Placement"), "{page}");
    let exceeds = place.run(&format!("{memory} --limit 1GiB --output-dir exceeds")).exits(1).out;
    assert!(exceeds.contains("out of memory on rank 0") && exceeds.contains("its limit is 1.00 GiB"), "{exceeds}");
    assert!(!exceeds.contains("rerun"), "it would be planned in the same way: {exceeds}");
    let largest =
        words(place.run(&format!("{memory} --limit 8GiB --find-max-batch --output-dir largest")).exits(0).out);
    assert!(largest.contains("it is predicted to fit, and one more is not"), "{largest}");
    let found = place.cases("largest").iter().find_map(|case| case["max_batch"].as_u64()).unwrap();
    for (batch, code) in [(found, 0), (found + 1, 1)] {
        place.run(&format!("{memory} --limit 8GiB --batch {batch} --output-dir at{batch}")).exits(code);
    }
}
