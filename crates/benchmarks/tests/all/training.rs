//! Training from plan to case line: what is refused with which words, and small models trained by ranks as threads.

use record::{CaseLine, Plan};
use serde_json::Value;
use terms::Status;

use crate::plans;

fn plan(benchmark: &str, entry: &str) -> Result<Plan, String> {
    // Six trials span eight seconds; what is tested here shows in one.
    let text = format!("experiment: test\ncases:\n  - {{benchmark: {benchmark}, trials: 1, {entry}}}\n");
    let mut plan =
        record::plan::read(&text, "test.yaml", &benchmarks::abouts(), &[]).map_err(|errors| errors.to_string())?;
    benchmarks::complete(&mut plan);
    Ok(plan)
}

#[track_caller]
fn refused(entry: &str, words: &[&str]) {
    let said = plan("training", entry).expect_err("refused");
    for word in words {
        assert!(said.contains(word), "`{word}` is not said in: {said}");
    }
}

#[test]
fn impossible_plans_are_refused_with_the_arithmetic() {
    refused("mesh: 2x2x2, ranks: 4", &["2 x 2 x 2 = 8 ranks, but there are 4", "`ranks: 8`"]);
    refused("mesh: 2x2, ranks: 4", &["data x tensor x pipeline"]);
    refused("strategy: tensor, mesh: 2x1x1, ranks: 2", &["mesh 1x2x1, not 2x1x1", "hybrid"]);
    refused("model: gpt2-mini, strategy: tensor, ranks: 3", &["heads", "4"]);
    refused("model: mlp, strategy: pipeline, ranks: 8", &["block"]);
    refused("batch: 3, micro_batches: 4", &["a batch of 3 is smaller than its 4 micro-batches"]);
    refused("batch: 7, micro_batches: 2", &["7 = 2 x 3 + 1", "6 or 8"]);
    refused("global_batch: 7, ranks: 2", &["7 = 2 x 3 + 1", "replicas"]);
    refused("global_batch: 7, batch: 4, ranks: 2", &["4 samples x 2 replicas = 8, not 7"]);
    refused("strategy: model, ranks: 2, batch: 4, micro_batches: 2", &["the whole batch", "pipeline"]);
    refused("strategy: pipeline, ranks: 2, schedule: 1f1b, chunks: 2", &["interleaved"]);
    refused("model: gpt2-mini, heads: 5", &["width = 256 is not divisible by heads = 5", "test.yaml:3:"]);
    refused("model: resnet18, heads: 4", &["resnet18 has no setting `heads`"]);
    refused("model: gpt2-mini, sequence: 300", &["300", "256"]);
    refused("model: gtp2", &["did you mean `gpt2`?"]);
    refused("backend: sim", &["simulated"]);
    refused("load_balance: measured, ranks: 2", &["none can be moved", "accumulate"]);
    let images = "model: resnet18, image: 32, ranks: 2, batch: 4, accumulate: 4, load_balance: measured";
    refused(images, &["synchronised batch norm", "equal numbers"]);
    refused("steps: 3, data: {mmap: /nowhere}", &["/nowhere", "test.yaml:3:"]);
}

fn parameter(plan: &Plan, name: &str) -> Value {
    plan.cases[0].parameters.get(name).cloned().unwrap_or(Value::Null)
}

#[test]
fn what_was_not_given_is_filled_in_and_what_means_nothing_is_left_out() {
    let data = plan("training", "ranks: 2, schedule: gpipe, sequence_parallel: true").unwrap();
    assert_eq!((parameter(&data, "strategy"), parameter(&data, "mesh")), ("data".into(), "2x1x1".into()));
    assert_eq!((parameter(&data, "batch"), parameter(&data, "sequence")), (4.into(), 128.into()));
    assert_eq!((parameter(&data, "schedule"), parameter(&data, "sequence_parallel")), (Value::Null, Value::Null));
    assert_eq!(parameter(&data, "overlap"), true);
    let stages = plan("training", "ranks: 2, strategy: pipeline").unwrap();
    assert_eq!((parameter(&stages, "micro_batches"), parameter(&stages, "schedule")), (4.into(), "1f1b".into()));
    assert_eq!(parameter(&stages, "overlap"), Value::Null);
    let hybrid = plan("training", "ranks: 4, mesh: 2x2x1, global_batch: 6").unwrap();
    assert_eq!((parameter(&hybrid, "strategy"), parameter(&hybrid, "batch")), ("hybrid".into(), 3.into()));
    assert_eq!(parameter(&plan("training", "model: gpt2").unwrap(), "sequence"), 256, "and not 1024");
    // The order is that of the declared fields, whatever was filled in.
    let names: Vec<&str> = hybrid.cases[0].parameters.keys().collect();
    assert_eq!(names[..4], ["model", "strategy", "mesh", "ranks"]);
}

#[test]
fn every_dimension_of_every_model_can_be_set() {
    let about = benchmarks::benchmark("training").unwrap().about();
    for model in benchmarks::models() {
        for dimension in &model.dimensions {
            assert!(about.field(dimension).is_some(), "`{dimension}` of {} is not a field", model.name);
        }
    }
    assert_eq!(benchmarks::models().len(), model::CATALOG.len(), "every model has a line");
    assert!(about.faults().is_empty(), "{:?}", about.faults());
    assert!(benchmarks::benchmark("memory").unwrap().about().faults().is_empty());
}

/// Trains a model of a few thousand parameters.
fn train(more: &str) -> Vec<CaseLine> {
    let tiny = "model: mlp, layers: 2, width: 16, features: 8, classes: 4, batch: 4, steps: 4, optimizer: sgd";
    plans::run(&plan("training", &format!("{tiny}, {more}")).unwrap()).lines
}

fn losses(line: &CaseLine) -> Vec<f64> {
    let losses = line.metrics["loss"].as_array().unwrap_or_else(|| panic!("{line:?}"));
    losses.iter().map(|loss| loss.as_f64().unwrap()).collect()
}

#[test]
fn a_case_line_says_what_was_trained() {
    let lines = train("ranks: 1, precision: f64");
    let [line] = lines.as_slice() else { panic!("one case") };
    assert_eq!(
        (line.status, line.wrong, line.dtype.as_deref()),
        (Status::Ok, Some(0), Some("f64")),
        "{:?}",
        line.reason
    );
    assert_eq!((line.samples, losses(line).len()), (Some(4), 4), "four steps, and no others");
    // ln 4, before anything is learned.
    assert!((losses(line)[0] - 4_f64.ln()).abs() < 0.3, "{:?}", losses(line));
    let time = line.time_s.as_ref().unwrap();
    let number = |name: &str| line.metric(name).unwrap();
    assert!((number("samples_per_s") * time.median - 4.0).abs() < 1e-9);
    assert_eq!(line.metrics["step_s"]["median"].as_f64(), Some(time.median));
    assert!(!line.metrics.contains_key("tokens_per_s"), "vectors are not tokens");
    let phases = &line.metrics["phases_s"];
    assert!(phases["forward"].as_f64().unwrap() > 0.0 && phases["backward"].as_f64().unwrap() > 0.0);
    assert_eq!(phases["wait"].as_f64(), Some(0.0), "nobody to wait for");
    let mfu = &line.metrics["mfu"];
    let share = mfu["layers"].as_f64().unwrap();
    assert!(share > 0.0 && share < 1.0 && mfu["convention"] == "layers", "{mfu}");
    assert!(mfu["peak_source"].as_str().unwrap().contains("f64"));
    let rate = |name: &str| mfu[name].as_f64().unwrap();
    assert!(rate("gemm_flops") > 0.0 && rate("gemm_flops") < 1.5 * rate("peak_flops"), "{mfu}");
    let both = (rate("of_gemm") * rate("gemm_flops"), rate("headline") * rate("peak_flops"));
    assert!((both.0 / both.1 - 1.0).abs() < 1e-9, "the same operations: {mfu}");
    let predicted = &line.metrics["memory"]["predicted"];
    assert!(predicted["parameters"].as_u64().unwrap() > 0 && predicted["optimizer"].as_u64() == Some(0), "{predicted}");
    assert_eq!(line.metrics["traffic"].as_array().unwrap().len(), 0);
    assert!(line.metrics["cpu"]["seconds"].as_f64().unwrap() > 0.0);
}

/// Both ways to multiply f32 train alike, and say what they are; other precisions know no choice.
#[test]
fn products_of_f32_can_be_chosen() {
    let train = |more: &str| {
        let wide = "model: mlp, layers: 2, width: 64, features: 64, classes: 32, batch: 64, steps: 4, optimizer: sgd";
        plans::run(&plan("training", &format!("{wide}, {more}")).unwrap()).lines
    };
    let lines = train("matmul: [auto, fma]");
    let share = |line: &CaseLine, by: &str| line.metrics["mfu"]["multiplied"][by].as_f64();
    let fastest = engine::multiplier(terms::Dtype::F32, engine::Matmul::Auto).unwrap();
    assert_eq!((share(&lines[0], &fastest.to_string()), share(&lines[1], "fma")), (Some(1.0), Some(1.0)));
    let [auto, fma] = [0, 1].map(|index| losses(&lines[index]));
    assert_eq!(auto != fma, fastest != engine::Multiplier::Fma, "another way to multiply rounds otherwise: {auto:?}");
    assert!(auto.iter().zip(&fma).all(|(auto, fma)| (auto / fma - 1.0).abs() < 1e-5), "{auto:?}, {fma:?}");
    // Three rows are too few for it.
    let narrow =
        &plans::run(&plan("training", "model: mlp, layers: 2, width: 64, batch: 3, steps: 2").unwrap()).lines[0];
    assert_eq!(share(narrow, "fma"), Some(1.0), "{:?}", narrow.metrics["mfu"]);
    let parts = &train("matmul: bf16x6")[0];
    let there = engine::multiplier(terms::Dtype::F32, engine::Matmul::Bf16x6).is_some();
    assert_eq!(parts.status == Status::Ok, there, "{:?}", parts.reason);
    assert!(there || parts.reason.as_deref().is_some_and(|why| why.contains("AMX")), "{:?}", parts.reason);
    let double = &train("matmul: fma, precision: f64")[0];
    assert!(!double.parameters.contains_key("matmul"), "{:?}", double.parameters);
}

#[test]
fn warm_up_is_forgotten() {
    let cold = losses(&train("ranks: 2")[0]);
    assert_eq!(losses(&train("ranks: 2, warmup: 3")[0]), cold);
    assert!(cold.windows(2).all(|pair| pair[0] != pair[1]), "every step trains: {cold:?}");
}

#[test]
fn strategies_train_the_same() {
    let serial = losses(&train("ranks: 1, precision: f64, global_batch: 4")[0]);
    for more in [
        "ranks: 2, global_batch: 4",
        "ranks: 2, global_batch: 4, sharded: 2",
        "ranks: 2, strategy: tensor",
        "ranks: 2, strategy: pipeline, schedule: gpipe",
        "ranks: 2, strategy: model",
        "ranks: 4, mesh: 2x2x1, global_batch: 4",
    ] {
        let more = more.replace("global_batch: 4", "batch: 2");
        let lines = train_f64(&more);
        let line = &lines[0];
        assert_eq!((line.status, line.wrong), (Status::Ok, Some(0)), "{more}: {:?}", line.reason);
        for (ours, wanted) in losses(line).iter().zip(&serial) {
            assert!((ours / wanted - 1.0).abs() < 1e-9, "{more}: {:?} against {serial:?}", losses(line));
        }
    }
}

fn train_f64(more: &str) -> Vec<CaseLine> {
    let tiny = "model: mlp, layers: 2, width: 16, features: 8, classes: 4, steps: 4, optimizer: sgd, precision: f64";
    let batch = if more.contains("batch") { "" } else { "batch: 4, " };
    plans::run(&plan("training", &format!("{tiny}, {batch}{more}")).unwrap()).lines
}

#[test]
fn overlap_and_ranks_are_held_against_each_other() {
    let lines = train("ranks: [1, 2], overlap: [true, false]");
    let described: Vec<(u32, bool)> =
        lines.iter().map(|line| (line.ranks, line.metrics.contains_key("scaling"))).collect();
    // Without communication there is no training to be efficient at, but a step that can be timed.
    assert_eq!(described.iter().map(|(ranks, _)| *ranks).collect::<Vec<_>>(), [1, 2, 2, 2]);
    let [_, without, off, on] = lines.as_slice() else { panic!("{described:?}") };
    assert_eq!(without.parameters["communicate"], false);
    assert_eq!((without.status, without.wrong), (Status::Ok, Some(0)), "{:?}", without.reason);
    assert!(on.metrics.contains_key("overlapped") && !off.metrics.contains_key("overlapped"));
    assert_eq!(off.metrics["scaling"]["kind"], "weak");
    assert_eq!(losses(on), losses(off), "overlap changes times and nothing else");
}

#[test]
fn a_loss_that_is_no_number_fails_the_case_with_step_and_ranks() {
    let lines = train("ranks: 2, learning_rate: 1e30");
    let reason = lines[0].reason.clone().unwrap_or_default();
    assert_eq!(lines[0].status, Status::Failed, "{:?}", losses(&lines[0]));
    assert!(reason.contains("the loss of step ") && reason.contains("rank"), "{reason}");
}

#[test]
fn a_rank_that_needs_more_than_it_may_hold_is_a_result() {
    let entry = "model: mlp, width: 16, features: 8, ranks: 2, limit: [1MiB, 8GiB]";
    let lines = plans::run(&plan("memory", entry).unwrap()).lines;
    let reason = lines[0].reason.clone().unwrap_or_default();
    assert_eq!(lines[0].status, Status::Failed);
    assert!(reason.contains("out of memory on rank 1") && reason.contains("1.00 MiB"), "{reason}");
    assert_eq!(lines[1].status, Status::Ok, "{:?}", lines[1].reason);
    assert!(lines[1].metrics["memory"]["measured"]["total"].as_u64().unwrap() > 0);
}

#[test]
fn load_is_balanced_and_the_loss_stays() {
    let more = "ranks: 2, batch: 4, accumulate: 4";
    let equal = train_f64(more);
    let measured = train_f64(&format!("{more}, load_balance: measured"));
    assert_eq!(measured[0].status, Status::Ok, "{:?}", measured[0].reason);
    for (a, b) in losses(&equal[0]).iter().zip(losses(&measured[0])) {
        assert!((a / b - 1.0).abs() < 1e-9);
    }
}

#[test]
fn data_is_read_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let tokens: Vec<u8> = (0..4_000_u16).flat_map(|place| (place * 7 % 64).to_le_bytes()).collect();
    std::fs::write(file.path(), &tokens).unwrap();
    let tiny = "model: gpt2-mini, layers: 1, width: 32, heads: 2, vocabulary: 64, sequence: 16, batch: 4, steps: 12";
    let entry = |data: &str| format!("{tiny}, learning_rate: 0.01, ranks: 2{data}");
    let mapped = format!(", data: {{mmap: {}}}", file.path().display());
    let lines = plans::run(&plan("training", &entry(&mapped)).unwrap()).lines;
    assert_eq!((lines[0].status, lines[0].wrong), (Status::Ok, Some(0)), "{:?}", lines[0].reason);
    let learned = losses(&lines[0]);
    assert!(learned[11] < learned[0] - 0.5, "the next token follows from this one: {learned:?}");
    let made_up = losses(&plans::run(&plan("training", &entry("")).unwrap()).lines[0]);
    assert!(made_up[11] > learned[11] + 0.5, "chance cannot be learned: {made_up:?}");
}
