//! DDLB: its configuration runs, and its lists multiply.

use super::{ok_share, sample, with};
use crate::place::Place;

/// Its example at sizes that any machine holds.
const REDUCED: &str = "--set m=64 --set n=16 --set k=16 --runtime native --warmup 1 --iters 2";

#[test]
fn its_example_runs_reduced() {
    let place = with("config.json", "ddlb/readme.json");
    let out = place.run(&format!("run config.json {REDUCED} --output-dir out")).exits(0).out;
    assert!(out.contains("config.json is read as DDLB: its configuration as JSON"), "{out}");
    assert!(ok_share(&place, "out") >= 0.8);
    // The share of cases that are ok stands in the report's head.
    assert!(place.read("out/report.md").contains("Status: 3 cases: 3 ok"), "{}", place.read("out/report.md"));
}

#[test]
fn its_example_plans_as_it_stands() {
    let place = with("config.json", "ddlb/readme.json");
    let ended = place.run("validate --quick --plan config.json");
    assert!(ended.out.contains("cases would run here"), "{}{}", ended.out, ended.err);
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
    // Two processes of a step of srun, as `mpirun -np 2` starts them.
    let start = |rank: u32| {
        let line = format!("run config.json {REDUCED} --trials 1 --limits false --output-dir out");
        let mut starting = place.command_under("timeout 100", &line);
        starting.command.env("XDG_RUNTIME_DIR", place.temporary()).envs([
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_STEP_NUM_TASKS", "2".to_owned()),
            ("SLURM_STEP_TASKS_PER_NODE", "2".to_owned()),
            ("SLURM_JOB_ID", "4712".to_owned()),
            ("SLURM_STEP_ID", "0".to_owned()),
        ]);
        starting.start()
    };
    let both: Vec<_> = (0..2).map(start).collect();
    both.into_iter().for_each(|live| drop(live.wait().exits(0)));
    assert!(
        place.cases("out").iter().all(|case| case["ranks"] == 2 && case["status"] == "ok"),
        "{:?}",
        place.cases("out")
    );
    let notes = place.run_file("out")["plan"]["notes"].to_string();
    assert!(!notes.contains("the file does not tell them"), "{notes}");
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
