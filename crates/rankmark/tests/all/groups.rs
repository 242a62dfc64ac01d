//! Several communicators at once, from outside: each group is right, and its row says what the others cost it.

use serde_json::Value;

use crate::gpus::{folder, with_libraries};
use crate::place::{Ended, Place, json_lines, reason, statuses};
use crate::skip;

const SHORT: &str =
    "--ranks 4 --groups mod2 --bytes 4KiB --max-seconds 0.02s --trials 2 --spacing 0s --output-dir out --json";

/// What a case with groups says of them, and what the cases say in which one runs alone.
fn is_whole(ended: &Ended, operations: usize) {
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [3 * operations, 0, 0, 0], "{}{}", ended.out, ended.err);
    for line in &lines {
        assert_eq!((&line["parameters"]["groups"], &line["wrong"]), (&"mod 2".into(), &0.into()), "{line}");
    }
    let (alone, both): (Vec<&Value>, Vec<&Value>) =
        lines.iter().partition(|line| line["parameters"].get("alone").is_some());
    assert_eq!((alone.len(), both.len()), (2 * operations, operations));
    for line in both {
        let groups = line["by_group"].as_array().unwrap();
        let ranks: Vec<&Value> = groups.iter().map(|group| &group["ranks"]).collect();
        assert_eq!(ranks, [&serde_json::json!([0, 2]), &serde_json::json!([1, 3])], "{line}");
        for group in groups {
            let number = |name: &str| group[name].as_f64().unwrap_or(f64::NAN);
            assert!(number("time_s") > 0.0 && number("alone_s") > 0.0 && number("slowdown") > 0.0, "{line}");
        }
        assert!(line["interference"]["value"].as_f64().unwrap() > 0.0, "{line}");
        // The row's rate is that of the slowest group, of two ranks.
        if line["parameters"]["op"] == "all_reduce" {
            let (busbw, algbw) = (line["busbw_gbs"].as_f64().unwrap(), line["algbw_gbs"].as_f64().unwrap());
            assert!((busbw / algbw - 1.0).abs() < 1e-9, "the bus factor of two ranks is 1: {line}");
            assert_eq!(
                (line["at_once_gbs"].as_array().unwrap().len(), line["alone_gbs"].as_array().unwrap().len()),
                (2, 2)
            );
        }
    }
}

#[test]
fn groups_run_at_once_and_alone() {
    let place = Place::new();
    let operations = "all_reduce,all_gather,all_to_allv,broadcast,send_recv,barrier";
    is_whole(&place.run(&format!("comm {operations} {SHORT}")).exits(0), 6);
    let report = place.read("out/report.md");
    assert!(report.contains("Groups that run at once") && report.contains("mod 2"), "{report}");
    let place = Place::new();
    is_whole(&place.run(&format!("comm all_reduce --buffers private {SHORT}")).exits(0), 1);
}

#[test]
fn groups_of_mpi_run_at_once_and_alone() {
    if !std::path::Path::new("/usr/bin/mpirun").exists() {
        return skip::skip("groups of mpi", "no MPI library with its mpirun (Debian: openmpi-bin, mpich)");
    }
    let place = Place::new();
    is_whole(&place.run(&format!("comm all_reduce,all_gather --backend mpi {SHORT}")).exits(0), 2);
}

#[test]
fn groups_of_nccl_run_at_once_and_alone() {
    let Some(folder) = folder("groups_of_nccl_run_at_once_and_alone") else { return };
    let command = format!("comm all_reduce,all_gather --backend nccl {SHORT}");
    is_whole(&with_libraries(&Place::new(), folder, &command, &[]).exits(0), 2);
}

#[test]
fn a_wrong_element_of_a_group_is_named_by_its_rank_of_the_world() {
    let place = Place::new();
    let ended = place.run(&format!("comm all_reduce --alone 1 --inject wrong:rank=3,element=5 {SHORT}")).exits(1);
    let said = reason(&json_lines(&ended.out)[0]).to_owned();
    assert!(said.contains("rank 3") && said.contains("element 5"), "{said}");
}

#[test]
fn what_makes_no_groups_is_refused() {
    let place = Place::new();
    for (options, words) in [
        ("--ranks 3 --groups mod2", "leaves rank 1 of 3 alone"),
        ("--ranks 6 --groups div4", "groups of 4, 2 ranks"),
        ("--ranks 4 --groups two", "`two` is not a rule for groups"),
        ("--ranks 4 --groups mod2 --backend sim", "does not model interference"),
        ("--ranks 4 --alone 0", "selects one of several groups"),
    ] {
        place.run(&format!("comm all_reduce {options}")).exits(2).refuses(&[words]);
    }
}
