//! DDLB: its configuration runs, and its lists multiply.

use serde_json::{Value, json};

use super::{ok_share, sample, with};
use crate::place::{Ended, Place};
use crate::{pytorch, skip};

/// Reduces DDLB's example to sizes that any machine holds.
const REDUCED: &str = "--set m=64 --set n=16 --set k=16 --runtime native --warmup 1 --iters 2";

#[test]
fn its_example_runs_reduced() {
    let place = with("config.json", "ddlb/readme.json");
    let out = place.run(&format!("run config.json {REDUCED} --output-dir out")).exits(0).out;
    assert!(out.contains("config.json is read as DDLB: its configuration as JSON"), "{out}");
    assert!(ok_share(&place, "out") >= 0.8);
    // The share of cases that are ok stands in the report's head.
    assert!(place.read("out/report.md").contains("3 cases: 3 ok"), "{}", place.read("out/report.md"));
}

#[test]
fn its_command_line_runs() {
    let place = Place::new();
    let line = "primitive --primitive tp_columnwise -m 64 -n 16,32 -k 16 --dtype float32 --num-iterations 12 --num-warmups 1 \
                --impl pytorch;order=AG_before,AG_after --impl compute_only --output-csv x.csv --runtime native --output-dir out";
    let ended = place.run(line).exits(0);
    let told = format!("{}{}", ended.out, ended.err);
    assert!(told.contains("output_csv: x.csv is not written"), "{told}");
    let cases = place.cases("out");
    assert_eq!(cases.len(), 6, "two sizes, three ways: {cases:?}");
    assert!(ok_share(&place, "out") >= 0.99);
    assert!(cases.iter().all(|case| case["samples"] == 12 && case["parameters"]["mode"] == "isolated"), "{cases:?}");
}

#[test]
fn its_example_plans_as_it_stands() {
    let place = with("config.json", "ddlb/readme.json");
    let validate = |path: &std::path::Path, more: &str| {
        let mut starting = place.command(&format!("validate --quick --plan config.json {more}"));
        starting.command.env("PATH", path);
        starting.run()
    };
    // Without torch its cases for PyTorch are not cases of the plan, and that is said.
    let nowhere = place.path("temporary");
    let ended = validate(&nowhere, "--json");
    let told: Value = serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let plan = &told["plan"];
    assert_eq!((&plan["cases"], &plan["run"], &plan["skipped"]), (&3.into(), &3.into(), &json!([])), "{plan}");
    let left_out = "compute_only, pytorch of PyTorch are left out, because torch was not found";
    assert!(
        plan["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().starts_with(left_out)),
        "{plan}"
    );
    let page = validate(&nowhere, "").out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("3 of 3 cases would run here note: ") && page.contains(left_out), "{page}");
    // With torch they are cases, and each that would be skipped has the reason.
    let Some(python) = pytorch::torch("DDLB's example with torch") else { return };
    let folder = folder_of(&python);
    if !folder.join("python3").exists() {
        return skip::skip("DDLB's example with torch", "there is no `python3` beside the Python that has torch");
    }
    let ended = validate(&folder, "--json");
    let told: Value = serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let plan = &told["plan"];
    // On processors, all by gloo; on GPUs by nccl and each transport of ucc.
    let has_gpus = std::path::Path::new("/proc/driver/nvidia/gpus").exists();
    assert_eq!(plan["cases"], if has_gpus { 10 } else { 6 }, "{plan}");
    assert!(has_gpus || plan["skipped"] == json!([]), "what the machine cannot run is not proposed: {plan}");
    let skipped = plan["skipped"].as_array().unwrap();
    let backend = |case: &Value| ["nccl", "ucc"].iter().any(|name| case["case"].as_str().unwrap().contains(name));
    assert!(skipped.iter().all(|case| backend(case) && !case["reason"].as_str().unwrap().is_empty()), "{plan}");
    assert!(!plan["notes"].to_string().contains("left out"), "{plan}");
}

/// The folder of a Python. A virtual environment is known by where its Python is started, so no link will do.
fn folder_of(python: &str) -> std::path::PathBuf {
    let output = std::process::Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let path = String::from_utf8(output.stdout).unwrap();
    std::path::Path::new(path.trim()).parent().unwrap().to_owned()
}

#[test]
fn what_was_left_out_is_in_the_head_of_the_report() {
    let place = with("config.json", "ddlb/readme.json");
    let mut starting =
        place.command(&format!("run config.json {} --output-dir out", REDUCED.replace("--runtime native", "")));
    starting.command.env("PATH", place.path("temporary"));
    starting.run().exits(0);
    let left_out = "compute_only, pytorch of PyTorch are left out, because torch was not found";
    let report = place.read("out/report.md");
    let (head, _) = report.split_once("\n## ").unwrap();
    assert!(head.contains("3 cases: 3 ok"), "{head}");
    assert!(head.contains(&format!("Plan: {left_out}")), "{head}");
    let page = place.read("out/report.html");
    let (head, _) = page.split_once("<nav").unwrap();
    assert!(head.contains(&format!("<p class=\"meta\">plan: {left_out}")), "the page's head lacks it");
}

#[test]
fn lists_of_any_option_multiply() {
    let text = sample("ddlb/readme.json")
        .replace("\"m\": 65536", "\"m\": [64, 128]")
        .replace("\"float32\"", "[\"float32\", \"float64\"]");
    let place = Place::new();
    place.write("config.json", text);
    let out = place.run("run config.json --runtime native --dry-run --json").exits(0).out;
    assert_eq!(crate::place::json_lines(&out).len(), 2 * 2 * 3);
}

#[test]
fn commented_out_backends_are_left_out() {
    let place = with("config.json", "ddlb/commented.json");
    let ended = place.run("import config.json --json").exits(0);
    let told: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let told = format!("{}", told["read_as"]);
    assert!(told.contains("backend nccl, ucc/tl/cuda") && !told.contains("ucp"), "{told}");
}

#[test]
fn results_are_validated() {
    let place = with("config.json", "ddlb/readme.json");
    place.run(&format!("run config.json {REDUCED} --output-dir out")).exits(0);
    assert!(place.cases("out").iter().all(|case| case["wrong"] == 0), "{:?}", place.cases("out"));
}

#[test]
fn ranks_are_those_of_the_launcher() {
    let place = with("config.json", "ddlb/readme.json");
    // Four are not what the file would get by itself.
    let Some(ended) = under_mpirun(&place, 4, "ranks of mpirun") else { return };
    ended.exits(0);
    assert!(
        place.cases("out").iter().all(|case| case["ranks"] == 4 && case["status"] == "ok"),
        "{:?}",
        place.cases("out")
    );
    let run = place.run_file("out");
    let notes = run["plan"]["notes"].to_string();
    assert!(!notes.contains("the file does not say how many"), "{notes}");
    assert!(
        run["started_by"].as_str().is_some_and(|by| by.contains("mpirun") || by.contains("PMI")),
        "{}",
        run["started_by"]
    );
}

/// Runs DDLB's example, reduced, in so many processes of an mpirun; None, listed as skipped, where there is none.
fn under_mpirun(place: &Place, ranks: u32, what: &str) -> Option<Ended> {
    let known = ["/usr/bin/mpirun.openmpi --oversubscribe", "/usr/bin/mpirun.mpich"];
    let here = |mpirun: &&str| std::path::Path::new(mpirun.split(' ').next().unwrap_or_default()).exists();
    let Some(mpirun) = known.into_iter().find(here) else {
        skip::skip(what, "no mpirun (Debian: openmpi-bin, mpich)");
        return None;
    };
    // Its barrier before each call needs a core for each rank.
    let line = format!("run config.json {REDUCED} --set mode=streaming --trials 1 --limits false --output-dir out");
    let mut starting = place.command_under(&format!("{mpirun} -np {ranks}"), &line);
    starting.command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    Some(starting.run())
}

#[test]
fn only_rank_0_prints_and_draws() {
    let place = with("config.json", "ddlb/readme.json");
    let Some(ended) = under_mpirun(&place, 2, "one process of mpirun prints") else { return };
    let ended = ended.exits(0);
    for line in ["config.json is read as DDLB", "report   out/report.html"] {
        assert_eq!(ended.out.matches(line).count(), 1, "{line}: {}", ended.out);
    }
    // One record of both ranks, with one report.
    assert_eq!(place.cases("out").len(), 3);
    assert!(place.path("out/report.html").is_file());
    assert_eq!(place.names(), ["config.json", "out"]);
}

#[test]
fn one_process_is_enough_for_debugging() {
    let place = with("config.json", "ddlb/readme.json");
    place.run(&format!("run config.json {REDUCED} --ranks 1 --output-dir out")).exits(0);
    assert!(place.cases("out").iter().all(|case| case["ranks"] == 1 && case["status"] == "ok"));
}

#[test]
fn results_are_printed_and_drawn() {
    let place = with("config.json", "ddlb/commented.json");
    // Times are drawn over n.
    let line = "run config.json --set m=64 --set n=16,64,256 --set k=16 --set dtype=f32 --runtime native --warmup 1 --iters 2 \
                --trials 6 --spacing 10ms --output-dir out";
    let out = place.run(line).exits(0).out;
    assert!(out.contains("sequential") && out.contains("pipelined") && out.contains("wrong"), "{out}");
    assert!(std::fs::read_dir(place.path("out/charts")).unwrap().count() > 0);
    // Of one shape, a bar for each implementation: what its own example has.
    place.run("run config.json --set m=64 --set n=16 --set k=16 --set dtype=f32 --runtime native --warmup 1 --iters 2 --trials 1 --output-dir one").exits(0);
    let names: Vec<_> =
        std::fs::read_dir(place.path("one/charts")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().contains("implementations")), "{names:?}");
}

#[test]
fn a_backend_that_is_missing_is_skipped_with_its_reason() {
    let place = with("config.json", "ddlb/readme.json");
    let ended = place.run(&format!("run config.json {REDUCED} --set backend=shm,nccl --output-dir out"));
    let ended = ended.exits(0);
    assert!(!ended.out.contains("panicked"));
    let skipped: Vec<_> = place.cases("out").into_iter().filter(|case| case["status"] == "skipped").collect();
    assert_eq!(skipped.len(), 3);
    assert!(skipped.iter().all(|case| crate::place::reason(case).contains("nccl")));
}
