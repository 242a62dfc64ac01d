//! Ranks that a fork server forks: they are children of the coordinator as others are, and no server outlives its run.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{FIXED, torch};
use crate::place::{Live, Place, reason, statuses};
use crate::processes::{Aim, wait_until};

/// The argument of a fork server's Python.
const SERVER: &str = "__rank=server,";

/// Fork servers of this run.
fn servers(live: &Live<'_>) -> Vec<u32> {
    let is_server = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|argument| argument.starts_with(SERVER))
    };
    // A process between is there for a moment only.
    let parent = |pid: &u32| stat(*pid).is_some_and(|fields| fields[1] == live.pid().to_string());
    live.processes().into_iter().filter(is_server).filter(parent).collect()
}

/// What /proc/PID/stat says after the name: state, parent, group, session.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let environment = String::from_utf8_lossy(&environment).into_owned();
    environment.split('\0').find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

#[test]
fn ranks_are_children_of_the_coordinator_and_all_end_with_it() {
    let Some(python) = torch("forked PyTorch ranks") else { return };
    let place = Place::new();
    let endless = "--bytes 1KiB --trials 500 --spacing 0.2s --iters 6 --warmup 1 --limits false --output-dir r";
    let live = place.start(&format!("comm all_reduce --backend gloo --python {python} --ranks 2 {endless}"));
    // `ranks` finds children of the coordinator that say in their argument which rank they are.
    let mut leads = false;
    let seen = wait_until(Duration::from_secs(60), || {
        let ranks = live.ranks();
        leads = ranks.iter().all(|rank| {
            let (own, fields) = (rank.pid.to_string(), stat(rank.pid));
            fields.is_none_or(|fields| fields[2] == own && fields[3] == own)
        });
        ranks.iter().map(|rank| rank.rank).eq([0, 1]) && leads
    });
    assert!(seen && leads);
    assert_eq!(servers(&live).len(), 1);
    live.signal(libc::SIGKILL);
    // `wait` looks for processes that are left.
    assert!(!live.wait().status.success());
}

#[test]
fn a_new_fork_server_follows_one_that_was_killed() {
    let Some(python) = torch("a fork server that is killed") else { return };
    let place = Place::new();
    let options = "--bytes 1KiB --trials 6 --spacing 0.5s --iters 6 --warmup 1 --limits false --output-dir r";
    let live = place.start(&format!("comm all_reduce --backend gloo --python {python} --ranks 2 {options}"));
    live.await_lines(&place.path("r/cases.jsonl"), 1);
    let killed = servers(&live);
    assert_eq!(killed.len(), 1);
    Aim::at(killed[0]).unwrap().send(libc::SIGKILL).unwrap();
    let ended = live.wait();
    let words = format!("the fork server of PyTorch ranks (pid {}) died of SIGKILL", killed[0]);
    // It may be struck while it forks a rank: the world fails then, and names it.
    let case = &place.cases("r")[0];
    match case["status"].as_str() {
        Some("ok") => {
            assert!(ended.err.contains(&format!("{words}; a new one starts")), "{}", ended.err);
            assert_eq!((case["trials"].as_u64(), case["worlds"].as_str()), (Some(6), Some("fresh")), "{case}");
        }
        _ => assert!(reason(case).contains(&words[..words.len() - 16]), "{case}"),
    }
}

#[test]
fn worlds_of_different_environments_have_their_own() {
    let Some(python) = torch("fork servers of two environments") else { return };
    let place = Place::new();
    let plan = format!(
        "experiment: environments
defaults: {{runtime: pytorch, python: {python}, ranks: 2, limits: false}}
cases:
  - {{benchmark: collective, op: all_reduce, bytes: 1KiB, env: [OMP_NUM_THREADS=1]}}
  - {{benchmark: collective, op: all_reduce, bytes: 1KiB, env: [OMP_NUM_THREADS=2]}}
"
    );
    place.write("plan.yaml", plan);
    let mut live = place.start("run plan.yaml --trials 4 --spacing 0.2s --output-dir r");
    let mut seen = BTreeSet::new();
    let mut most = 0;
    while !live.has_ended() {
        most = most.max(servers(&live).len());
        let of = |rank: &crate::processes::RankProcess| variable(rank.pid, "OMP_NUM_THREADS");
        seen.extend(live.ranks().iter().filter_map(of));
        std::thread::sleep(Duration::from_millis(5));
    }
    live.wait().exits(0);
    assert_eq!(statuses(&place.cases("r")), [2, 0, 0, 0]);
    assert_eq!((seen.into_iter().collect::<Vec<_>>(), most), (vec!["1".to_owned(), "2".to_owned()], 2));
}

#[test]
fn only_ranks_that_are_forked_are_new_in_each_round() {
    let Some(python) = torch("worlds of PyTorch ranks over rounds") else { return };
    let place = Place::new();
    let options = format!("--python {python} --ranks 2 --bytes 1KiB --bind none,core --trials 2 --spacing 0s {FIXED}");
    place.run(&format!("comm all_reduce --backend gloo {options}")).exits(0);
    let cases = place.cases("r");
    let worlds = |case: &serde_json::Value| (case["parameters"]["bind"].clone(), case["worlds"].clone());
    let expected = [("none", "fresh"), ("core", "kept")].map(|(bind, worlds)| (bind.into(), worlds.into()));
    assert_eq!(cases.iter().map(worlds).collect::<Vec<_>>(), expected);
}

#[test]
fn a_thread_of_a_library_is_a_reason_to_start_ranks_one_by_one() {
    let Some(python) = torch("a Python with a thread of its own") else { return };
    let place = Place::new();
    std::fs::create_dir(place.path("packages")).unwrap();
    let thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n";
    place.write("packages/sitecustomize.py", thread);
    let arguments = "comm all_reduce --backend gloo --ranks 2 --bytes 1KiB --trials 3 --spacing 0s";
    let mut starting = place.command(&format!("{arguments} --python {python} {FIXED}"));
    starting.command.env("PYTHONPATH", place.path("packages"));
    let ended = starting.run().exits(0);
    let words = "note: PyTorch ranks are started one by one, each imports torch: fork server: 1 thread";
    assert_eq!(ended.err.matches(words).count(), 1, "{}", ended.err);
    // The first round was to have a new world; what follows keeps its own.
    assert_eq!(place.cases("r")[0]["worlds"], "mixed", "{:?}", place.cases("r"));
}

#[test]
fn where_a_hung_rank_stands_is_told() {
    let Some(python) = torch("the stack of a PyTorch rank that hangs") else { return };
    let place = Place::new();
    let options = format!("--python {python} --ranks 2 --bytes 1KiB --inject stop:rank=1,at=5 {FIXED}");
    let ended = place.run(&format!("comm all_reduce --backend gloo {options}")).exits(1);
    let case = &place.cases("r")[0];
    assert_eq!(case["status"], "failed", "{case} {}", ended.err);
    let words = ["rank 1 (pid ", "is stopped in all_reduce #5", "; stack of rank 1: "];
    words.iter().for_each(|word| assert!(reason(case).contains(word), "`{word}` is not in {case}"));
}
