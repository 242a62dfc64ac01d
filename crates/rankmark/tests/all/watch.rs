//! `rankmark watch`: a run followed from another process.

use std::time::Duration;

use crate::place::Place;

const SMALL: &str = "comm all_reduce --ranks 1 --bytes 1KiB,2KiB,4KiB --output-dir record";

#[test]
fn a_run_is_followed_to_its_end() {
    let place = Place::new();
    let run = place.start(&format!("{SMALL} --trials 3 --max-seconds 1.5 --quiet"));
    run.await_lines(&place.path("record/cases.jsonl"), 1);
    let once = place.run("watch record --once").exits(0);
    assert!(once.out.contains("of 3 cases with a result") && once.out.contains("the run goes on"), "{}", once.out);
    let watch = place.start("watch record --interval 100ms");
    let ran = run.wait().exits(0);
    let watched = watch.wait().exits(0);
    let out = &watched.out;
    let updates = out.lines().filter(|line| line.contains("of 3 cases with a result, ")).count();
    assert!(updates >= 2, "a line an update and the last state: {out}");
    assert!(out.contains("all_reduce") && out.contains("wrong 0") && !out.contains('\u{1b}'), "{out}");
    assert!(out.contains("round 3, 3 of 3 cases with a result, 9 trials"), "{out}");
    assert!(out.contains("  1 KiB ") && out.contains(" 4 KiB  "), "a curve over the sizes: {out}");
    assert!(out.trim_end().ends_with("the run ended"), "{out}");
    // The run did not notice.
    assert!(!ran.err.contains("in use"), "{}", ran.err);
    assert_eq!(place.cases("record").len(), 3);
}

#[test]
fn the_newest_record_is_followed_and_a_missing_one_is_waited_for() {
    let place = Place::new();
    let watch = place.start("watch --interval 100ms");
    std::thread::sleep(Duration::from_millis(500));
    place
        .run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --trials 1 --iters 5 --quiet --name first")
        .exits(0);
    let watched = watch.wait().exits(0);
    assert!(watched.err.contains("note: results holds no record yet; waiting for 10 s"), "{}", watched.err);
    assert!(watched.out.contains("run first, ") && watched.out.contains("SIMULATED"), "{}", watched.out);
    place
        .run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --trials 1 --iters 5 --quiet --name second")
        .exits(0);
    let newest = place.run("watch").exits(0).out;
    assert!(newest.contains("run second, ") && newest.contains("the run ended"), "{newest}");
}

#[test]
fn ctrl_c_ends_the_watch_and_not_the_run() {
    let place = Place::new();
    let mut run = place.start(&format!("{SMALL} --trials 6 --max-seconds 30 --quiet"));
    run.await_lines(&place.path("record/cases.jsonl"), 1);
    let watch = place.start("watch record");
    // The run is quiet, so what is said is the watch's.
    let said = || {
        let names = std::fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap());
        names
            .filter(|entry| entry.file_name().to_string_lossy().ends_with("-stdout"))
            .any(|entry| entry.metadata().is_ok_and(|found| found.len() > 0))
    };
    assert!(crate::processes::wait_until(Duration::from_secs(20), said));
    watch.signal(libc::SIGINT);
    let watched = watch.wait().exits(130);
    assert!(watched.out.trim_end().ends_with("the run goes on"), "{}", watched.out);
    assert!(!run.has_ended());
    run.signal(libc::SIGINT);
    let _ = run.wait();
    // A run that was interrupted has the same status for a user who watched it.
    let after = place.run("watch record --once").exits(1).out;
    assert!(after.contains("INTERRUPTED RUN (SIGINT): ") && after.contains("--resume record"), "{after}");
}

#[test]
fn a_run_that_was_killed_has_ended() {
    let place = Place::new();
    let run = place.start(&format!("{SMALL} --trials 6 --max-seconds 30 --quiet"));
    run.await_lines(&place.path("record/cases.jsonl"), 1);
    run.signal(libc::SIGKILL);
    let _ = run.wait();
    let out = place.run("watch record").exits(1).out;
    assert!(out.contains("KILLED RUN: "), "{out}");
}

/// The lock of a file system without locks stays empty, and stays there.
#[test]
fn a_run_that_holds_no_lock_is_followed_to_the_end_that_its_file_says() {
    let place = Place::new();
    place.run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --iters 5 --quiet --output-dir record").exits(0);
    let ended = place.read("record/run.json");
    let mut open = place.run_file("record");
    let members = open.as_object_mut().unwrap();
    ["end", "crc32"].iter().for_each(|name| drop(members.remove(*name)));
    place.write("record/run.json", open.to_string()).write("record/run.json.lock", "").write("ended.json", ended);
    let mut watch = place.start("watch record --interval 100ms");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!watch.has_ended());
    std::fs::rename(place.path("ended.json"), place.path("record/run.json")).unwrap();
    let out = watch.wait().exits(0).out;
    assert!(out.trim_end().ends_with("the run ended"), "{out}");
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let place = Place::new();
    place.run("watch --interval 1ms").refuses(&["--interval", "too short"]);
    for long in ["1e6s", "1e19s", "1e300s"] {
        place.run(&format!("watch --interval {long}")).refuses(&["--interval", "too long"]);
    }
    place.run("watch --interval soon").exits(2);
    std::fs::create_dir(place.path("record")).unwrap();
    place.write("record/run.json", r#"{"schema": 99}"#);
    place.run("watch record").refuses(&["schema 99"]);
}
