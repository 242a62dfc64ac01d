//! The distributed training benchmarks: one command for all, its options, its JSON.

use serde_json::Value;

use crate::place::Place;
use crate::{external, skip};

const MEMORY: &str = "run --benchmark memory --model gpt2-mini --set layers=1 --set width=16 --set heads=2 --set vocabulary=64 \
                      --set sequence=8 --trials 1";

#[test]
fn one_benchmark_runs_alone() {
    let place = Place::new();
    for word in ["--benchmark comm", "--only collective"] {
        let out = place.run(&format!("run {word} --dry-run --json")).exits(0).out;
        let cases = crate::place::json_lines(&out);
        assert!(!cases.is_empty() && cases.iter().all(|case| case["benchmark"] == "collective"), "{word}");
    }
    let out = place.run("run --benchmark scaling --dry-run").exits(0).out;
    assert!(out.contains("efficiencies are those of training cases") && out.contains("training"), "{out}");
    let out = place.run("run --benchmark memory --dry-run").exits(0).out;
    assert!(out.contains("the quick plan has no case of memory: these are those of `rankmark memory`"), "{out}");
    place.run("run --benchmark nothing").refuses(&["there is no benchmark `nothing`", "valid values: all, collective"]);
}

/// A plan of computed times with two benchmarks.
const PLAN: &str = "experiment: benchmark_4gpu\ncases:\n  - {benchmark: collective, op: [all_reduce, all_gather, \
                    reduce_scatter, send_recv], ranks: 4, bytes: 1KiB, backend: sim}\n  - {benchmark: memory, model: mlp}\n";

#[test]
fn warmup_iterations_and_output_dir_are_taken() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.run("run plan.yaml --benchmark comm --warmup 20 --iters 200 --output-dir results").exits(0);
    let cases = place.cases("results");
    assert_eq!(cases.len(), 4);
    assert!(cases.iter().all(|case| case["samples"] == 200), "{cases:?}");
}

#[test]
fn results_are_one_json_file() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.run("run plan.yaml --only collective --warmup 10 --iters 100 --output out.json --output-dir out").exits(0);
    let value: Value = serde_json::from_str(&place.read("out.json")).unwrap();
    assert_eq!((&value["name"], &value["world_size"]), (&"benchmark_4gpu".into(), &4.into()));
    assert_eq!(value["config"]["warmup_iters"], 10);
    assert_eq!(value["config"]["benchmark_iters"], 100);
    assert_eq!(value["simulated"], true, "what is computed says so");
    let timestamp = value["timestamp"].as_str().unwrap();
    assert!(timestamp.len() >= 19 && timestamp.as_bytes()[10] == b'T', "{timestamp}");
    for operation in ["allreduce", "allgather", "reduce_scatter", "point_to_point"] {
        assert!(value["results"]["communication"][operation][0]["busbw_gbs"].as_f64().unwrap() > 0.0, "{value}");
    }
    // The same from the record, later.
    place.run("report out --layout distributed-training --output-dir again").exits(0);
    assert_eq!(place.read("again/results.json"), place.read("out.json"));
}

#[test]
fn bus_bandwidth_is_by_its_formula() {
    let place = Place::new();
    place.run("comm all_reduce --ranks 4 --bytes 1MiB --backend sim --iters 3 --output-dir out").exits(0);
    let case = &place.cases("out")[0];
    let time = case["time_s"]["median"].as_f64().unwrap();
    let expected = f64::from(1 << 20) * 2.0 * 3.0 / 4.0 / time / 1e9;
    let busbw = case["busbw_gbs"].as_f64().unwrap();
    assert!((busbw / expected - 1.0).abs() < 1e-9, "{busbw} {expected}");
}

#[test]
fn training_tells_throughput_step_memory_and_efficiency() {
    let place = Place::new();
    let dimensions = "--model gpt2-mini --layers 1 --width 16 --heads 2 --vocabulary 64 --sequence 8";
    place.run(&format!("train {dimensions} --ranks 1,2 --batch 2 --steps 3 --output-dir out")).exits(0);
    place.run("report out --layout distributed-training --output-dir json").exits(0);
    let value: Value = serde_json::from_str(&place.read("json/results.json")).unwrap();
    let cases = value["results"]["training"]["gpt2-mini"].as_array().unwrap().clone();
    let two = cases.iter().find(|case| case["ranks"] == 2).unwrap();
    for name in ["samples_per_s", "tokens_per_s", "step_time_ms", "measured_bytes", "scaling_efficiency_percent"] {
        assert!(two[name].as_f64().unwrap() > 0.0, "{name}: {two}");
    }
    let report = place.read("out/report.md");
    assert!(report.contains("weak-scaling efficiency"), "{report}");
}

#[test]
fn memory_is_told_by_category_and_batch() {
    let place = Place::new();
    place.run(&format!("{MEMORY} --set batch=1,2 --output memory.json --output-dir out")).exits(0);
    let value: Value = serde_json::from_str(&place.read("memory.json")).unwrap();
    let cases = value["results"]["memory"]["gpt2-mini"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 2, "{value}");
    for case in &cases {
        for name in ["parameter_bytes", "gradient_bytes", "activation_bytes"] {
            assert!(case[name].as_u64().unwrap() > 0, "{name}: {case}");
        }
    }
    assert!(cases[0]["activation_bytes"].as_u64() < cases[1]["activation_bytes"].as_u64());
}

#[test]
fn torchrun_starts_the_ranks() {
    let Some(torchrun) = external::torchrun() else {
        return skip::skip("ranks of torchrun", "no torchrun on the path, and RANKMARK_TEST_TORCHRUN names none");
    };
    let place = Place::new();
    place.write("plan.yaml", PLAN.replace("backend: sim", "backend: shm, iters: 3, limits: false"));
    let launcher = format!("{} --no-python --nproc-per-node=4", torchrun.display());
    let line = "run plan.yaml --benchmark comm --trials 1 --output-dir results";
    let ended = place.command_under(&launcher, line).run().exits(0);
    assert_eq!(ended.out.matches("report   results/report.html").count(), 1, "{}", ended.out);
    let cases = place.cases("results");
    assert_eq!(cases.len(), 4);
    assert!(cases.iter().all(|case| case["ranks"] == 4 && case["status"] == "ok" && case["wrong"] == 0), "{cases:?}");
    assert!(place.run_file("results")["started_by"].as_str().is_some_and(|by| by.contains("torchrun")));
}

/// Ranks that sleep instead of computing, and move real gradients.
const PROFILE: &str =
    "profile --model gpt2-mini --ranks 2 --compute sleep --sleep-time 300us --duration 4s --output-dir profiled";

#[test]
fn waiting_for_data_is_told_apart() {
    let place = Place::new();
    let out = place.run(&format!("{PROFILE} --target input --inject delay:rank=1,phase=input,time=20ms")).exits(0).out;
    // If the machine is too busy to call the rank slow, waiting for data is still separate from other waiting.
    let told = ["Rank 1 is slow in input", "aiting for input", "Steps wait for data"];
    assert!(told.iter().any(|words| out.contains(words)), "{out}");
    assert!(place.cases("profiled")[0]["phases_s"]["input"].as_f64().unwrap() > 0.004);
}

#[test]
fn overlap_of_communication_is_told() {
    let place = Place::new();
    let out = place.run(&format!("{PROFILE} --target overlap")).exits(0).out;
    let line = out.lines().find(|line| line.starts_with("communication takes ")).unwrap_or_else(|| panic!("{out}"));
    assert!(line.contains("% of it overlapped"), "{line}");
}

#[test]
fn bandwidth_between_all_pairs_is_measured() {
    let place = Place::new();
    let out = place.run("hardware bandwidth --ranks 4 --quick --output-dir out").exits(0).out;
    // A row and a column of each rank.
    let (_, matrix) = out.split_once("\nbandwidth, GB/s").unwrap_or_else(|| panic!("{out}"));
    let rows: Vec<&str> = matrix.lines().skip(2).take(4).collect();
    for (rank, row) in rows.iter().enumerate() {
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((words.len(), words[0], words[1 + rank]), (5, rank.to_string().as_str(), "-"), "{matrix}");
    }
}

#[test]
fn variables_of_nccl_are_recorded() {
    let place = Place::new();
    let mut start = place.command("comm all_reduce --ranks 2 --bytes 1KiB --backend sim --output-dir out");
    start.command.env("NCCL_DEBUG", "INFO").env("NCCL_ALGO", "Ring");
    start.run().exits(0);
    let environment = place.run_file("out")["environment"].clone();
    assert_eq!((&environment["NCCL_DEBUG"], &environment["NCCL_ALGO"]), (&"INFO".into(), &"Ring".into()));
}
