//! `train` and `memory` from outside: lines as designed, models that are listed, plans that cannot be.

use serde_json::Value;

use crate::place::{Place, json_lines};

/// A few thousand parameters.
const TINY: &str = "--model mlp --layers 2 --width 16 --features 8 --classes 4 --optimizer sgd";

fn number_at(line: &Value, path: &[&str]) -> f64 {
    let value = path.iter().fold(line, |value, name| &value[*name]);
    value.as_f64().unwrap_or_else(|| panic!("{path:?} in {line}"))
}

#[test]
fn case_lines_are_as_designed() {
    let place = Place::new();
    let ended =
        place.run(&format!("train {TINY} --strategy data --ranks 1,2 --steps 10 --json --output-dir out")).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(lines.iter().map(|line| line["ranks"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    for line in &lines {
        assert_eq!((line["status"].as_str(), line["wrong"].as_u64()), (Some("ok"), Some(0)), "{line}");
        assert_eq!((line["benchmark"].as_str(), line["dtype"].as_str()), (Some("training"), Some("f32")));
        assert_eq!(line["loss"].as_array().unwrap().len(), 10, "ten steps, and no others");
        assert_eq!(number_at(line, &["step_s", "median"]), number_at(line, &["time_s", "median"]));
        for phase in ["input", "forward", "backward", "communication", "wait", "optimizer"] {
            assert!(number_at(line, &["phases_s", phase]) >= 0.0);
            assert_eq!(
                line["phases_s"]["per_rank"][phase].as_array().unwrap().len() as f64,
                number_at(line, &["ranks"])
            );
        }
        assert!(number_at(line, &["samples_per_s"]) > 0.0 && number_at(line, &["mfu", "headline"]) > 0.0);
        assert!(
            number_at(line, &["memory", "predicted", "total"]) > 0.0
                && number_at(line, &["memory", "measured", "total"]) > 0.0
        );
        assert!(number_at(line, &["cpu", "seconds"]) > 0.0 && number_at(line, &["cpu", "compute_threads"]) > 0.0);
    }
    let exchanged = lines[1]["traffic"].as_array().unwrap();
    let gradients = exchanged.iter().find(|moved| moved["axis"] == "data").unwrap_or_else(|| panic!("{exchanged:?}"));
    assert_eq!(gradients["operation"], "all_reduce");
    assert_eq!(
        (lines[1]["scaling"]["kind"].as_str(), lines[1]["scaling"]["base_ranks"].as_u64()),
        (Some("weak"), Some(1))
    );
    assert!(ended.err.contains("efficiency") && ended.err.contains("samples/s"), "{}", ended.err);
    let report = place.read("out/report.md");
    assert!(report.contains("weak-scaling efficiency") && report.contains("exposed communication"), "{report}");
    assert!(place.path("out/charts/training-efficiency-weak.svg").exists());
    assert!(place.path("out/charts/training-throughput-weak.svg").exists());
}

#[test]
fn the_third_time_is_measured_where_overlap_is_asked_for() {
    let place = Place::new();
    let ended = place.run(&format!("train {TINY} --ranks 2 --overlap true,false --steps 6 --json")).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["parameters"]["communicate"], false);
    assert!(lines[2]["overlapped"]["nocomm_s"].is_f64(), "{}", lines[2]);
    assert!(
        ended.err.contains("after backward") && ended.err.contains("measure how much communication overlaps"),
        "{}",
        ended.err
    );
}

#[test]
fn the_largest_batch_is_searched_and_proven() {
    let place = Place::new();
    let arguments = "memory --model mlp --width 64 --batch 1,2 --find-max-batch --limit 96MiB --json --output-dir out";
    let ended = place.run(arguments).exits(0);
    let lines = json_lines(&ended.out);
    let [first, second, largest] = lines.as_slice() else { panic!("{}", ended.out) };
    assert_eq!((first["parameters"]["batch"].as_u64(), second["parameters"]["batch"].as_u64()), (Some(1), Some(2)));
    let batch = largest["max_batch"].as_u64().unwrap_or_else(|| panic!("{largest}"));
    assert!(batch > 2 && largest["parameters"]["batch"].as_u64() == Some(batch));
    assert!(number_at(largest, &["memory", "measured", "total"]) <= f64::from(96 << 20), "{largest}");
    assert!(place.read("out/report.md").contains("The largest batch of mlp with 1 rank within 96 MiB per rank"));
}

/// The model has 16 TiB of parameters, which no machine holds.
#[test]
fn memory_beyond_this_machine_is_predicted_by_category() {
    let place = Place::new();
    let wide = "memory --model mlp --layers 64 --width 262144 --features 8 --classes 4";
    let ended = place.run(&format!("{wide} --output-dir out")).exits(2);
    let line = &place.cases("out")[0];
    let of = |name: &str| number_at(line, &["memory", "parts", name]);
    let parameters = 60.0 * 4.0 * 262_144.0 * 262_144.0;
    assert!(line["status"] == "skipped" && of("parameters") >= parameters && of("gradients") >= parameters, "{line}");
    assert!(number_at(line, &["memory", "predicted", "total"]) > 2.0 * parameters);
    assert!(line["memory"]["measured"].is_null() && line["time_s"].is_null(), "{line}");
    for part in ["parameters", "gradients", "optimizer", "predicted", "SKIPPED", "not enough memory"] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    assert!(place.read("out/report.md").contains("gradients"));
}

#[test]
fn one_rank_out_of_memory_is_a_result_and_hangs_nobody() {
    let place = Place::new();
    let ended = place.run("memory --model mlp --ranks 2 --strategy pipeline --limit 8MiB").exits(1);
    assert!(ended.out.contains("out of memory on rank 1"), "{}", ended.out);
    assert!(ended.took.as_secs() < 30, "{:?}", ended.took);
}

#[test]
fn a_loss_that_is_no_number_names_step_and_ranks() {
    let place = Place::new();
    let ended = place.run(&format!("train {TINY} --ranks 2 --learning-rate 1e30 --steps 6 --json")).exits(1);
    let line = &json_lines(&ended.out)[0];
    let reason = line["reason"].as_str().unwrap();
    assert!(line["status"] == "failed" && reason.contains("loss of step") && reason.contains("rank"), "{reason}");
}

#[test]
fn impossible_plans_are_refused_at_the_flag() {
    let place = Place::new();
    let refused = |arguments: &str, words: &[&str]| place.run(arguments).refuses(words);
    refused(
        "train --strategy hybrid --mesh 2x2x1 --ranks 2",
        &["--mesh 2x2x1", "2 x 2 x 1 = 4 ranks, but there are 2"],
    );
    refused("train --model gtp2", &["did you mean `gpt2`?"]);
    refused("train --set layerz=6", &["`layerz`", "did you mean `layers`?"]);
    refused("train --batch 3 --micro-batches 4", &["a batch of 3 is smaller than its 4 micro-batches"]);
    place.write("empty.bin", "");
    refused("train --data-mmap empty.bin", &["empty.bin: it is empty: 0 bytes"]);
    place.write("tokens.bin", [255_u8, 255].repeat(400));
    refused("train --data-mmap tokens.bin", &["token 65535 at place 0 is past the vocabulary of 4096"]);
}

#[test]
fn models_are_listed_with_what_they_take() {
    let ended = Place::new().run("list models").exits(0);
    let gpt2 = ended.out.lines().find(|line| line.trim_start().starts_with("gpt2 ")).unwrap();
    assert!(gpt2.contains("124 M parameters") && gpt2.contains("FLOP a sample") && gpt2.contains("GiB"), "{gpt2}");
}

#[test]
fn the_quick_plan_trains() {
    let text = Place::new().run("gen-config quick").exits(0).out;
    assert!(text.contains("benchmark: training") && text.contains("ranks: [1, 2]"), "{text}");
}
