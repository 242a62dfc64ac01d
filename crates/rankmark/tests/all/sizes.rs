//! Sizes and numbers of ranks at the edges.

use serde_json::Value;

use crate::place::{Place, json_lines, reason, statuses};
use crate::skip;

/// Case lines of a command that prints them.
fn lines(arguments: &str, code: i32) -> Vec<Value> {
    let ended = Place::new().run(&format!("comm {arguments} --max-seconds 0.02s --json")).exits(code);
    json_lines(&ended.out)
}

#[test]
fn sizes_have_every_prefix_and_environments_a_value() {
    let place = Place::new();
    let huge = place.run("comm all_reduce --ranks 2 --bytes 1PiB,2EB --output-dir out").exits(2);
    assert_eq!(statuses(&place.cases("out")), [0, 0, 2, 0], "{}", huge.out);
    assert!(reason(&place.cases("out")[0]).contains("not enough memory"), "{}", huge.out);
    place.run("comm all_reduce --bytes 16EiB").refuses(&["`16EiB` is too large"]);
    place.run("comm all_reduce --env NOEQUALS").refuses(&["`env` takes NAME=value, not `NOEQUALS`", "NCCL_DEBUG=INFO"]);
    assert_eq!(place.names(), ["out"], "what is refused makes nothing");
}

#[test]
fn sizes_without_a_whole_element_are_skipped() {
    // One by one: what remains of each is the same case.
    for requested in [0, 1, 3] {
        let found = lines(&format!("all_reduce --bytes {requested}"), 2);
        assert_eq!(statuses(&found), [0, 0, 1, 0]);
        let line = &found[0];
        assert_eq!((line["bytes"].as_u64(), line["bytes_requested"].as_u64()), (Some(0), Some(requested)));
        assert!(reason(line).contains(&format!("{requested} bytes are too few for one element")), "{line}");
        assert!(line.get("time_s").is_none() && line.get("wrong").is_none(), "{line}");
    }
    // One that can be measured is measured, and then the run is fine.
    assert_eq!(statuses(&lines("all_gather --ranks 3 --bytes 11,12", 0)), [1, 0, 1, 0]);
}

#[test]
fn sizes_that_do_not_divide_round_down_visibly() {
    for (arguments, used) in [
        ("all_reduce --bytes 1001", 1000),
        ("all_gather --ranks 3 --bytes 1001", 996),
        ("all_to_all --ranks 3 --dtype f64 --bytes 1001", 984),
        ("broadcast --ranks 3 --dtype u8 --bytes 1001", 1001),
    ] {
        let found = lines(arguments, 0);
        let rounded = found[0]["caveats"].as_array().unwrap().iter().any(|caveat| caveat == "size_rounded");
        assert_eq!(found[0]["bytes"], used, "{arguments}");
        assert_eq!(found[0]["parameters"]["bytes"], used, "{arguments}");
        assert_eq!(found[0]["bytes_requested"], 1001, "{arguments}");
        assert_eq!(rounded, used != 1001, "{arguments}");
        assert_eq!(found[0]["wrong"], 0, "{arguments}");
    }
}

#[test]
fn what_does_not_fit_into_memory_is_skipped_with_the_arithmetic() {
    let place = Place::new();
    let ended = place.run("comm all_reduce --ranks 2 --bytes 1TB --output-dir out").exits(2);
    let line = &place.cases("out")[0];
    for part in ["1.82 TiB of buffers", "for each of 2 ranks", "+ 24.0 MiB", "= 1.82 TiB", "is available"] {
        assert!(reason(line).contains(part) && ended.out.contains(part), "{part}: {line}");
    }
    // No rank was started for it: a world would have reported the overhead.
    assert!(place.run_file("out")["overhead"].is_null());
    let some = lines("all_reduce --ranks 2 --bytes 1KiB,100TB", 0);
    assert_eq!(statuses(&some), [1, 0, 1, 0]);
    let many = lines("all_reduce --ranks 1024 --bytes 1GB", 2);
    assert!(reason(&many[0]).contains("not enough memory"), "{}", many[0]);
    // Sums that do not fit into 64 bits, either.
    assert_eq!(statuses(&lines("all_gather --ranks 1024 --bytes 16000000000000000000", 2)), [0, 0, 1, 0]);
}

#[test]
fn one_rank_measures_every_operation_that_one_can_do() {
    let ops = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv";
    let found = lines(&format!("{ops} --ranks 1 --bytes 1KiB"), 0);
    assert_eq!(statuses(&found), [10, 0, 0, 0]);
    assert!(found.iter().all(|line| line["wrong"] == 0 && line["ranks"] == 1));
    assert!(lines("barrier --ranks 1", 0)[0].get("bytes").is_none());
}

/// A hundred ranks for each core of a small machine: they join, take part in each call, and end with the run.
#[test]
fn hundreds_of_ranks_share_a_few_cores() {
    if !skip::heavy("a world of 256 ranks") {
        return;
    }
    let place = Place::new();
    let few = "--ranks 256 --trials 1 --warmup 1 --iters 2 --quiet --output-dir";
    place.run(&format!("comm barrier {few} barrier")).exits(0);
    place.run(&format!("comm all_reduce --bytes 64 {few} reduced")).exits(0);
    for (record, checked) in [("barrier", None), ("reduced", Some(0))] {
        let line = &place.cases(record)[0];
        assert_eq!((&line["status"], &line["ranks"]), (&"ok".into(), &256.into()), "{line}");
        let medians = line["per_rank_median_s"].as_array().map(Vec::len);
        assert_eq!(medians, Some(256), "{line}");
        assert!(checked.is_none() || line["wrong"].as_u64() == checked, "{line}");
    }
}
