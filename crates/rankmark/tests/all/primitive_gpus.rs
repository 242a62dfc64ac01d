//! Products with their collectives on GPUs, against libraries whose device is this host (`tests/fakes`): every primitive in every way,
//! exact, and in the order that events ask for; and everything that may lack.

use std::path::Path;

use serde_json::Value;

use crate::fakes;
use crate::gpus::{folder, with_libraries};
use crate::place::{Ended, Place, json_lines, reason, statuses};
use crate::skip;

const SHORT: &str = "--max-seconds 0.02s --trials 1 --spacing 0s --output-dir out --json";

/// A command with these libraries and variables.
fn run(place: &Place, folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Ended {
    with_libraries(place, folder, &format!("primitive {arguments} --device cuda {SHORT}"), variables)
}

/// Every case that was not skipped is right, of native ranks on a stand-in.
fn right(ended: &Ended) -> Vec<Value> {
    let lines = json_lines(&ended.out);
    let [measured, failed, _, not_run] = statuses(&lines);
    assert!(measured > 0 && failed == 0 && not_run == 0, "{}{}", ended.out, ended.err);
    let ran: Vec<Value> = lines.into_iter().filter(|line| line["status"] == "ok").collect();
    for line in &ran {
        assert_eq!(line["wrong"], 0, "{line}");
        assert!(line["parameters"].get("runtime").is_none(), "these are native ranks: {line}");
        assert!(line["caveats"].as_array().unwrap().contains(&"emulated".into()), "{line}");
    }
    ran
}

/// Sizes that three and four ranks divide, and their chunks; tiles are cut off at their edges.
const SIZES: &str = "-m 48 -n 36 -k 24";

const PRIMITIVES: &str = "tp_columnwise,tp_rowwise,dp_all_reduce,ep_all_to_all";

/// Both orders in which streams may come to their work: as late as waits allow, and the other ones first.
const ORDERS: [&[(&str, &str)]; 2] = [&[], &[("FAKE_CUDA_EAGER", "1")]];

/// Every primitive in every way, with so many ranks.
fn every_way(folder: &Path, ranks: usize, dtypes: &str) {
    for order in ORDERS {
        let place = Place::new();
        let arguments = format!("{PRIMITIVES} {SIZES} --dtype {dtypes} --ranks {ranks}");
        let lines = right(&run(&place, folder, &arguments, order).exits(0));
        let types = dtypes.split(',').count();
        assert_eq!(lines.len(), 33 * types, "with {ranks} ranks");
        for line in &lines {
            let multiplied = &line["conditions"]["multiplied"];
            assert!(!line["tflops"].is_number() || multiplied == "cuBLASLt 12.9.1", "{line}");
            assert!(line["launch_s"].as_f64().is_some_and(|launch| launch > 0.0), "{line}");
        }
    }
}

#[test]
fn every_primitive_is_exact_in_every_way_on_gpus() {
    let Some(folder) = folder("every_primitive_is_exact_in_every_way_on_gpus") else { return };
    every_way(folder, 2, "f32");
}

#[test]
fn every_primitive_is_exact_on_one_gpu() {
    let Some(folder) = folder("every_primitive_is_exact_on_one_gpu") else { return };
    every_way(folder, 1, "bf16");
}

/// Chunks of three ranks' rows, and a ring in which a rank's neighbours are two.
#[test]
fn three_gpus_pass_chunks_and_blocks_around() {
    let Some(folder) = folder("three_gpus_pass_chunks_and_blocks_around") else { return };
    let ways = "sequential,pipelined:chunks=2,pipelined:algorithm=ring_p2p";
    for order in ORDERS {
        let place = Place::new();
        let arguments = format!("tp_columnwise,tp_rowwise {SIZES} --dtype f16 --ranks 3 --implementation {ways}");
        assert_eq!(right(&run(&place, folder, &arguments, order).exits(0)).len(), 6);
    }
}

#[test]
fn every_primitive_is_exact_in_every_type_with_one_to_four_ranks() {
    const TEST: &str = "every_primitive_is_exact_in_every_type_with_one_to_four_ranks";
    if !skip::heavy(TEST) {
        return;
    }
    let Some(folder) = folder(TEST) else { return };
    // Chunks of three ranks need another number of rows.
    let ways = "compute_only,communication_only,sequential,pipelined:chunks=2,fused";
    for order in ORDERS {
        let place = Place::new();
        let of_three = format!("--dtype f32,f64,bf16,f16 --ranks 3 --implementation {ways}");
        right(&run(&place, folder, &format!("tp_columnwise,tp_rowwise {SIZES} {of_three}"), order).exits(0));
    }
    for ranks in [1, 2, 4] {
        every_way(folder, ranks, "f32,f64,bf16,f16");
    }
}

#[test]
fn attention_around_a_ring_is_right_on_gpus() {
    let Some(folder) = folder("attention_around_a_ring_is_right_on_gpus") else { return };
    for ranks in [1, 2, 4] {
        for order in ORDERS {
            let place = Place::new();
            right(&run(&place, folder, &format!("cp_ring -m 48 -n 4 -k 16 --ranks {ranks}"), order).exits(0));
        }
    }
}

#[test]
fn routed_tokens_reach_their_experts_on_gpus() {
    let Some(folder) = folder("routed_tokens_reach_their_experts_on_gpus") else { return };
    for (ranks, dtype, loads, cases) in [(1, "f32", "uniform,zipf", 2), (3, "bf16", "hot:share=0.4", 1)] {
        for order in ORDERS {
            let place = Place::new();
            let arguments = format!(
                "ep_all_to_all -m 63 -n 10 -k 12 --experts 9 --top-k 2 --tokens {loads} --dtype {dtype} --ranks {ranks}"
            );
            let lines = right(&run(&place, folder, &arguments, order).exits(0));
            assert_eq!(lines.len(), cases * 7, "compute, communication, dispatch, combine, sequential, pipelined");
        }
    }
}

#[test]
fn backends_of_the_host_move_what_gpus_multiply() {
    let Some(folder) = folder("backends_of_the_host_move_what_gpus_multiply") else { return };
    for order in ORDERS {
        let place = Place::new();
        let arguments = format!("{PRIMITIVES} {SIZES} --ranks 2 --backend shm");
        let lines = right(&run(&place, folder, &arguments, order).exits(0));
        assert_eq!(lines.len(), 33);
        let place = Place::new();
        right(&run(&place, folder, "cp_ring -m 48 -n 4 -k 16 --ranks 2 --backend shm", order).exits(0));
    }
}

#[test]
fn an_mpi_library_that_knows_gpus_moves_what_they_multiply() {
    let test = "an_mpi_library_that_knows_gpus_moves_what_they_multiply";
    let (Some(folder), Some(library)) = (folder(test), fakes::mpi(test)) else { return };
    let place = Place::new();
    let arguments =
        format!("tp_columnwise,tp_rowwise {SIZES} --ranks 2 --backend mpi --mpi-library {}", library.display());
    right(&run(&place, folder, &arguments, &[]).exits(0));
}

#[test]
fn types_of_one_byte_are_multiplied_alone() {
    let Some(folder) = folder("types_of_one_byte_are_multiplied_alone") else { return };
    // Ranks that multiply their share, and one that multiplies everything.
    for (primitives, dtypes, more, cases) in [
        ("tp_columnwise,tp_rowwise,dp_all_reduce", "f8e4m3,i8", "--ranks 2", 6),
        ("tp_columnwise,tp_rowwise", "f8e4m3,i8,f32,bf16,f16,f64", "--ranks 2 --data random", 12),
        ("dp_all_reduce", "f8e4m3,i8,bf16", "--ranks 1 --data random", 3),
    ] {
        let place = Place::new();
        let sizes = "-m 64 -n 48 -k 96 --implementation compute_only";
        let arguments = format!("{primitives} {sizes} --dtype {dtypes} {more}");
        assert_eq!(right(&run(&place, folder, &arguments, &[]).exits(0)).len(), cases, "{arguments}");
    }
    let place = Place::new();
    let tf32 = "tp_columnwise -m 64 -n 48 -k 96 --implementation sequential,compute_only --matmul tf32";
    right(&run(&place, folder, tf32, &[]).exits(0));
    let place = Place::new();
    right(&run(&place, folder, &format!("{tf32} --ranks 1"), &[]).exits(0));
}

#[test]
fn tuning_takes_the_fastest_and_says_so() {
    let Some(folder) = folder("tuning_takes_the_fastest_and_says_so") else { return };
    let arguments = format!("tp_columnwise {SIZES} --ranks 1 --implementation compute_only");
    let slow = [("FAKE_CUBLAS_SLOW", "1")];
    let place = Place::new();
    let line = right(&run(&place, folder, &arguments, &slow).exits(0)).remove(0);
    assert_eq!(line["conditions"]["algorithms_tried"], 1, "the library's first: {line}");
    assert!(line["conditions"]["algorithm"].as_str().unwrap().starts_with("11,"), "{line}");
    let place = Place::new();
    let line = right(&run(&place, folder, &format!("{arguments} --tuned"), &slow).exits(0)).remove(0);
    assert!(line["conditions"]["algorithm"].as_str().unwrap().starts_with("12,"), "{line}");
    assert!(line["conditions"]["algorithms_tried"].as_u64() > Some(1), "{line}");
    assert!(line["parameters"]["tuned"] == true, "{line}");
}

/// What a product leaves is looked at, whichever product it is.
#[test]
fn a_wrong_product_is_found() {
    let Some(folder) = folder("a_wrong_product_is_found") else { return };
    for implementation in ["compute_only", "sequential:order=AG_before", "pipelined:order=AG_before", "fused"] {
        let place = Place::new();
        let arguments =
            format!("tp_columnwise {SIZES} --ranks 2 --implementation {implementation} --iters 2 --warmup 0");
        let ended = run(&place, folder, &arguments, &[("FAKE_CUBLAS_WRONG", "2")]).exits(1);
        let lines = json_lines(&ended.out);
        assert!(lines.iter().any(|line| line["wrong"].as_u64() > Some(0)), "{implementation}: {}", ended.out);
    }
}

/// `fused` is skipped where a GPU does not reach another, and says which two ranks' GPUs these are.
#[test]
fn gpus_that_do_not_reach_each_other_are_named() {
    let Some(folder) = folder("gpus_that_do_not_reach_each_other_are_named") else { return };
    let place = Place::new();
    let arguments = format!("tp_columnwise {SIZES} --ranks 2 --implementation fused,sequential");
    let ended = run(&place, folder, &arguments, &[("FAKE_CUDA_FAIL", "cuIpcOpenMemHandle_v2:1:217")]);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [1, 0, 1, 0], "{}{}", ended.out, ended.err);
    let skipped = lines.iter().find(|line| line["status"] == "skipped").unwrap();
    assert!(reason(skipped).contains("rank 0 does not reach the memory of rank 1's GPU"), "{skipped}");
}

/// Peaks of products and of registers: right, and no peak of a GPU, because the device is none.
#[test]
fn peaks_of_gpus_are_measured_and_every_element_is_right() {
    let Some(folder) = folder("peaks_of_gpus_are_measured_and_every_element_is_right") else { return };
    let place = Place::new();
    let hardware = |record: &str, arguments: &str| {
        let short =
            format!("--device cuda --ranks 2 --max-seconds 0.02s --trials 2 --spacing 0s --output-dir {record} --json");
        with_libraries(&place, folder, &format!("hardware {arguments} {short}"), &[])
    };
    let lines = right(&hardware("products", "gemm --size 64 --dtype f32,f64,bf16,f16,f8e4m3,i8").exits(0));
    assert_eq!(lines.len(), 6);
    for line in &lines {
        assert!(line["loop"] == "cuBLASLt 12.9.1" && line["gflops"].as_f64() > Some(0.0), "{line}");
    }
    assert_eq!(right(&hardware("tf32", "gemm --size 64 --matmul tf32 --tuned").exits(0)).len(), 1);
    let sums = right(&hardware("registers", "fma --dtype f32,f64").exits(0));
    assert!(sums.len() == 2 && sums.iter().all(|line| line["loop"] == "kernel, 8 chains a thread"), "{sums:?}");
    // Nothing is compared with what a stand-in did.
    let short = "--bytes 1KiB --max-seconds 0.02s --output-dir c";
    let limited = place.run(&format!("comm all_reduce {short} --limits products")).exits(2);
    assert!(limited.err.contains("products"), "{}", limited.err);
}

#[test]
fn what_products_lack_on_gpus_is_named() {
    let Some(folder) = folder("what_products_lack_on_gpus_is_named") else { return };
    let lacks = |more: &str, variables: &[(&str, &str)], said: &str| {
        let place = Place::new();
        let arguments = format!("tp_columnwise -m 64 -n 64 -k 64 --implementation sequential --ranks 2 {more}");
        let ended = run(&place, folder, &arguments, variables);
        let lines = json_lines(&ended.out);
        let why: Vec<&str> = lines.iter().filter(|line| line["status"] != "ok").map(reason).collect();
        assert!(why.iter().any(|why| why.contains(said)), "{more} {variables:?}: {why:?}\n{}", ended.err);
        assert!(!ended.status.success(), "{more} {variables:?}: {:?}", ended.status);
    };
    lacks("--cublas-library /nowhere/libcublasLt.so.12", &[], "/nowhere/libcublasLt.so.12");
    lacks("", &[("FAKE_CUBLAS_VERSION", "130000")], "CUDA 13");
    lacks("--dtype bf16", &[("FAKE_CUDA_CAPABILITY", "75")], "bf16");
    lacks("", &[("FAKE_CUBLAS_FAIL", "cublasLtCreate:1:1")], "cublasLtCreate");
    lacks("", &[("FAKE_CUBLAS_FAIL", "cublasLtMatmul:3:14")], "cublasLtMatmul");
    lacks("", &[("FAKE_CUDA_MEMORY", "8000000")], "workspace");
    // No library at all: neither where the loader looks, nor in the wheels of a Python.
    let place = Place::new();
    for name in ["libcuda.so.1", "libnccl.so.2"] {
        std::os::unix::fs::symlink(folder.join(name), place.path(name)).unwrap();
    }
    let here = place.path(".");
    let alone = "tp_columnwise -m 64 -n 64 -k 64 --implementation sequential --ranks 2";
    let ended = run(&place, &here, alone, &[("PATH", "/nowhere"), ("CUDA_HOME", "/nowhere")]).exits(2);
    let lines = json_lines(&ended.out);
    assert!(reason(&lines[0]).contains("no libcublasLt.so where the loader looks"), "{}", lines[0]);
}

/// Libraries of CUDA 12 run under drivers of both, those of CUDA 13 under theirs.
#[test]
fn libraries_of_both_majors_multiply() {
    let Some(folder) = folder("libraries_of_both_majors_multiply") else { return };
    for versions in [["120901", "13000"], ["130000", "13000"], ["120901", "12020"]] {
        let place = Place::new();
        let variables = [("FAKE_CUBLAS_VERSION", versions[0]), ("FAKE_CUDA_VERSION", versions[1])];
        let arguments = format!("tp_columnwise {SIZES} --ranks 1 --implementation compute_only");
        assert_eq!(right(&run(&place, folder, &arguments, &variables).exits(0)).len(), 1);
    }
}
