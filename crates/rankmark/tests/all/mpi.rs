//! Worlds of MPI libraries from a plain shell: one table, checked, with what was used in the record.

use serde_json::Value;

use crate::place::{Place, reason, statuses};
use crate::skip;

/// Debian's libraries that are here, by the names that the loader finds.
fn installed() -> Vec<&'static str> {
    let known = [("libmpi.so.40", "/usr/bin/mpirun.openmpi"), ("libmpich.so.12", "/usr/bin/mpirun.mpich")];
    known.into_iter().filter(|(_, mpirun)| std::path::Path::new(mpirun).exists()).map(|(library, _)| library).collect()
}

#[test]
fn several_libraries_stand_in_one_table() {
    let libraries = installed();
    if libraries.is_empty() {
        return skip::skip("several MPI libraries", "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    }
    let place = Place::new();
    let fixed = "--iters 6 --warmup 1 --limits false --trials 2 --spacing 0s --output-dir r";
    let list = libraries.join(",");
    let swept = format!("--mpi-library {list} --mpi-progress none,poll --ranks 2 --bytes 1KiB,64KiB");
    place.run(&format!("comm all_reduce --backend mpi {swept} {fixed}")).exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [4 * libraries.len(), 0, 0, 0]);
    assert!(cases.iter().all(|line| line["wrong"] == 0 && line["backend"] == "mpi"));
    // Starting MPI is expensive: its ranks stay from round to round, and the record says so.
    assert!(cases.iter().all(|line| line["trials"] == 2 && line["worlds"] == "kept"), "{cases:?}");
    let run = place.run_file("r");
    for library in libraries {
        let named = |line: &&Value| line["parameters"]["mpi_library"] == library;
        assert_eq!(cases.iter().filter(named).count(), 4);
        let of = |state: &&Value| state["library"] == library;
        let state = run["backends"].as_array().and_then(|states| states.iter().find(of)).expect("its entry");
        let text = |key: &str| state[key].as_str().unwrap_or_default().to_owned();
        assert!(text("version").starts_with(if library.contains("mpich") { "MPICH " } else { "Open MPI " }), "{state}");
        assert!(text("path").starts_with('/') && text("launcher").contains("mpi"), "{state}");
    }
}

#[test]
fn what_is_no_library_is_skipped_with_the_reason() {
    let place = Place::new();
    place
        .run("comm all_reduce --backend mpi --mpi-library ./no/libmpi.so --ranks 2 --bytes 1KiB --output-dir r")
        .exits(2);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 0, 1, 0]);
    assert!(reason(&cases[0]).contains("./no/libmpi.so: cannot open shared object file"), "{}", reason(&cases[0]));
    // A field of another backend.
    place
        .run("comm all_reduce --mpi-tuned true --ranks 2 --bytes 1KiB")
        .refuses(&["`mpi_tuned` is for the backend `mpi`"]);
}

/// The Open MPI that has coll/ucc, of the installations below the folders that RANKMARK_TEST_MPI names.
fn with_ucc() -> Option<std::path::PathBuf> {
    let folders = std::env::var_os("RANKMARK_TEST_MPI").unwrap_or_default();
    let has = |folder: &std::path::PathBuf| folder.join("lib/openmpi/mca_coll_ucc.so").exists();
    std::env::split_paths(&folders).find(has).map(|folder| folder.join("lib/libmpi.so.40"))
}

#[test]
fn ucc_moves_the_data_or_the_case_is_skipped() {
    let Some(library) = with_ucc() else {
        let why = "RANKMARK_TEST_MPI names no Open MPI with coll/ucc (how to build one: docs/how-to/mpi.md)";
        return skip::skip("collectives of UCC", why);
    };
    let place = Place::new();
    let fixed = format!(
        "--backend mpi --mpi-library {} --mpi-collectives ucc --ranks 2 --bytes 1KiB --iters 6 --warmup 1 --limits false",
        library.display()
    );
    place.run(&format!("comm all_reduce,reduce_scatter --dtype f32,bf16 {fixed} --output-dir r")).exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [1, 0, 3, 0]);
    let told = |op: &str, dtype: &str| {
        let of = |line: &&Value| line["parameters"]["op"] == op && line["dtype"] == dtype;
        reason(cases.iter().find(of).expect("its case")).to_owned()
    };
    assert!(told("all_reduce", "bf16").contains("uses an operator of Rankmark"), "{}", told("all_reduce", "bf16"));
    assert!(told("reduce_scatter", "f32").contains("does not support MPI_Reduce_scatter_block"), "of Open MPI 4.1");
    // It falls back to its own algorithms without a word.
    place.run(&format!("comm all_reduce {fixed} --env OMPI_UCC_CL_BASIC_TLS=nosuch --output-dir f")).exits(2);
    let cases = place.cases("f");
    assert_eq!(statuses(&cases), [0, 0, 1, 0]);
    assert!(reason(&cases[0]).contains("UCC was asked for, but has turned itself off"), "{}", reason(&cases[0]));
}
