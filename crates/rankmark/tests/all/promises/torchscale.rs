//! TorchScale: its configuration, its four phases, its options.

use super::{SMALL, ok_share, with};
use crate::nvtx;
use crate::place::Place;
use crate::skip::skip;

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
    assert!(ended.out.contains("kept in the plan for `rankmark profile`"), "{}", ended.out);
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
        assert_eq!(crate::place::json_lines(&out.out).len(), cases, "{file}");
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
    // A run of our own goes beside them.
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
    // The folder of an earlier phase: the record goes beside those that it holds.
    place.run("comm all_reduce --backend sim --bytes 1KiB --output-dir scaling_results/first").exits(0);
    let asked = "profile --gpus 2 --duration 3s --target sync_stalls --output-dir ./scaling_results";
    let out = place.run(&format!("{asked} --compute sleep")).exits(0).out;
    assert!(out.contains("profile  gpt2-mini, data, 2 ranks, shm") && out.contains("where its time goes"), "{out}");
    assert_eq!(records(&place, "scaling_results").len(), 2);
    let nsys = place.run("profile --tool nsys -g 2").exits(2).err;
    assert!(nsys.contains("nsys traces another program's job"), "{nsys}");
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

#[test]
fn a_model_that_it_names_runs_small() {
    let place = with("config.yaml", "torchscale/format.yaml");
    let line = format!(
        "run config.yaml --model gpt2 --set layers=1 --set width=16 --set heads=2 --set vocabulary=64 --ranks 1 --runtime native {SMALL} --output-dir out"
    );
    place.run(&line).exits(0);
    let record = records(&place, "out").remove(0);
    assert!(place.cases(&record).iter().all(|case| case["parameters"]["model"] == "gpt2" && case["status"] == "ok"));
}

#[test]
fn reports_are_pages_and_documents() {
    let place = with("scaling_test.yaml", "torchscale/scaling_test.yaml");
    place.run(&format!("benchmark --config scaling_test.yaml {MLP}")).exits(0);
    let out = place.run("report generate --source ./results --format html").exits(0).out;
    let page = place.read(out.trim());
    assert!(out.trim().ends_with("report.html") && page.starts_with("<!doctype html>"), "{out}");
    assert!(page.contains("Content-Security-Policy") && page.contains("samples/s"), "no page of its own");
    // Without the program that sets it, a PDF is refused with the command that builds it; with it, there is one.
    let pdf = place.run("report generate --source ./results --format pdf");
    match pdf.status.success() {
        true => assert!(pdf.out.trim().ends_with("report.pdf"), "{}", pdf.out),
        false => _ = pdf.refuses(&["cargo xtask pdf"]),
    }
}
