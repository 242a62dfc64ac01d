//! What `rankmark profile --import` says of traces of real jobs with known answers. They are in the folder `shared/cases` beside
//! the checkout, where there is one.

use std::path::PathBuf;

use serde_json::Value;

use crate::place::Place;
use crate::skip;

/// A trace of this folder; None where it is missing.
fn case(name: &str) -> Option<PathBuf> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../../shared/cases/traces", name].iter().collect();
    if !path.exists() {
        skip::skip("verdicts on traces with known answers", "the folder shared/cases beside the checkout is missing");
        return None;
    }
    Some(path)
}

/// The analysis.
fn explained(path: &PathBuf) -> Value {
    let place = Place::new();
    let ran = place.command("profile --json --output-dir out --import").argument(path).run().exits(0);
    ran.out.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap()
}

/// What the terminal shows, in one line.
fn shown(paths: &[PathBuf]) -> String {
    let place = Place::new();
    let command = place.command("profile --output-dir out --import");
    let text = paths.iter().fold(command, |command, path| command.argument(path)).run().exits(0).out;
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_slow_rank_is_named_wherever_the_others_wait_for_it() {
    // Rank, and the share of all the time that it loses: less than the share that it sleeps of a usual step, where some steps
    // are long.
    for (name, rank, [low, high]) in [
        ("w_gather1", 1, [0.33, 0.47]),
        ("w_bn", 0, [0.25, 0.50]),
        ("w_count", 1, [0.26, 0.38]),
        ("w_barrier", 1, [0.22, 0.38]),
    ] {
        let Some(path) = case(name) else { return };
        let json = explained(&path);
        let slow = &json["straggler"];
        assert_eq!(slow["rank"], rank, "{name}: {slow}");
        let share = slow["share"].as_f64().unwrap();
        assert!((low..high).contains(&share), "{name}: {share}");
        assert_eq!(json["analysis"]["stragglers"].as_array().unwrap().len(), 1, "{name}");
    }
}

#[test]
fn an_idle_gpu_is_named_and_nothing_is_ruled_out() {
    let Some(path) = case("idle_one_step.json.gz") else { return };
    let text = shown(&[path]);
    assert!(text.contains("The device has no kernel and no copy for 93"), "{text}");
    assert!(!text.contains("nothing else costs"), "{text}");
    // Bars show the device.
    assert!(text.contains("k kernels") && text.contains(". idle"), "{text}");
}

#[test]
fn kernels_that_send_and_receive_are_the_collectives_that_launched_them() {
    let Some(path) = case("hta_all_to_all.json.gz") else { return };
    let text = shown(&[path]);
    assert!(text.contains("all_to_all") && !text.to_lowercase().contains("pipeline"), "{text}");
    assert!(text.contains("Communication that nothing overlaps takes"), "{text}");
    assert!(text.contains("one rank of 16 cannot separate the two"), "{text}");
}

#[test]
fn dumps_without_steps_rule_nothing_out() {
    let Some(folder) = case("w_barrier") else { return };
    let text = shown(&[folder.join("flight-rank0.pickle"), folder.join("flight-rank1.pickle")]);
    assert!(text.contains("There is no step that all ranks have"), "{text}");
    assert!(!text.contains("nothing else costs"), "{text}");
}

#[test]
fn a_real_job_becomes_a_plan_of_its_collectives() {
    // Each collective of a step: case, calls, steps.
    let jobs: [(&str, &[(&str, u32)]); 5] = [
        (
            "w_gather1",
            &[("op: all_reduce, bytes: 39464, dtype: f32", 80), ("op: all_gather, bytes: 8, dtype: f32", 80)],
        ),
        (
            "w_bn",
            &[
                ("op: broadcast, bytes: 1024, dtype: f32", 50),
                ("op: broadcast, bytes: 8, dtype: i64", 50),
                ("op: all_reduce, bytes: 39464, dtype: f32", 50),
            ],
        ),
        ("w_count", &[("op: all_reduce, bytes: 39464, dtype: f32", 50), ("op: all_reduce, bytes: 4, dtype: f32", 50)]),
        ("w_barrier", &[("op: all_reduce, bytes: 39464, dtype: f32", 50), ("op: barrier", 50)]),
        ("inspector_v", &[("op: all_reduce, bytes: 67108864, dtype: f32", 200)]),
    ];
    for (name, wanted) in jobs {
        let Some(path) = case(name) else { return };
        let place = Place::new();
        let plan = place.command("import --as plan").argument(&path).run().exits(0).out;
        let cases: Vec<&str> = plan.lines().filter(|line| line.contains("{benchmark: collective")).collect();
        assert_eq!(cases.len(), wanted.len(), "{name}: {plan}");
        for (fields, calls) in wanted {
            let is_it = |line: &&&str| line.contains(fields) && line.contains(&format!("trace_calls: {calls}"));
            assert_eq!(cases.iter().filter(is_it).count(), 1, "{name}: {fields}: {plan}");
        }
    }
    // The transfer of the planted wait is far shorter than the call: 500 us of 1500.
    let place = Place::new();
    let plan = place.command("import --as plan --ranks 2").argument(case("inspector").unwrap()).run().exits(0).out;
    assert!(plan.contains("ranks: 2, trace_calls: 200, trace_s: 499.500us, trace_waiting_s: 1486.000us"), "{plan}");
    place.write("plan.yaml", &plan);
    let run = "run plan.yaml --set bytes=64KiB --quick --max-seconds 0.02s --output-dir out";
    let shown = place.run(run).exits(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("Communication of the whole trace of the job costs "), "{shown}");
}

#[test]
fn real_traces_that_say_too_little_say_what_to_set() {
    for (name, said) in [
        ("repeat2", "record_shapes=True"),
        ("hta_all_to_all.json.gz", "`--ranks N`"),
        ("idle_one_step.json.gz", "hold no call of a collective"),
    ] {
        let Some(path) = case(name) else { return };
        let refused = Place::new().command("import --as plan").argument(&path).run().exits(2).err;
        assert!(refused.contains(said), "{name}: {refused}");
    }
    let Some(path) = case("fr_p2p") else { return };
    let made = Place::new().command("import --as plan").argument(&path).run().exits(0);
    assert!(made.out.contains("op: all_reduce, bytes: 32, dtype: f32, ranks: 4, trace_calls: 1}"), "{}", made.out);
    assert!(made.err.contains("22 calls are left out: transfers between two ranks"), "{}", made.err);
}
