//! The Candle suite: its commands, its configurations, its table.

use super::{TINY, ok_share, sample, with};
use crate::place::Place;

/// Options that also reduce everything apart from training. What the hardware cases measure has tests of its own.
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
    for word in ["device_type: metal", "num_devices: 1, and strategy hybrid has 4 ranks", "would run"] {
        assert!(out.contains(word), "{word}: {out}");
    }
    // Each alternative became cases of its own.
    let read = place.run("import config.json").exits(0).err;
    for line in [
        "model: transformer, size small -> model: transformer-small",
        "model: transformer, size large -> model: transformer-large",
        "strategy: pipeline -> strategy: pipeline, ranks: 2",
        "strategy: hybrid -> strategy: hybrid, mesh: 2x1x2, ranks: 4",
        "interconnect: system -> backend: shm",
        "warning: device_type: metal",
        "warning: model: layers 24, hidden_size 2048, parameters 1300000000 are of one size",
    ] {
        assert!(read.contains(line), "{line}: {read}");
    }
    // Of one size they are checked.
    let one = sample("candle/structure.json").replace("small|medium|large", "large");
    place.write("one.json", one);
    let read = place.run("import one.json").exits(0).err;
    assert!(read.contains("parameters: 1300000000 -> checked: transformer-large has 13"), "{read}");
    let ended = place.run("validate --quick --plan config.json --json");
    let told: serde_json::Value = serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let plan = &told["plan"];
    assert!(plan["run"].as_u64().unwrap() > 0, "{plan}");
    for skipped in plan["skipped"].as_array().unwrap() {
        let why = skipped["reason"].as_str().unwrap();
        assert!(why.contains(" is not ready: ") || why.starts_with("not enough memory: "), "{skipped}");
    }
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

/// A model of a few parameters.
const MLP: &str = "--model mlp --features 8 --width 16 --layers 1 --classes 4";

#[test]
fn the_largest_batch_is_found() {
    let place = Place::new();
    let ended =
        place.run("memory --model mlp --width 64 --batch 1 --find-max-batch --limit 96MiB --trials 1 --output-dir out");
    ended.exits(0);
    let cases = place.cases("out");
    let largest =
        cases.iter().filter(|case| case["status"] == "ok").filter_map(|case| case["parameters"]["batch"].as_u64());
    assert!(largest.max().unwrap() > 1, "{cases:?}");
}

#[test]
fn links_between_ranks_are_measured() {
    let place = Place::new();
    let ended = place.run("hardware latency,bandwidth --ranks 2 --quick --output-dir out").exits(0);
    let cases = place.cases("out");
    assert!(cases.iter().all(|case| case["status"] == "ok" && case["wrong"] == 0), "{cases:?}");
    for word in ["latency: time of a message, us", "bandwidth, GB/s  2 ranks"] {
        assert!(ended.out.contains(word), "{word}: {}", ended.out);
    }
}

#[test]
fn a_run_is_compared_with_the_limits_of_its_machine() {
    let place = Place::new();
    for limit in ["triad --trials 1 --iters 3 --warmup 1 --bytes 24KiB,8MiB --threads 2", "fma --quick --threads 1"] {
        let folder = limit.split(' ').next().unwrap();
        place.run(&format!("hardware {limit} --output-dir {folder}")).exits(0);
        assert!(place.cases(folder).iter().all(|case| case["status"] == "ok"), "{limit}");
    }
    // Theory next to practice: a share of memory bandwidth for a collective, of the peak of the cores for a model.
    place.run("comm all_reduce --ranks 2 --bytes 1MiB --iters 6 --limits triad --output-dir moved").exits(0);
    let share = place.cases("moved")[0]["limit"]["share"].as_f64().unwrap();
    assert!(share > 0.0 && share.is_finite(), "{share}");
    assert!(place.read("moved/report.md").contains("* Limits: triad, measured 20"));
    place.run(&format!("train {MLP} --batch 4 --steps 3 --output-dir trained")).exits(0);
    let mfu = place.cases("trained")[0]["mfu"]["headline"].as_f64().unwrap();
    assert!(mfu > 0.0 && mfu < 1.0, "{mfu}");
}

#[test]
fn scaling_and_what_limits_it_are_said() {
    let place = Place::new();
    place.run(&format!("train {MLP} --ranks 1,2 --batch 4 --steps 3 --output-dir out")).exits(0);
    let report = place.read("out/report.md");
    assert!(report.contains("weak-scaling efficiency") && report.contains("of the compute-only scaling"), "{report}");
    let case = place.cases("out").remove(1);
    assert!(case["scaling"]["efficiency"].as_f64().unwrap() > 0.0, "{case}");
    // Where the time of a step goes: computing, memory and data, or communication.
    for phase in ["input", "forward", "backward", "communication", "wait", "optimizer"] {
        assert!(case["phases_s"][phase].is_number(), "{phase}: {case}");
    }
}

#[test]
fn results_are_compared() {
    let place = Place::new();
    for name in ["before", "after"] {
        place
            .run(&format!("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --iters 5 --output-dir {name}"))
            .exits(0);
    }
    let ended = place.run("compare before after");
    assert!(ended.out.contains("all_reduce"), "{ended:?}");
}

#[test]
fn mixed_precision_trains() {
    let place = Place::new();
    place.run(&format!("train {MLP} --precision f32,bf16 --batch 4 --steps 3 --output-dir out")).exits(0);
    let cases = place.cases("out");
    let precisions: Vec<_> = cases.iter().map(|case| case["parameters"]["precision"].clone()).collect();
    assert_eq!(precisions, ["f32", "bf16"]);
    assert!(cases.iter().all(|case| case["status"] == "ok" && case["wrong"] == 0), "{cases:?}");
}

#[test]
fn the_system_is_described() {
    let place = Place::new();
    place.run("comm all_reduce --backend sim --bytes 1KiB --iters 3 --output-dir out").exits(0);
    let machine = place.run_file("out")["machine"].clone();
    for name in ["host", "kernel", "arch"] {
        assert!(machine[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {machine}");
    }
    assert!(machine["memory_bytes"].as_u64().unwrap() > 0, "{machine}");
    let kernel = machine["kernel"].as_str().unwrap();
    assert!(place.read("out/report.md").contains(&format!("Linux {kernel}")));
}

#[test]
fn verbose_says_more() {
    let place = with("m4-metal.json", "candle/m4-metal.json");
    let says = |more: &str, to: &str| {
        let line = format!("run --config m4-metal.json {TINY} {REDUCED} --set backend=shm {more} --output-dir {to}");
        place.run(&line).exits(0).out.lines().any(|line| line.starts_with("overhead ") && line.contains(" a sample"))
    };
    assert_eq!((says("", "a"), says("--verbose", "b")), (false, true));
}

/// Commands are chained as in the suite's documentation: what `gen-config` prints is what `run --config` overrides.
#[test]
fn a_generated_configuration_takes_another_model_and_strategy() {
    let place = Place::new();
    let listed: serde_json::Value = serde_json::from_str(&place.run("list hardware --json").exits(0).out).unwrap();
    let names: Vec<&str> =
        listed["hardware"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let generated = place.run(&format!("gen-config --hardware {name}")).exits(0).out;
        if !generated.contains("benchmark: training") {
            continue;
        }
        place.write("f.json", generated);
        let ended = place.run("run --config f.json --model transformer-large --strategy hybrid --dry-run");
        assert!(!ended.err.contains("error:") && ended.out.contains("dry run"), "{name}: {}", ended.err);
    }
}

#[test]
fn what_an_override_makes_obsolete_is_dropped_with_a_note() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "experiment: x\ncases:\n  - {benchmark: training, model: gpt2-mini, layers: 3, strategy: hybrid, mesh: 1x1x2, ranks: 2}\n",
    );
    let other = place.run("run plan.yaml --model mlp --strategy data --dry-run").exits(0);
    for field in ["`layers` of the plan is dropped: it belongs to another `model`", "`mesh` of the plan is dropped"] {
        assert!(other.out.contains(field), "{field}: {}", other.out);
    }
    let same = place.run("run plan.yaml --model gpt2-mini --dry-run").exits(0);
    assert!(
        !same.out.contains("is dropped") && same.out.contains("layers 3") && same.out.contains("hybrid"),
        "{}",
        same.out
    );
}
