//! The all-reduce study of CS336: its flags and its files.

use crate::place::Place;

/// The study's own line, with a backend that computes times.
const LINE: &str = "comm all_reduce --backend sim --num-processes 2 4 --data-sizes 1 2 --num-warmup 5 --num-iters 100";

#[test]
fn its_flags_run_and_write_its_csv() {
    let place = Place::new();
    let ended = place.run(&format!("{LINE} --output gloo_cpu_benchmark.csv --output-dir out")).exits(0);
    assert!(ended.out.contains("--num-iters 100 are 6 trials of 17"), "{}", ended.out);
    let csv = place.read("gloo_cpu_benchmark.csv");
    assert!(
        csv.starts_with("backend,device,world_size,data_size_mb,avg_time_ms,") || csv.starts_with("backend,device,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let sizes: Vec<u64> = place.cases("out").iter().map(|case| case["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [1_000_000, 2_000_000, 1_000_000, 2_000_000]);
}

#[test]
fn default_processes_and_sizes_are_those_of_the_study() {
    let place = Place::new();
    let out = place.run("comm --backend shm --device cpu --num-iters 6 --dry-run --json").exits(0).out;
    let cases = crate::place::json_lines(&out);
    let ranks: Vec<u64> = cases.iter().map(|case| case["parameters"]["ranks"].as_u64().unwrap()).collect();
    assert_eq!(cases.len(), 12, "2, 4 and 6 processes, 1 MB to 1 GB");
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
        .run("comm --backend sim --num-processes 2 --data-sizes 1 --master-port 29501 --output-dir out")
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

#[test]
fn statistics_come_from_all_ranks() {
    let place = Place::new();
    place.run("comm all_reduce --ranks 2 --bytes 1KiB --warmup 2 --iters 3 --output-dir out").exits(0);
    let case = &place.cases("out")[0];
    assert_eq!(case["per_rank_median_s"].as_array().unwrap().len(), 2);
    assert_eq!((&case["wrong"], &case["samples"]), (&0.into(), &3.into()));
}
