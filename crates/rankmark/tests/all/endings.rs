//! The coordinator is killed: nothing of it is left, and its record can be resumed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use crate::place::{ORPHANS, Place, json_lines, statuses};
use crate::processes::wait_until;

const PLAN: &str = "experiment: ended
defaults: {ranks: 3, max_seconds: 0.15s, target_precision: 0, limits: false}
cases:
  - {benchmark: collective, op: [all_reduce, broadcast, barrier, all_to_all], bytes: 1MiB}
";

/// Names in /dev/shm that are ours by their looks; those of a run of its process number, too.
fn shared_memory(pid: u32) -> BTreeSet<String> {
    let names = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // The number as a whole: digits of another program's number are not it, nor those of its hexadecimal names.
    let numbers = |name: &str| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|number| number == pid.to_string());
    names.filter(|name| name.contains("rankmark") || numbers(name)).collect()
}

/// Unix sockets with a name (or abstract ones) that speak of rankmark.
fn named_sockets() -> usize {
    fs::read_to_string("/proc/net/unix").unwrap_or_default().lines().filter(|line| line.contains("rankmark")).count()
}

/// Kills the coordinator when its record holds so many lines; all else of it must go by itself.
fn kill_coordinator(backend: &str, lines: usize) {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let mut live = place.start(&format!("run plan.yaml --backend {backend} --output-dir out"));
    let ranks = live.await_ranks(3);
    live.await_lines(&place.path("out/cases.jsonl"), lines);
    let processes = live.processes();
    assert!(ranks.iter().all(|rank| processes.contains(&rank.pid)), "{ranks:?} are not all in {processes:?}");
    live.child.kill().unwrap();
    live.child.wait().unwrap();
    let since = Instant::now();
    assert!(wait_until(ORPHANS, || live.processes().is_empty()), "{:?} are orphans", live.processes());
    assert!(since.elapsed() < ORPHANS);
    assert_eq!(shared_memory(live.pid()), BTreeSet::new());
    assert_eq!(fs::read_dir(place.temporary()).unwrap().count(), 0, "temporary files are left");
    // Whole lines only, and the rest runs: a dead run's lock is not a lock.
    let kept = json_lines(&place.read("out/cases.jsonl"));
    assert_eq!(statuses(&kept), [kept.len(), 0, 0, 0]);
    place.run("report out").exits(0);
    place.run("run --resume out").exits(0);
    assert_eq!(statuses(&place.cases("out")), [4, 0, 0, 0]);
}

#[test]
fn a_killed_coordinator_leaves_nothing() {
    for lines in [0, 2] {
        kill_coordinator("shm", lines);
    }
    kill_coordinator("reference", 1);
}

#[test]
fn an_orderly_end_leaves_nothing() {
    let place = Place::new();
    let sockets = named_sockets();
    for backend in ["shm", "reference", "sim"] {
        let live = place.start(&format!("comm all_reduce --bytes 1KiB --max-seconds 0.02s --backend {backend}"));
        let pid = live.pid();
        live.wait().exits(0);
        assert_eq!(shared_memory(pid), BTreeSet::new());
    }
    assert_eq!(fs::read_dir(place.temporary()).unwrap().count(), 0, "temporary files are left");
    assert!(wait_until(Duration::from_secs(20), || named_sockets() <= sockets), "sockets are left");
}

#[test]
fn a_coordinator_killed_between_trials_goes_on() {
    let place = Place::new();
    let arguments =
        "comm all_reduce --bytes 1KiB,2KiB --trials 3 --spacing 0.2s --max-seconds 0.3s --target-precision 0";
    let mut live = place.start(&format!("{arguments} --limits false --output-dir out"));
    live.await_lines(&place.path("out/cases.jsonl"), 3);
    live.child.kill().unwrap();
    assert_eq!(live.child.wait().unwrap().signal(), Some(libc::SIGKILL));
    drop(live);
    assert!(place.cases("out").iter().any(|line| line["trials"] != 3), "it was killed in the middle");
    place.run("run --resume out").exits(0);
    for line in place.cases("out") {
        assert_eq!((line["status"].as_str(), line["trials"].as_u64()), (Some("ok"), Some(3)), "{line}");
    }
    place.run("report out").exits(0);
}
