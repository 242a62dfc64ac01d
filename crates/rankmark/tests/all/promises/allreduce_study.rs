//! The all-reduce study of CS336: its flags and its files.

use std::time::Duration;

use crate::place::{Place, reason};
use crate::{pytorch, skip};

/// The study's own line, with a backend that computes times.
const LINE: &str = "comm all_reduce --backend sim --num-processes 2 4 --data-sizes 1 2 --num-warmup 1 --num-iters 12";
/// The columns of its CSV, and behind them those that tell our cases apart.
const HEADER: &str =
    "backend,device,world_size,data_size_mb,avg_time_s,std_time_s,bandwidth_gb_s,runtime,dtype,reduce,in_place,mode";

#[test]
fn its_flags_run_and_write_its_csv() {
    let place = Place::new();
    // Its backend is gloo, of PyTorch; without torch the same flags run on our own ranks.
    let (backend, python) = match pytorch::torch("the flags of the all-reduce study with gloo") {
        Some(python) => ("gloo", format!("--python {python}")),
        None => ("shm", String::new()),
    };
    let flags = "--device cpu --num-processes 2 4 --data-sizes 1 2 --num-warmup 1 --num-iters 12";
    let line = format!("comm all_reduce --backend {backend} {python} {flags} --limits false --spacing 0s");
    let ended = place.run(&format!("{line} --output gloo_cpu_benchmark.csv --output-dir out")).exits(0);
    let told = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for note in ["--data-sizes 1 2 are MB of 1e6 bytes", "--num-iters 12 are 6 trials of 2"] {
        assert!(told.contains(note), "{note}: {}", ended.out);
    }
    let csv = place.read("gloo_cpu_benchmark.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], HEADER);
    let rows: Vec<Vec<&str>> = lines[1..].iter().map(|line| line.split(',').collect()).collect();
    let cases: Vec<_> = rows.iter().map(|row| (row[0], row[1], row[2], row[3])).collect();
    let all = [("2", "1"), ("2", "2"), ("4", "1"), ("4", "2")];
    assert_eq!(cases, all.map(|(processes, size)| (backend, "cpu", processes, size)), "{csv}");
    let runtime = if backend == "gloo" { "pytorch" } else { "native" };
    for row in &rows {
        assert!(row[4..7].iter().all(|value| value.parse::<f64>().is_ok_and(|value| value > 0.0)), "{csv}");
        assert_eq!(row[7..], [runtime, "f32", "sum", "true", "streaming"], "{csv}");
    }
    assert!(place.cases("out").iter().all(|case| case["wrong"] == 0 && case["samples"] == 12 && case["trials"] == 6));
}

/// The study's command for two cores is the same with 4 and 6 processes, 1 GB and `--budget 4min`. A test has no time for that:
/// there a call of 1 GB takes seconds.
#[test]
fn the_study_ends_with_its_budget_and_has_every_case() {
    let test = "the all-reduce study within its budget";
    if !skip::heavy(test) {
        return;
    }
    let Some(python) = pytorch::torch(test) else { return };
    let place = Place::new();
    let line = "comm --backend gloo --device cpu --num-processes 2 --data-sizes 1 10 --budget 45s \
                --output gloo_cpu_benchmark.csv --output-dir out";
    place.start(&format!("{line} --python {python}")).wait_for(Duration::from_secs(150)).exits(0);
    assert_eq!(place.read("gloo_cpu_benchmark.csv").lines().count(), 1 + 2);
}

#[test]
fn default_processes_and_sizes_are_those_of_the_study() {
    let place = Place::new();
    let out = place.run("comm --backend shm --device cpu --num-iters 6 --dry-run --json").exits(0).out;
    let cases = crate::place::json_lines(&out);
    let ranks: Vec<u64> = cases.iter().map(|case| case["parameters"]["ranks"].as_u64().unwrap()).collect();
    assert_eq!(cases.len(), 12, "2, 4 and 6 processes, 1 MB to 1 GB");
    for size in [1, 10, 100, 1000_u64] {
        let of = cases.iter().filter(|case| case["parameters"]["bytes"] == size * 1_000_000);
        assert_eq!(of.count(), 3, "{size} MB: {cases:?}");
    }
    assert!([2, 4, 6].iter().all(|wanted| ranks.contains(wanted)), "{ranks:?}");
}

#[test]
fn processes_without_a_gpu_each_are_explained() {
    let place = Place::new();
    // A machine with six GPUs would run them.
    if std::fs::read_dir("/proc/driver/nvidia/gpus").is_ok_and(|gpus| gpus.count() > 0) {
        return crate::skip::skip("processes_without_a_gpu_each_are_explained", "this machine has GPUs");
    }
    place
        .run("comm --backend nccl --device cuda --num-processes 2 4 6")
        .refuses(&["2, 4, 6 processes need a GPU each, and this machine has 0", "--backend gloo --device cpu"]);
}

#[test]
fn a_port_is_not_needed_and_that_is_said() {
    let place = Place::new();
    let out = place
        .run("comm --backend sim --num-processes 2 --data-sizes 1 --num-iters 6 --master-port 29501 --output-dir out")
        .exits(0)
        .out;
    assert!(out.contains("--master-port 29501 is not needed"), "{out}");
}

#[test]
fn its_files_are_written_from_merged_records() {
    let place = Place::new();
    place.run(&format!("{LINE} --output-dir a")).exits(0);
    // The picture of backends is of 100 MB.
    let large =
        "comm all_reduce --backend sim --num-processes 2 --data-sizes 100 --num-warmup 0 --num-iters 1 --output-dir b";
    place.run(large).exits(0);
    place.run("merge a b --output-dir both").exits(0);
    place.run("report both --layout allreduce-study --output-dir study").exits(0);
    for file in [
        "sim_cpu_benchmark.csv",
        "combined_benchmark.csv",
        "full_results.md",
        "summary_by_config.md",
        "analysis.txt",
        "allreduce_time_vs_datasize.png",
        "allreduce_bandwidth_vs_datasize.png",
        "allreduce_backend_comparison_100mb.png",
    ] {
        assert!(place.path(&format!("study/{file}")).is_file(), "{file}");
    }
    assert_eq!(place.read("study/combined_benchmark.csv").lines().count(), 6);
}

/// Results of Gloo as `benchmark_allreduce.py` writes them.
const GLOO: &str =
    "backend,device,num_processes,data_size_mb,mean_time_ms,std_time_ms,min_time_ms,max_time_ms,bandwidth_gb_s
gloo,cpu,2,100,80.5,1.5,78,90,1.24
gloo,cpu,6,1000,950.5,12.5,930.25,990,1.10
";

#[test]
fn results_of_cpu_and_gpu_files_are_combined() {
    let place = Place::new();
    place.write("gloo_cpu_benchmark.csv", GLOO);
    place.write("nccl_gpu_benchmark.csv", GLOO.replace("gloo,cpu", "nccl,cuda").replace("80.5", "0.5"));
    // Instead of `--cpu-results A --gpu-results B`: each is imported, and the records are merged.
    place.run("import gloo_cpu_benchmark.csv --output-dir cpu").exits(0);
    place.run("import nccl_gpu_benchmark.csv --output-dir gpu").exits(0);
    place.run("merge cpu gpu --output-dir both").exits(0);
    place.run("report both --layout allreduce-study --output-dir study").exits(0);
    for (file, backends) in [
        ("gloo_cpu_benchmark.csv", vec!["gloo,cpu,2,100", "gloo,cpu,6,1000"]),
        ("nccl_gpu_benchmark.csv", vec!["nccl,cuda,2,100", "nccl,cuda,6,1000"]),
        ("combined_benchmark.csv", vec!["gloo,cpu,2,100", "gloo,cpu,6,1000", "nccl,cuda,2,100", "nccl,cuda,6,1000"]),
    ] {
        let csv = place.read(&format!("study/{file}"));
        let rows: Vec<String> =
            csv.lines().skip(1).map(|line| line.splitn(5, ',').take(4).collect::<Vec<_>>().join(",")).collect();
        assert_eq!(
            (csv.lines().next(), rows),
            (Some(HEADER), backends.iter().map(|row| (*row).to_owned()).collect()),
            "{file}"
        );
    }
    assert!(place.path("study/allreduce_backend_comparison_100mb.png").is_file());
    let analysis = place.read("study/analysis.txt");
    assert!(analysis.contains("gloo") && analysis.contains("nccl"), "{analysis}");
}

#[test]
fn its_machine_is_detected() {
    let place = Place::new();
    let plan = place.run("gen-config --hardware auto").exits(0).out;
    let gpus = std::fs::read_dir("/proc/driver/nvidia/gpus").map_or(0, Iterator::count);
    let line = plan
        .lines()
        .find(|line| line.starts_with("#   /proc/driver/nvidia/gpus: "))
        .unwrap_or_else(|| panic!("{plan}"));
    assert_eq!(line.ends_with(": none"), gpus == 0, "{line}");
    // A kernel of WSL says so in its name, and the record and the check say its version.
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().to_lowercase();
    let checked = place.run("validate --quick --json");
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let rows = checked["findings"].as_array().unwrap();
    assert_eq!(rows.iter().any(|row| row["name"] == "WSL"), kernel.contains("microsoft"), "{kernel}");
}

#[test]
fn a_size_that_memory_cannot_hold_is_skipped() {
    let place = Place::new();
    // 1e9 MB.
    let flags = "--num-processes 2 --data-sizes 1 1000000000 --num-iters 6 --output a.csv";
    place.run(&format!("comm --backend shm {flags} --output-dir out")).exits(0);
    let cases = place.cases("out");
    assert_eq!((&cases[0]["status"], &cases[1]["status"]), (&"ok".into(), &"skipped".into()));
    assert!(reason(&cases[1]).starts_with("not enough memory: "), "{}", reason(&cases[1]));
    assert_eq!(place.read("a.csv").lines().count(), 2);
}

#[test]
fn its_setup_is_tested_by_known_answers() {
    let place = Place::new();
    let checked = place.run("validate --json");
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let row = checked["findings"].as_array().unwrap().iter().find(|row| row["name"] == "shm").unwrap();
    assert_eq!(row["state"], "ready", "{row}");
    assert!(row["found"].as_str().unwrap().contains("64 KiB all_reduce on 2 ranks"), "{row}");
}

#[test]
fn statistics_come_from_all_ranks() {
    let place = Place::new();
    place.run("comm all_reduce --ranks 2 --bytes 1KiB --warmup 2 --iters 3 --output-dir out").exits(0);
    let case = &place.cases("out")[0];
    assert_eq!(case["per_rank_median_s"].as_array().unwrap().len(), 2);
    assert_eq!((&case["wrong"], &case["samples"]), (&0.into(), &3.into()));
}
