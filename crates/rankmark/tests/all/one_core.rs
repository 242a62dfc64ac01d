//! All ranks on one core, although the machine has more: a caveat of its own, from the start or from then on.

use std::process::Command;

use serde_json::Value;

use crate::place::Place;
use crate::skip;

const NAME: &str = "all ranks on one core";

/// Whether this machine has a second core, and `taskset` takes it away.
fn can_bind() -> bool {
    let bound = Command::new("taskset").args(["-c", "0", "true"]).status().is_ok_and(|status| status.success());
    let several = std::fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|list| list.trim() != "0");
    if !(bound && several) {
        skip::skip(NAME, "it needs taskset, core 0 and another one");
    }
    bound && several
}

fn has(line: &Value, caveat: &str) -> bool {
    line["caveats"].as_array().unwrap().iter().any(|one| one == caveat)
}

#[test]
fn a_run_that_is_bound_to_one_core_says_by_what() {
    if !can_bind() {
        return;
    }
    let place = Place::new();
    let bound = "comm all_reduce --bytes 1KiB --max-seconds 0.05s --output-dir out --verbose";
    let ended = place.command_under("taskset -c 0", bound).run().exits(0);
    assert!(has(&place.cases("out")[0], "one_core"), "{}", place.cases("out")[0]);
    for words in ["all 2 ranks have to share core 0 of ", "all ranks on one core", "taskset"] {
        assert!(ended.out.contains(words), "`{words}` is missing in {}", ended.out);
    }
    let report = place.read("out/report.md");
    assert!(report.contains("With 2 ranks, all of them had to share one core"), "{report}");
    assert!(!report.contains("share 1 core (oversubscribed)"), "{report}");
    // One rank needs no more than one core, and a computed time none.
    place
        .command_under(
            "taskset -c 0",
            "hardware triad --bytes 1MiB --threads 1 --max-seconds 0.05s --trials 1 --output-dir one",
        )
        .run()
        .exits(0);
    place.command_under("taskset -c 0", "comm all_reduce --backend sim --bytes 1KiB --output-dir sim").run().exits(0);
    for record in ["one", "sim"] {
        assert!(place.cases(record).iter().all(|line| !has(line, "one_core")), "{record}");
    }
}

#[test]
fn ranks_that_are_moved_to_one_core_are_noticed() {
    if !can_bind() {
        return;
    }
    let place = Place::new();
    let mut live = place.start("comm all_reduce --bytes 1KiB --max-seconds 0.3s --trials 6 --output-dir out");
    // As a control group would do it: all of them, again whenever new ones are there.
    while !live.has_ended() {
        for process in live.processes() {
            let _ = Command::new("taskset").args(["-apc", "0", &process.to_string()]).output();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    live.wait().exits(0);
    assert!(has(&place.cases("out")[0], "one_core"), "{}", place.cases("out")[0]);
}
