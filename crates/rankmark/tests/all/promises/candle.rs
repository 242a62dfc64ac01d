//! The Candle suite: its commands, its configurations, its table.

use super::{TINY, ok_share, with};
use crate::place::Place;

/// Options that reduce everything beside training, too. What the hardware cases measure has tests of its own.
const REDUCED: &str = "--iters 3 --set limit=64MiB --only collective,training,memory";

#[test]
fn models_and_strategies_are_listed() {
    let place = Place::new();
    for (kind, words) in [
        ("models", vec!["transformer-small", "transformer-medium", "transformer-large"]),
        ("strategies", vec!["data", "model", "pipeline", "hybrid"]),
        ("primitives", vec!["tp_columnwise", "tp_rowwise"]),
        ("operations", vec!["all_reduce", "send_recv"]),
        ("backends", vec!["shm", "nccl"]),
        ("hardware", vec!["m4-metal", "v100-nvlink"]),
        ("formats", vec!["markdown", "csv"]),
    ] {
        let out = place.run(&format!("list {kind}")).exits(0).out;
        assert!(words.iter().all(|word| out.contains(word)), "{kind}: {out}");
    }
}

#[test]
fn configurations_for_hardware_are_generated() {
    let place = Place::new();
    for hardware in ["m4-metal", "v100-nvlink"] {
        let out = place.run(&format!("gen-config --hardware {hardware}")).exits(0).out;
        place.write("plan.yaml", &out);
        let dry = place.run("run plan.yaml --dry-run");
        assert!(dry.out.contains(&format!("plan {hardware}")), "{}{}", dry.out, dry.err);
    }
}

#[test]
fn a_configuration_runs_reduced_and_prints_its_table() {
    let place = with("v100-nvlink.json", "candle/v100-nvlink.json");
    let out = place
        .run(&format!("run --config v100-nvlink.json {TINY} {REDUCED} --set backend=shm --output-dir out"))
        .exits(0)
        .out;
    for row in [
        "│ Configuration ",
        "│ Throughput (tokens/s) ",
        "│ Forward Time (ms) ",
        "│ Memory Efficiency ",
        "│ Efficiency Score ",
    ] {
        assert!(out.contains(row), "{row}: {out}");
    }
    assert!(out.contains("transformer-medium-hybrid (4 ranks)"), "{out}");
    assert!(ok_share(&place, "out") >= 0.8, "{}", ok_share(&place, "out"));
    let planned = crate::place::json_lines(&place.run("run v100-nvlink.json --dry-run --json").out);
    let benchmarks: std::collections::BTreeSet<String> =
        planned.iter().map(|case| case["benchmark"].as_str().unwrap().to_owned()).collect();
    assert_eq!(benchmarks.into_iter().collect::<Vec<_>>(), ["collective", "hardware", "memory", "training"]);
    // The table is there later, too.
    place.run("report out --layout candle --output-dir table").exits(0);
    assert!(place.read("table/results_table.txt").contains("transformer-medium-hybrid (4 ranks)"));
}

#[test]
fn a_suite_runs_reduced_and_writes_one_file() {
    let place = with("benchmark-suite.json", "candle/benchmark-suite.json");
    let line = format!("suite --config benchmark-suite.json --output results.json {TINY} {REDUCED} --output-dir out");
    let out = place.run(&line).exits(0).out;
    assert!(
        out.contains("transformer-small-data (2 ranks)") && out.contains("transformer-small-pipeline (2 ranks)"),
        "{out}"
    );
    let value: serde_json::Value = serde_json::from_str(&place.read("results.json")).unwrap();
    assert!(value["results"]["training"]["transformer-small"].as_array().unwrap().len() >= 3, "{value}");
    assert!(ok_share(&place, "out") >= 0.8);
}

#[test]
fn model_and_strategy_can_be_replaced() {
    let place = with("m4-metal.json", "candle/m4-metal.json");
    let line = "run --config m4-metal.json --model transformer-small --strategy hybrid --dry-run --json";
    let cases = crate::place::json_lines(&place.run(line).exits(0).out);
    let training: Vec<_> = cases.iter().filter(|case| case["benchmark"] == "training").collect();
    assert_eq!(training.len(), 1);
    assert_eq!(training[0]["parameters"]["model"], "transformer-small");
    assert_eq!(training[0]["parameters"]["strategy"], "hybrid");
}

#[test]
fn its_structure_as_documented_plans() {
    let place = with("config.json", "candle/structure.json");
    let out = place.run("run config.json --dry-run").exits(0).out;
    for word in ["device_type: metal", "num_devices: 1, and strategy hybrid has 4 ranks", "checked: ", "would run"] {
        // What was checked is shown by `import`.
        let shown = out.contains(word) || word == "checked: ";
        assert!(shown, "{word}: {out}");
    }
    let ended = place.run("validate --quick --plan config.json");
    assert!(ended.out.contains("would run here"), "{}{}", ended.out, ended.err);
}

#[test]
fn each_field_says_what_it_became() {
    let place = with("m4-metal.json", "candle/m4-metal.json");
    let ended = place.run("import m4-metal.json").exits(0);
    for word in [
        "parameters: 1300000000 -> checked: transformer-large has 13",
        "memory_per_device_gb: 128 -> limit: 128GB",
        "warning: device_type: metal",
    ] {
        assert!(ended.err.contains(word), "{word}: {}", ended.err);
    }
    place.write("plan.yaml", &ended.out);
    place.run("run plan.yaml --dry-run").exits(0);
}

#[test]
fn gradients_accumulate_and_data_is_mapped() {
    let place = Place::new();
    place.write("tokens.bin", vec![1u8; 4096]);
    let dimensions = "--model transformer-small --layers 1 --width 16 --heads 2 --vocabulary 512 --sequence 8";
    let line = format!("train {dimensions} --batch 4 --accumulate 2 --data-mmap tokens.bin --steps 2 --output-dir out");
    place.run(&line).exits(0);
    assert_eq!(place.cases("out")[0]["status"], "ok");
}
