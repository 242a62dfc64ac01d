//! The column "typed" of docs/appendix/promises.md, executed as it stands there: a test that types something friendlier than
//! the suites print has passed while what they print failed.

#![allow(clippy::print_stdout, reason = "what a test prints is its own output")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Promise, promises, sample, table};
use crate::place::Place;
use crate::{pytorch, serving, skip, tutorials};

/// Programs that a command of the column may begin with.
const PROGRAMS: [&str; 3] = ["rankmark", "mpirun", "torchrun"];
/// What a command needs.
const MARKS: [&str; 4] = ["minutes", "hours", "GPUs", "nsys"];

/// A command of the column, and what stands behind it.
#[derive(Debug, Default, PartialEq)]
struct Typed<'t> {
    command: &'t str,
    marks: Vec<&'t str>,
    /// Files that must be there after it.
    gives: Vec<&'t str>,
    says: Vec<&'t str>,
    /// The exit statuses that it may have.
    exits: Vec<i32>,
}

/// The commands of a cell, in order.
fn typed(cell: &str) -> Vec<Typed<'_>> {
    let mut found: Vec<Typed<'_>> = Vec::new();
    let mut before = "";
    for (number, part) in cell.split('`').enumerate() {
        if number % 2 == 0 {
            if let Some(last) = found.last_mut() {
                last.marks.extend(between(part, '(', ')').filter(|mark| MARKS.contains(mark)));
                last.says.extend(between(part, '“', '”'));
                last.exits.extend(part.split_once("exits ").map(|(_, exits)| statuses(exits)).unwrap_or_default());
            }
            before = part;
        } else if PROGRAMS.contains(&part.split(' ').next().unwrap_or_default()) {
            found.push(Typed { command: part, ..Typed::default() });
        } else if let Some(last) = found.last_mut().filter(|_| before.ends_with("gives ")) {
            last.gives.push(part);
        }
    }
    found
}

fn between(text: &str, open: char, close: char) -> impl Iterator<Item = &str> {
    text.split(open).skip(1).filter_map(move |rest| Some(rest.split_once(close)?.0))
}

/// The numbers of `0 or 1, says ...`.
fn statuses(text: &str) -> Vec<i32> {
    let words = text.split(' ').map(|word| word.trim_end_matches([',', ';']));
    words.take_while(|word| *word == "or" || word.parse::<i32>().is_ok()).filter_map(|word| word.parse().ok()).collect()
}

/// Types all commands of a section of the page, in one folder with the files that the suite prints.
fn follow(section: &str, files: &[(&str, String)]) {
    let page = table();
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let place = Place::new();
    std::fs::create_dir(place.path("config")).unwrap();
    for (name, text) in files {
        place.write(name, text);
    }
    let python = pytorch::torch("commands under torchrun");
    let torchrun = python.as_deref().and_then(torchrun_of);
    let others: Vec<(&str, &str)> = torchrun.iter().map(|path| ("torchrun", path.as_str())).collect();
    let programs = tutorials::programs(&place, &others);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    // Who types a line with a backend of PyTorch has a Python with it as `python3`.
    let with_python = match &python {
        Some(python) => format!("{}:{path}", python_folder(&place, python).display()),
        None => path.clone(),
    };
    let mut number = 0;
    for Promise { text, command, .. } in promises(rest.split("\n## ").next().unwrap_or_default()) {
        for one in typed(command) {
            number += 1;
            if !asked(one.command) {
                continue;
            }
            match lacking(&one, torchrun.is_some()) {
                Some(why) => skip::skip(one.command, why),
                None if one.command.contains("--backend gloo") => type_it(&place, &with_python, text, &one),
                None => type_it(&place, &path, text, &one),
            }
        }
    }
    assert!(number >= 5, "{section}: {number} commands");
}

/// Whether a command is to be typed. Whole sections take hours, so `RANKMARK_TEST_TYPED` names a part of those commands that are.
fn asked(command: &str) -> bool {
    std::env::var("RANKMARK_TEST_TYPED").map_or(true, |part| command.contains(&part))
}

/// A folder in which this Python is `python3`: by a script, because that of a virtual environment finds that by its own place.
fn python_folder(place: &Place, python: &str) -> PathBuf {
    let folder = place.path("temporary/python");
    std::fs::create_dir(&folder).unwrap();
    let script = folder.join("python3");
    std::fs::write(&script, format!("#!/bin/sh\nexec '{python}' \"$@\"\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// The program next to a Python.
fn torchrun_of(python: &str) -> Option<String> {
    let beside = Path::new(python).with_file_name("torchrun");
    beside.is_file().then(|| beside.display().to_string())
}

/// What this machine lacks for a command.
fn lacking(one: &Typed<'_>, torchrun: bool) -> Option<&'static str> {
    let in_path = |name: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(name).is_file())
    };
    let needs = |mark: &str| one.marks.contains(&mark);
    let runs = |name: &str| one.command.starts_with(name);
    match () {
        () if needs("GPUs") && !Path::new("/dev/nvidiactl").exists() => Some("no GPU"),
        () if needs("nsys") && !in_path("nsys") => Some("no nsys"),
        () if runs("torchrun") && !torchrun => Some("no torchrun"),
        () if runs("mpirun") && !in_path("mpirun") => Some("no mpirun"),
        () => None,
    }
}

fn type_it(place: &Place, path: &str, promise: &str, one: &Typed<'_>) {
    let is_long = one.marks.contains(&"minutes") && std::env::var_os("RANKMARK_TEST_FULL").is_none();
    let whole = !is_long && !one.marks.contains(&"hours");
    let has_no_dry_run = ["rankmark profile", "rankmark report"].iter().any(|begin| one.command.starts_with(begin));
    if !whole && has_no_dry_run {
        return skip::skip(one.command, "heavy (hint: --full)");
    }
    let line = if whole { one.command.to_owned() } else { format!("{} --dry-run", one.command) };
    let ended = tutorials::typed(place, path, &line, Duration::from_secs(if whole { 1800 } else { 120 }));
    println!("{:.1} s: {line}", ended.took.as_secs_f64());
    let allowed: &[i32] = if one.exits.is_empty() { &[0] } else { &one.exits };
    assert!(ended.status.code().is_some_and(|code| allowed.contains(&code)), "{promise}: {line}\n{ended:?}");
    for words in &one.says {
        let is_said = ended.out.contains(words) || ended.err.contains(words);
        assert!(is_said, "{promise}: `{line}` does not say `{words}`\n{}\n{}", ended.out, ended.err);
    }
    for file in one.gives.iter().filter(|_| whole) {
        assert!(place.path(file).exists(), "{promise}: `{line}` gives no {file}\n{}\n{}", ended.out, ended.err);
    }
}

#[test]
fn a_cell_is_read_as_commands_and_what_they_give() {
    let cell =
        "`rankmark comm` (minutes) gives `a.csv`, says “2 ranks”; `rankmark validate` exits 0 or 1, says “b”: a `word`";
    let comm = Typed {
        command: "rankmark comm",
        marks: vec!["minutes"],
        gives: vec!["a.csv"],
        says: vec!["2 ranks"],
        exits: Vec::new(),
    };
    let validate = Typed { command: "rankmark validate", says: vec!["b"], exits: vec![0, 1], ..Typed::default() };
    assert_eq!(typed(cell), [comm, validate]);
    assert_eq!(typed("the same as `config.json`"), []);
}

#[test]
fn the_all_reduce_study() {
    let cpu = sample("allreduce_study/gloo_cpu_benchmark.csv");
    let gpu = cpu.replace("gloo", "nccl").replace("cpu", "cuda");
    follow("The all-reduce study (CS336)", &[("gloo_cpu_benchmark.csv", cpu), ("nccl_gpu_benchmark.csv", gpu)]);
}

#[test]
fn the_candle_suite() {
    let configuration = |name: &str| sample(&format!("candle/{name}.json"));
    let files = [
        ("config/m4-metal.json", configuration("m4-metal")),
        ("config/v100-nvlink.json", configuration("v100-nvlink")),
        ("config/benchmark-suite.json", configuration("benchmark-suite")),
        ("structure.json", configuration("structure")),
        ("tokens.bin", "\u{1}\0".repeat(4096)),
    ];
    follow("The Candle suite", &files);
}

#[test]
fn ddlb() {
    let files = [("config.json", sample("ddlb/readme.json")), ("commented.json", sample("ddlb/commented.json"))];
    follow("DDLB", &files);
}

#[test]
fn distributed_training_benchmarks() {
    follow("Distributed training benchmarks", &[]);
}

#[test]
fn torchscale() {
    let files = [
        ("benchmark_config.yaml", sample("torchscale/quick_start.yaml")),
        ("scaling_test.yaml", sample("torchscale/scaling_test.yaml")),
    ];
    follow("TorchScale", &files);
}

#[test]
fn what_operators_asked_for() {
    let (before, after) = (serving::kineto(200.0, "softmax"), serving::kineto(300.0, "softmax"));
    follow("What operators asked for", &[("before.json", before), ("after.json", after)]);
}
