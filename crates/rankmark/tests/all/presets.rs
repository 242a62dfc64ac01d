//! Plans of `gen-config`, as a user runs them.

use crate::place::Place;

const KINDS: [&str; 12] = [
    "laptop",
    "m4-metal",
    "v100-nvlink",
    "a100-nvlink",
    "h100-nvlink",
    "h200-nvlink",
    "b200-nvlink",
    "b300-nvlink",
    "gb200-nvl72",
    "mi300x",
    "cpu-cluster",
    "gpu-cluster-ib",
];

/// Without a GPU, cases of native ranks on GPUs say so, once; without torch a case is skipped only when it is to start.
#[test]
fn every_preset_passes_a_dry_run() {
    let place = Place::new();
    for kind in KINDS {
        let plan = place.run(&format!("gen-config --hardware {kind}")).exits(0).out;
        let headers = plan.lines().filter(|line| line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
        for stale in ["moves no device memory", "no benchmark reads GPU memory", "computes on cores"] {
            assert!(!headers.contains(stale), "{kind}: {headers}");
        }
        place.write(&format!("{kind}.yaml"), &plan);
        let out = place.run(&format!("run {kind}.yaml --dry-run")).exits(0).out;
        assert!(out.matches("skipped: ").count() <= 1, "{kind}: {out}");
        let on_gpus = ["-nvl", "gpu-", "mi300x"].iter().any(|part| kind.contains(part));
        assert!(kind == "cpu-cluster" || on_gpus || !out.contains("would be skipped"), "{kind}: {out}");
        let nccl =
            ["nccl", "pytorch/nccl"].iter().any(|by| out.contains(&format!("collective  all_reduce  {by}  cuda")));
        assert_eq!(nccl, on_gpus, "{kind}: {out}");
    }
}

#[test]
fn a_reason_that_holds_for_many_cases_is_shown_once() {
    let place = Place::new();
    let line = "comm all_reduce --backend nccl --runtime native --bytes 1KiB..1MiB*2 --dry-run";
    let out = place.run(line).exits(2).out;
    assert_eq!(out.matches("backend `nccl` is not ready").count(), 1, "{out}");
    assert!(out.contains("\nskipped  11 cases: backend `nccl` is not ready: "), "{out}");
}

/// Cases that `--only` drops are not judged with fields that are set for the others.
#[test]
fn only_drops_cases_before_fields_are_set() {
    let place = Place::new();
    let plan = place.run("gen-config --hardware laptop").exits(0).out;
    place.write("plan.yaml", plan);
    let out = place.run("run plan.yaml --only collective --set backend=sim --dry-run").exits(0).out;
    assert!(out.contains("collective  all_reduce  sim") && !out.contains("\ntraining"), "{out}");
    place.run("run --only comm --set backend=sim --dry-run").exits(0);
    place.run("run plan.yaml --set backend=sim --dry-run").refuses(&["training computes"]);
    place.run("run plan.yaml --only primitive --dry-run").refuses(&["no case of the plan measures primitive"]);
}
