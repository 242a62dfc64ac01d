//! Records that somebody else wrote: their text is text, and their links lead nowhere.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::place::{Ended, Place};

/// What a terminal or a CI system obeys.
const TEXT: &str = "x\n::error file=a::no\r\u{1b}]0;title\u{7}\u{1b}[2J\u{202E}y \u{9b}31m ##[error]z\n::warning::w";

/// Puts the text after each text of a value that says nothing to the program.
fn spoil(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(text) if keys.contains(&key.as_str()) => text.push_str(TEXT),
                    other => spoil(other, keys),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, keys)),
        _ => {}
    }
}

/// A record with the text wherever one may stand.
fn foreign(place: &Place, name: &str, day: usize) {
    if !place.path("own").exists() {
        let sim = "comm all_reduce --backend sim --ranks 2 --trials 1 --warmup 1 --iters 5 --quiet --output-dir own";
        place.run(&format!("{sim} --bytes 1KiB,4KiB,16KiB --note a --tag b")).exits(0);
    }
    std::fs::create_dir_all(place.path(name)).unwrap();
    let mut file = place.run_file("own");
    ["crc32", "id"].iter().for_each(|member| drop(file.as_object_mut().unwrap().remove(*member)));
    let keys = [
        "note",
        "experiment",
        "kernel",
        "host",
        "cpu_model",
        "os",
        "version",
        "title",
        "unit",
        "doc",
        "started_by",
        "why",
        "lifted",
        "path",
    ];
    spoil(&mut file, &keys);
    file["labels"]["tags"] = serde_json::json!([TEXT]);
    file["plan"]["notes"] = serde_json::json!([TEXT]);
    file["started"] = serde_json::json!(format!("2026-11-{:02}T10:15:00Z", day + 1));
    file["command_line"] = serde_json::json!(["rankmark", TEXT]);
    place.write(&format!("{name}/run.json"), file.to_string());
    let mut lines = String::new();
    for mut line in place.cases("own") {
        let members = line.as_object_mut().unwrap();
        ["crc32", "run", "line"].iter().for_each(|member| drop(members.remove(*member)));
        spoil(&mut line, &["dtype", "backend", "device", "op", "buffers", "reason", "reduce"]);
        line["metrics_of_others"] = serde_json::json!(TEXT);
        lines += &format!("{line}\n");
    }
    place.write(&format!("{name}/cases.jsonl"), lines);
}

/// What is printed with colours, and obeys nobody.
fn checked(ended: &Ended, what: &str) {
    for line in ended.out.lines().chain(ended.err.lines()) {
        let mut plain = line.to_owned();
        // The program's own colours.
        for colour in ["0", "1", "2", "31", "32", "33", "1;31", "1;33"] {
            plain = plain.replace(&format!("\u{1b}[{colour}m"), "");
        }
        let begin = plain.trim_start();
        let command = begin.starts_with("::error") || begin.starts_with("::warning") || plain.contains("##[");
        let controls = plain.chars().any(|c| (c.is_control() && c != '\t') || c == '\u{202E}');
        assert!(!command && !controls, "{what}: {line:?}");
    }
}

#[test]
fn text_of_a_record_gives_a_terminal_no_commands() {
    let place = Place::new();
    for day in 0..3 {
        foreign(&place, &format!("results/r{day}"), day);
    }
    for arguments in [
        "report results/r0",
        "report results/r0 --verbose --format csv",
        "history",
        "history --json",
        "list records",
        "list records --json",
        "compare results/r0 results/r1 --fail-on none",
        "compare results/r0 results/r1 results/r2 --all --fail-on none",
        "compare results/r0 results/r1 --json --fail-on none",
        "watch results/r0 --once",
        "merge results/r0 results/r1 --output-dir merged",
        "pack results/r0 -o packed.tar.gz",
    ] {
        let mut starting = place.command(arguments);
        starting.command.env("CLICOLOR_FORCE", "1");
        let ended = starting.run();
        assert!(!ended.out.is_empty() || !ended.err.is_empty(), "{arguments}");
        checked(&ended, arguments);
    }
    for file in ["report.md", "cases.csv"] {
        let text = place.read(&format!("results/r0/{file}"));
        let is_bad = |c: char| c.is_control() && c != '\n' || c == '\u{202E}';
        assert!(!text.contains(is_bad) && !text.contains("\n::") && !text.contains("##["), "{file}: {text}");
    }
}

#[test]
fn links_to_traces_are_not_followed() {
    let place = Place::new();
    foreign(&place, "out", 0);
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("out/trace")).unwrap();
    place.run("profile out").refuses(&["cannot read out/trace", "symbolic link", "not followed"]);
    std::fs::remove_file(place.path("out/trace")).unwrap();
    std::fs::create_dir(place.path("out/trace")).unwrap();
    let id = place.cases("out")[0]["id"].as_str().unwrap().to_owned();
    place.write("elsewhere/own.json.gz", "x");
    let file = format!("out/trace/{id}-0.json.gz");
    symlink(place.path("elsewhere/own.json.gz"), place.path(&file)).unwrap();
    place.run("profile out").refuses(&[&format!("cannot read {file}"), "symbolic link"]);
}
