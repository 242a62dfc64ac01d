//! The machine's profile, from its run to the runs that are compared with it; slow ranks, named from the outside.

use serde_json::Value;

use crate::place::{Place, json_lines, statuses};
use crate::pytorch::{self, torch};
use crate::skip;

const FEW: &str = "--iters 3 --warmup 1 --bytes 24KiB,192MiB --dtype f32 --threads 1,2 --size 64";

/// A profile with few ceilings, and the record of it.
fn profiled() -> Place {
    let place = Place::new();
    place
        .run("hardware triad --trials 1 --iters 3 --warmup 1 --bytes 24KiB,8MiB --threads 2 --output-dir memory")
        .exits(0);
    place
}

#[test]
fn a_profile_sets_the_limits_of_other_runs_and_says_where_it_is_from() {
    let place = profiled();
    let ended =
        place.run("comm all_reduce --bytes 1MiB --iters 5 --warmup 1 --limits memory --output-dir out").exits(0);
    assert!(ended.out.contains("limits   memory, measured 20"), "{}", ended.out);
    assert!(ended.out.contains("on this machine"), "{}", ended.out);
    let line = place.cases("out").remove(0);
    let share = line["limit"]["share"].as_f64().unwrap();
    let (limit, time) = (line["limit"]["time_s"].as_f64().unwrap(), line["time_s"]["median"].as_f64().unwrap());
    assert!((share - limit / time).abs() < 1e-9, "{line}");
    assert_eq!(line["limit"]["variant"], "memory ceiling of the profile");
    let run = place.run_file("out");
    let profile = &run["profiles"][0];
    assert_eq!((profile["path"].as_str(), &profile["machine"]), (Some("memory"), &run["machine"]));
    assert_eq!(profile["ceilings"].as_array().unwrap().len(), 2);
    assert!(place.read("out/report.md").contains("memory, measured 20"));
}

#[test]
fn a_profile_of_another_machine_is_named() {
    let place = profiled();
    let text = place.read("memory/run.json");
    let mut file: Value = serde_json::from_str(&text).unwrap();
    file["machine"]["host"] = "elsewhere".into();
    place.write("memory/run.json", file.to_string());
    let ended =
        place.run("comm all_reduce --bytes 1MiB --iters 5 --warmup 1 --limits memory --output-dir out").exits(0);
    assert!(ended.out.contains("ANOTHER MACHINE: elsewhere"), "{}", ended.out);
    assert!(place.read("out/report.md").contains("ANOTHER MACHINE: elsewhere"));
}

#[test]
fn what_is_no_profile_is_refused() {
    let place = Place::new();
    let ended = place.run("comm all_reduce --bytes 1KiB --limits nowhere").exits(2);
    assert!(ended.err.contains("there is no profile of a machine in `nowhere`"), "{}", ended.err);
    assert!(ended.err.contains("`rankmark hardware` measures a profile"), "{}", ended.err);
    place.run("comm all_reduce --backend sim --bytes 1KiB --iters 3 --output-dir other").exits(0);
    let ended = place.run("comm all_reduce --bytes 1KiB --limits other").exits(2);
    assert!(ended.err.contains("no case of its record measured a ceiling"), "{}", ended.err);
}

#[test]
fn without_a_test_everything_is_measured() {
    let place = Place::new();
    let ended = place.run(&format!("hardware {FEW} --dry-run --json")).exits(0);
    let plan = json_lines(&ended.out);
    let tests: std::collections::BTreeSet<&str> =
        plan.iter().filter_map(|line| line["parameters"]["test"].as_str()).filter(|test| *test != "numa").collect();
    let expected = [
        "add",
        "bandwidth",
        "both_ways",
        "copy",
        "fma",
        "gemm",
        "latency",
        "reduce_broadcast",
        "scale",
        "storage_read",
        "triad",
    ];
    assert_eq!(tests.into_iter().collect::<Vec<_>>(), expected, "{}", ended.out);
}

#[test]
fn torch_measures_the_same_tests_beside_native_ranks() {
    let Some(python) = torch("hardware by PyTorch's ranks") else { return };
    let place = Place::new();
    let few = "--iters 3 --warmup 1 --trials 1 --spacing 0s --ranks 2 --threads 1 --bytes 96KiB";
    place.run(&format!("hardware triad --runtime native,pytorch --python {python} {few} --output-dir loops")).exits(0);
    let loops = place.cases("loops");
    assert_eq!(statuses(&loops), [2, 0, 0, 0]);
    for line in &loops {
        let (rate, time) = (line["gbs"].as_f64().unwrap(), line["time_s"]["median"].as_f64().unwrap());
        // What is rounded to whole elements of three arrays.
        assert!((rate * time * 1e9 / (2.0 * 98304.0) - 1.0).abs() < 1e-3, "{line}: both ranks, each word once");
        assert_eq!((&line["wrong"], &line["ceiling"]["threads"]), (&0.into(), &2.into()));
    }
    assert!(loops[1]["loop"].as_str().unwrap().starts_with("torch "), "{}", loops[1]);
    let few = "--iters 2 --warmup 1 --trials 1 --ranks 4";
    let run = format!("hardware latency,both_ways --runtime pytorch --python {python} {few} --output-dir pairs");
    let out = place.run(&run).exits(0).out;
    assert!(out.contains("latency: time of a message, us"), "{out}");
    for line in place.cases("pairs") {
        let matrix: Vec<Vec<Option<f64>>> = serde_json::from_value(line["pair_s"].clone()).unwrap();
        for (row, times) in matrix.iter().enumerate() {
            let sound = |(column, time): (usize, &Option<f64>)| time.is_some_and(|time| time > 0.0) == (row != column);
            assert!(times.len() == 4 && times.iter().enumerate().all(sound), "{matrix:?}");
        }
        assert_eq!(line["wrong"], 0);
    }
}

#[test]
fn gpus_that_are_not_there_are_skipped_with_the_reason() {
    let Some(python) = torch("GPUs that are not there") else { return };
    if std::fs::read_dir("/proc/driver/nvidia/gpus").is_ok_and(|gpus| gpus.count() > 0) {
        skip::skip("GPUs that are not there", "this machine has some");
        return;
    }
    let place = Place::new();
    let run = format!("hardware triad,host_to_device --device cuda --python {python} --quick --output-dir out");
    let ended = place.run(&run).exits(2);
    let lines = place.cases("out");
    assert_eq!(statuses(&lines), [0, 0, 4, 0]);
    assert!(lines.iter().all(|line| line["reason"].as_str().unwrap().contains("finds no GPU")), "{lines:?}");
    assert!(ended.out.contains("hardware  pytorch/gloo  cuda"), "{}", ended.out);
}

/// What ranks of a library send is bounded by the links that its own messages found.
#[test]
fn the_link_of_a_backend_sets_the_limit_of_its_collectives() {
    if !skip::heavy(pytorch::BEYOND) {
        return;
    }
    let Some(python) = torch("the link of gloo as a limit") else { return };
    let place = Place::new();
    let torch = format!("--runtime pytorch --python {python} --iters 3 --warmup 1 --trials 1 --ranks 2");
    place.run(&format!("hardware bandwidth --bytes 1MiB {torch} --output-dir links")).exits(0);
    let ended = place.run(&format!("comm all_reduce --bytes 1MiB {torch} --limits links --output-dir out")).exits(0);
    let (link, line) = (place.cases("links").remove(0), place.cases("out").remove(0));
    let rate = link["ceiling"]["rate"].as_f64().unwrap();
    assert_eq!((&link["ceiling"]["kind"], &link["ceiling"]["backend"]), (&"link".into(), &"gloo".into()));
    let limit = line["limit"]["time_s"].as_f64().unwrap();
    assert!((limit * rate / f64::from(1 << 20) - 1.0).abs() < 1e-9, "a rank sends 2(n-1)/n of the bytes: {line}");
    assert_eq!(line["limit"]["variant"], "communication ceiling of the profile", "{}", ended.out);
    // Messages of shared memory are part of its traffic, and this profile has no ceiling of memory.
    place.run("comm all_reduce --bytes 1MiB --iters 3 --warmup 1 --limits links --output-dir shm").exits(0);
    let line = place.cases("shm").remove(0);
    assert!(line["limit"].is_null() && line["caveats"].to_string().contains("limit_not_found"), "{line}");
}

/// Runs of these tests of pairs, as a user starts them: what each test of each run calls slow.
fn named(place: &Place, tests: &str, runs: usize, injected: &str) -> Vec<String> {
    let run = |number: usize| {
        let folder = format!("{tests}-{}-{number}", injected.len());
        place.run(&format!("hardware {tests} --ranks 4 --quick --output-dir {folder} {injected}")).exits(0);
        let lines = place.cases(&folder);
        assert_eq!(statuses(&lines), [tests.split(',').count(), 0, 0, 0]);
        lines.iter().map(|line| line["pairs"]["slow"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    (0..runs).flat_map(run).collect()
}

#[test]
fn a_slow_rank_is_named_and_nobody_without_one() {
    let place = Place::new();
    let is_full = skip::heavy("twenty runs that name a slow rank");
    let runs = if is_full { 20 } else { 1 };
    // Messages of 8 bytes take a microsecond: on a quiet machine the delay stands out each time. On a busy one a run may say
    // that it cannot tell, and never clears or names another rank.
    let slow = named(&place, "latency", runs, "--inject delay:rank=1,time=200us");
    assert!(slow.iter().all(|slow| slow == "rank 1" || !is_full && slow == "cannot tell"), "{slow:?}");
    let healthy = named(&place, "latency", runs, "");
    assert!(healthy.iter().all(|slow| ["none", "cannot tell"].contains(&slow.as_str())), "{healthy:?}");
}

/// Pairs that share a core hide what slows a rank: that is said, and no other rank is named.
#[test]
fn long_messages_name_the_slow_rank_or_say_that_they_cannot_tell() {
    let place = Place::new();
    let (tests, runs) =
        if skip::heavy("long messages that name a slow rank") { ("bandwidth,both_ways", 2) } else { ("bandwidth", 1) };
    for (injected, said) in [("--inject delay:rank=1,time=200us", "rank 1"), ("", "none")] {
        let told = named(&place, tests, runs, injected);
        assert!(told.iter().all(|slow| [said, "cannot tell"].contains(&slow.as_str())), "{injected}: {told:?}");
    }
}
