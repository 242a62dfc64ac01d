//! States of the machine, as a user meets them: `--state`, and what `history` and `compare` say. What a machine is in is never
//! asked of this one: records are written again with states of their own.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, edited, reason};

const NEAR: &str = "near cores";
const FAR: &str = "far cores";

/// Canaries as no machine shows them: a round trip of a millionth of a nanosecond, or of thousand times that.
fn state(name: &str) -> Value {
    let trip = if name == NEAR { 1e-6 } else { 1e-3 };
    json!({ "name": name, "share": 0.5, "trials": 9,
        "canaries": [{ "canary": "round_trip_ns", "ranks": 2, "median": trip }] })
}

/// Writes a record again as another run that saw these states, each with its time; the first is the one that it shows.
fn copy(place: &Place, name: &str, day: u32, seen: &[(&str, f64)]) {
    fs::create_dir_all(place.path(name)).unwrap();
    let mut file = place.run_file("template");
    file["started"] = json!(format!("2026-11-{day:02}T10:15:00Z"));
    file["simulated"] = json!(false);
    file["states"] = seen.iter().map(|(name, _)| state(name)).collect();
    if let [(name, _)] = seen {
        // A run that saw one state does not name it.
        file["states"] = json!([state(name)]);
        file["states"][0].as_object_mut().unwrap().remove("name");
    }
    let members = file.as_object_mut().unwrap();
    ["crc32", "id", "end"].iter().for_each(|name| drop(members.remove(*name)));
    place.write(&format!("{name}/run.json"), file.to_string());
    let mut line = place.cases("template").remove(0);
    let object = line.as_object_mut().unwrap();
    ["crc32", "run", "line"].iter().for_each(|name| drop(object.remove(*name)));
    let trials = |time: f64| -> Vec<f64> { (0..13).map(|i| time * (1.0 + f64::from(i * 5 % 13) / 1e3)).collect() };
    let ends = |time: f64| [time * 1.001, time * 1.011];
    object["time_s"] = json!({ "median": seen[0].1 * 1.006, "ci95": ends(seen[0].1) });
    object["trial_median_s"] = json!(trials(seen[0].1));
    object["trials"] = json!(13);
    object["simulated"] = json!(false);
    object.remove("trial_round");
    if seen.len() > 1 {
        object.insert("state".to_owned(), json!(seen[0].0));
        let states = seen.iter().map(|(name, time)| {
            json!({ "name": name, "share": 0.5, "trials": 13, "median_s": time * 1.006, "ci95_s": ends(*time),
                "trial_median_s": trials(*time) })
        });
        object.insert("states".to_owned(), states.collect());
    }
    place.write(&format!("{name}/cases.jsonl"), format!("{line}\n"));
}

fn place() -> Place {
    let place = Place::new();
    let sim = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB --trials 1 --warmup 1 --iters 5 --quiet";
    place.run(&format!("{sim} --output-dir template")).exits(0);
    place
}

#[test]
fn a_state_is_asked_for_by_name_and_within_a_budget() {
    let place = Place::new();
    let comm = "comm all_reduce --ranks 2 --bytes 1KiB";
    let without = place.run(&format!("{comm} --state near-cores")).exits(2);
    assert!(without.err.contains("--budget <TIME>"), "{}", without.err);
    let wrong = place.run(&format!("{comm} --state nearest --budget 5s")).exits(2);
    assert!(wrong.err.contains("there is no machine state `nearest`"), "{}", wrong.err);
    assert!(wrong.err.contains("valid values: near cores, middle cores, far cores"), "{}", wrong.err);
    let simulated = place.run(&format!("{comm} --backend sim --state near-cores --budget 5s")).exits(2);
    assert!(simulated.err.contains("needs cases that are measured"), "{}", simulated.err);
    // Nothing was begun.
    assert_eq!(place.names(), Vec::<String>::new());
    place.run(&format!("{comm} --backend sim --quiet --output-dir sim")).exits(0);
    let before = place.read("sim/run.json");
    let resumed = place.run("run --resume sim --state near-cores --budget 5s").exits(2);
    assert!(resumed.err.contains("needs cases that are measured"), "{}", resumed.err);
    assert_eq!(place.read("sim/run.json"), before);
}

/// Earlier runs knew two states, and this machine is in neither: the run waits, and says at its end what it did not see.
#[test]
fn a_state_that_never_comes_ends_with_the_budget() {
    let place = Place::new();
    let comm = "comm all_reduce --ranks 2 --bytes 1KiB --max-seconds 0.2s";
    place.run(&format!("{comm} --quiet --output-dir results/20260101T000000Z-first")).exits(0);
    let name = "results/20260101T000000Z-first/run.json";
    let mut file: Value = serde_json::from_str(&edited(&place.read(name))).unwrap();
    file["states"] = json!([state(NEAR), state(FAR)]);
    place.write(name, file.to_string());
    let begun = Instant::now();
    let record = "results/20260102T000000Z-second";
    let ended = place.run(&format!("{comm} --state Near-Cores --budget 3s --output-dir {record}")).exits(1);
    assert!(begun.elapsed() >= Duration::from_secs(3));
    let said = ended.out + &ended.err;
    assert!(said.contains("waiting for the machine to be in the state `near cores`"), "{said}");
    let lines = place.cases(record);
    assert_eq!(lines[0]["status"], "not_run");
    assert!(reason(&lines[0]).starts_with("no trial was in the state that --state asks for"), "{}", reason(&lines[0]));
    assert!(lines[0].get("time_s").is_none());
}

#[test]
fn compare_says_in_which_state() {
    let place = place();
    copy(&place, "a", 1, &[(NEAR, 1e-6), (FAR, 5e-6)]);
    copy(&place, "b", 2, &[(FAR, 5.5e-6), (NEAR, 2e-6)]);
    copy(&place, "c", 3, &[(FAR, 5.5e-6)]);
    let told = place.run("compare a b").exits(1);
    assert!(told.out.contains("1 case is compared in one state of the machine: near cores."), "{}", told.out);
    let told = place.run("compare a c");
    assert!(told.out.contains("far cores, the only one that the new record saw."), "{}", told.out);
    // One that saw near cores only has nothing like c.
    copy(&place, "d", 4, &[(NEAR, 1e-6)]);
    let told = place.run("compare d c").exits(3);
    assert!(!told.out.contains("compared in one state"), "{}", told.out);
}

#[test]
fn history_has_a_series_for_each_state() {
    let place = place();
    for day in 1..=12 {
        let noise = 1.0 + f64::from(day * 5 % 7) / 1e3;
        let (near, far) = ((NEAR, 1e-6 * noise), (FAR, 5e-6 * noise));
        let seen = [vec![near], vec![far], vec![far, near]][day as usize % 3].clone();
        copy(&place, &format!("results/run-{day:02}"), day, &seen);
    }
    let text = place.run("history").exits(0).out;
    assert!(
        text.contains("The machine has several states (far cores, near cores): a case has one series per state."),
        "{text}"
    );
    assert!(text.contains("all_reduce 1 KiB, 2 ranks, sim (far cores)"), "{text}");
    let told: Value = serde_json::from_str(&place.run("history --json").exits(0).out).unwrap();
    let cases = told["machines"][0]["cases"].as_array().unwrap();
    let series: Vec<(&Value, usize, usize)> = cases
        .iter()
        .map(|case| {
            (&case["state"], case["points"].as_array().unwrap().len(), case["changes"].as_array().unwrap().len())
        })
        .collect();
    assert_eq!(series, [(&json!(FAR), 8, 0), (&json!(NEAR), 8, 0)]);
}
