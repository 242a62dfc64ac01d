//! `--resume`: what is ok stays, the rest runs; damaged and foreign records are refused or repaired, never lost.

use std::fs;

use crate::place::{Place, edited, json_lines, statuses};

const PLAN: &str = "experiment: resumed
defaults: {ranks: 2, max_seconds: 0.02s, trials: 1}
cases:
  - {benchmark: collective, op: [all_reduce, broadcast, barrier]}
";

/// A place with a record in `out`: three cases, ok.
fn recorded() -> Place {
    let place = Place::new();
    place.write("plan.yaml", PLAN).run("run plan.yaml --output-dir out").exits(0);
    assert_eq!(statuses(&place.cases("out")), [3, 0, 0, 0]);
    place
}

/// A case line as versions without checksums wrote it, which may be changed.
fn without_checksum(line: &str) -> String {
    format!("{}}}", &line[..line.rfind(",\"crc32\"").unwrap()])
}

#[test]
fn only_what_is_missing_runs() {
    let place = recorded();
    let whole = place.read("out/cases.jsonl");
    let lines: Vec<&str> = whole.lines().collect();
    // The second case is lost and the third had failed.
    let failed =
        without_checksum(lines[2]).replace(r#""status":"ok""#, r#""status":"failed","reason":"it was not its day""#);
    assert!(failed.contains("it was not its day"));
    let kept = format!("{}\n{failed}\n", without_checksum(lines[0]));
    place.write("out/cases.jsonl", &kept);
    let ended = place.run("run --resume out --json").exits(0);
    let now = place.read("out/cases.jsonl");
    assert!(now.starts_with(&kept), "what was there stays");
    let ids = |text: &str| {
        let mut ids: Vec<String> = json_lines(text).iter().map(|line| line["id"].to_string()).collect();
        ids.sort();
        ids
    };
    let (left, ran) = (ids(&lines[1..].join("\n")), ids(&ended.out));
    assert_eq!(ran, left, "the two that were not ok, and no other");
    assert_eq!(ids(&now[kept.len()..]), ran);
    assert_eq!(statuses(&place.cases("out")), [3, 0, 0, 0]);
    assert!(ended.err.contains("1 done before, 2 left"), "{}", ended.err);
    // Rounds of then and of now are not the same: no trial of the one run is paired with one of the other.
    let rounds: Vec<_> = place.cases("out").iter().map(|line| line["trial_round"].to_string()).collect();
    let before = json_lines(lines[0])[0]["id"].clone();
    for line in place.cases("out") {
        assert_eq!(line["trial_round"][0], u8::from(line["id"] != before), "{rounds:?}");
    }
    // And once more: nothing is left to do.
    assert_eq!(place.run("run --resume out --json").exits(0).out, "");
    assert_eq!(place.read("out/cases.jsonl"), now);
}

#[test]
fn a_line_cut_short_is_repaired() {
    for keep in [0, 1, 30, 200] {
        let place = recorded();
        let whole = place.read("out/cases.jsonl");
        let last = whole.trim_end().rfind('\n').unwrap() + 1;
        place.write("out/cases.jsonl", &whole[..last + keep]);
        let samples = place.read("out/samples.jsonl");
        place.write("out/samples.jsonl", &samples[..samples.len() - 7]);
        let ended = place.run("run --resume out").exits(0);
        assert_eq!(ended.out.contains("cases.jsonl: the last line was cut short"), keep > 0, "{}", ended.out);
        assert!(place.read("out/cases.jsonl").starts_with(&whole[..last]));
        assert_eq!(statuses(&place.cases("out")), [3, 0, 0, 0]);
        json_lines(&place.read("out/samples.jsonl"));
        place.run("report out").exits(0);
    }
}

#[test]
fn what_cannot_be_judged_is_refused_and_left_alone() {
    let place = recorded();
    let (run, cases) = (place.read("out/run.json"), place.read("out/cases.jsonl"));
    let older: String = cases.lines().map(|line| without_checksum(line) + "\n").collect();
    let damages: [(&str, String, &[&str]); 5] = [
        ("cases.jsonl", older.replacen("\"schema\":1", "\"schema\":9", 1), &["cases.jsonl:1", "schema 9"]),
        ("run.json", "{\"schema\": 1,\n".to_owned(), &["not a run file"]),
        ("run.json", String::new(), &["not a run file"]),
        ("run.json", edited(&run).replacen("\"schema\": 1", "\"schema\": 2", 1), &["schema 2"]),
        ("run.json", "{\"schema\": 1}".to_owned(), &["not a run file"]),
    ];
    for (name, text, words) in damages {
        place.write("out/run.json", &run).write("out/cases.jsonl", &cases);
        assert_ne!(place.read(&format!("out/{name}")), text, "a damage that damages nothing");
        place.write(&format!("out/{name}"), &text);
        place.run("run --resume out").refuses(words);
        assert_eq!(place.read(&format!("out/{name}")), text, "nothing is changed");
        place.run("report out").refuses(words);
    }
}

#[test]
fn a_damaged_run_file_is_shown_as_far_as_it_can_be_read_and_not_gone_on_with() {
    let place = recorded();
    let run = place.read("out/run.json");
    let host = place.run_file("out")["machine"]["kernel"].as_str().unwrap().to_owned();
    for (damaged, words) in [
        (run.replacen(&host, &host.replace('.', "\u{1}"), 1), "run.json:"),
        (run.replacen("\"experiment\": \"resumed\"", "\"experiment\": \"resumee\"", 1), "run.json: its checksum"),
        (run[..run.len() / 2].to_owned(), "run.json"),
    ] {
        assert_ne!(damaged, run, "a damage that damages nothing");
        place.write("out/run.json", &damaged);
        let told = place.run("report out").exits(0);
        assert!(told.err.contains(words), "{}", told.err);
        let page = place.read("out/report.md");
        assert!(page.contains("DAMAGED RECORD") && page.contains("run.json is damaged"), "{page}");
        assert!(page.contains("3 cases: 3 ok"), "{page}");
        place.run("run --resume out").refuses(&["run.json is"]);
        assert_eq!(place.read("out/run.json"), damaged, "nothing is changed");
    }
}

#[test]
fn damaged_lines_are_named_and_left_out_and_their_cases_run_again() {
    let place = recorded();
    let cases = place.read("out/cases.jsonl");
    let lines: Vec<&str> = cases.lines().collect();
    let id = json_lines(lines[1])[0]["id"].as_str().unwrap().to_owned();
    let named = format!("cases.jsonl:2 (case {id}): its checksum does not match");
    let damaged = format!("{}\n{}\n{}\n", lines[0], lines[1].replacen("\"wrong\":0", "\"wrong\":1", 1), lines[2]);
    assert_ne!(damaged, cases);
    place.write("out/cases.jsonl", &damaged);
    let told = place.run("report out").exits(0);
    assert_eq!(told.err, format!("warning: {named}; it is left out\n"));
    let page = place.read("out/report.md");
    assert!(page.contains("> **DAMAGED RECORD: 1 line is damaged") && page.contains("3 cases: 2 ok"), "{page}");
    assert!(page.contains(&named), "{page}");

    let ended = place.run("run --resume out --json").exits(0);
    assert!(ended.err.contains(&format!("{named}; it is left out, and a case without another line runs again")));
    assert_eq!(json_lines(&ended.out).iter().map(|line| line["id"].as_str().unwrap()).collect::<Vec<_>>(), [&id]);
    assert!(place.read("out/cases.jsonl").starts_with(&damaged), "what was there stays");
    let page = place.read("out/report.md");
    assert!(page.contains("> **DAMAGED RECORD: 1 line is damaged") && page.contains("3 cases: 3 ok"), "{page}");
}

#[test]
fn another_plan_is_refused() {
    let place = recorded();
    let before = place.read("out/cases.jsonl");
    place.write("other.yaml", PLAN.replace("barrier", "reduce"));
    place.run("run other.yaml --resume out").refuses(&["out is the record of another plan", "--resume"]);
    place.run("run plan.yaml --resume out --set ranks=3").refuses(&["another plan"]);
    place.run("comm all_reduce --resume out").refuses(&["another plan"]);
    place.run("run plan.yaml --resume out --max-seconds 9s").refuses(&["another plan"]);
    place.run("run --resume out --output-dir other").refuses(&["--output-dir"]);
    place.run("run --resume out --ranks 3").refuses(&["keeps its own fields"]);
    assert_eq!(place.read("out/cases.jsonl"), before);
    // The same plan is the same plan.
    place.run("run plan.yaml --resume out").exits(0);
    assert_eq!(place.read("out/cases.jsonl"), before);
}

/// A run that is killed between its last trial and its end has judged nothing.
#[test]
fn gates_of_a_killed_run_are_checked_when_it_is_resumed() {
    let place = recorded();
    place.run("run plan.yaml --set expect=time_s<=1ns --output-dir killed").exits(1);
    let mut lines = String::new();
    for mut line in place.cases("killed") {
        let members = line.as_object_mut().unwrap();
        assert!(members.remove("gates_missed").is_some(), "{line}");
        members.remove("crc32");
        lines += &format!("{line}\n");
    }
    place.write("killed/cases.jsonl", lines);
    let ended = place.run("run --resume killed").exits(1);
    assert!(ended.out.contains("time_s<=1ns: it is "), "{}", ended.out);
}

#[test]
fn without_its_case_lines_a_record_is_refused_and_samples_are_not_needed() {
    let place = recorded();
    fs::remove_file(place.path("out/samples.jsonl")).unwrap();
    place.run("run --resume out").exits(0);
    assert_eq!(statuses(&place.cases("out")), [3, 0, 0, 0]);
    fs::remove_file(place.path("out/cases.jsonl")).unwrap();
    let words = ["the record out has no cases.jsonl", "copy it from where the record was written"];
    place.run("report out").refuses(&words);
    place.run("run --resume out").refuses(&words);
    assert!(!place.path("out/cases.jsonl").exists(), "nothing is made");
}
