//! Ranks on GPUs whose data a backend of the host moves, against a driver whose device is this host (`tests/fakes`): what goes
//! through the host arrives whole and in time, and what is missing is named.

use std::path::Path;

use crate::fakes;
use crate::gpus::{folder, with_libraries};
use crate::place::{Ended, Place, json_lines, reason, statuses};
use crate::skip;

const SHORT: &str = "--max-seconds 0.02s --output-dir out --json";

const OPERATIONS: &str =
    "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv";

/// A command with the driver and these variables.
fn run(place: &Place, folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Ended {
    with_libraries(place, folder, &format!("{arguments} --device cuda {SHORT}"), variables)
}

/// All of so many cases are right, of native ranks on a stand-in, by this path but for barriers.
fn all_right(ended: &Ended, cases: usize, path: &str) {
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [cases, 0, 0, 0], "{}{}", ended.out, ended.err);
    for line in &lines {
        assert!(line["wrong"] == 0 && line["parameters"].get("runtime").is_none(), "{line}");
        let is_barrier = line["parameters"]["op"] == "barrier";
        assert!(is_barrier || line["path"] == path, "{line}");
        assert!(line["caveats"].as_array().unwrap().contains(&"emulated".into()), "{line}");
        assert!(line.get("launch_s").is_none() && line.get("device_s").is_none(), "nothing is enqueued: {line}");
    }
}

const STAGED: &str = "staged through the host";
const POINTERS: &str = "device pointers";

#[test]
fn every_operation_goes_through_shared_memory_and_is_right() {
    let Some(folder) = folder("every_operation_goes_through_shared_memory_and_is_right") else { return };
    for (ranks, more, cases) in [(1, "", 10), (2, ",ping_pong,barrier", 12), (3, ",ping_pong,barrier", 12)] {
        let place = Place::new();
        let arguments = format!("comm {OPERATIONS}{more} --backend shm --ranks {ranks} --bytes 3KiB");
        all_right(&run(&place, folder, &arguments, &[]).exits(0), cases, STAGED);
    }
}

/// More pieces than places for them, and a last one that is short.
#[test]
fn large_buffers_go_in_pieces_and_every_element_is_right() {
    let Some(folder) = folder("large_buffers_go_in_pieces_and_every_element_is_right") else { return };
    let sizes = "--bytes 1048584,3145752,4194304 --buffers registered,private";
    let place = Place::new();
    let arguments = format!("comm all_reduce,reduce,broadcast --backend shm --ranks 3 --in-place true,false {sizes}");
    all_right(&run(&place, folder, &arguments, &[]).exits(0), 36, STAGED);
    let place = Place::new();
    let arguments = format!("comm send_recv --direction one_way,both_ways --backend shm --ranks 2 {sizes}");
    all_right(&run(&place, folder, &arguments, &[]).exits(0), 12, STAGED);
}

#[test]
fn both_placements_and_all_types_go_through_the_host() {
    let Some(folder) = folder("both_placements_and_all_types_go_through_the_host") else { return };
    let place = Place::new();
    let operations = "all_gather,reduce_scatter,gather,scatter,all_to_all,reduce,broadcast";
    let fixed = "--backend shm --ranks 2 --bytes 4KiB --buffers registered,private --in-place true,false";
    all_right(&run(&place, folder, &format!("comm {operations} {fixed}"), &[]).exits(0), 28, STAGED);
    let place = Place::new();
    let types = "--dtype f32,f64,f16,bf16,i32,i64,u8 --reduce sum,max --mode streaming,isolated --root 1";
    let arguments = format!("comm all_reduce,reduce --backend shm --ranks 2 --bytes 4KiB {types}");
    let lines = json_lines(&run(&place, folder, &arguments, &[]).exits(0).out);
    assert!(lines.len() >= 56 && lines.iter().all(|line| line["wrong"] == 0), "{}", lines.len());
}

/// Buffers of the host are of the group, too.
#[test]
fn groups_of_ranks_go_through_the_host() {
    let Some(folder) = folder("groups_of_ranks_go_through_the_host") else { return };
    let place = Place::new();
    let arguments = "comm all_reduce --backend shm --ranks 4 --groups mod2 --bytes 2097160";
    let ended = run(&place, folder, arguments, &[]).exits(0);
    let lines = json_lines(&ended.out);
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line["status"] == "ok" && line["wrong"] == 0),
        "{}",
        ended.out
    );
}

/// Debian's libraries that are here, by the names that the loader finds.
fn installed() -> Vec<&'static str> {
    let known = [("libmpi.so.40", "/usr/bin/mpirun.openmpi"), ("libmpich.so.12", "/usr/bin/mpirun.mpich")];
    known.into_iter().filter(|(_, mpirun)| Path::new(mpirun).exists()).map(|(library, _)| library).collect()
}

#[test]
fn every_operation_goes_through_mpi_and_is_right() {
    let test = "every_operation_goes_through_mpi_and_is_right";
    let Some(folder) = folder(test) else { return };
    let libraries = installed();
    if libraries.is_empty() {
        return skip::skip(test, "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    }
    for library in libraries {
        let place = Place::new();
        let fixed = format!("--backend mpi --mpi-library {library} --trials 2 --spacing 0s");
        let arguments = format!("comm {OPERATIONS},ping_pong,barrier {fixed} --ranks 2 --bytes 2097168");
        all_right(&run(&place, folder, &arguments, &[]).exits(0), 12, STAGED);
        let place = Place::new();
        let arguments = format!("comm all_reduce,broadcast {fixed} --mpi-progress poll --ranks 3 --bytes 3KiB");
        all_right(&run(&place, folder, &arguments, &[]).exits(0), 2, STAGED);
    }
}

/// What the library takes itself, it gets; what this program adds to it, on the host.
#[test]
fn an_mpi_that_knows_of_gpus_gets_their_addresses() {
    let test = "an_mpi_that_knows_of_gpus_gets_their_addresses";
    let Some(folder) = folder(test) else { return };
    let Some(library) = fakes::mpi(test) else { return };
    let fixed = format!("--backend mpi --mpi-library {} --trials 2 --spacing 0s --ranks 2", library.display());
    let measured = |operations: &str, cases: usize, path: &str| -> String {
        let place = Place::new();
        let calls = place.path("calls");
        let variables = [("FAKE_MPI_CALLS", calls.to_str().unwrap())];
        all_right(&run(&place, folder, &format!("comm {operations} {fixed}"), &variables).exits(0), cases, path);
        std::fs::read_to_string(calls).unwrap_or_default()
    };
    let operations = "all_reduce,all_gather,reduce,all_to_all,all_to_allv,gather,scatter,send_recv,ping_pong";
    let calls = measured(&format!("{operations} --bytes 2097168"), 9, POINTERS);
    for name in
        ["Allreduce", "Allgather", "Reduce", "Alltoall", "Alltoallv", "Gather", "Scatter", "Sendrecv", "Send", "Recv"]
    {
        assert!(calls.lines().any(|line| line == format!("MPI_{name}")), "{name} got no memory of a GPU");
    }
    let calls = measured("broadcast,all_reduce --in-place true,false --bytes 2097168", 4, POINTERS);
    assert!(calls.contains("MPI_Bcast\n"));
    let calls = measured("reduce_scatter --in-place false --bytes 2097168", 1, POINTERS);
    assert!(calls.contains("MPI_Reduce_scatter_block\n"));
    // One of Rankmark's own operators, a division, and a copy into place.
    for ours in ["all_reduce --dtype bf16", "all_reduce --reduce avg", "reduce_scatter --in-place true"] {
        assert_eq!(measured(&format!("{ours} --bytes 2097168"), 1, STAGED), "", "{ours}");
    }
}

#[test]
fn wrong_elements_are_found_in_memory_of_gpus() {
    let Some(folder) = folder("wrong_elements_are_found_in_memory_of_gpus") else { return };
    let place = Place::new();
    let arguments = "comm all_reduce --backend shm --ranks 2 --bytes 4KiB --inject wrong:rank=1,element=5";
    let ended = run(&place, folder, arguments, &[]).exits(1);
    let said = reason(&json_lines(&ended.out)[0]).to_owned();
    assert!(said.contains("rank 1") && said.contains("element 5"), "{said}");
}

/// Each is said in words, on the case that it concerns.
#[test]
fn what_lacks_is_said_by_the_case() {
    let Some(folder) = folder("what_lacks_is_said_by_the_case") else { return };
    let two = "comm all_reduce --backend shm --ranks 2 --bytes 4KiB";
    let nowhere = Path::new("/nowhere");
    for (folder, variables, arguments, words) in [
        (nowhere, &[][..], two, &["backend `shm` cannot use a GPU", "no libcuda.so where the loader looks"][..]),
        (folder, &[("FAKE_CUDA_DEVICES", "0")], two, &["CUDA_ERROR_NO_DEVICE", "host"]),
        (folder, &[("CUDA_VISIBLE_DEVICES", "")], two, &["GPU"]),
        (folder, &[("FAKE_CUDA_DEVICES", "1")], two, &["give ranks 0 and 1 one GPU", "NCCL_MULTI_RANK_GPU_ENABLE"]),
        (
            folder,
            &[("FAKE_CUDA_DEVICES", "2")],
            "comm all_reduce --backend shm --ranks 3 --bytes 3KiB",
            &["which shows 2 GPUs"],
        ),
        (
            folder,
            &[("FAKE_CUDA_MEMORY", "1048576")],
            "comm all_reduce --backend shm --ranks 2 --bytes 64MiB",
            &["not enough memory for a buffer on Emulated GPU: 64MiB wanted"],
        ),
        (
            folder,
            &[("FAKE_CUDA_FAIL", "cuMemHostRegister_v2:1:2")],
            two,
            &["backend `shm` cannot pin 8192 bytes: cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY"],
        ),
    ] {
        let place = Place::new();
        let ended = run(&place, folder, arguments, variables).exits(2);
        let lines = json_lines(&ended.out);
        assert_eq!(statuses(&lines), [0, 0, 1, 0], "{}", ended.out);
        let said = reason(&lines[0]);
        words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is missing: {said}"));
    }
}

#[test]
fn ranks_that_share_a_gpu_say_so() {
    let Some(folder) = folder("ranks_that_share_a_gpu_say_so") else { return };
    let place = Place::new();
    let arguments = "comm all_reduce --backend shm --ranks 2 --bytes 4KiB --env NCCL_MULTI_RANK_GPU_ENABLE=1";
    let ended = run(&place, folder, arguments, &[("FAKE_CUDA_DEVICES", "1")]).exits(0);
    let line = &json_lines(&ended.out)[0];
    assert!(line["caveats"].as_array().unwrap().contains(&"shared_device".into()), "{line}");
}

#[test]
fn a_copy_that_fails_is_a_failed_case_in_the_drivers_words() {
    let Some(folder) = folder("a_copy_that_fails_is_a_failed_case_in_the_drivers_words") else { return };
    for (value, words) in [
        ("cuMemcpyDtoHAsync_v2:9:700", "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("cuMemcpyHtoDAsync_v2:30:719", "CUDA_ERROR_LAUNCH_FAILED"),
    ] {
        let place = Place::new();
        let arguments = "comm all_reduce --backend shm --ranks 2 --bytes 3MiB --timeout 10s";
        let ended = run(&place, folder, arguments, &[("FAKE_CUDA_FAIL", value)]).exits(1);
        let lines = json_lines(&ended.out);
        assert_eq!(statuses(&lines), [0, 1, 0, 0], "{value}: {}", ended.out);
        assert!(reason(&lines[0]).contains(words), "{value}: {}", lines[0]);
    }
}

#[test]
fn what_makes_no_sense_through_the_host_is_refused() {
    let place = Place::new();
    for (arguments, words) in [
        ("--backend shm --cache cold", "`cache: cold` is for host memory"),
        ("--backend shm --pace-bandwidth 1GB/s", "links for host memory only"),
        ("--backend shm --progress-thread true", "`progress_thread` supports host memory only"),
        ("--backend reference", "with `shm`, `mpi`, `nccl`, not with `reference`"),
    ] {
        place.run(&format!("comm all_reduce --device cuda --runtime native {arguments}")).refuses(&[words]);
    }
    place.run("hardware triad --device cuda --backend shm --runtime native").refuses(&["with `nccl`, not with `shm`"]);
}

/// PyTorch's ranks stay where PyTorch's fields or a Python are given, and where native ranks lack the backend.
#[test]
fn pytorch_ranks_are_meant_as_before() {
    let place = Place::new();
    for (arguments, runtime) in [
        ("--backend mpi", None),
        ("--backend shm", None),
        ("--backend mpi --runtime pytorch", Some("pytorch")),
        ("--backend mpi --python python3", Some("pytorch")),
        ("--backend gloo", Some("pytorch")),
        ("--backend ucc", Some("pytorch")),
    ] {
        let ended = place.run(&format!("comm all_reduce --device cuda {arguments} --bytes 4KiB --dry-run --json"));
        let line = json_lines(&ended.out).remove(0);
        assert_eq!(line["parameters"].get("runtime").and_then(|runtime| runtime.as_str()), runtime, "{line}");
    }
}
