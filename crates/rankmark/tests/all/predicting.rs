//! Predictions of steps that were not measured: what they say, and what nobody takes them for.

use serde_json::Value;

use crate::place::Place;

const BANNER: &str = "PREDICTED, NOT MEASURED";

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn every_answer_says_that_nothing_was_measured() {
    let place = Place::new();
    let said = place.run("predict --model gpt2-mini --machine a100-nvlink --mesh 2x2x2 --batch 8").exits(0).out;
    assert!(
        said.starts_with(BANNER) && said.contains("a guess from public numbers") && said.contains("fits"),
        "{said}"
    );
    let said =
        place.run("predict --model gpt2-mini --machine a100-nvlink --ranks 8 --sweep --plan best.yaml").exits(0).out;
    assert!(said.starts_with(BANNER) && said.contains("simulated"), "{said}");
    // The plan is one that `run` takes: where there are GPUs, as the machine has them.
    let said = place.run("run best.yaml --dry-run").out;
    assert!(said.contains("training  nccl  cuda") && said.contains("would run"), "{said}");
    let json = place.run("predict --model gpt2-mini --machine a100-nvlink --mesh 2x2x2 --batch 8 --json").exits(0).out;
    let found = object(&json);
    assert_eq!((&found["predicted"], &found["basis"]), (&Value::from(true), &Value::from("public")));
    let parts: f64 = found["prediction"]["parts_s"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    let step = found["prediction"]["step_s"].as_f64().unwrap();
    assert!((parts / step - 1.0).abs() < 1e-9, "parts of {parts} s in a step of {step} s");
}

#[test]
fn a_prediction_is_not_compared_as_a_measurement() {
    let place = Place::new();
    let json = place.run("predict --model gpt2-mini --machine a100-nvlink --json").exits(0).out;
    place.write("predicted.json", &json);
    let why = place.run("compare predicted.json predicted.json").exits(2).err;
    assert!(why.contains("is a prediction, not a measurement"), "{why}");
}

#[test]
fn what_cannot_be_predicted_is_refused_with_the_way_out() {
    let place = Place::new();
    place.write("damaged.json", "{\"schema\": 1, \"name\": 3}");
    place.write("other.json", "{\"schema\": 99}");
    place.write("steps.csv", "gpus,step_s\n8,nan\n");
    for (words, says) in [
        ("predict", "predict needs a machine"),
        ("predict --machine a100", "a100-nvlink"),
        ("predict --machine a100-nvlink --mesh 2x2x1 --ranks 3", "has 4 ranks, not 3"),
        ("predict --machine a100-nvlink --mesh 1x5x1", "do not divide into 5 parts"),
        ("predict --machine a100-nvlink --mesh 1x1x99", "places for 14 blocks"),
        (
            "predict --machine a100-nvlink --mesh 1x1x4 --schedule interleaved --batch 6 --micro-batches 6",
            "does not fit",
        ),
        ("predict --machine a100-nvlink --mesh 1x1x1 --set widht=3", "width"),
        // Of the record of a check, which there is none of.
        ("predict --machine a100-nvlink --sweep --output-dir r", "--sweep"),
        // A sweep tries all of them.
        ("predict --machine a100-nvlink --ranks 8 --sweep --schedule gpipe", "exclude each other"),
        ("predict --machine a100-nvlink --ranks 8 --sweep --micro-batches 4", "exclude each other"),
        ("predict --machine a100-nvlink --ranks 8 --sweep --sharded 1", "exclude each other"),
        ("predict --machine a100-nvlink --ranks 8 --mesh 2x2x1 --sweep", "has 4 ranks, not 8"),
        // Nothing is swept, and no plan is written.
        ("predict --machine a100-nvlink --mesh 1x1x1 --schedule gpipe --plan p.yaml", "exclude each other"),
        // Rows and cases of a plan say it themselves.
        ("predict --machine a100-nvlink --rows steps.csv --model gpt2", "exclude each other"),
        ("predict --machine a100-nvlink --rows steps.csv --mesh 2x2x2", "exclude each other"),
        ("predict --machine a100-nvlink --rows steps.csv --software rankmark", "exclude each other"),
        ("predict --machine a100-nvlink --fit steps.csv --draw 1 --mesh 2x2x2", "exclude each other"),
        ("predict --machine a100-nvlink --check plan.yaml --precision f32", "exclude each other"),
        ("predict --machine a100-nvlink --global-batch 8 --output-dir r", "exclude each other"),
        ("predict --machine a100-nvlink --mesh 1x1x1 --output-dir r", "--mesh"),
        ("predict --machine a100-nvlink --check plan.yaml --plan p.yaml", "--check"),
        ("predict --profile damaged.json", "damaged.json"),
        ("predict --profile other.json", "schema 99"),
        ("predict --profile absent.json", "rankmark calibrate"),
        ("predict --machine a100-nvlink --fit steps.csv", "no column"),
        (
            "predict --machine a100-nvlink --ranks 7 --sweep --model gpt2-mini --global-batch 1 --set heads=2",
            "no mesh of 7 ranks",
        ),
    ] {
        let why = place.run(words).exits(2).err;
        assert!(why.contains(says) && why.starts_with("error: "), "{words}: {why}");
    }
}

/// A table of measured steps with these cells of `interleave`, `global_batch` and `step_s`; the mesh has two stages.
fn table(rows: &[(&str, &str, &str)]) -> String {
    let head = "gpus,gpus_per_node,hidden,heads,layers,sequence,vocabulary,tensor,data,pipeline,interleave,micro_batch,global_batch,\
                recompute,sequence_parallel,step_s";
    let line = |(interleave, batch, step_s): &(&str, &str, &str)| {
        format!("8,8,1024,16,24,1024,51200,2,2,2,{interleave},4,{batch},full,0,{step_s}\n")
    };
    let lines: String = rows.iter().map(line).collect();
    format!("{head}\n{lines}")
}

#[test]
fn a_table_in_milliseconds_is_not_judged() {
    let place = Place::new();
    place.write("seconds.csv", table(&[("1", "32", "0.15")])).write("milliseconds.csv", table(&[("1", "32", "150")]));
    place.run("predict --machine a100-nvlink --rows seconds.csv").exits(0);
    let refused = place.run("predict --machine a100-nvlink --rows milliseconds.csv");
    refused.refuses(&["1,000 times as long", "in milliseconds"]);
}

/// Rows of tables are steps of Megatron-LM, unless somebody says otherwise.
#[test]
fn a_program_that_is_named_is_not_replaced() {
    let place = Place::new();
    place.write("steps.csv", table(&[("1", "32", "0.15"), ("2", "64", "0.3")]));
    let fitted = |software: &str| place.run(&format!("predict --machine a100-nvlink --fit steps.csv{software}"));
    let usual = fitted("").exits(0).out;
    assert_eq!(fitted(" --software megatron").exits(0).out, usual);
    assert_ne!(fitted(" --software rankmark").exits(0).out, usual);
}

#[test]
fn a_row_that_cannot_be_simulated_leaves_the_others_to_be_predicted() {
    let place = Place::new();
    // The last has three micro-batches for two stages of two chunks.
    place.write("steps.csv", table(&[("1", "32", "0.15"), ("2", "64", "0.3"), ("2", "24", "0.12")]));
    let ended = place.run("predict --machine a100-nvlink --rows steps.csv").exits(0);
    assert!(ended.err.contains("note: line 4 is left out: interleave is 2: 3 micro-batches"), "{}", ended.err);
    assert!(ended.out.contains("errors of 2 rows"), "{}", ended.out);
}

/// Steps that sleep take what they are said to take on every machine: what is checked is the way of a check, and not the machine.
#[test]
fn a_check_seals_its_predictions_before_it_measures() {
    let place = Place::new();
    let sleeps = "benchmark: training, model: gpt2-mini, compute: sleep, sleep_jitter: 0, sleep_time: 1ms";
    place.write(
        "plan.yaml",
        format!(
            "experiment: check\ndefaults: {{backend: shm, quick: true, max_seconds: 0.2s, limits: 'false'}}\ncases:\n  \
             - {{{sleeps}, ranks: 1, batch: [1, 2]}}\n  - {{{sleeps}, ranks: 2, mesh: 1x1x2, batch: 2, micro_batches: 2}}\n"
        ),
    );
    let said = place.run("predict --machine a100-nvlink --check plan.yaml --json --output-dir checked");
    assert!([Some(0), Some(1)].contains(&said.status.code()), "{}", said.err);
    let found = object(&said.out);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &found["drift"]), (3, &Value::Null), "{found}");
    for row in rows {
        let (predicted, measured) = (row["predicted_s"].as_f64().unwrap(), row["measured_s"].as_f64().unwrap());
        assert!(predicted > 5e-3 && measured > 0.9 * predicted, "nobody sleeps shorter: {row}");
    }
    // The digest is noted when the record begins, and the file is what it is of.
    let record = place.path("checked");
    let read = |record: &std::path::Path| {
        let note = record::read_run(record).unwrap().file.labels.note;
        record::read_predictions(record, note.as_deref()).unwrap().unwrap()
    };
    let sealed = read(&record);
    assert!(sealed.is_sealed && sealed.cases.len() == 3, "{sealed:?}");
    let written = |file: &str| std::fs::metadata(record.join(file)).unwrap().modified().unwrap();
    assert!(written("predictions.json") <= written("cases.jsonl"), "predictions were written after results");
    assert!(std::fs::read_to_string(record.join("report.md")).unwrap().contains(BANNER));
    // A record that is sent has them, too, and as they were.
    place.run("pack checked").exits(0);
    place.run("import checked.tar.gz --output-dir sent").exits(0);
    assert_eq!(read(&place.path("sent")), sealed);
    // With other names in it, they would be called changed.
    let redacted = place.run("pack checked --redact -o redacted.tar.gz").exits(0).out;
    assert!(redacted.contains("left out  predictions.json: sealed"), "{redacted}");
}
