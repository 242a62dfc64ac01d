//! A record whose run was interrupted, was killed, or still goes on: every command that reads records says so. What each report
//! format says is a test of the crate `report`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::place::{Live, Place, json_lines};
use crate::processes::wait_until;

/// Five short cases, and one that lasts until somebody ends the run.
const PLAN: &str = "experiment: cut
defaults: {ranks: 2, max_seconds: 0.2s, limits: false}
cases:
  - {benchmark: collective, op: all_reduce, bytes: [1KiB, 2KiB, 4KiB, 8KiB, 16KiB]}
  - {benchmark: collective, op: all_reduce, bytes: 32KiB, max_seconds: 600s, target_precision: 0}
";

/// A run of the plan with at least one result, which stays in its long case. Cases are visited in random order.
fn stuck(place: &Place) -> Live<'_> {
    place.write("plan.yaml", PLAN);
    let has_result = || std::fs::read_to_string(place.path("out/cases.jsonl")).is_ok_and(|text| text.contains('\n'));
    for _ in 0..20 {
        let run = place.start("run plan.yaml --output-dir out");
        if wait_until(Duration::from_secs(3), has_result) {
            return run;
        }
        // The long case is the first one.
        run.signal(libc::SIGKILL);
        let _ = run.wait();
        let _ = std::fs::remove_dir_all(place.path("out"));
    }
    panic!("no run had a result");
}

/// A complete record of the short cases, and one of another case that it can be merged with.
fn complete(place: &Place) {
    let sizes = "1KiB,2KiB,4KiB,8KiB,16KiB";
    place
        .run(&format!(
            "comm all_reduce --ranks 2 --bytes {sizes} --max-seconds 0.1 --limits false --quiet --output-dir whole"
        ))
        .exits(0);
    place.run("comm broadcast --backend sim --ranks 2 --bytes 1KiB --iters 5 --quiet --output-dir other").exits(0);
}

/// What a reader is to say: the word of JSON, the words of a table, and how the banner begins.
struct Said {
    word: &'static str,
    phrase: String,
    banner: String,
}

/// Where a reader says it.
enum Where {
    Output,
    Error,
    File(&'static str),
}

/// Commands that read records, with the place where each says it. `watch` of a run that goes on has other words.
const READERS: &[(&str, &str, Where)] = &[
    ("list", "list records out", Where::Output),
    ("report", "report out --format markdown,junit --output-dir page", Where::Error),
    ("report", "report out --format markdown,junit --output-dir page", Where::File("page/report.md")),
    ("report", "report whole out --output-dir both", Where::File("both/report.html")),
    ("compare", "compare whole out", Where::Output),
    ("compare", "compare out whole --json", Where::Output),
    ("compare", "compare whole out --junit compare.xml", Where::File("compare.xml")),
    ("history", "history out whole", Where::Output),
    ("history", "history out whole --json", Where::Output),
    ("history", "history out whole --html history.html", Where::File("history.html")),
    ("baseline", "baseline save main out", Where::Error),
    ("baseline", "baseline list", Where::Output),
    ("baseline", "baseline list --json", Where::Output),
    ("baseline", "baseline check main whole", Where::Output),
    ("watch", "watch out --once", Where::Output),
    ("pack", "pack out --output out.tar.gz", Where::Error),
    ("merge", "merge out other --output-dir merged", Where::Error),
    ("fleet", "fleet out", Where::Output),
    ("profile", "profile out", Where::Error),
    ("calibrate", "calibrate out", Where::Error),
    ("predict", "predict --machine a100-nvlink --fit out", Where::Error),
];

/// Commands that read no record, or only make one.
const OTHERS: &[&str] = &[
    "run",
    "hang",
    "comm",
    "primitive",
    "train",
    "memory",
    "hardware",
    "kernel",
    "startup",
    "interference",
    "import",
    "validate",
    "gen-config",
    "gen-job",
    "version",
    "man",
    "schema",
    "completions",
    "help",
];

fn every_reader_says_it(place: &Place, said: &Said) {
    let listed = json_lines(&place.run("list records out --json").exits(0).out).remove(0);
    assert_eq!(listed["end"], said.word, "{listed}");
    let banner = listed["incomplete"].as_str().unwrap();
    let open = listed["cases"]["not_run"].as_u64().unwrap();
    assert!(open > 0 && banner.contains(&format!("{open} of 6 cases did not run")), "{listed}");
    assert!(banner.starts_with(&said.banner), "{listed}");
    let mut silent: Vec<String> = Vec::new();
    for (_, arguments, place_of_it) in READERS {
        let is_running = said.word == "running";
        if is_running && arguments.starts_with("baseline") {
            continue;
        }
        let ended = place.run(arguments);
        assert!(!ended.err.contains("panicked"), "{arguments}: {}", ended.err);
        let text = match place_of_it {
            Where::Output => ended.out,
            Where::Error => ended.err,
            Where::File(name) => place.read(name),
        };
        // Lines of a terminal are as long as it is wide.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = match *arguments {
            "list records out" => said.phrase.as_str(),
            "watch out --once" if is_running => "the run goes on",
            _ => said.banner.as_str(),
        };
        if !text.contains(words) {
            silent.push(format!("{arguments} does not say `{words}`: {text:.300}"));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    if said.word != "running" {
        let merged = place.run("report merged --format markdown").exits(0);
        let named = format!("out is incomplete: {}", said.phrase);
        assert!(merged.err.contains("INCOMPLETE PART: ") && place.read("merged/report.md").contains(&named), "{named}");
    }
}

fn interrupted(signal: i32, name: &str) {
    let place = Place::new();
    complete(&place);
    let run = stuck(&place);
    run.signal(signal);
    let ended = run.wait().exits(128 + signal);
    let banner = format!("INTERRUPTED RUN ({name}): ");
    assert!(ended.out.contains(&banner), "the run itself: {}{}", ended.out, ended.err);
    assert_eq!(place.run_file("out")["end"]["interrupted_by"], name);
    every_reader_says_it(&place, &Said { word: "interrupted", phrase: format!("interrupted by {name}"), banner });
}

#[test]
fn a_run_that_ctrl_c_interrupted() {
    interrupted(libc::SIGINT, "SIGINT");
}

#[test]
fn a_run_that_its_scheduler_interrupted() {
    interrupted(libc::SIGTERM, "SIGTERM");
}

#[test]
fn a_run_that_a_hang_up_interrupted() {
    interrupted(libc::SIGHUP, "SIGHUP");
}

#[test]
fn a_run_that_was_killed() {
    let place = Place::new();
    complete(&place);
    let run = stuck(&place);
    run.signal(libc::SIGKILL);
    let _ = run.wait();
    let banner = "KILLED RUN: the record has no end; ".to_owned();
    every_reader_says_it(&place, &Said { word: "killed", phrase: "killed".to_owned(), banner });
}

#[test]
fn a_run_that_goes_on() {
    let place = Place::new();
    complete(&place);
    let run = stuck(&place);
    let banner = "UNFINISHED RUN: it is still running; ".to_owned();
    every_reader_says_it(&place, &Said { word: "running", phrase: "still running".to_owned(), banner });
    place.run("baseline save main out").refuses(&["out cannot be part of a baseline yet", "still running"]);
    run.signal(libc::SIGINT);
    run.wait().exits(130);
}

/// A command that is new stands in one of the lists.
#[test]
fn each_command_is_a_reader_of_records_or_is_not() {
    let help = Place::new().run("help").exits(0).out;
    let listed = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let rare = help.lines().find_map(|line| line.strip_prefix("More commands: ")).unwrap_or_default();
    let rare = rare.split(';').next().unwrap_or_default();
    let names = listed.chain(rare.split(", ")).map(|name| name.trim_end_matches([',', '.']));
    let is_name = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !name.starts_with('-')
    };
    let names: BTreeSet<&str> = names.filter(is_name).collect();
    let known: BTreeSet<&str> = READERS.iter().map(|(name, ..)| *name).chain(OTHERS.iter().copied()).collect();
    assert!(names.contains("report") && names.contains("merge"), "{help}");
    let unknown: Vec<_> = names.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?} are in no list of {}", file!());
}

#[test]
fn a_run_that_is_resumed_to_its_end_is_complete() {
    let place = Place::new();
    let run = stuck(&place);
    run.signal(libc::SIGTERM);
    run.wait().exits(143);
    let end = || json_lines(&place.run("list records out --json").exits(0).out).remove(0);
    assert_eq!(end()["end"], "interrupted");
    // A resume that is refused takes nothing from what the record says.
    place.run("run --resume out --only-ranks 64").exits(2);
    assert_eq!(end()["end"], "interrupted");
    // Interrupted again, and by another signal.
    let run = place.start("run --resume out");
    run.await_ranks(2);
    run.signal(libc::SIGHUP);
    run.wait().exits(129);
    assert_eq!(end()["incomplete"].as_str().unwrap().split(": ").next(), Some("INTERRUPTED RUN (SIGHUP)"));
    // The long case is made short, which a user cannot do: what matters is that the rest runs.
    let text = place.read("out/run.json");
    let short = crate::place::edited(&text).replace("\"max_seconds\": 600,", "\"max_seconds\": 0.2,");
    assert!(!short.contains("\"max_seconds\": 600"), "{short}");
    place.write("out/run.json", short);
    place.run("run --resume out --quiet").exits(0);
    let ended: Value = end();
    assert_eq!((&ended["end"], &ended["incomplete"]), (&"ended".into(), &Value::Null), "{ended}");
    assert!(place.run_file("out")["end"].get("interrupted_by").is_none());
    let told = place.run("report out --format prometheus").exits(0);
    assert_eq!(told.err, "");
    assert!(place.read("out/rankmark.prom").contains("\nrankmark_run_ended{run=\"cut\"} 1\n"));
}
