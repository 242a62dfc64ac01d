//! Folders of logs of other programs: what is imported, and what is said of several runs a side.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::place::{Place, json_lines};

/// A log of nccl-tests whose times are so many times as long, last changed so many days after the first of October 2025.
fn log(place: &Place, name: &str, day: u64, factor: f64) {
    let mut text = include_str!("archive_head.txt").to_owned();
    for (bytes, time) in [(1_048_576u32, 25.0), (4_194_304, 41.0)] {
        let time = time * factor;
        let rate = f64::from(bytes) / time / 1e3;
        let half = format!("{time:7.2} {rate:7.2} {rate:7.2}      0");
        text += &format!("{bytes:12} {:12}     float     sum      -1 {half} {half}\n", bytes / 4);
    }
    text += "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.0\n#\n";
    write(place, name, text.as_bytes(), day);
}

fn write(place: &Place, name: &str, bytes: &[u8], day: u64) {
    let path = place.path(name);
    fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(1_759_276_800 + day * 86_400);
    File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
}

/// A text without its line ends.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const NOISE: [f64; 6] = [1.0, 1.01, 0.99, 1.005, 0.995, 1.002];

/// Six equal logs in `old`, in which names and dates have opposite orders, among files of other kinds.
fn archive(place: &Place) {
    for (at, factor) in NOISE.iter().enumerate() {
        log(place, &format!("old/{}/run.log", 9 - at), at as u64, *factor);
    }
    write(place, "old/notes.txt", b"nothing was changed this week\n", 0);
    write(place, "old/core.bin", &[0, 1, 2, 3], 0);
    write(place, "old/.hidden.log", b"x\n", 0);
    let heading = include_str!("archive_head.txt").lines().nth(9).unwrap();
    write(place, "old/broken.log", heading.as_bytes(), 0);
}

#[test]
fn a_folder_of_logs_is_one_record_a_run_in_the_order_of_time() {
    let place = Place::new();
    archive(&place);
    let told = place.run("import old --output-dir records").exits(0);
    for word in [
        "old holds 6 runs: 6 of nccl-tests 2.17.6",
        "2025-10-01T00:00:00Z to 2025-10-06T00:00:00Z",
        "6 runs are dated by when the file last changed",
        "files of other kinds",
        "rankmark history records",
    ] {
        assert!(told.out.contains(word), "{word} is missing in {}", told.out);
    }
    let started = |record: &str| place.run_file(&format!("records/{record}"))["started"].clone();
    let dates: Vec<_> = (1..=6).map(|run| started(&format!("{run}-run"))).collect();
    let expected: Vec<String> = (1..=6).map(|day| format!("2025-10-0{day}T00:00:00Z")).collect();
    assert_eq!(dates, expected);
    assert!(Path::new(&place.path("records/index.html")).is_file());
    let lines = json_lines(&place.run("import old --json").exits(0).out);
    let summary = lines.last().unwrap();
    assert_eq!((lines.len(), &summary["runs"]), (7, &6.into()), "{summary}");
    assert_eq!(summary["other_files"].as_u64().unwrap() + summary["unread"].as_array().unwrap().len() as u64, 3);
}

#[test]
fn six_equal_logs_and_a_slow_one_are_worse() {
    let place = Place::new();
    archive(&place);
    log(&place, "new/slow.log", 9, 1.44);
    place.run("import old --output-dir records/old").exits(0);
    place.run("import new --output-dir records/new").exits(0);
    let told = place.run("compare records/old records/new").exits(1);
    for word in [
        "records/old (6 runs) -> records/new",
        "worse: 4 of 4 cases",
        "known from 6 equal runs, one statistic each",
        "rankmark history records/old records/new",
    ] {
        assert!(told.out.contains(word), "{word} is missing in {}", told.out);
    }
    let same = place.run("compare records/old/1-run records/old/2-run --new records/old/3-run records/old/4-run");
    let same = same.exits(3);
    assert!(same.out.contains("too few runs, with one statistic each"), "{}", same.out);
    let single = place.run("compare records/old/1-run records/new/1-slow").exits(3);
    assert!(unwrapped(&single.out).contains("5 equal runs on one side, or 3 on each"), "{}", single.out);
    let history = place.run("history records").exits(0);
    for word in ["node01: NVIDIA A100-SXM4-80GB, nccl-tests", "(imported)", "7 runs, 4 cases", "the files have no date"]
    {
        assert!(history.out.contains(word), "{word} is missing in {}", history.out);
    }
    place.run("baseline save archive records/old").exits(0);
    place.run("baseline check archive records/new").exits(1);
}

#[test]
fn what_differs_stands_before_the_figures() {
    let place = Place::new();
    archive(&place);
    for at in 0..3u32 {
        log(&place, &format!("new/run{at}.log"), 9 + u64::from(at), 1.0 + f64::from(at) / 200.0);
        let path = place.path(&format!("new/run{at}.log"));
        let text = fs::read_to_string(&path).unwrap().replace("nccl-library=22703", "nccl-library=22800");
        fs::write(&path, if at == 2 { text.replace("iters: 20", "iters: 40") } else { text }).unwrap();
    }
    place.run("import old --output-dir a").exits(0);
    place.run("import new --output-dir b").exits(0);
    let told = place.run("compare a b --fail-on none").exits(0);
    let at = |word: &str| told.out.find(word).unwrap_or_else(|| panic!("{word} is missing in {}", told.out));
    assert!(at("WARNING: the runs of the new side are not equal") < at("what differs"));
    assert!(at("what differs") < at("new / base"), "{}", told.out);
    assert!(at("nccl     2.27.3             2.28.0") < at("new / base"), "{}", told.out);
    let basis = "known from 6 runs of the base and 3 of the new side, one statistic each";
    assert!(unwrapped(&told.out).contains(basis), "{}", told.out);
}

#[test]
fn a_folder_without_results_says_what_it_holds() {
    let place = Place::new();
    for at in 0..200 {
        write(&place, &format!("logs/{at}.txt"), b"hello\n", 0);
    }
    let told = place.run("import logs").exits(2);
    assert!(told.err.contains("no file in logs holds results or traces that can be read"), "{}", told.err);
    assert!(told.err.contains("200 files of other kinds"), "{}", told.err);
    log(&place, "logs/one.log", 3, 1.0);
    let told = place.run("import logs --output-dir one").exits(0);
    assert!(told.out.contains("left out: 200 files of other kinds"), "{}", told.out);
}
