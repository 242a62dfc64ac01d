//! Ranks that are killed or stopped inside an operation: the case says who, in what; the others are as good as ever.

use std::time::Duration;

use terms::{Collective, Named as _};

use crate::place::{Place, reason, statuses};

/// Every operation.
fn operations() -> Vec<&'static str> {
    Collective::ALL.iter().map(|op| op.name()).collect()
}

/// A plan of these operations, each once with the fault and, after it in the same kind of world, once without.
fn plan(operations: &[&str], fault: &str) -> String {
    let case = |op: &&str| {
        let head = format!("  - {{benchmark: collective, op: {op}, bytes: 16KiB");
        let head = if *op == "barrier" { head.replace(", bytes: 16KiB", "") } else { head };
        format!("{head}, inject: \"{fault}\"}}\n{head}}}\n")
    };
    let cases: String = operations.iter().map(case).collect();
    format!("experiment: faults\ndefaults: {{ranks: 2, max_seconds: 0.02s, limits: false}}\ncases:\n{cases}")
}

/// Runs the plan and gives the reasons of the failed cases, by operation.
fn failures(operations: &[&str], fault: &str) -> Vec<(String, String)> {
    let place = Place::new();
    place.write("plan.yaml", plan(operations, fault));
    let ended = place.run("run plan.yaml --output-dir out").exits(1);
    let lines = place.cases("out");
    assert_eq!(statuses(&lines), [operations.len(), operations.len(), 0, 0], "{}", ended.out);
    for line in &lines {
        let injected = line["parameters"].get("inject").is_some();
        assert_eq!(line["status"], if injected { "failed" } else { "ok" }, "{line}");
        assert!(line.get("time_s").is_none() || !injected, "{line}");
    }
    let failed = lines.iter().filter(|line| line["status"] == "failed");
    let failed: Vec<_> =
        failed.map(|line| (line["parameters"]["op"].as_str().unwrap().to_owned(), reason(line).to_owned())).collect();
    failed.iter().for_each(|(_, reason)| assert!(ended.out.contains(reason), "{reason} is not in {}", ended.out));
    assert!(ended.out.contains(&format!("{0} ok, {0} failed", operations.len())), "{}", ended.out);
    assert!(ended.out.contains("rankmark run --resume out"), "{}", ended.out);
    failed
}

#[test]
fn a_rank_without_memory_ends_at_once() {
    use std::os::unix::process::CommandExt;
    // From no room for a backtrace to some.
    for room in [110 << 20, 125 << 20, 140 << 20, 150 << 20] {
        let place = Place::new();
        let arguments = "train --model gpt2-mini --batch 64 --ranks 2 --steps 1 --timeout 60s --output-dir out";
        let mut starting = place.command(arguments);
        starting.command.env("RUST_BACKTRACE", "1");
        // SAFETY: a system call between fork and exec, on a value of its own.
        unsafe {
            starting.command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: room, rlim_max: room };
                if libc::setrlimit(libc::RLIMIT_AS, &limit) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        let ended = starting.run();
        assert!(ended.took < Duration::from_secs(30), "{room}: {:?}", ended.took);
        let cases = place.cases("out");
        // Where the first allocation is refused the rank says so itself, and the case is skipped.
        let [ok, failed, skipped, not_run] = statuses(&cases);
        assert_eq!((ok, failed + skipped, not_run), (0, 1, 0), "{room}: {ended:?}");
        let why = reason(&cases[0]);
        assert!(why.contains("memory") && !why.contains("no answer"), "{room}: {why}");
    }
}

#[test]
fn a_rank_killed_in_any_operation() {
    for (op, reason) in failures(&operations(), "kill:rank=1,at=5") {
        assert!(reason.starts_with("rank 1 (pid "), "{op}: {reason}");
        assert!(reason.contains("died of signal 9 (SIGKILL)"), "{op}: {reason}");
        assert!(reason.contains(&format!("in {op} #5")), "{op}: {reason}");
    }
}

#[test]
fn a_rank_killed_in_its_first_operation_and_rank_0() {
    for (op, reason) in failures(&["all_reduce", "barrier"], "kill:rank=0,at=0") {
        assert!(reason.starts_with("rank 0 (pid ") && reason.contains(&format!("in {op} #0")), "{reason}");
    }
}

#[test]
fn a_rank_stopped_in_any_operation() {
    // Noticing a stop takes a second or two, in which nothing is computed: four plans at a time.
    let operations = operations();
    let stopped: Vec<_> = std::thread::scope(|scope| {
        let parts = operations.chunks(3).map(|part| scope.spawn(move || failures(part, "stop:rank=1,at=5")));
        parts.collect::<Vec<_>>().into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert_eq!(stopped.len(), operations.len());
    for (op, reason) in stopped {
        assert!(reason.starts_with("rank 1 (pid ") && reason.contains("is stopped"), "{op}: {reason}");
        assert!(reason.contains(&format!("in {op} #5")), "{op}: {reason}");
    }
}

#[test]
fn a_rank_that_is_only_late_is_not_at_fault() {
    let place = Place::new();
    let arguments = "comm all_reduce --bytes 1KiB --iters 6 --limits false --inject delay:rank=1,time=1ms,every=1";
    place.run(&format!("{arguments} --output-dir out")).exits(0);
    let line = &place.cases("out")[0];
    assert_eq!((line["status"].as_str(), line["wrong"].as_u64()), (Some("ok"), Some(0)), "{line}");
    assert!(line["time_s"]["median"].as_f64().unwrap() >= 1e-3, "{line}");
}

#[test]
fn a_case_past_its_deadline_names_who_is_late() {
    let place = Place::new();
    let fault = "--inject delay:rank=1,at=3,every=0,time=600s --timeout 1s --max-seconds 0.02s";
    let live = place.start(&format!("comm all_reduce,broadcast --bytes 1KiB {fault} --output-dir out"));
    live.wait_for(Duration::from_secs(60)).exits(1);
    for line in place.cases("out") {
        let op = line["parameters"]["op"].as_str().unwrap();
        let said = reason(&line);
        assert!(said.contains("within ") && said.contains("rank 1"), "{said}");
        assert!(said.contains(op) && said.contains("#3"), "{said}");
    }
}

#[test]
fn a_rank_that_hangs_alive_is_named_with_its_stack_within_15_s() {
    let place = Place::new();
    let fault = "--inject delay:rank=1,time=60s,at=5,every=0 --timeout 14s --max-seconds 0.02s";
    let live = place.start(&format!("comm all_reduce --ranks 2 --bytes 1KiB {fault} --limits false --output-dir out"));
    live.await_ranks(2);
    live.await_error("the run goes on; this command ends", Duration::from_secs(15));
    let ended = live.wait_for(Duration::from_secs(60)).exits(1);
    let (_, notice) =
        ended.err.split_once("stall: no progress for 10 s in `").unwrap_or_else(|| panic!("{}", ended.err));
    assert!(notice.contains("rank 0 waits in all_reduce #5, 1KiB; rank 1 (pid "), "{notice}");
    assert!(notice.contains("is after all_reduce #4, 1KiB, before #5, using no processor time\n"), "{notice}");
    assert!(notice.contains("clock_nanosleep (libc") && notice.contains("trace::point::Hook"), "{notice}");
    assert_eq!(ended.err.matches("stall: ").count(), 1, "once a command: {}", ended.err);
    let why = reason(&place.cases("out")[0]).to_owned();
    assert!(why.contains("rank 1") && why.contains("; stack of rank 1: ") && why.contains("nanosleep <- "), "{why}");
    let report = place.read("out/report.md");
    assert!(report.contains("stack of rank 1: "), "{report}");
}

/// All ranks of a call take as long as the late one, so their own times do not tell which that is.
#[test]
fn the_verdict_names_the_rank_that_others_wait_for() {
    let place = Place::new();
    let line = "comm all_reduce --backend sim --ranks 3 --bytes 6000 --inject delay:rank=0,time=20us --output-dir r";
    let out = place.run(line).exits(0).out;
    assert!(out.contains("rank 0 is last more often") && !out.contains("ank 2 is"), "{out}");
    assert!(place.read("r/report.md").contains("The others wait for rank 0"), "{}", place.read("r/report.md"));
}
