//! Training on GPUs by native ranks, on the libraries of tests/fakes: streams run as late as waits permit, or eagerly. It proves what is
//! given to the libraries, and that ranks train as on the host; never how fast a GPU is.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::gpus::{folder, with_libraries};
use crate::place::{Ended, Place, json_lines, reason, statuses};

/// Runs rankmark with the fakes where libraries are looked for.
pub(crate) fn run(folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Ended {
    let command = format!("{arguments} --spacing 0s --output-dir out --json");
    with_libraries(&Place::new(), folder, &command, variables)
}

const SMALL: &str =
    "--layers 1 --width 32 --heads 2 --vocabulary 64 --sequence 16 --batch 2 --warmup 1 --steps 2 --trials 1";

fn losses(line: &Value) -> Vec<f64> {
    line["loss"].as_array().expect("losses").iter().filter_map(Value::as_f64).collect()
}

/// Ranks on GPUs have the losses of the host, to the rounding of f32, in both orders of streams.
#[test]
fn training_on_gpus_gives_the_losses_of_the_host() {
    let test = "training_on_gpus_gives_the_losses_of_the_host";
    let Some(folder) = folder(test) else { return };
    let host = run(folder, &format!("train --model gpt2-mini {SMALL}"), &[]).exits(0);
    let host = losses(&json_lines(&host.out)[0]);
    for (more, variables) in [
        ("--ranks 1", &[][..]),
        ("--ranks 1", &[("FAKE_CUDA_EAGER", "1")]),
        ("--ranks 2 --global-batch 2 --sharded 0,2", &[]),
        ("--ranks 2 --global-batch 2 --sharded 0,2", &[("FAKE_CUDA_EAGER", "1")]),
        ("--ranks 2 --global-batch 2 --backend shm", &[]),
        ("--ranks 2 --strategy tensor", &[("FAKE_CUDA_EAGER", "1")]),
    ] {
        let batch = if more.contains("global-batch") { SMALL.replace("--batch 2 ", "") } else { SMALL.to_owned() };
        let ended = run(folder, &format!("train --model gpt2-mini {batch} --device cuda {more}"), variables);
        let ended = ended.exits(0);
        for line in json_lines(&ended.out).iter().filter(|line| line["ranks"] != 1 || !more.contains("--ranks 2")) {
            assert_eq!((&line["status"], &line["wrong"]), (&"ok".into(), &0.into()), "{more}: {line}");
            let there = losses(line);
            assert_eq!(there.len(), host.len(), "{more}");
            for (a, b) in there.iter().zip(&host) {
                assert!((a - b).abs() < 1e-4 * b, "{more}: {a} and {b}");
            }
            let phases = ["forward", "backward", "optimizer"].map(|phase| line["phases_s"][phase].as_f64());
            assert!(phases.iter().all(|seconds| seconds.is_some_and(|seconds| seconds > 0.0)), "{more}: {line}");
            let of = |name: &str| line["conditions"][name].as_str().unwrap_or_default().to_owned();
            assert_eq!([of("cublas"), of("attention")], ["12.9.1", "plain"], "{line}");
            assert!(of("graphs").parse::<u32>().is_ok_and(|graphs| graphs > 0), "{line}");
            assert!(line["caveats"].to_string().contains("emulated"), "{line}");
            assert!(line.get("mfu").is_none_or(|mfu| mfu["peak_flops"].is_null()), "an emulated device has no peak");
        }
    }
}

/// Types of 16 bits, loss scaling among them.
#[test]
fn narrow_types_train_on_gpus() {
    let Some(folder) = folder("narrow_types_train_on_gpus") else { return };
    let arguments =
        format!("train --model llama-tiny --kv-heads 1 --ffn 48 {SMALL} --device cuda --precision f32,bf16,f16");
    let ended = run(folder, &arguments, &[]).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [3, 0, 0, 0], "{}", ended.err);
    let first: Vec<f64> = lines.iter().map(|line| losses(line)[0]).collect();
    assert!(first.iter().all(|loss| (loss - first[0]).abs() < 0.02 * first[0]), "{first:?}");
}

/// What is planned is what the device gives, to the granularity of its allocator.
#[test]
fn memory_on_gpus_is_what_was_planned() {
    let Some(folder) = folder("memory_on_gpus_is_what_was_planned") else { return };
    let arguments = "memory --model gpt2-mini --device cuda --batch 2 --sequence 64";
    let ended = run(folder, arguments, &[]).exits(0);
    let line = &json_lines(&ended.out)[0];
    let memory = &line["memory"];
    let difference = memory["difference"].as_f64().expect("planned and measured");
    assert!(difference.abs() < 0.02, "{memory}");
    assert!(
        memory["predicted"]["scratch"].as_u64().is_some_and(|bytes| bytes >= 32 << 20),
        "cuBLAS's workspace: {memory}"
    );
}

/// What one run compiles, the next ones and their ranks read; the record says how it went.
#[test]
fn kernels_are_compiled_by_the_first_run() {
    let Some(folder) = folder("kernels_are_compiled_by_the_first_run") else { return };
    let place = Place::new();
    let run = |record: &str| {
        let train = format!("train --model gpt2-mini {SMALL} --device cuda --ranks 2 --backend nccl");
        let command = format!("{train} --spacing 0s --output-dir {record} --json");
        let line = json_lines(&with_libraries(&place, folder, &command, &[]).exits(0).out).remove(0);
        line["conditions"]["kernels_loaded"].as_str().expect("how kernels were loaded").to_owned()
    };
    let (first, second) = (run("first"), run("second"));
    assert!(first.contains(" parts of texts in ") && first.contains(" compiled here, "), "{first}");
    assert!(second.contains(": 0 compiled here, "), "{second}");
}

/// The largest batch that the limit permits, proven by steps.
#[test]
fn the_largest_batch_on_a_gpu_is_found() {
    let Some(folder) = folder("the_largest_batch_on_a_gpu_is_found") else { return };
    let model = "--layers 1 --width 32 --heads 2 --vocabulary 64 --sequence 16";
    let search = format!("memory --model gpt2-mini {model} --device cuda --find-max-batch");
    let ended = run(folder, &format!("{search} --limit 40MiB"), &[]).exits(0);
    let lines = json_lines(&ended.out);
    let largest = lines.iter().filter_map(|line| line["max_batch"].as_u64()).max().expect("a batch");
    assert!((1..1024).contains(&largest), "{}", ended.out);
    let refused = run(folder, &search, &[]).exits(2);
    let said = format!("{}{}", refused.out, refused.err);
    assert!(said.contains("a search on GPUs needs the memory limit of a rank"), "{said}");
}

/// Where the driver takes no graphs, operations are given singly: the same losses, and the row says so.
#[test]
fn without_graphs_training_goes_on_and_says_so() {
    let Some(folder) = folder("without_graphs_training_goes_on_and_says_so") else { return };
    let train = |variables: &[(&str, &str)]| {
        let ended = run(folder, &format!("train --model gpt2-mini {SMALL} --device cuda"), variables).exits(0);
        json_lines(&ended.out).remove(0)
    };
    let with = train(&[]);
    assert!(with["conditions"].get("graphs_refused").is_none(), "{with}");
    for call in ["cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"] {
        let without = train(&[("FAKE_CUDA_FAIL", &format!("{call}:1:801"))]);
        let why = without["conditions"]["graphs_refused"].as_str().expect("a reason");
        assert!(why.contains("CUDA_ERROR_NOT_SUPPORTED"), "{without}");
        assert_eq!(without["conditions"]["graphs"], "0", "{without}");
        assert_eq!(losses(&without), losses(&with));
    }
}

/// What is missing is the reason of a skipped or failed case.
#[test]
fn what_training_on_gpus_lacks_is_named() {
    let Some(folder) = folder("what_training_on_gpus_lacks_is_named") else { return };
    for (more, variables, status, said) in [
        ("--precision bf16", &[("FAKE_CUDA_CAPABILITY", "70")][..], "skipped", "bf16 needs a GPU of sm_80 or later"),
        ("--cublas-library /nowhere/libcublasLt.so.12", &[], "skipped", "/nowhere/libcublasLt.so.12"),
        ("", &[("FAKE_CUBLAS_FAIL", "cublasLtMatmul:3:14")], "failed", "cublasLtMatmul"),
        ("", &[("FAKE_CUDA_FAIL", "cuLaunchKernel:9:719")], "failed", "CUDA_ERROR_LAUNCH_FAILED"),
        ("", &[("FAKE_CUDA_MEMORY", "8000000")], "skipped", "workspace"),
        ("", &[("FAKE_CUDA_MEMORY", "33700000")], "failed", "out of memory on rank 0"),
    ] {
        let model = SMALL;
        let ended = run(folder, &format!("train {model} {more} --device cuda --timeout 20s"), variables);
        let lines = json_lines(&ended.out);
        assert!(!lines.is_empty(), "{more}: {}{}", ended.out, ended.err);
        assert_eq!(lines[0]["status"], status, "{more}: {}{}", ended.out, ended.err);
        let why = reason(&lines[0]);
        assert!(why.contains(said), "{more}: `{said}` is missing: {why}");
    }
}

/// Where the time of a step goes, beside what it usually takes. The fakes' times mean nothing, but all of a step is in them.
#[test]
fn a_step_is_told_by_kinds_of_kernels() {
    let Some(folder) = folder("a_step_is_told_by_kinds_of_kernels") else { return };
    let train = format!("train --model gpt2-mini {SMALL} --device cuda --ranks 2 --backend nccl");
    let usual = run(folder, &train, &[]).exits(0);
    let ended = run(folder, &format!("{train} --kernel-times"), &[]).exits(0);
    let (usual, line) = (json_lines(&usual.out).remove(0), json_lines(&ended.out).remove(0));
    assert_eq!(losses(&line), losses(&usual), "the steps that count come first");
    assert!(usual.get("kernel_times_ms").is_none() && !usual.to_string().contains("kernel_times"), "{usual}");
    let times = line["kernel_times_ms"].as_object().expect("times by kind");
    let of = |name: &str| times[name].as_f64().unwrap_or_else(|| panic!("no {name}: {times:?}"));
    let kinds = ["products", "attention", "element_wise", "loss", "update", "exchanges", "other"];
    assert!(kinds.iter().all(|kind| of(kind) > 0.0), "{times:?}");
    // Medians of each and the median of sums.
    let sum: f64 = kinds.iter().map(|kind| of(kind)).sum();
    assert!((sum / of("sum") - 1.0).abs() < 0.5 && times.len() == kinds.len() + 3, "{times:?}");
    let step = line["step_s"]["median"].as_f64().expect("a time") * 1e3;
    assert!((of("step") - step).abs() < 1e-9 && of("steps") == 5.0, "{times:?}");
}

#[test]
fn only_native_ranks_on_gpus_tell_kinds_of_kernels() {
    for more in ["", "--runtime pytorch", "--device cuda --runtime pytorch"] {
        let ended = Place::new().run(&format!("train --kernel-times {more} --dry-run"));
        ended.refuses(&["only native ranks on GPUs time their kernels"]);
    }
}

/// A rank that is lost within a step is named, and its peer, whose device waits for it, ends with it: long before the deadline.
#[test]
fn a_rank_lost_within_a_step_is_named_at_once() {
    let Some(folder) = folder("a_rank_lost_within_a_step_is_named_at_once") else { return };
    let train = "train --device cuda --ranks 2 --backend nccl --timeout 600s --model gpt2-mini --layers 1 --width 32 \
                 --heads 2 --vocabulary 64 --sequence 16 --batch 2 --steps 50 --warmup 1 --trials 1";
    for (more, variables, words) in [
        ("--inject kill:rank=1,at=20", &[][..], ["rank 1", "SIGKILL"]),
        ("", &[("FAKE_NCCL_FAIL", "ncclAllReduce:20:2"), ("FAKE_NCCL_RANK", "1")], ["rank 1", "ncclAllReduce"]),
    ] {
        let ended = run(folder, &format!("{train} {more}"), variables).exits(1);
        // A peer that is not seen to wait gets ten seconds.
        assert!(ended.took < Duration::from_secs(9), "{:?}", ended.took);
        let said = reason(&json_lines(&ended.out)[0]).to_owned();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}
