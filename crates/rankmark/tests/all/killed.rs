//! Records of runs that were killed: every reader says so, and shows what did not run.

use serde_json::Value;

use crate::place::Place;

/// A line without its place and its checksum, which may be changed.
fn bare(line: &str) -> String {
    format!("{}}}\n", &line[..line.rfind(",\"run\"").unwrap()])
}

/// A record of six planned cases with the first trial of one of them, as a kill leaves it.
fn killed() -> Place {
    let place = Place::new();
    let sizes = "1KiB,2KiB,4KiB,8KiB,16KiB,32KiB";
    let sim = "comm all_reduce --backend sim --ranks 2 --trials 2 --warmup 1 --iters 5 --quiet --output-dir";
    place.run(&format!("{sim} out --bytes {sizes}")).exits(0);
    place.run(&format!("{sim} whole --bytes {sizes}")).exits(0);
    let mut file = place.run_file("out");
    let members = file.as_object_mut().unwrap();
    ["end", "rounds", "crc32"].iter().for_each(|name| drop(members.remove(*name).expect("a run that ended has it")));
    let first = place.read("out/cases.jsonl").lines().next().unwrap().to_owned();
    assert!(first.contains("\"trials\":1,") && first.contains("\"line\":1,"), "{first}");
    // One of two trials.
    assert!(first.contains("\"caveats\":[\"simulated\",\"preliminary\"]"), "{first}");
    place.write("out/run.json", file.to_string()).write("out/cases.jsonl", bare(&first));
    for report in ["report.html", "report.md", "cases.csv"] {
        std::fs::remove_file(place.path(&format!("out/{report}"))).unwrap();
    }
    place
}

#[test]
fn reports_show_what_did_not_run() {
    let place = killed();
    let told = place.run("report out --verbose --format html,markdown,csv,junit,prometheus,github-summary").exits(0);
    assert!(told.err.contains("KILLED RUN") && told.err.contains("0 of 6 cases ok"), "{}", told.err);
    for page in ["report.md", "summary.md"] {
        let text = place.read(&format!("out/{page}"));
        let status = "6 cases: 5 not run, 1 preliminary";
        let banner = "KILLED RUN: the record has no end; 5 of 6 cases did not run, 1 did not make all trials";
        for part in [status, banner, "the run was killed before", "it ended early"] {
            assert!(text.contains(part), "{part} is not in {page}: {text}");
        }
    }
    let html = place.read("out/report.html");
    assert!(html.contains("KILLED RUN") && html.contains("Killed before its end"), "{html}");
    let rows = place.read("out/cases.csv");
    assert_eq!((rows.lines().count(), rows.matches(",not_run,").count()), (7, 5), "{rows}");
    let junit = place.read("out/junit.xml");
    assert!(junit.contains("tests=\"6\" failures=\"6\"") && junit.contains("<property name=\"run\" value=\"KILLED"));
    let metrics = place.read("out/rankmark.prom");
    let line = |begin: &str, end: &str| metrics.lines().any(|line| line.starts_with(begin) && line.ends_with(end));
    assert!(line("rankmark_run_ended{", " 0") && line("rankmark_run_cases{", "status=\"not_run\"} 5"), "{metrics}");
    place.run("report whole --format prometheus").exits(0);
    assert!(place.read("whole/rankmark.prom").contains("\nrankmark_run_ended{run=\"collective\"} 1\n"));
}

#[test]
fn lists_and_followers_say_that_it_was_killed() {
    let place = killed();
    let listed = place.run("list records out").exits(0).out;
    assert!(listed.contains("1 ok, 5 not run, killed"), "{listed}");
    let listed: Value = serde_json::from_str(&place.run("list records out --json").exits(0).out).unwrap();
    assert_eq!((&listed["end"], &listed["cases"]["not_run"]), (&"killed".into(), &5.into()), "{listed}");
    let watched = place.run("watch out --once").exits(1).out;
    assert!(watched.contains("KILLED RUN: ") && watched.contains("5 of 6 cases did not run"), "{watched}");
    let compared = place.run("compare whole out");
    assert!(compared.err.contains("warning: out: KILLED RUN: "), "{}", compared.err);
}

/// A run is compared with what it measured, and other runs have lines of its profile.
#[test]
fn a_profile_of_a_machine_says_that_its_run_was_killed() {
    let place = Place::new();
    place
        .run("hardware triad --bytes 1MiB --max-seconds 0.02 --trials 6 --spacing 0s --quiet --output-dir machine")
        .exits(0);
    let mut file = place.run_file("machine");
    ["end", "crc32"].iter().for_each(|name| drop(file.as_object_mut().unwrap().remove(*name).unwrap()));
    place.write("machine/run.json", file.to_string());
    let short = "--max-seconds 0.02 --trials 6 --spacing 0s";
    let ran = place
        .run(&format!("comm all_reduce --ranks 2 --bytes 1KiB {short} --limits machine --output-dir out"))
        .exits(0);
    assert!(ran.out.contains("limits   machine, measured ") && ran.out.contains("; KILLED RUN: "), "{}", ran.out);
    assert!(place.read("out/report.md").contains("; KILLED RUN: "), "{}", place.read("out/report.md"));
}

#[test]
fn a_case_without_all_its_trials_is_no_part_of_a_history_or_a_baseline() {
    let place = killed();
    std::fs::create_dir(place.path("results")).unwrap();
    for name in ["out", "whole"] {
        std::fs::rename(place.path(name), place.path(&format!("results/{name}"))).unwrap();
    }
    let told = place.run("history").exits(0).out;
    assert!(told.contains("1 run, 6 cases"), "{told}");
    assert!(told.contains("left out: results/out: no case of it has all its trials. KILLED RUN: "), "{told}");
    let refused = place.run("baseline save main results/out");
    assert!(refused.err.contains("no case of results/out can be part of a baseline"), "{}", refused.err);
    assert!(refused.err.contains("KILLED RUN: ") && refused.err.contains("--resume"), "{}", refused.err);
    refused.exits(2);
    place.run("baseline save main results/whole").exits(0);
    // With one more case whole, that one counts.
    let whole = place.read("results/whole/cases.jsonl");
    let first = place.cases("results/out")[0]["id"].as_str().unwrap().to_owned();
    let other = whole.lines().rfind(|line| !line.contains(&first)).unwrap();
    let text = place.read("results/out/cases.jsonl") + &bare(other);
    place.write("results/out/cases.jsonl", text);
    let told = place.run("history --json").exits(0).out;
    let told: Value = serde_json::from_str(&told).unwrap();
    let runs = told["machines"][0]["runs"].as_array().unwrap();
    assert_eq!(runs.iter().filter(|run| run["killed"] == true).count(), 1, "{told}");
    let points: usize = told["machines"][0]["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| case["points"].as_array().unwrap().len())
        .sum();
    assert_eq!(points, 7, "{told}");
    let saved = place.run("baseline save other results/out").exits(0);
    assert!(saved.err.contains("1 case left out, with fewer trials"), "{}", saved.err);
}
