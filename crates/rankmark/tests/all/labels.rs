//! What a user calls a run, and the list of records that shows it.

use serde_json::json;

use crate::place::Place;

const SHORT: &str = "comm all_reduce --bytes 1KiB --max-seconds 0.02s --trials 1";

#[test]
fn a_run_has_a_name_tags_and_a_note() {
    let place = Place::new();
    let line = format!("{SHORT} --name nightly --tag driver=550 --tag fabric_b --note");
    let ended = place.command(&line).argument("after the *BIOS* update").run().exits(0);
    let directory = std::fs::read_dir(place.path("results")).unwrap().next().unwrap().unwrap().file_name();
    let directory = format!("results/{}", directory.into_string().unwrap());
    assert!(directory.ends_with("Z-nightly"), "{directory}");
    let file = place.run_file(&directory);
    let expected = json!({"name": "nightly", "tags": ["driver=550", "fabric_b"], "note": "after the *BIOS* update"});
    assert_eq!((&file["labels"], &file["experiment"]), (&expected, &json!("collective")));
    let mut lines = ended.out.lines();
    assert!(lines.next().unwrap().contains("   run nightly, plan collective, 1 case"), "{}", ended.out);
    assert_eq!(lines.next(), Some("tags     driver=550, fabric_b"));
    assert_eq!(lines.next(), Some("note     after the *BIOS* update"));
    let report = place.read(&format!("{directory}/report.md"));
    assert!(report.starts_with("# nightly\n"), "{report}");
    assert!(report.contains("\n* Tags: driver=550, fabric_b\n* Note: after the \\*BIOS\\* update\n"), "{report}");
}

#[test]
fn labels_that_no_record_may_keep_are_refused() {
    let place = Place::new();
    for (option, value, words) in [
        ("--name", "../escape", &["`../escape` cannot name a run", "letters, digits"][..]),
        ("--tag", "a\u{1b}[31m", &[r"`a\u{1b}[31m` cannot be a tag", "control characters"]),
        ("--note", "two\nlines", &[r"`two\nlines` cannot be a note"]),
        ("--note", "", &["cannot be a note"]),
    ] {
        place.command(&format!("{SHORT} {option}")).argument(value).run().refuses(words);
    }
    place.run("run --resume out --name other").refuses(&["`--resume` and `--name` exclude each other"]);
    assert_eq!(place.names(), [""; 0], "nothing is begun");
}

#[test]
fn records_are_listed_from_the_newest() {
    let place = Place::new();
    place.run("list records").refuses(&["results cannot be listed", "hint:"]);
    place.run("list models results").refuses(&["rankmark list records results"]);
    place.run(&format!("{SHORT} --output-dir results/b --name first --tag a --tag b")).exits(0);
    let sim = "comm broadcast --bytes 1KiB,64KiB --backend sim,nccl --output-dir results/a";
    place.run(sim).exits(0);
    let listed = place.run("list records").exits(0);
    let rows: Vec<Vec<&str>> = listed.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..7], ["directory", "started", "(UTC)", "name", "tags", "cases", "host"], "{}", listed.out);
    assert_eq!((rows[1][0], rows[1][3]), ("results/a", "collective"), "{}", listed.out);
    assert!(listed.out.contains("  2 ok, 2 skipped  simulated  "), "{}", listed.out);
    assert_eq!((rows[2][0], rows[2][3], rows[2][4]), ("results/b", "first", "a,b"), "{}", listed.out);
    assert_eq!((rows.len(), listed.err.as_str()), (3, ""));
    // A folder that is a record is listed alone.
    assert_eq!(place.run("list records results/b").exits(0).out.lines().count(), 2);
}

#[test]
fn a_damaged_record_is_named_and_the_others_are_listed() {
    let place = Place::new();
    place.run(&format!("{SHORT} --output-dir results/whole")).exits(0);
    for (name, file) in [("torn", "{\"schema\": 1, \"tool"), ("newer", "{\"schema\": 99}")] {
        std::fs::create_dir(place.path(&format!("results/{name}"))).unwrap();
        place.write(&format!("results/{name}/run.json"), file);
    }
    std::fs::create_dir(place.path("results/no-record")).unwrap();
    let listed = place.run("list records").exits(0).out;
    assert!(listed.lines().nth(1).unwrap().starts_with("results/whole "), "{listed}");
    assert!(
        listed.contains("\ncannot be read  results/newer: results/newer/run.json is not a run file: schema 99"),
        "{listed}"
    );
    assert!(listed.contains("\ncannot be read  results/torn: "), "{listed}");
    assert_eq!(listed.lines().count(), 4, "{listed}");
    let lines = crate::place::json_lines(&place.run("list records --json").exits(0).out);
    assert_eq!(lines[0]["cases"], json!({"ok": 1, "failed": 0, "skipped": 0, "not_run": 0}));
    assert_eq!(
        (lines[0]["directory"].as_str(), lines[0]["labels"].as_object().unwrap().len()),
        (Some("results/whole"), 0)
    );
    assert!(lines[1]["error"].is_string() && lines[2]["error"].is_string() && lines.len() == 3, "{lines:?}");
    // A line that was changed is counted.
    let cases = place.read("results/whole/cases.jsonl");
    place.write("results/whole/cases.jsonl", cases.replacen("\"ok\"", "\"OK\"", 1));
    let listed = place.run("list records").exits(0).out;
    assert!(listed.contains("  0 ok, 1 not run, 1 damaged line  "), "{listed}");
}
