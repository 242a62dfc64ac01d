//! Ranks of this program on GPUs, against libraries whose device is this host (`tests/fakes`): every operation, and everything
//! that may lack or go wrong, from outside.

use std::path::Path;
use std::time::Duration;

use crate::fakes;
use crate::place::{Ended, Place, json_lines, reason, statuses};
use crate::skip;

const SHORT: &str = "--max-seconds 0.02s --output-dir out --json";

/// A command with the libraries of this folder and these variables.
pub(crate) fn with_libraries(place: &Place, folder: &Path, command: &str, variables: &[(&str, &str)]) -> Ended {
    let mut starting = place.command(command);
    starting.command.env("LD_LIBRARY_PATH", folder).env_remove("CUDA_VISIBLE_DEVICES");
    starting.command.envs(variables.iter().copied());
    starting.run()
}

fn run(place: &Place, folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Ended {
    with_libraries(place, folder, &format!("{arguments} {SHORT}"), variables)
}

/// The fakes' folder; None, and said, where they cannot be built or a GPU would be taken instead.
pub(crate) fn folder(test: &str) -> Option<&'static Path> {
    if Path::new("/dev/nvidiactl").exists() {
        skip::skip(test, "this machine has a GPU");
        return None;
    }
    fakes::folder(test)
}

#[test]
fn every_operation_runs_on_gpus_and_is_right() {
    let Some(folder) = folder("every_operation_runs_on_gpus_and_is_right") else { return };
    let operations = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv,\
                      ping_pong,barrier";
    for (ranks, operations, cases) in [
        (2, operations, 12),
        (1, "all_reduce,all_gather", 2),
        (3, "all_gather,send_recv", 2),
        (8, "reduce_scatter,scatter", 2),
    ] {
        let place = Place::new();
        let arguments = format!("comm {operations} --backend nccl --ranks {ranks} --bytes 3KiB");
        let ended = run(&place, folder, &arguments, &[("FAKE_NCCL_TAKES", "300000")]).exits(0);
        let lines = json_lines(&ended.out);
        assert_eq!(statuses(&lines), [cases, 0, 0, 0], "{}", ended.err);
        for line in &lines {
            assert_eq!(line["parameters"]["device"], "cuda", "{line}");
            assert_eq!(line["wrong"], 0, "{line}");
            assert!(line["parameters"].get("runtime").is_none(), "these are native ranks: {line}");
            assert!(line["caveats"].as_array().unwrap().contains(&"emulated".into()), "{line}");
            assert!(line["launch_s"].as_f64().is_some_and(|launch| launch > 0.0 && launch < 1.0), "{line}");
            let [p50, p99] = ["p50", "p99"].map(|share| line["device_s"][share].as_f64().unwrap());
            assert!(p50 > 0.0 && p50 <= p99 && p99 < 1.0, "{line}");
            let [least, most] = ["min", "max"].map(|end| line["rank_s"][end].as_f64());
            assert!(ranks == 1 || least > Some(0.0) && least <= most, "{line}");
            assert_eq!(line["library_bytes"], 300_000, "neither buffers nor tables are the library's: {line}");
        }
    }
}

/// A library before 2.28 has no all_to_all, gather and scatter: they are its sends and receives.
#[test]
fn what_an_older_library_lacks_is_made_of_sends_and_receives() {
    let Some(folder) = folder("what_an_older_library_lacks_is_made_of_sends_and_receives") else { return };
    for (library, path) in [("libnccl.so.2", ""), ("old/libnccl.so.2", "sends and receives")] {
        let place = Place::new();
        let library = folder.join(library);
        let arguments = format!(
            "comm all_to_all,gather,scatter --backend nccl --ranks 3 --bytes 3KiB --in-place false --nccl-library {}",
            library.display()
        );
        let lines = json_lines(&run(&place, folder, &arguments, &[]).exits(0).out);
        assert_eq!(statuses(&lines), [3, 0, 0, 0]);
        for line in &lines {
            assert_eq!((line["wrong"].as_u64(), line["path"].as_str().unwrap_or_default()), (Some(0), path), "{line}");
        }
    }
}

/// No figure of a stand-in passes for one of a GPU.
#[test]
fn an_emulated_device_is_said_and_not_compared() {
    let Some(folder) = folder("an_emulated_device_is_said_and_not_compared") else { return };
    let place = Place::new();
    for record in ["a", "b"] {
        let short = "--max-seconds 0.02s --trials 6 --spacing 0s";
        let command = format!("comm all_reduce --backend nccl --bytes 3KiB {short} --output-dir {record}");
        with_libraries(&place, folder, &command, &[]).exits(0);
    }
    let page = place.read("a/report.html");
    assert!(page.contains("EMULATED: the device was a stand-in"), "a banner");
    assert!(!page.contains("At a glance") && !page.contains("What the data show"), "no figure is a headline");
    // Nothing could be compared.
    let compared = place.run("compare a b").exits(3);
    assert!(compared.out.contains("cannot tell: a device was emulated"), "{}", compared.out);
}

#[test]
fn ranks_that_share_a_gpu_say_so() {
    let Some(folder) = folder("ranks_that_share_a_gpu_say_so") else { return };
    let arguments = "comm all_reduce --backend nccl --ranks 2 --bytes 4KiB --env NCCL_MULTI_RANK_GPU_ENABLE=1";
    for (devices, shared) in [("1", true), ("2", false)] {
        let place = Place::new();
        let ended = run(&place, folder, arguments, &[("FAKE_CUDA_DEVICES", devices)]).exits(0);
        let line = &json_lines(&ended.out)[0];
        assert_eq!(line["caveats"].as_array().unwrap().contains(&"shared_device".into()), shared, "{line}");
    }
}

#[test]
fn types_buffers_and_modes_have_right_results_on_gpus() {
    let Some(folder) = folder("types_buffers_and_modes_have_right_results_on_gpus") else { return };
    let place = Place::new();
    let arguments = "comm all_reduce --device cuda --ranks 2 --bytes 4KiB --dtype f32,f64,f16,bf16,i8,i32,i64,u8,u32,u64 \
                     --in-place true,false --buffers registered,private --mode streaming,isolated";
    let ended = run(&place, folder, arguments, &[]).exits(0);
    assert_eq!(statuses(&json_lines(&ended.out)), [80, 0, 0, 0], "{}", ended.err);
    let arguments = "comm all_gather,broadcast --device cuda --ranks 2 --bytes 4KiB --dtype f8e4m3,f8e5m2";
    let ended = run(&Place::new(), folder, arguments, &[]).exits(0);
    assert_eq!(statuses(&json_lines(&ended.out)), [4, 0, 0, 0], "{}", ended.err);
}

#[test]
fn wrong_elements_of_a_fault_and_of_the_library_are_found() {
    let Some(folder) = folder("wrong_elements_of_a_fault_and_of_the_library_are_found") else { return };
    let place = Place::new();
    let arguments = "comm all_reduce --backend nccl --ranks 2 --bytes 4KiB";
    let ended = run(&place, folder, &format!("{arguments} --inject wrong:rank=1,element=5"), &[]).exits(1);
    let said = reason(&json_lines(&ended.out)[0]).to_owned();
    assert!(said.contains("rank 1") && said.contains("element 5"), "{said}");
    // By the library: the first operation of a rank, which is the one that is checked before anything is timed.
    let place = Place::new();
    let variables = [("FAKE_NCCL_WRONG", "1"), ("FAKE_NCCL_RANK", "0")];
    let ended = run(&place, folder, arguments, &variables).exits(1);
    let line = &json_lines(&ended.out)[0];
    assert_eq!((line["status"].as_str(), line["wrong"].as_u64()), (Some("failed"), Some(1)), "{line}");
    assert_eq!(line["wrong_elements"][0]["index"], 1023, "the last element: {line}");
}

#[test]
fn a_rank_that_dies_or_hangs_is_named() {
    let Some(folder) = folder("a_rank_that_dies_or_hangs_is_named") else { return };
    let place = Place::new();
    let arguments = "comm all_reduce --backend nccl --ranks 2 --bytes 4KiB";
    let ended = run(&place, folder, &format!("{arguments} --inject kill:rank=1,at=9"), &[]).exits(1);
    let said = reason(&json_lines(&ended.out)[0]).to_owned();
    assert!(said.contains("rank 1") && said.contains("SIGKILL") && said.contains("all_reduce #9"), "{said}");
    let place = Place::new();
    let variables = [("FAKE_NCCL_STUCK", "40"), ("FAKE_NCCL_RANK", "1")];
    let ended = run(&place, folder, &format!("{arguments} --timeout 3s"), &variables).exits(1);
    assert!(ended.took < Duration::from_secs(60), "{:?}", ended.took);
    let said = reason(&json_lines(&ended.out)[0]).to_owned();
    assert!(said.contains("all_reduce"), "{said}");
}

/// Each is said in words, on the case that it concerns.
#[test]
fn what_lacks_is_said_by_the_case() {
    let Some(folder) = folder("what_lacks_is_said_by_the_case") else { return };
    let two = "comm all_reduce --backend nccl --ranks 2 --bytes 4KiB";
    for (variables, arguments, words) in [
        (&[("FAKE_CUDA_DEVICES", "0")][..], two, &["CUDA_ERROR_NO_DEVICE", "host"][..]),
        (&[("CUDA_VISIBLE_DEVICES", "")], two, &["GPU"]),
        (&[("FAKE_CUDA_VERSION", "11040")], two, &["the driver runs CUDA 11.4, and 11.8 is needed: driver 520"]),
        (&[("FAKE_CUDA_DEVICES", "1")], two, &["give ranks 0 and 1 one GPU", "NCCL_MULTI_RANK_GPU_ENABLE"]),
        (
            &[("FAKE_CUDA_DEVICES", "2")],
            "comm all_reduce --backend nccl --ranks 3 --bytes 3KiB",
            &["which shows 2 GPUs"],
        ),
        (
            &[("FAKE_CUDA_MEMORY", "1048576")],
            "comm all_reduce --backend nccl --ranks 2 --bytes 64MiB",
            &["not enough memory for a buffer on Emulated GPU: 64MiB wanted"],
        ),
        (
            &[],
            "comm all_reduce --backend nccl --ranks 2 --bytes 4KiB --nccl-library /nowhere/libnccl.so",
            &["no file /nowhere/libnccl.so"],
        ),
        (
            &[],
            "comm all_to_all --backend nccl --ranks 2 --bytes 4KiB --in-place true",
            &["all_to_all out of place only"],
        ),
    ] {
        let place = Place::new();
        let ended = run(&place, folder, arguments, variables).exits(2);
        let line = &json_lines(&ended.out)[0];
        assert_eq!(line["status"], "skipped", "{line}");
        let said = reason(line);
        words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is missing: {said}"));
    }
}

/// A Python stands for NVIDIA's wheels in its environment: that of PyTorch ranks in the same table, or one that is named.
#[test]
fn the_library_of_a_python_is_that_of_its_wheels() {
    let Some(folder) = folder("the_library_of_a_python_is_that_of_its_wheels") else { return };
    let place = Place::new();
    let wheel = "venv/lib/python3.12/site-packages/nvidia/nccl/lib";
    std::fs::create_dir_all(place.path(wheel)).unwrap();
    std::fs::create_dir_all(place.path("venv/bin")).unwrap();
    std::fs::copy(folder.join("libnccl.so.2"), place.path(wheel).join("libnccl.so.2")).unwrap();
    place.write("venv/bin/python3", "");
    // Nothing else in sight: the loader finds the driver only.
    let alone = place.path("driver");
    std::fs::create_dir_all(&alone).unwrap();
    std::fs::copy(folder.join("libcuda.so.1"), alone.join("libcuda.so.1")).unwrap();
    let python = place.path("venv/bin/python3").display().to_string();
    let base = "comm all_reduce --device cuda --ranks 2 --bytes 1KiB --in-place true --buffers private";
    let ended = run(&place, &alone, &format!("{base} --nccl-library {python}"), &[]).exits(0);
    assert_eq!(json_lines(&ended.out)[0]["wrong"], 0, "{}", ended.err);
    let place = Place::new();
    let ended = run(&place, &alone, &format!("{base} --runtime native,pytorch --python {python}"), &[]);
    let lines = json_lines(&ended.out);
    let native = lines.iter().find(|line| line["runtime"] == "native").unwrap();
    assert_eq!((native["status"].as_str(), native["wrong"].as_u64()), (Some("ok"), Some(0)), "{native}");
    let place = Place::new();
    place.write("python3", "");
    let empty = place.path("python3").display().to_string();
    let lines = json_lines(&run(&place, &alone, &format!("{base} --nccl-library {empty}"), &[]).out);
    assert!(reason(&lines[0]).contains("has no wheel of NCCL"), "{}", lines[0]);
}

/// Other files than NCCL: a text, and a library with other functions.
#[test]
fn a_library_that_is_not_nccl_is_refused_with_what_it_lacks() {
    let Some(folder) = folder("a_library_that_is_not_nccl_is_refused_with_what_it_lacks") else { return };
    for (is_text, said) in [(true, "invalid ELF header"), (false, "no symbol `ncclGetVersion`")] {
        let place = Place::new();
        place.write("libnccl.so", "a text, and not a library. ".repeat(40));
        let library = if is_text { place.path("libnccl.so") } else { folder.join("libcuda.so.1") };
        let arguments =
            format!("comm all_reduce --backend nccl --ranks 2 --bytes 4KiB --nccl-library {}", library.display());
        let lines = json_lines(&run(&place, folder, &arguments, &[]).out);
        assert_eq!((lines[0]["status"].as_str(), statuses(&lines)), (Some("skipped"), [0, 0, 1, 0]), "{}", lines[0]);
        assert!(reason(&lines[0]).contains(said), "{}", lines[0]);
    }
}

#[test]
fn errors_of_the_libraries_fail_the_case_in_their_words() {
    let Some(folder) = folder("errors_of_the_libraries_fail_the_case_in_their_words") else { return };
    for (variable, value, words) in [
        ("FAKE_CUDA_FAIL", "cuMemAlloc_v2:3:2", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("FAKE_CUDA_FAIL", "cuLaunchKernel:2:719", "CUDA_ERROR_LAUNCH_FAILED"),
        ("FAKE_CUDA_FAIL", "cuEventRecord:9:700", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("FAKE_NCCL_FAIL", "ncclAllReduce:5:3", "ncclAllReduce"),
        ("FAKE_NCCL_FAIL", "ncclCommInitRank:1:2", "ncclCommInitRank"),
    ] {
        let place = Place::new();
        let arguments = "comm all_reduce --backend nccl --ranks 2 --bytes 4KiB --timeout 10s";
        let ended = run(&place, folder, arguments, &[(variable, value)]);
        let lines = json_lines(&ended.out);
        assert!(lines.iter().all(|line| line["status"] != "ok"), "{value}: {}", ended.out);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(said.contains(words), "{value}: `{words}` is missing: {said}");
    }
}

#[test]
fn what_native_ranks_on_gpus_do_not_do_is_refused() {
    let place = Place::new();
    for (arguments, words) in [
        ("hardware triad --device cuda --runtime native --backend shm", "native ranks move GPU memory with `nccl`, "),
        ("comm all_reduce --backend nccl --cache cold", "`cache: cold` is for host memory"),
        ("comm all_reduce --backend nccl --pace-bandwidth 1GB/s", "links for host memory only"),
        ("train --device cuda --threads 2", "training on GPUs does not use threads"),
        ("train --device cuda --matmul fma", "are for products on CPUs"),
        ("train --tuned", "is for native ranks on GPUs"),
    ] {
        place.run(arguments).refuses(&[words]);
    }
}

#[test]
fn without_a_gpu_one_line_says_what_lacks() {
    if Path::new("/dev/nvidiactl").exists() {
        return skip::skip("without_a_gpu_one_line_says_what_lacks", "this machine has a GPU");
    }
    let place = Place::new();
    let mut starting = place.command("comm all_reduce --backend nccl --device cuda --quick --output-dir out");
    starting.command.env_remove("LD_LIBRARY_PATH");
    let ended = starting.run().exits(2);
    let said = ended.out.lines().filter(|line| line.starts_with("skipped  ")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].contains("no GPU driver"), "{}", ended.out);
}

/// Loops, copies of all directions, loads, and messages between pairs: nothing but the driver and the library is there.
#[test]
fn the_hardware_of_gpus_is_measured_and_every_element_is_right() {
    let Some(folder) = folder("the_hardware_of_gpus_is_measured_and_every_element_is_right") else { return };
    let place = Place::new();
    let tests = "copy,scale,add,triad,device_copy,host_to_device,device_to_host,host_both_ways,host_latency";
    let arguments = format!("hardware {tests} --device cuda --ranks 2 --bytes 480008 --quick");
    let ended = run(&place, folder, &arguments, &[]).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [9, 0, 0, 0], "{}", ended.err);
    for line in &lines {
        assert_eq!((line["wrong"].as_u64(), line["backend"].as_str()), (Some(0), Some("nccl")), "{line}");
        assert!(line["caveats"].as_array().unwrap().contains(&"emulated".into()), "{line}");
        let is_load = line["parameters"]["test"] == "host_latency";
        // What runs on a host cannot be faster: nobody would have waited for it.
        assert_eq!(line["gbs"].as_f64().is_some_and(|gbs| gbs < 2000.0), !is_load, "{line}");
    }
    let place = Place::new();
    let arguments = "hardware latency,bandwidth,both_ways --device cuda --ranks 4 --bytes 4099 --quick";
    let ended = run(&place, folder, arguments, &[]).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [3, 0, 0, 0], "{}", ended.err);
    for line in &lines {
        assert!(line["wrong"] == 0 && line["pair_s"][3][0].as_f64() > Some(0.0), "{line}");
        assert!(line.get("launch_s").is_none(), "a tournament waits: {line}");
    }
}

/// Each rank reads the memory of each other one, which its owner filled.
#[test]
fn copies_between_gpus_read_what_their_owners_wrote() {
    let Some(folder) = folder("copies_between_gpus_read_what_their_owners_wrote") else { return };
    let place = Place::new();
    let arguments = "hardware peer_copy --device cuda --ranks 3 --bytes 70003 --quick";
    let lines = json_lines(&run(&place, folder, arguments, &[]).exits(0).out);
    assert_eq!((statuses(&lines), lines[0]["wrong"].as_u64()), ([1, 0, 0, 0], Some(0)), "{}", lines[0]);
    let cells = |name: &str| (0..9).filter(|at| lines[0][name][at / 3][at % 3].as_f64() > Some(0.0)).count();
    assert_eq!([cells("pair_s"), cells("pair_gbs")], [6, 6], "{}", lines[0]);
    // Devices that do not reach each other: one skipped case, and no rank waits for another.
    let place = Place::new();
    let variables = [("FAKE_CUDA_FAIL", "cuIpcOpenMemHandle_v2:2:217")];
    let lines = json_lines(&run(&place, folder, arguments, &variables).out);
    assert_eq!(statuses(&lines), [0, 0, 1, 0], "{}", lines[0]);
    assert!(reason(&lines[0]).contains("cuIpcOpenMemHandle"), "{}", lines[0]);
    let ended = run(&place, folder, "hardware peer_copy --ranks 2", &[]).exits(2);
    assert!(ended.err.contains("peer_copy moves data of a GPU"), "{}", ended.err);
}

/// A device that lacks something: one skipped case each, with the reason, and the others go on.
#[test]
fn what_hardware_lacks_on_gpus_is_the_reason_of_a_skipped_case() {
    let Some(folder) = folder("what_hardware_lacks_on_gpus_is_the_reason_of_a_skipped_case") else { return };
    for (variables, said) in [
        (&[("FAKE_CUDA_DEVICES", "0")][..], "no CUDA-capable device"),
        (&[("FAKE_CUDA_MEMORY", "1000000")], "a buffer on Emulated GPU"),
        (&[("FAKE_CUDA_FAIL", "cuMemHostAlloc:1:2")], "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
    ] {
        let place = Place::new();
        let arguments = "hardware host_to_device --device cuda --ranks 1 --bytes 4MiB";
        let ended = run(&place, folder, arguments, variables);
        let lines = json_lines(&ended.out);
        assert_eq!(statuses(&lines), [0, 0, 1, 0], "{variables:?}: {}", ended.err);
        assert!(reason(&lines[0]).contains(said), "{variables:?}: {}", lines[0]);
    }
    // What fails in the middle is a failed case, and nothing hangs.
    let place = Place::new();
    let variables = [("FAKE_CUDA_FAIL", "cuLaunchKernel:40:719")];
    let ended = run(&place, folder, "hardware triad --device cuda --ranks 2 --bytes 1MiB", &variables);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [0, 1, 0, 0], "{}", ended.err);
    assert!(reason(&lines[0]).contains("CUDA_ERROR_LAUNCH_FAILED"), "{}", lines[0]);
}

/// Graphs, groups, registered buffers and offsets: each operation is right, and no call is counted twice.
#[test]
fn calls_of_graphs_and_groups_on_registered_buffers_are_right() {
    let Some(folder) = folder("calls_of_graphs_and_groups_on_registered_buffers_are_right") else { return };
    let moves = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,gather,scatter,send_recv";
    for (operations, options, cases) in [
        (format!("{moves},ping_pong"), "--graph 7", 10),
        (moves.to_owned(), "--aggregate 3", 9),
        ("all_reduce,all_gather".to_owned(), "--registration local,window --in-place true,false", 8),
        ("all_reduce".to_owned(), "--registration local --buffers private --graph 2", 1),
        (format!("{moves},all_to_allv"), "--offset-bytes 12", 10),
        ("all_reduce,all_gather".to_owned(), "--graph 5 --groups div2", 6),
    ] {
        let place = Place::new();
        let ranks = if options.contains("groups") { 4 } else { 2 };
        let ended = run(
            &place,
            folder,
            &format!("comm {operations} --backend nccl --ranks {ranks} --bytes 3KiB {options}"),
            &[],
        );
        let lines = json_lines(&ended.exits(0).out);
        assert_eq!(statuses(&lines), [cases, 0, 0, 0], "{options}");
        for line in &lines {
            assert_eq!(line["wrong"], 0, "{options}: {line}");
            let together = ["graph", "aggregate"].iter().find_map(|name| line["parameters"][*name].as_u64());
            let calls = line["calls_per_sample"].as_u64().unwrap();
            assert_eq!(calls % together.unwrap_or(1), 0, "{options}: the time is that of one call: {line}");
        }
    }
    // A wrong element of one call of a graph is found.
    let place = Place::new();
    let variables = [("FAKE_NCCL_WRONG", "3"), ("FAKE_NCCL_RANK", "0")];
    let ended = run(&place, folder, "comm all_reduce --backend nccl --ranks 2 --bytes 3KiB --graph 4", &variables);
    let lines = json_lines(&ended.out);
    assert!(lines[0]["wrong"].as_u64() > Some(0), "{}", lines[0]);
}

#[test]
fn what_graphs_groups_and_registrations_exclude_is_refused() {
    let Some(folder) = folder("what_graphs_groups_and_registrations_exclude_is_refused") else { return };
    for (options, said) in [
        ("--graph 4 --mode isolated", "`mode: isolated` times each call, but `graph` launches 4 at once"),
        ("--graph 4 --touch true", "`touch` rewrites buffers"),
        ("--graph 4 --inject kill:rank=0,at=3", "faults are injected into single calls"),
        ("--graph 4 --aggregate 4", "exclude each other"),
        ("--graph 4096 --dtype bf16 --in-place true", "stays exact for"),
        ("--aggregate 4 --in-place true", "run in any order"),
        ("--registration window --buffers private", "a window needs memory that the library allocated"),
        ("--offset-bytes 3", "not a multiple of the element size"),
        ("--graph 4 --runtime pytorch", "`graph` is for native ranks on GPUs"),
        ("--offset-bytes 8 --runtime pytorch", "`offset_bytes` is for runtime `native`"),
    ] {
        let place = Place::new();
        let ended =
            run(&place, folder, &format!("comm all_reduce --backend nccl --ranks 2 --bytes 1KiB {options}"), &[]);
        let ended = ended.exits(2);
        assert!(ended.err.contains(said), "{options}: {}", ended.err);
    }
    let place = Place::new();
    let ended = run(&place, folder, "comm all_reduce --backend shm --ranks 2 --bytes 1KiB --graph 4", &[]).exits(2);
    assert!(ended.err.contains("`graph` is for native ranks on GPUs"), "{}", ended.err);
    let place = Place::new();
    let arguments = "comm all_reduce --backend nccl --ranks 2 --bytes 1KiB --registration window";
    let lines = json_lines(&run(&place, folder, arguments, &[("FAKE_NCCL_WINDOWS", "0")]).out);
    assert!(reason(&lines[0]).contains("make a window of this memory"), "{}", lines[0]);
    // A library before 2.27.
    let place = Place::new();
    let old = folder.join("old/libnccl.so.2").display().to_string();
    let lines = json_lines(&run(&place, folder, &format!("{arguments} --nccl-library {old}"), &[]).out);
    assert!(
        reason(&lines[0]).contains("ncclCommWindowRegister, ncclCommWindowDeregister needs NCCL 2.27, and "),
        "{}",
        lines[0]
    );
    // As nccl-tests has them.
    let place = Place::new();
    let arguments = "comm all_reduce --backend nccl -g 2 -b 1K -e 1K -G 3 -R 2 -x 1";
    let lines = json_lines(&run(&place, folder, arguments, &[]).exits(0).out);
    let of = |name: &str| lines[0]["parameters"][name].clone();
    assert_eq!((of("graph"), of("registration")), (20.into(), "window".into()), "{}", lines[0]);
}

/// The commands of `cargo xtask gpu-check`: a machine with a GPU is not the place to learn that an option is wrong.
#[test]
fn commands_of_gpu_check_are_understood() {
    let Some(folder) = folder("commands_of_gpu_check_are_understood") else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/src/gpu_check/checks.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let quoted = text.split('"').skip(1).step_by(2);
    // PyTorch's ranks need torch; what the sanitizer runs is understood as any other.
    let native = quoted.filter(|words| !words.contains("python") && !words.contains("torchrun"));
    let commands: Vec<&str> = native.filter_map(|words| Some(words.split_once("rankmark ")?.1)).collect();
    assert!(commands.len() > 30, "{}", commands.len());
    let place = Place::new();
    for command in commands.into_iter().filter(|command| !command.starts_with("validate")) {
        let words = command.replace("--record", "").replace("--json", "");
        let ended = with_libraries(&place, folder, &format!("{words} --dry-run"), &[]);
        assert_eq!(ended.status.code(), Some(0), "{command}: {}{}", ended.out, ended.err);
    }
}
