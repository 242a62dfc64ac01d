//! Manners: quiet when asked, plain in pipes, silent when nobody listens, helpful in every command.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::place::Place;
use crate::skip;

const SHORT: &str = "comm all_reduce --bytes 1KiB,64KiB --trials 1 --max-seconds 0.02s --output-dir out";
const ESCAPE: char = '\u{1b}';

#[test]
fn quiet_prints_nothing_on_success() {
    let place = Place::new();
    let ended = place.run(&format!("{SHORT} --quiet")).exits(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    assert!(place.path("out/report.md").exists());
    // An error is never quiet, and JSON was asked for.
    place.run(&format!("{SHORT} --quiet")).refuses(&["holds a record already"]);
    let ended = place.run("comm all_reduce --bytes 1KiB --max-seconds 0.02s --quiet --json").exits(0);
    assert_eq!((ended.out.lines().count(), ended.err.as_str()), (1, ""));
}

#[test]
fn options_of_output_may_stand_before_the_command() {
    let place = Place::new();
    let short = "comm all_reduce --bytes 1KiB --trials 1 --max-seconds 0.02s";
    let ended = place.run(&format!("--quiet {short}")).exits(0);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    let ended = place.run(&format!("-q --json {short}")).exits(0);
    assert_eq!((crate::place::json_lines(&ended.out).len(), ended.err.as_str()), (1, ""));
    assert_eq!(place.run("--json list models").exits(0).out, place.run("list models --json").exits(0).out);
    // A command without the option refuses it, and names it.
    let ended = place.run("--quiet schema").refuses(&["`rankmark schema` has no option `--quiet`"]);
    assert!(ended.err.contains("`rankmark schema --help` lists the options"), "{}", ended.err);
    assert!(place.run("--help").exits(0).out.contains("--quiet"));
    place.run("--quiet").refuses(&[]);
}

#[test]
fn pipes_get_plain_lines() {
    for arguments in ["list", "schema", "gen-config", "--help", "run --help", "comm --help"] {
        let ended = Place::new().run(arguments).exits(0);
        assert!(!ended.out.contains(ESCAPE) && !ended.out.contains('\r') && !ended.out.is_empty(), "{arguments}");
        assert_eq!(ended.err, "", "{arguments}");
    }
    let ended = Place::new().run(SHORT).exits(0);
    assert!(!ended.out.contains(ESCAPE) && !ended.out.contains('\r'), "{:?}", ended.out);
    assert_eq!(ended.err, "");
    assert_eq!(ended.out.lines().filter(|line| line.contains("report ")).count(), 1);
}

/// The program on a terminal of its own, by script(1): what the terminal gets. `size` is for stty.
fn on_a_terminal(place: &Place, size: &str, environment: &[(&str, &str)]) -> Option<String> {
    let script = std::process::Command::new("script").arg("--version").output();
    if !script.is_ok_and(|output| output.status.success()) {
        skip::skip("a terminal", "script is not installed (util-linux)");
        return None;
    }
    let mut script = std::process::Command::new("timeout");
    let program = env!("CARGO_BIN_EXE_rankmark");
    script.args(["60", "script", "-qec", &format!("stty {size}; exec {program} {SHORT}"), "/dev/null"]);
    script
        .current_dir(place.path("."))
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("CI")
        .stdin(Stdio::null());
    script.envs(environment.iter().copied());
    let output = script.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

const SIZE: &str = "rows 40 columns 120";

#[test]
fn no_color_is_honoured_on_a_terminal() {
    let Some(coloured) = on_a_terminal(&Place::new(), SIZE, &[]) else { return };
    assert!(coloured.contains("\u{1b}[1m"), "a terminal gets some: {coloured:?}");
    let Some(plain) = on_a_terminal(&Place::new(), SIZE, &[("NO_COLOR", "1")]) else { return };
    let colours = plain.split(ESCAPE).skip(1).filter(|rest| rest.split('m').next().is_some_and(is_colour)).count();
    assert_eq!(colours, 0, "{plain:?}");
    assert!(!plain.contains('\u{1b}') && !plain.contains("[="), "no bar that nothing takes away: {plain:?}");
    assert!(coloured.contains("[="), "a bar, where it can be drawn again: {coloured:?}");
    let Some(dumb) = on_a_terminal(&Place::new(), SIZE, &[("TERM", "dumb")]) else { return };
    assert!(!dumb.contains(ESCAPE), "{dumb:?}");
}

/// Open MPI's mpirun has such terminals for its ranks, also when what they print goes into a file.
#[test]
fn a_terminal_without_a_size_gets_what_a_file_gets() {
    let Some(plain) = on_a_terminal(&Place::new(), "rows 0 columns 0", &[]) else { return };
    assert!(!plain.contains(ESCAPE) && !plain.contains("\r "), "{plain:?}");
    assert!(plain.contains("report"), "{plain:?}");
    let Some(forced) = on_a_terminal(&Place::new(), "rows 0 columns 0", &[("CLICOLOR_FORCE", "1")]) else { return };
    assert!(forced.contains("\u{1b}[1m"), "{forced:?}");
}

fn is_colour(sequence: &str) -> bool {
    sequence.strip_prefix('[').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == ';'))
}

/// Reads one line and closes the pipe, as `head -1` does.
fn one_line(place: &Place, arguments: &str) -> (String, String, Option<i32>) {
    let mut starting = place.command(arguments);
    starting.command.stdout(Stdio::piped());
    let mut live = starting.start();
    let mut line = String::new();
    BufReader::new(live.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = live.wait_for(Duration::from_secs(60));
    (line, ended.err, ended.status.code())
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    for arguments in ["list", "schema record", "completions bash", "gen-config", "--help", "comm --help"] {
        let (line, err, _) = one_line(&Place::new(), arguments);
        assert!(!line.is_empty() && err.is_empty(), "{arguments}: {err}");
    }
    let place = Place::new();
    let (line, err, code) = one_line(&place, SHORT);
    assert!(!line.is_empty() && !err.contains("panicked") && !err.contains("error"), "{err}");
    assert_eq!((code, place.cases("out").len()), (Some(0), 2));
}

#[test]
fn json_that_is_not_read_to_its_end_is_an_error() {
    let place = Place::new();
    let mut starting = place.command(&format!("{SHORT} --json"));
    starting.command.stdout(Stdio::piped());
    let mut live = starting.start();
    drop(live.child.stdout.take());
    let ended = live.wait_for(Duration::from_secs(60));
    let (err, code) = (ended.err, ended.status.code());
    let error = &crate::place::json_lines(err.lines().last().unwrap())[0]["errors"][0];
    assert_eq!(error["what"], "standard output cannot be written", "{err}");
    assert!(error["cause"].as_str().unwrap().starts_with("Broken pipe"), "{err}");
    assert!(error["hint"].as_str().unwrap().contains("the record in out is whole"), "{err}");
    // What was to be measured is measured all the same: the record is what counts.
    assert_eq!((code, place.cases("out").len()), (Some(2), 2));
    place.run("report out").exits(0);
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let place = Place::new();
    std::fs::write(place.path("plan.yaml"), "experiment: e\ncases:\n  - {benchmark: collective, op: all_reduc}\n")
        .unwrap();
    let error = |arguments: &str| -> Value {
        let ended = place.run(arguments).exits(2);
        let line: Value = serde_json::from_str(&ended.err).unwrap_or_else(|error| panic!("{error}: {}", ended.err));
        assert_eq!(ended.out, "", "{arguments}");
        line["errors"][0].clone()
    };
    let of_plan = error("run plan.yaml --json");
    assert_eq!(of_plan["place"], serde_json::json!({ "source": "plan.yaml", "line": 3, "column": 33 }));
    assert!(of_plan["hint"].as_str().unwrap().contains("all_reduce"), "{of_plan}");
    let of_usage = error("list models --jsn --json");
    assert_eq!(of_usage["what"], "`rankmark list` has no option `--jsn`");
    assert_eq!(of_usage["hint"], "did you mean `--json`?");
    assert_eq!(error("run none.yaml --json")["hint"], "`rankmark gen-config` writes one");
    // As text, the same error has the lines that `refuses` looks for.
    place.run("run none.yaml").refuses(&["plan none.yaml cannot be read", "hint:  `rankmark gen-config` writes one"]);
}

#[test]
fn standard_output_that_is_full_is_an_error() {
    let place = Place::new();
    let mut starting = place.command("list");
    starting.command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let ended = starting.run().exits(2);
    assert!(ended.err.contains("standard output cannot be written"), "{}", ended.err);
    let mut starting = place.command(&format!("{SHORT} --json"));
    starting.command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let ended = starting.run().exits(2);
    let error = &crate::place::json_lines(ended.err.lines().last().unwrap())[0]["errors"][0];
    assert!(error["cause"].as_str().unwrap().starts_with("No space left on device"), "{}", ended.err);
    assert_eq!(crate::place::statuses(&place.cases("out")), [2, 0, 0, 0]);
    place.run("report out").exits(0);
    // What a person reads, too.
    let text = SHORT.replace("dir out", "dir text");
    for arguments in [text.as_str(), "--help", "report out", "watch out --once", "history out", "compare out out"] {
        let mut starting = place.command(arguments);
        starting.command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let ended = starting.run().exits(2);
        let told = ended.err.contains("standard output cannot be written") && ended.err.contains("No space left");
        assert!(told, "{arguments}: {}", ended.err);
    }
    assert!(place.run_file("text")["end"].is_object(), "the record is whole");
}

#[test]
fn words_far_from_all_others_get_no_suggestion() {
    let place = Place::new();
    let tip = |arguments: &str| {
        let err = place.run(arguments).exits(2).err;
        err.lines().filter(|line| line.contains("did you mean")).collect::<String>()
    };
    for far in ["comparison", "comm all_reduce --frobnicate", "compare", "xyz", "comm all_reduce --backend x"] {
        assert_eq!(tip(far), "", "{far}");
    }
    for (slip, meant) in [
        ("benchmak", "`benchmark`"),
        ("comm all_reduce --rnaks 2", "`--ranks`"),
        ("comm all_reduce --output out", "`--output-dir`"),
        ("gen-config sook", "`soak`"),
        ("comm al_reduc", "`all_reduce`"),
    ] {
        let tip = tip(slip);
        assert!(tip.contains(meant) && !tip.contains("some similar"), "{slip}: {tip}");
    }
}

#[test]
fn every_command_has_help() {
    let place = Place::new();
    let all = place.run("--help").exits(0).out;
    let rare = all.split_once("More commands:").map_or("", |(_, rare)| rare);
    for command in ["run", "comm", "report", "list", "gen-config", "gen-job", "validate", "schema", "completions"] {
        let has_line = all.lines().any(|line| line.trim_start().starts_with(command));
        assert!(has_line || rare.contains(command), "{command} is not in {all}");
        let help = place.run(&format!("{command} --help")).exits(0).out;
        assert!(help.contains("Usage: rankmark"), "{command}: {help}");
        assert_eq!(place.run(&format!("help {command}")).exits(0).out, help);
    }
    for alias in ["suite", "benchmark"] {
        assert!(all.contains(alias), "{all}");
        place.run(&format!("{alias} --help")).exits(0);
    }
    let comm = place.run("comm --help").exits(0).out;
    for option in ["--ranks", "--bytes", "--inject", "--expect", "--target-precision", "--output-dir", "--json"] {
        assert!(comm.contains(option), "{option}");
    }
    assert!(place.run("--version").exits(0).out.starts_with("rankmark "));
    // Without arguments: how to use it.
    let ended = place.run("").exits(2);
    assert!(ended.err.contains("Usage:"), "{}", ended.err);
    assert_eq!(place.names(), [""; 0], "help makes nothing");
}

#[test]
fn what_there_is_can_be_asked_for() {
    let place = Place::new();
    let json = |arguments: &str| -> Value { serde_json::from_str(&place.run(arguments).exits(0).out).unwrap() };
    let list = json("list --json");
    for kind in list.as_object().unwrap().keys() {
        let only = json(&format!("list {kind} --json"));
        assert_eq!(only[kind], list[kind], "{kind}");
    }
    assert!(list["backends"].as_array().unwrap().iter().any(|backend| backend["name"] == "shm"));
    assert_eq!(list["operations"].as_array().unwrap().len(), 12);
    for of in ["plan", "record"] {
        let schema = json(&format!("schema {of}"));
        assert!(schema["$schema"].as_str().is_some_and(|version| version.contains("json-schema.org")), "{of}");
    }
    let bash = place.run("completions bash").exits(0).out;
    assert!(bash.contains("rankmark") && bash.contains("complete"), "{bash}");
    assert_eq!(place.names(), [""; 0], "asking makes nothing");
}

#[test]
fn presets_are_plans_that_are_read_again() {
    let place = Place::new();
    for preset in ["quick", "allreduce_sweep", "soak"] {
        let plan = place.run(&format!("gen-config {preset}")).exits(0).out;
        place.write("plan.yaml", plan);
        // Read and checked; not run, because no backend can have so many ranks beside the plan's.
        place.run("run plan.yaml --set ranks=0").refuses(&["from 1 to 65536"]);
        place.run("run plan.yaml --set benchmark=nothing");
    }
    place.run("gen-config allreduce-sweeep").exits(2);
}

#[test]
fn a_report_written_again_is_the_same() {
    let place = Place::new();
    place.run("comm all_reduce,broadcast --ranks 2,3 --bytes 1KiB,64KiB --max-seconds 0.02s --output-dir out").exits(0);
    let files = || {
        let charts = std::fs::read_dir(place.path("out/charts")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            charts.chain(["report.html", "report.md", "cases.csv"].map(|name| place.path("out").join(name))).collect();
        files.sort();
        files.into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files();
    assert!(before.len() > 4 && before.iter().all(|(bytes, _)| !bytes.is_empty()));
    for arguments in ["report out", "report generate --source out --format html,markdown,csv,svg,png"] {
        for (_, path) in &before {
            std::fs::remove_file(path).unwrap();
        }
        let ended = place.run(arguments).exits(0);
        assert!(files() == before, "other bytes by {arguments}");
        assert_eq!(ended.out.lines().count(), before.len(), "each is named: {}", ended.out);
    }
}

#[test]
fn several_records_make_one_page_beside_them() {
    let place = Place::new();
    for name in ["a", "b"] {
        let line = format!("comm all_reduce --backend sim --ranks 2 --bytes 1KiB,4KiB --quick --output-dir {name}");
        place.run(&line).exits(0);
    }
    assert_eq!(place.run("report a b").exits(0).out, "./report.html\n");
    let page = place.read("report.html");
    assert!(page.contains("<h1>2 records</h1>") && page.contains("SIMULATED"), "{page}");
    let said = place.run("compare a b").exits(0).out;
    let (_, sentence) = said.lines().nth(1).and_then(|line| line.split_once("same")).expect("a verdict");
    let (verdict, cases) = page.split_once("<strong>same</strong>").expect("the verdict of the terminal");
    assert!(cases.starts_with(sentence.trim()) && !verdict.contains("<table"), "{sentence}: {page}");
    let ended = place.run("report a b --format csv").exits(2);
    assert!(ended.err.contains("several records make one HTML page") && ended.err.contains("rankmark report b"));
    let ended = place.run("report a --format csv --open").exits(2);
    assert!(ended.err.contains("no HTML page to open"), "{}", ended.err);
}

/// Help of measuring commands: examples first, then the common options, and little that wraps.
#[test]
fn help_begins_with_what_is_common_and_has_a_bound() {
    let place = Place::new();
    let bounds = [
        ("train", 40, 170),
        ("comm", 36, 140),
        ("memory", 40, 147),
        ("run", 24, 50),
        ("profile", 62, 90),
        ("primitive", 48, 130),
    ];
    for (command, short, whole) in bounds {
        let all = place.run(&format!("{command} --help")).exits(0).out;
        let some = place.run(&format!("{command} -h")).exits(0).out;
        let (lines, common) = (all.lines().count(), some.lines().count());
        assert!(lines <= whole && common <= short, "{command}: {lines} and {common} lines\n{all}{some}");
        assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
        let at = |text: &str| all.find(text).unwrap_or_else(|| panic!("no `{text}` in {all}"));
        assert!(command == "run" || at("Examples") < at("Usage:"), "{all}");
        // `run` and `profile` point to where fields are listed.
        let order: &[&str] = match command {
            "run" => &["Usage:", "Output:", "The whole run:", "`rankmark list fields`"],
            "profile" => &["Usage:", "Common options:", "Output:", "The whole run:", "`rankmark train --help`"],
            _ => &["Usage:", "Common options:", "Output:", "Sampling, checks", "Rank processes:", "MPI libraries"],
        };
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{all}");
        assert!(some.contains("--dry-run") && !some.contains("--nccl-algo"), "{some}");
        assert!(command == "run" || some.contains("--ranks"), "{some}");
        assert!(some.contains(&format!("All options: rankmark {command} --help")), "{some}");
    }
    let comm = place.run("comm --help").exits(0).out;
    let bytes = comm.lines().find(|line| line.trim_start().starts_with("--bytes")).unwrap();
    assert!(bytes.contains("(default: 1KiB..64MiB*4)"), "the default of the command: {bytes}");
}
