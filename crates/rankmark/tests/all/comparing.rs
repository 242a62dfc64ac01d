//! `rankmark compare` and `rankmark baseline`: verdicts, exit codes, and what is written, on records of known times.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::place::{Place, edited, json_lines};

const SIM: &str = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB,16KiB --trials 13 --iters 5 --warmup 1 --noise 5% \
                   --quiet --output-dir";

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ci");

/// A record of noisy times.
fn measured() -> Place {
    let place = Place::new();
    place.run(&format!("{SIM} base")).exits(0);
    place
}

/// Rewrites a record as another run of so many days later, with each time multiplied by what `factor` gives for its case.
fn copy(place: &Place, from: &str, to: &str, day: u32, factor: impl Fn(usize) -> f64) {
    fs::create_dir(place.path(to)).unwrap();
    let mut run: Value = serde_json::from_str(&place.read(&format!("{from}/run.json"))).unwrap();
    run["started"] = json!(format!("2026-01-{day:02}T00:00:00Z"));
    place.write(&format!("{to}/run.json"), run.to_string());
    let mut lines = String::new();
    for (at, mut line) in place.cases(from).into_iter().enumerate() {
        let times = |value: &mut Value| *value = json!(value.as_f64().unwrap() * factor(at));
        line["trial_median_s"].as_array_mut().unwrap().iter_mut().for_each(times);
        times(&mut line["time_s"]["median"]);
        // A line without a checksum is read where no line before it has one.
        line.as_object_mut().unwrap().remove("crc32");
        lines += &format!("{line}\n");
    }
    place.write(&format!("{to}/cases.jsonl"), lines);
}

/// Six equal runs, and what they are called.
fn equal_runs(place: &Place) -> String {
    let noise = [1.0, 1.004, 0.998, 1.003, 0.996, 1.001];
    for (at, factor) in noise.iter().enumerate() {
        copy(place, "base", &format!("run-{at}"), at as u32 + 1, |case| factor + 0.001 * case as f64);
    }
    (0..noise.len()).map(|at| format!(" run-{at}")).collect()
}

#[test]
fn verdicts_are_exit_codes() {
    let place = measured();
    let runs = equal_runs(&place);
    copy(&place, "base", "slower", 20, |case| if case == 0 { 1.3 } else { 1.0 });
    copy(&place, "base", "faster", 21, |_| 0.7);
    place.run("compare run-0 slower").exits(1);
    place.run("compare run-0 run-1").exits(3);
    place.run("compare run-0 run-1 --fail-on worse").exits(0);
    place.run("compare run-0 faster").exits(0);
    place.run("compare run-0 faster --fail-on better").exits(1);
    place.run("compare run-0 slower --fail-on none").exits(0);
    let several = place.run("compare run-0 run-1 slower faster").exits(1);
    for word in ["B run-1: cannot tell", "C slower: worse", "D faster: better"] {
        assert!(several.out.contains(word), "{}", several.out);
    }
    place.run(&format!("baseline save main{runs}")).exits(0);
    let told = place.run("baseline check main run-2 --threshold 5%").exits(0);
    assert!(told.out.contains("same: 2 cases within 5%"), "{}", told.out);
    assert!(told.out.contains("known from 6 equal runs"), "{}", told.out);
    place.run("baseline check main slower").exits(1);
    fs::create_dir(place.path("history")).unwrap();
    for at in 0..6 {
        fs::rename(place.path(&format!("run-{at}")), place.path(&format!("history/{at}"))).unwrap();
    }
    place.run("compare base slower --history history").exits(1);
    place.run("compare base history/3 --history history --threshold 9%").exits(0);
}

#[test]
fn text_and_json_say_what_they_rest_on() {
    let place = measured();
    copy(&place, "base", "slower", 20, |case| if case == 1 { 1.5 } else { 1.0 });
    let told = place.run("compare base slower").exits(1);
    for word in [
        "worse: 1 of 2 cases, all_reduce",
        "+50%",
        "new / base",
        "Holm",
        "trials per case",
        "two single runs",
        "SIMULATED",
    ] {
        assert!(told.out.contains(word), "{word}: {}", told.out);
    }
    assert!(told.out.lines().all(|line| line.chars().count() <= 100), "{}", told.out);
    let rows: Vec<&str> = told.out.lines().filter(|line| line.contains(" us ")).collect();
    assert!(rows.len() == 2 && rows[0].ends_with("worse") && rows[1].ends_with("cannot tell"), "{rows:?}");
    let lines = json_lines(&place.run("compare base slower --json").exits(1).out);
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["kind"], &lines[0]["verdict"], &lines[0]["reason"]),
        (&json!("case"), &json!("worse"), &json!("interval"))
    );
    assert!((lines[0]["ratio"].as_f64().unwrap() - 1.5).abs() < 1e-9, "{}", lines[0]);
    assert_eq!(lines[0]["metric"]["name"], "busbw_gbs");
    let summary = &lines[2];
    assert_eq!((&summary["verdict"], &summary["correction"]["method"]), (&json!("worse"), &json!("Holm")));
    assert_eq!(summary["cases"], json!({"same": 0, "better": 0, "worse": 1, "cannot_tell": 1}));
    place.run("compare base slower --junit out/compare.xml").exits(1);
    let xml = place.read("out/compare.xml");
    assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("worse: ratio 1.500"), "{xml}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let place = measured();
    place.run("comm all_gather --backend sim --ranks 2 --bytes 1KiB --iters 5 --quiet --output-dir other").exits(0);
    place.run("compare base other").refuses(&["nothing that can be compared", "the same workload", "hint"]);
    place.run("compare base nowhere").refuses(&["there is no folder nowhere"]);
    place.run("compare nowhere neither").refuses(&["there are no folders nowhere and neither"]);
    let page = ["`rankmark compare` writes no page of records", "rankmark report base base --output-dir page"];
    place.run("compare base base --output-dir page").refuses(&page);
    for option in ["--verbose", "--name x", "--tag x", "--note x"] {
        let says = format!("`{}` is for sides that `--interleave` measures", option.split(' ').next().unwrap());
        place.run(&format!("compare base base {option}")).refuses(&[says.as_str()]);
    }
    place.run("fleet nowhere.yaml").refuses(&["there is no folder nowhere.yaml"]);
    let newer = edited(&place.read("other/run.json")).replacen("\"schema\": 1", "\"schema\": 7", 1);
    place.write("other/run.json", newer);
    place.run("compare base other").refuses(&["schema 7; this program reads 1"]);
    copy(&place, "base", "failed", 2, |_| 1.0);
    let failed = place
        .read("failed/cases.jsonl")
        .replace("\"status\":\"ok\"", "\"status\":\"failed\",\"reason\":\"\\u001b[31mx\"");
    place.write("failed/cases.jsonl", failed);
    let told = place.run("compare base failed").exits(1);
    assert!(told.out.contains("2 newly failed") && !told.out.contains('\u{1b}'), "{}", told.out);
    place.run("compare failed failed").refuses(&["nothing that can be compared", "is ok in the base"]);
    // A line that was cut short is left out, and said.
    let text = place.read("base/cases.jsonl");
    place.write("base/cases.jsonl", &text[..text.len() - 40]);
    let told = place.run("compare base base").exits(3);
    assert!(told.err.contains("warning: base:"), "{}", told.err);
}

#[test]
fn a_run_with_an_injected_fault_is_compared_under_a_banner() {
    let place = measured();
    copy(&place, "base", "slow", 2, |_| 1.5);
    let mut lines = String::new();
    for (at, mut line) in json_lines(&place.read("slow/cases.jsonl")).into_iter().enumerate() {
        line["id"] = json!(format!("{at:012x}"));
        line["parameters"]["inject"] = json!("delay:rank=1,us=50");
        line["caveats"].as_array_mut().unwrap().push(json!("injected"));
        lines += &format!("{line}\n");
    }
    place.write("slow/cases.jsonl", lines);
    let mut run = place.run_file("slow");
    for (at, case) in run["plan"]["cases"].as_array_mut().unwrap().iter_mut().enumerate() {
        case["id"] = json!(format!("{at:012x}"));
        case["parameters"]["inject"] = json!("delay:rank=1,us=50");
    }
    place.write("slow/run.json", run.to_string());
    let told = place.run("compare base slow").exits(1);
    for part in [
        "worse: 2 of 2 cases",
        "FAULT INJECTED on request into 2 cases of the new record",
        "all cases inject  not set  delay",
    ] {
        assert!(told.out.contains(part), "{part} is missing in {}", told.out);
    }
    assert!(!place.run("compare base base").out.contains("FAULT INJECTED"));
    let summary = json_lines(&place.run("compare slow base --json --fail-on none").exits(0).out).pop().unwrap();
    assert_eq!(summary["injected_cases"], json!({ "base": 2, "new": 0 }));
}

#[test]
fn a_baseline_is_small_and_names_nobody() {
    let place = measured();
    let runs = equal_runs(&place);
    let host = place.run_file("base")["machine"]["host"].as_str().unwrap().to_owned();
    place.run("baseline check").refuses(&["there is no baseline"]);
    place.run(&format!("baseline save main{runs}")).exits(0);
    let again = place.run("baseline save main run-0").exits(0);
    assert!(again.out.contains("it is in the baseline already") && again.out.contains("6 runs"), "{}", again.out);
    let folder = place.path(".rankmark/baselines/main");
    let saved: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(saved.len(), 6);
    for run in &saved {
        let text =
            fs::read_to_string(run.join("run.json")).unwrap() + &fs::read_to_string(run.join("cases.jsonl")).unwrap();
        assert!(!text.contains(&format!("\"{host}\"")) && text.contains("host-1"), "{text}");
        assert!(text.len() < 40_000 && !run.join("samples.jsonl").exists(), "{} bytes", text.len());
    }
    let listed = json_lines(&place.run("baseline list --json").exits(0).out);
    assert_eq!(listed, [json!({"name": "main", "runs": 6, "incomplete": []})]);
    place.run("baseline save main base --replace").exits(0);
    assert!(place.run("baseline list").exits(0).out.contains("main  1 run"));
    place.run("baseline save ../x base").refuses(&["cannot name a baseline"]);
    place.run("baseline check other base").refuses(&["there is no baseline `other`", "main"]);
}

#[test]
fn a_record_that_is_refused_leaves_the_baseline_as_it_was() {
    let place = measured();
    copy(&place, "base", "other", 2, |_| 1.0);
    let mut run = place.run_file("other");
    // A word of records: nobody can replace it.
    run["machine"]["host"] = json!("shm");
    place.write("other/run.json", run.to_string());
    place.run("baseline save main base").exits(0);
    place.run("baseline save main other --replace").refuses(&["the host name `shm` is also a word of records"]);
    assert!(place.run("baseline list").exits(0).out.contains("main  1 run"));
    // A run of the baseline is read before its place is cleared.
    let folder = place.path(".rankmark/baselines/main");
    let own = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    place.command("baseline save main --replace").argument(own).run().exits(0);
    assert!(place.run("baseline list").exits(0).out.contains("main  1 run"));
}

#[test]
fn a_side_of_which_nothing_can_be_read_is_refused() {
    let place = measured();
    for name in ["old/a", "old/b"] {
        fs::create_dir_all(place.path(name)).unwrap();
        place.write(&format!("{name}/run.json"), r#"{"schema": 7}"#);
    }
    for line in ["compare old base", "compare base old"] {
        let refused = place.run(line).exits(2);
        assert!(refused.err.contains("error: none of the records of old can be read"), "{}", refused.err);
    }
}

#[test]
fn a_run_is_compared_with_a_baseline_at_its_end() {
    let place = measured();
    let fast = |case: usize| if case == 0 { 0.5 } else { 1.0 };
    copy(&place, "base", "fast", 3, fast);
    place.run("baseline save fast fast").exits(0);
    let told = place.run(&format!("{SIM} new --baseline fast")).exits(1);
    assert!(told.out.is_empty(), "quiet: {}", told.out);
    let loud = format!("{} new-2 --baseline fast --fail-on none", SIM.replace("--quiet ", ""));
    let told = place.run(&loud).exits(0);
    assert!(told.out.contains("worse: 1 of 2 cases"), "{}", told.out);
    // The run's own failure counts first, also where nothing can be compared.
    let other = SIM.replace("all_reduce", "all_gather");
    let told = place.run(&format!("{other} other --baseline fast --expect busbw_gbs>=1e9")).exits(1);
    assert!(told.err.contains("nothing that can be compared"), "{}", told.err);
    place.run(&format!("{other} other-2 --baseline fast")).refuses(&["nothing that can be compared"]);
    // Before anything is measured.
    place.run(&format!("{SIM} new-3 --baseline none")).refuses(&["there is no baseline `none`"]);
    assert!(!place.path("new-3").exists());
}

#[test]
fn the_example_of_a_gate_has_commands_that_exist() {
    let workflow = fs::read_to_string(format!("{EXAMPLES}/rankmark.yml")).unwrap();
    let steps = commands_of(&workflow);
    let commands: Vec<&str> = steps.iter().filter_map(|step| step.strip_prefix("rankmark ")).collect();
    assert_eq!((steps.len(), commands.len()), (3, 2), "{steps:?}");
    let place = gated();
    for arguments in commands {
        let mut starting = place.command(arguments);
        starting.command.env("GITHUB_STEP_SUMMARY", place.path("summary"));
        starting.run().exits(0);
    }
    assert!(place.read("compare.xml").contains("<testsuite ") && place.read("summary").starts_with("# "));
}

/// A folder with what the jobs of examples/ci find in a checkout.
fn gated() -> Place {
    let place = Place::new();
    let plan = fs::read_to_string(format!("{EXAMPLES}/plan.yaml")).unwrap();
    assert!(plan.contains("expect:"), "{plan}");
    fs::create_dir(place.path("ci")).unwrap();
    // The plan with computed times: the same commands, in a moment.
    place.write(
        "ci/plan.yaml",
        plan.replace("ranks: 2", "ranks: 2, backend: sim, iters: 5").replace("0.1\"", "0.001\""),
    );
    place.run("run ci/plan.yaml --quiet --output-dir first").exits(0);
    place.run("baseline save ci first").exits(0);
    place
}

#[test]
fn the_job_for_gitlab_runs_as_it_stands() {
    let text = fs::read_to_string(format!("{EXAMPLES}/gitlab-ci.yml")).unwrap();
    let place = gated();
    // A tarball as the release has it: the program below one folder.
    let folder = place.path("temporary/rankmark-0");
    fs::create_dir(&folder).unwrap();
    let program = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_rankmark"));
    place.write("temporary/rankmark-0/rankmark", program);
    fs::set_permissions(folder.join("rankmark"), fs::Permissions::from_mode(0o755)).unwrap();
    place.command_of("tar", "-czf temporary/release.tar.gz -C temporary rankmark-0").run().exits(0);
    let sum = place.command_of("sha256sum", "temporary/release.tar.gz").run().exits(0).out;
    let (sum, address) =
        (sum.split(' ').next().unwrap(), format!("file://{}", place.path("temporary/release.tar.gz").display()));
    let job = |name: &str, sum: &str, steps: &[String]| {
        place.write(name, format!("set -e\n{}\n", steps.join("\n")));
        let mut shell = place.command_of("bash", name);
        shell.command.env("RANKMARK_TARBALL", &address).env("RANKMARK_SHA256", sum);
        shell.run()
    };
    let [before, script, after] = ["before_script", "script", "after_script"].map(|key| list_of(&text, key));
    assert_eq!((before.len(), script.len(), after.len()), (5, 1, 1), "{text}");
    // A tarball that is not the one of the checksum is not run.
    let refused =
        job("temporary/job.sh", &sum.replace(|c: char| c.is_ascii_digit(), "0"), &[&before[..], &script].concat());
    assert!(!refused.status.success() && !place.path("measured").exists(), "{refused:?}");
    job("temporary/job.sh", sum, &[&before[..], &script].concat()).exits(0);
    job("temporary/after.sh", sum, &after).exits(0);
    assert!(place.read("compare.xml").contains("<testsuite "));
}

/// The items of the list behind a key, which is the last of its name.
fn list_of(text: &str, key: &str) -> Vec<String> {
    let (mut items, mut inside, mut before) = (Vec::new(), false, String::new());
    for event in granit_parser::Parser::new_from_str(text) {
        match event.unwrap().0 {
            granit_parser::Event::SequenceStart(..) => inside = before == key,
            granit_parser::Event::SequenceEnd => inside = false,
            granit_parser::Event::Scalar(text, ..) => {
                before = text.to_string();
                items.extend(inside.then(|| before.clone()));
            }
            _ => {}
        }
    }
    items
}

/// What the steps of a workflow run. It is YAML: the parser is that of plans.
fn commands_of(workflow: &str) -> Vec<String> {
    let mut scalars = Vec::new();
    for event in granit_parser::Parser::new_from_str(workflow) {
        let (event, _) = event.unwrap();
        if let granit_parser::Event::Scalar(text, ..) = event {
            scalars.push(text.to_string());
        }
    }
    scalars.windows(2).filter(|pair| pair[0] == "run").map(|pair| pair[1].clone()).collect()
}
