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
    // Rank, and the share that it sleeps of a step.
    for (name, rank, [low, high]) in [
        ("w_gather1", 1, [0.33, 0.47]),
        ("w_bn", 0, [0.30, 0.50]),
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
    assert!(text.contains("The device is idle for 93"), "{text}");
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
