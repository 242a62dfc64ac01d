//! Records as the JSON of nccl-tests, read back by our own importer and compared with a file that
//! nccl-tests wrote.

use std::path::Path;

use serde_json::Value;

use crate::place::Place;

/// Files that nccl-tests wrote, or that follow its source.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/samples/nccl_tests_json");

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_str(&place.read(name)).unwrap()
}

/// A sample becomes a record, and the record a file.
fn there_and_back(place: &Place, sample: &str) -> [Value; 2] {
    let text = std::fs::read_to_string(Path::new(SAMPLES).join(sample)).unwrap();
    place.write(sample, &text);
    place.run(&format!("import {sample} --output-dir record")).exits(0);
    let out = place.run("report record --layout nccl-tests-json --output-dir back").exits(0).out;
    assert_eq!(out, "back/all_reduce_perf.json\n");
    [serde_json::from_str(&text).unwrap(), json(place, "back/all_reduce_perf.json")]
}

/// Every member of `wanted` is in `found`, with a value of the same type, and no other is.
#[track_caller]
fn same_members(wanted: &Value, found: &Value, place: &str) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            assert_eq!(wanted.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>(), "{place}");
            wanted.iter().for_each(|(key, value)| same_members(value, &found[key], &format!("{place}/{key}")));
        }
        (Value::Array(wanted), Value::Array(found)) => {
            let Some(first) = wanted.first() else { return };
            found.iter().for_each(|value| same_members(first, value, place));
        }
        _ => assert_eq!(std::mem::discriminant(wanted), std::mem::discriminant(found), "{place}: {found}"),
    }
}

#[test]
fn the_members_and_figures_are_those_that_nccl_tests_writes() {
    let [mut wanted, mut found] = there_and_back(&Place::new(), "v3_h100.json");
    for value in [&mut wanted, &mut found] {
        // The order of members is not that of the file once it was parsed.
        value.sort_all_objects();
    }
    same_members(&wanted, &found, "");
    assert_eq!(found["results"], wanted["results"]);
    for key in ["version", "nccl_version", "out_of_bounds", "average_bus_bandwidth", "errors"] {
        assert_eq!(found[key], wanted[key], "{key}");
    }
    for key in ["minimum_bytes", "step_factor", "iterations", "blocking_collectives"] {
        assert_eq!(found["config"][key], wanted["config"][key], "{key}");
    }
}

#[test]
fn wrong_elements_and_halves_that_are_missing_come_back() {
    let [wanted, found] = there_and_back(&Place::new(), "v3.json");
    for (row, half) in [(0, "out_of_place"), (0, "in_place"), (1, "out_of_place")] {
        let [wanted, found] = [&wanted, &found].map(|value| value["results"][row][half].clone());
        assert_eq!((&found["time"], &found["nwrong"]), (&wanted["time"], &wanted["nwrong"]), "{row} {half}");
        // The sample is written, and its last digit cut.
        let rates = [&found, &wanted].map(|value| value["bus_bw"].as_f64().unwrap());
        assert!((rates[0] - rates[1]).abs() < 2e-6, "{rates:?}");
    }
    assert_eq!(found["results"][1]["out_of_place"]["nwrong"], 2.0);
    assert_eq!((&found["results"][1]["in_place"], &found["out_of_bounds"]), (&Value::Null, &wanted["out_of_bounds"]));
}

#[test]
fn sums_of_fp8_that_others_measured_are_read_and_written() {
    let place = Place::new();
    let sample = Path::new(SAMPLES).join("../nccl_tests/2.19_per_iteration.txt");
    place.write("log.txt", std::fs::read_to_string(sample).unwrap());
    place.run("import log.txt --output-dir record").exits(0);
    let types: Vec<Value> = place.cases("record").iter().map(|case| case["parameters"]["dtype"].clone()).collect();
    assert_eq!(types, ["bf16", "bf16", "f8e4m3", "f8e4m3"]);
    let out = place.run("report record --layout nccl-tests-json --output-dir back").exits(0).out;
    let back = json(&place, out.trim_end());
    assert_eq!([0, 1].map(|row| back["results"][row]["type"].clone()), ["bfloat16", "f8e4m3"]);
}

/// What identifies a case, then its time, bus bandwidth and wrong elements.
fn figures(place: &Place, record: &str) -> Vec<(String, [f64; 3])> {
    let mut found: Vec<(String, [f64; 3])> = place
        .cases(record)
        .iter()
        .map(|case| {
            let of = &case["parameters"];
            let mut words: Vec<String> = ["op", "ranks", "backend", "device", "dtype", "bytes", "in_place"]
                .map(|key| of[key].to_string())
                .into();
            words.extend(["reduce", "root", "mode"].map(|key| of[key].to_string()));
            let number = |value: &Value| value.as_f64().unwrap();
            (words.join(" "), [number(&case["time_s"]["median"]), number(&case["busbw_gbs"]), number(&case["wrong"])])
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn our_own_importer_reads_the_same_figures() {
    let place = Place::new();
    let operations = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,gather,scatter";
    place
        .run(&format!(
            "comm {operations} --backend shm --ranks 2 --bytes 1KiB,64KiB --dtype bf16,i8,u32 --in-place true,false \
             --reduce max --root 1 --iters 2 --warmup 1 --trials 1 --output-dir record"
        ))
        .exits(0);
    let out = place.run("report record --layout nccl-tests-json").exits(0).out;
    let files: Vec<&str> = out.lines().collect();
    assert_eq!(files.len(), 7, "{out}");
    assert_eq!(json(&place, files[0])["config"]["warmup_iters"], 1);
    assert!(files.contains(&"record/nccl-tests-json/reduce_scatter_perf-shm-2.json"), "{out}");
    let mut back = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let said = place.run(&format!("import {file} --output-dir back{at}")).exits(0);
        assert!(format!("{said:?}").contains("median over trials of the slowest rank"), "{said:?}");
        back.extend(figures(&place, &format!("back{at}")));
    }
    back.sort_by(|a, b| a.0.cmp(&b.0));
    let own = figures(&place, "record");
    assert_eq!((own.len(), back.len()), (84, 84));
    for (own, back) in own.iter().zip(&back) {
        assert_eq!(own.0, back.0);
        // The file has a millionth of a microsecond.
        for (own, back) in own.1.iter().zip(&back.1) {
            assert!((own - back).abs() <= own * 1e-4, "{own:?} {back:?}");
        }
    }
}

#[test]
fn one_file_goes_where_it_is_asked_for_and_other_cases_are_refused() {
    let place = Place::new();
    place
        .run("comm all_reduce,barrier --backend shm --ranks 2 --bytes 1KiB --iters 2 --trials 1 --output-dir record")
        .exits(0);
    let ended = place.run("report record --layout nccl-tests-json --output x.json").exits(0);
    assert!(
        ended.err.contains("note: left out: 1 case of `barrier`, for which nccl-tests has no program"),
        "{ended:?}"
    );
    assert_eq!(json(&place, "x.json")["args"][0], "all_reduce_perf");
    place.run("comm all_reduce --backend sim --ranks 2 --bytes 1KiB --iters 2 --output-dir simulated").exits(0);
    let refused = place.run("report simulated --layout nccl-tests-json");
    refused.refuses(&["1 case with the mark `simulated`, which the format cannot hold", "hint:"]);
}
