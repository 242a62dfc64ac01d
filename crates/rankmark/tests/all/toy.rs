//! What one module and one line give a benchmark: `examples/toy.rs` is nowhere else in the program.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::place::{Ended, Live, Place, json_lines};

/// The program with the benchmark in it; cargo builds examples with the tests.
fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_rankmark")).with_file_name("examples").join("toy");
    assert!(program.exists(), "cargo test -p rankmark builds {}, and --test all does not", program.display());
    program
}

fn run(place: &Place, arguments: &str) -> Ended {
    place.command_of(&program().display().to_string(), arguments).start().wait()
}

const CASES: &str = "toy up,down:step=2 --ranks 2 --numbers 1000,2000,4000 --iters 6 --warmup 1 --output-dir r";

#[test]
fn a_benchmark_is_one_module_and_one_line() {
    let place = Place::new();
    let listed = run(&place, "list benchmarks").exits(0);
    assert!(listed.out.contains("toy") && listed.out.contains("sums of whole numbers"), "{}", listed.out);
    assert!(run(&place, "--help").exits(0).out.contains("Sums whole numbers"));
    let help = run(&place, "toy --help").exits(0);
    assert!(help.out.contains("--numbers <N>") && help.out.contains("[up down:step=...]"), "{}", help.out);
    let wrong = run(&place, "toy up --numbers 13 --output-dir x");
    wrong.refuses(&["13 is not summed", "any other number"]);
    run(&place, "toy down:stop=2 --output-dir x").refuses(&["`down` of `way` has no option `stop`", "`step`"]);

    // Terminal.
    let ended = run(&place, CASES).exits(0);
    assert!(ended.out.contains("toy  shm"), "{}", ended.out);
    assert!(ended.out.contains("numbers/s") && ended.out.contains("down:step=2"), "{}", ended.out);
    assert!(ended.out.contains("The toy sums up to"), "{}", ended.out);

    // Record: both ways are implementations of one workload.
    let cases = place.cases("r");
    assert_eq!(cases.len(), 6);
    assert!(cases.iter().all(|line| line["wrong"] == 0 && line["numbers_per_s"].is_f64()), "{cases:?}");
    assert_eq!(cases[0]["rank_ratios"].as_array().map(Vec::len), Some(2));
    let file: record::RunFile = serde_json::from_value(place.run_file("r")).unwrap();
    let declared = file.benchmarks.iter().find(|declared| declared.name == "toy").unwrap();
    let of = |line: &Value| line["parameters"].as_object().unwrap().clone();
    let (up, down) = (of(&cases[0]), of(&cases[3]));
    assert_ne!(up, down);
    assert_eq!(record::workload(&up.into(), declared), record::workload(&down.into(), declared));

    // Report: table, declared charts, chart and finding of its own.
    let page = place.read("r/report.md");
    for wanted in ["| way", "numbers/s", "toy-rate.svg", "toy-ratios-1.svg", "toy-own.svg", "The toy sums up to"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let matrix = place.read("r/charts/toy-ratios-1.svg");
    assert!(matrix.contains("over the time of rank") && matrix.contains("1.00"), "{matrix}");
    assert!(place.read("r/cases.csv").lines().next().unwrap().contains("numbers_per_s"));
}

#[test]
fn flags_plans_and_json_are_the_same_cases() {
    let place = Place::new();
    run(&place, CASES).exits(0);
    place.write(
        "plan.yaml",
        "experiment: toy\ncases:\n  - {benchmark: toy, way: [up, {down: {step: 2}}], numbers: [1000, 2000, 4000], iters: 6, warmup: 1}\n",
    );
    let ended = run(&place, "run plan.yaml --json --output-dir p").exits(0);
    let ids = |cases: &[Value]| {
        let mut ids: Vec<String> = cases.iter().map(|line| line["id"].to_string()).collect();
        ids.sort();
        ids
    };
    let printed: Vec<Value> = ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ids(&printed), ids(&place.cases("r")));
    // A declared metric has gates.
    run(&place, "toy up --numbers 1000 --expect numbers_per_s>=1e18 --iters 6 --output-dir g").exits(1);
}

/// What a version wrote that called the field `count`.
fn with_earlier_name(value: &mut Value) {
    match value {
        Value::String(text) if text == "numbers" => *text = "count".to_owned(),
        Value::Array(items) => items.iter_mut().for_each(with_earlier_name),
        Value::Object(members) => {
            *members = std::mem::take(members)
                .into_iter()
                // Versions without checksums and without earlier names.
                .filter(|(name, _)| !["crc32", "was"].contains(&name.as_str()))
                .map(|(name, value)| (if name == "numbers" { "count".to_owned() } else { name }, value))
                .collect();
            members.iter_mut().for_each(|(_, value)| with_earlier_name(value));
        }
        _ => {}
    }
}

#[test]
fn a_record_with_an_earlier_name_of_a_field_goes_on_and_is_compared() {
    let place = Place::new();
    let plan = |name: &str| {
        format!(
            "experiment: toy\ncases: [{{benchmark: toy, way: [up, {{down: {{step: 2}}}}], {name}: 1000, iters: 6, warmup: 1}}]\n"
        )
    };
    place.write("old.yaml", plan("count")).write("new.yaml", plan("numbers"));
    run(&place, "run new.yaml --quiet --output-dir new").exits(0);
    run(&place, "run old.yaml --quiet --output-dir old").exits(0);
    let typed = run(&place, "toy up --count 1000 --dry-run --json").exits(0).out;
    assert!(typed.contains("\"numbers\":1000"), "{typed}");
    assert!(!run(&place, "toy --help").exits(0).out.contains("count <"), "help has one name");

    let mut file = place.run_file("old");
    with_earlier_name(&mut file);
    assert!(file["benchmarks"][0]["fields"].to_string().contains("\"count\""), "{file}");
    let mut lines = place.cases("old");
    lines.iter_mut().for_each(with_earlier_name);
    assert_eq!(lines[0]["parameters"]["count"], 1000);
    // Its second case is lost.
    place.write("old/run.json", serde_json::to_string_pretty(&file).unwrap() + "\n");
    place.write("old/cases.jsonl", format!("{}\n", lines[0]));
    run(&place, "run new.yaml --resume old --trials 1 --quiet").exits(0);
    let after = place.cases("old");
    let ids =
        |cases: &[Value]| cases.iter().map(|line| line["id"].to_string()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((after.len(), ids(&after)), (2, ids(&place.cases("new"))));
    assert!(after.iter().all(|line| line["parameters"]["count"] == 1000 && line["wrong"] == 0), "{after:?}");

    // The record says the earlier name, so a program without the benchmark knows it, too.
    // One trial each tells no difference.
    let compared = place.run("compare old new --json").exits(3);
    let kinds: Vec<Value> = json_lines(&compared.out).iter().map(|line| line["kind"].clone()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "case").count(), 2, "{}", compared.out);
    assert!(!compared.out.contains("\"count\""), "no case differs in the name: {}", compared.out);
}

/// All that a program needs to show a benchmark is in its record.
#[test]
fn a_record_of_a_benchmark_that_is_not_known_is_shown() {
    let place = Place::new();
    run(&place, CASES).exits(0);
    std::fs::remove_file(place.path("r/report.md")).unwrap();
    std::fs::remove_dir_all(place.path("r/charts")).unwrap();
    place.run("report r").exits(0);
    let page = place.read("r/report.md");
    for wanted in ["| way", "numbers/s", "toy-rate.svg", "toy-ratios-1.svg"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    assert!(!page.contains("toy-own.svg") && !page.contains("The toy sums"), "its view is code, not data: {page}");
    assert!(place.path("r/charts/toy-ratios-1.svg").exists());
}

/// What a launcher says to its processes in their environment, as in `external`.
#[test]
fn a_launcher_of_others_starts_its_ranks() {
    let place = Place::new();
    let runtime = place.path("runtime");
    std::fs::create_dir(&runtime).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    let start = |rank: u32| {
        let mut starting = place
            .command_of(&program().display().to_string(), "toy up --numbers 1000 --iters 6 --warmup 1 --output-dir r");
        starting.command.env("XDG_RUNTIME_DIR", &runtime).envs([
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "2".to_owned()),
            ("SLURM_STEP_TASKS_PER_NODE", "2".to_owned()),
            ("SLURM_JOB_ID", "18".to_owned()),
            ("SLURM_STEP_ID", "0".to_owned()),
        ]);
        starting.start()
    };
    let both: Vec<Live> = (0..2).map(start).collect();
    both.into_iter().for_each(|live| drop(live.wait().exits(0)));
    let cases = place.cases("r");
    assert!(cases.len() == 1 && cases[0]["ranks"] == 2 && cases[0]["wrong"] == 0, "{cases:?}");
}
