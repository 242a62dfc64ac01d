//! TorchScale: its configuration, its four phases, its options.

use std::collections::BTreeSet;

use super::{ok_share, with};
use crate::nvtx;
use crate::place::{Place, json_lines};
use crate::skip::{self, skip};

/// A model that any machine trains in no time.
const MLP: &str = "--model mlp --set features=8 --set width=8 --set layers=1 --set classes=4 --ranks 1,2 --set batch=2 --runtime native \
                   --steps 2 --trials 1";

#[test]
fn its_system_check_is_there() {
    let place = Place::new();
    let ended = place.run("validate --quick");
    for group in ["system", "NCCL", "PyTorch"] {
        assert!(ended.out.contains(group), "{group}: {}", ended.out);
    }
}

#[test]
fn its_configuration_runs_reduced() {
    let place = with("benchmark_config.yaml", "torchscale/quick_start.yaml");
    let ended =
        place.run(&format!("benchmark --config benchmark_config.yaml {MLP} --output-dir results --verbose")).exits(0);
    assert!(ended.out.contains("profiling.tool: nsys is not started"), "{}", ended.out);
    let record = records(&place, "results").remove(0);
    assert!(ok_share(&place, &record) >= 0.8);
    let cases = place.cases(&record);
    assert!(
        cases.iter().all(|case| case["samples_per_s"].as_f64().unwrap() > 0.0 && case["step_s"]["median"].is_number())
    );
}

#[test]
fn its_configurations_plan_as_they_stand() {
    for (file, cases) in [("quick_start", 24), ("format", 36), ("scaling_test", 4)] {
        let place = with("config.yaml", &format!("torchscale/{file}.yaml"));
        let out = place.run("run config.yaml --runtime native --dry-run --json");
        assert_eq!(json_lines(&out.out).len(), cases, "{file}");
        let ended = place.run("validate --quick --plan config.yaml");
        assert!(ended.out.contains("would run here"), "{file}: {}{}", ended.out, ended.err);
    }
}

/// Names of the records in a folder, the oldest first.
fn records(place: &Place, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(place.path(folder)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap())).collect();
    names.sort();
    names
}

#[test]
fn its_phases_share_one_output_dir() {
    let place = with("scaling_test.yaml", "torchscale/scaling_test.yaml");
    for _ in 0..2 {
        place.run(&format!("benchmark -c scaling_test.yaml {MLP} -o ./scaling_results")).exits(0);
    }
    assert_eq!(records(&place, "scaling_results").len(), 2);
    // A run of our own goes next to them.
    place.run("comm all_reduce --backend sim --bytes 1KiB --output-dir scaling_results").exits(0);
    let all = records(&place, "scaling_results");
    assert_eq!(all.len(), 3);
    let out = place.run("report generate --source ./scaling_results --format markdown").exits(0).out;
    assert_eq!(out.lines().count(), 3, "{out}");
    // One that is a record itself is never written over.
    place.run(&format!("comm all_reduce --backend sim --bytes 1KiB --output-dir {}", all[0])).refuses(&["--resume"]);
}

#[test]
fn its_profile_looks_for_sync_stalls() {
    let place = Place::new();
    // The folder of an earlier phase: the record goes next to those in it.
    place.run("comm all_reduce --backend sim --bytes 1KiB --output-dir scaling_results/first").exits(0);
    let asked = "profile --gpus 2 --duration 3s --target sync_stalls --output-dir ./scaling_results";
    let out = place.run(&format!("{asked} --compute sleep")).exits(0).out;
    assert!(out.contains("profile gpt2-mini, data, 2 ranks, shm") && out.contains("where its time goes"), "{out}");
    assert_eq!(records(&place, "scaling_results").len(), 2);
    let nsys = place.run("profile --tool nsys -g 2").exits(2).err;
    assert!(nsys.contains("nsys traces another program's job"), "{nsys}");
}

#[test]
fn its_short_options_of_profile_are_taken() {
    let place = Place::new();
    let sleeping = "--compute sleep --sleep-time 1ms --model gpt2-mini";
    let ended = place.run(&format!("profile -g 2 -d 3 -t sync_stalls -o ./scaling_results -v {sleeping}")).exits(0);
    assert!(ended.out.contains("profile gpt2-mini, data, 2 ranks, shm"), "{}", ended.out);
    assert!(place.path("scaling_results/report.html").is_file());
    let line = place.run_file("scaling_results")["command_line"].to_string();
    assert!(line.contains("\"-o\""), "{line}");
    // Behind `--` stand options of the job.
    let refused = place.run("profile -d 3s -o other -- no-such-program -o out.json -t 4").exits(2);
    assert!(refused.err.contains("no-such-program") && !place.path("out.json").exists(), "{}", refused.err);
    place.run("profile -t nothing").exits(2);
}

#[test]
fn each_command_takes_verbose_and_quiet_before_or_after_it() {
    let place = Place::new();
    let quick = place.run("validate --quick").out;
    for line in
        ["validate --verbose --quick", "validate -v --quick", "--verbose validate --quick", "-v validate --quick"]
    {
        let ended = place.run(line);
        assert_eq!((ended.status.code() == Some(2), ended.err.as_str()), (false, ""), "{line}");
        // A row for each finding, where others share one.
        assert!(ended.out.lines().count() >= quick.lines().count(), "{line}: {}\n{quick}", ended.out);
    }
    let isolated = "benchmark: collective, op: all_reduce, ranks: 1024, mode: isolated";
    let plan = format!("experiment: many\ncases: [{{{isolated}, bytes: [1KiB, 2KiB, 4KiB, 8KiB, 16KiB]}}]\n");
    place.write("plan.yaml", plan);
    let plain = place.run("validate --quick --plan plan.yaml").out;
    let verbose = place.run("--verbose validate --quick --plan plan.yaml").out;
    let named = |page: &str| page.matches("collective all_reduce shm 1024 ranks").count();
    assert_eq!((named(&plain), named(&verbose)), (3, 5), "{plain}{verbose}");
    for line in ["--quiet validate --quick --plan plan.yaml", "validate -q --quick --plan plan.yaml"] {
        let ended = place.run(line).exits(1);
        assert!(ended.out.is_empty() && ended.err.contains("5 cases skipped: isolated mode"), "{line}: {ended:?}");
    }
    let run = "comm all_reduce --backend sim --bytes 1KiB --iters 3 --output-dir results/one";
    let [quiet, verbose] = ["--quiet", "--verbose"].map(|option| format!("{option} {}", run.replace("one", option)));
    assert_eq!(place.run(&quiet).exits(0).out, "");
    assert!(place.run(&verbose).exits(0).out.contains("simulated: "));
    for line in ["--quiet report generate --format html", "report --quiet --format html"] {
        assert_eq!(place.run(line).exits(0).out, "", "{line}");
    }
    for line in ["--verbose report generate --source ./results --format html", "-v report -f html"] {
        let ended = place.run(line).exits(0);
        assert!(ended.err.contains("1 of 1 cases ok") && ended.out.contains("report.html"), "{line}: {ended:?}");
    }
    place.run("--quiet --verbose validate").exits(2);
}

#[test]
fn its_report_draws_efficiency_beside_the_ideal() {
    let place = with("scaling_test.yaml", "torchscale/scaling_test.yaml");
    place.run(&format!("benchmark --config scaling_test.yaml {MLP}")).exits(0);
    let out = place.run("report generate --source ./results --format svg").exits(0).out;
    let chart =
        out.lines().find(|path| path.ends_with("training-efficiency-weak.svg")).unwrap_or_else(|| panic!("{out}"));
    let drawn = place.read(chart);
    assert!(drawn.contains("ideal") && drawn.contains("weak scaling efficiency vs ranks"), "{drawn}");
}

/// What a profile says where rank 1 is delayed.
fn delayed(place: &Place, delay: &str) -> String {
    let sleeping = "--compute sleep --sleep-time 300us --model gpt2-mini --ranks 2 --duration 4s";
    place.run(&format!("profile {sleeping} --inject delay:rank=1,{delay} --output-dir profiled")).exits(0).out
}

#[test]
fn gradient_exchanges_that_vary_are_warned_of() {
    let place = Place::new();
    let out = delayed(&place, "phase=backward,time=30ms,at=0,every=3");
    assert!(out.contains("note: all_reduce of data 0 varies between steps: it takes "), "{out}");
}

#[test]
fn bottlenecks_come_with_recommendations() {
    let place = Place::new();
    // Longer than what a busy machine adds to a step, and short enough for many steps.
    let out = delayed(&place, "phase=backward,time=20ms");
    let page = place.read("profiled/report.html");
    assert!(page.contains("<h2>What to do</h2>") && out.contains("\n1. ") && out.contains("   do: "), "{out}");
    // A busy machine makes few steps in the time, and they may be too few for a verdict.
    if out.contains("steps are too few, or too correlated, to name a slow rank") {
        return skip("a slow rank that is named", "too few steps on this machine");
    }
    assert!(out.contains("1. Rank 1 is slower than the others") && out.contains("   do: On rank 1, compare"), "{out}");
    assert!(page.contains("Rank 1 is slow in backward"), "no recommendation");
}

#[test]
fn nsys_traces_a_job_where_it_is_installed() {
    let place = Place::new();
    let job = format!(
        "{} train --model gpt2-mini --layers 2 --width 64 --heads 2 --vocabulary 128 --sequence 32 --ranks 2 --steps 20 --trials 1",
        env!("CARGO_BIN_EXE_rankmark")
    );
    let profile = format!("profile --tool nsys --output-dir traced -- {job}");
    if !nvtx::has_nsys() {
        let refused = place.run(&profile).exits(2).err;
        assert!(
            refused.contains("nsys is not installed") && refused.contains("the PyTorch profiler traces"),
            "{refused}"
        );
        return;
    }
    if !cfg!(feature = "nsys") {
        return skip("a job under nsys", "built without the feature `nsys`");
    }
    let out = place.run(&profile).exits(0).out;
    assert!(out.contains("2 ranks, ") && out.contains("traced by Nsight Systems"), "{out}");
    assert!(out.contains("where its time goes") && place.path("traced/report.html").exists(), "{out}");
}

#[test]
fn reports_are_of_the_default_folder() {
    let place = with("scaling_test.yaml", "torchscale/scaling_test.yaml");
    place.run(&format!("benchmark --config scaling_test.yaml {MLP}")).exits(0);
    let out = place.run("report --format markdown").exits(0).out;
    assert!(out.starts_with("results/"), "{out}");
    let report = place.read(out.trim());
    assert!(report.contains("scaling") && report.contains("samples/s"), "{report}");
    place.run("report -s ./results --format csv --output all.csv --verbose").exits(0);
    assert!(place.read("all.csv").lines().count() > 1);
}

/// Each model of its format, and options that make it small: its own graph, with one block of each kind.
const MODELS: [(&str, &str); 3] = [
    ("gpt2", "--set layers=1 --set width=16 --set heads=2 --set vocabulary=64 --set sequence=8"),
    ("bert-large", "--set layers=1 --set width=16 --set heads=2 --set vocabulary=64 --set sequence=8"),
    (
        "resnet50",
        "--set image=32 --set classes=4 --set width=8 --set stage1=1 --set stage2=1 --set stage3=1 --set stage4=1",
    ),
];

#[test]
fn each_model_that_it_names_runs_small() {
    let place = with("config.yaml", "torchscale/format.yaml");
    let plan = place.run("run config.yaml --runtime native --dry-run --json").exits(0).out;
    let named: BTreeSet<String> =
        json_lines(&plan).iter().map(|case| case["parameters"]["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named, MODELS.iter().map(|(model, _)| (*model).to_owned()).collect(), "the sample names other models");
    // Of the three, one that has every kind of layer of a transformer; the others are heavy.
    let models = if skip::heavy("each model that TorchScale names") { &MODELS[..] } else { &MODELS[..1] };
    for &(model, small) in models {
        let rest = "--set batch=2 --ranks 1,2 --runtime native --steps 2 --trials 1";
        place.run(&format!("run config.yaml --model {model} {small} {rest} --output-dir {model}")).exits(0);
        let record = records(&place, model).remove(0);
        let cases = place.cases(&record);
        assert_eq!(cases.len(), 2, "{model}: 1 and 2 ranks");
        assert!(cases.iter().all(|case| case["parameters"]["model"] == model), "{cases:?}");
        assert!(ok_share(&place, &record) >= 0.8, "{model}");
        assert!(cases.iter().all(|case| case["samples_per_s"].as_f64().unwrap() > 0.0), "{model}");
    }
}

#[test]
fn reports_are_pages_and_documents() {
    let place = with("scaling_test.yaml", "torchscale/scaling_test.yaml");
    place.run(&format!("benchmark --config scaling_test.yaml {MLP}")).exits(0);
    let out = place.run("report generate --source ./results --format html").exits(0).out;
    let page = place.read(out.trim());
    assert!(out.trim().ends_with("report.html") && page.starts_with("<!doctype html>"), "{out}");
    assert!(page.contains("Content-Security-Policy") && page.contains("samples/s"), "no page of its own");
    let pdf = place.run("report generate --source ./results --format pdf").exits(0);
    assert!(pdf.out.trim().ends_with("report.pdf"), "{}", pdf.out);
}
