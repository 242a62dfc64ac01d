//! `--json`: one case line a line, with the keys of the design in their order, and nothing else on standard output.

use serde_json::{Value, json};

use crate::place::{Place, json_lines, without_place};

/// Every key that a line may have, in order; true: every ok line of an all_reduce has it.
const KEYS: [(&str, bool); 38] = [
    ("schema", true),
    ("id", true),
    ("benchmark", true),
    ("parameters", true),
    ("status", true),
    ("reason", false),
    ("ranks", true),
    ("runtime", true),
    ("backend", true),
    ("device", true),
    ("dtype", true),
    ("mode", true),
    ("bytes", true),
    ("bytes_requested", true),
    ("samples", true),
    ("calls_per_sample", true),
    ("trials", true),
    ("span_s", true),
    ("worlds", true),
    ("time_s", true),
    ("per_rank_median_s", true),
    ("trial_median_s", true),
    ("trial_round", true),
    // Below 64 KiB over all ranks there is no limit to speak of.
    ("limit", false),
    ("count", true),
    ("algbw_gbs", true),
    ("busbw_gbs", true),
    ("limit_share", false),
    ("limit_busbw_gbs", false),
    ("sensors", false),
    ("slow_rank", false),
    ("slow_rank_wait_s", false),
    ("wrong", true),
    ("wrong_elements", false),
    ("gates_missed", false),
    ("caveats", true),
    ("simulated", true),
    ("crc32", true),
];

const PARAMETERS: [&str; 11] =
    ["op", "ranks", "backend", "device", "dtype", "reduce", "bytes", "in_place", "buffers", "touch", "mode"];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The line has the keys that it must, in order, and none that is not known.
fn check_keys(line: &Value) {
    let found = keys(line);
    let optional = |key: &&str| KEYS.contains(&(*key, false));
    let needed: Vec<&str> = KEYS.iter().filter(|(_, needed)| *needed).map(|(key, _)| *key).collect();
    assert_eq!(found.iter().copied().filter(|key| !optional(key)).collect::<Vec<_>>(), needed, "{line}");
    let places: Vec<usize> = found.iter().map(|key| KEYS.iter().position(|(known, _)| known == key).unwrap()).collect();
    assert!(places.is_sorted(), "{found:?}");
    assert_eq!(keys(&line["parameters"])[..11], PARAMETERS);
    assert_eq!(keys(&line["parameters"])[11..], ["seed"]);
    // From 1,000 samples on there is one more, and how many there are depends on the machine.
    let of_time: Vec<&str> = keys(&line["time_s"]).into_iter().filter(|key| *key != "p999").collect();
    assert_eq!(of_time, ["median", "mean", "p05", "p50", "p95", "p99", "min", "max"]);
}

fn check_numbers(line: &Value) {
    let number = |key: &str| line["time_s"][key].as_f64().unwrap();
    let order = ["min", "p05", "p50", "p95", "p99", "max"].map(number);
    assert!(order.is_sorted() && order[0] > 0.0, "{line}");
    let (ranks, bytes) = (line["ranks"].as_f64().unwrap(), line["bytes"].as_f64().unwrap());
    let algbw = bytes / number("median") / 1e9;
    let factor = 2.0 * (ranks - 1.0) / ranks;
    let close = |key: &str, value: f64| (line[key].as_f64().unwrap() / value - 1.0).abs() < 1e-9;
    assert!(close("algbw_gbs", algbw) && close("busbw_gbs", algbw * factor), "{line}");
    assert_eq!(line["per_rank_median_s"].as_array().unwrap().len(), ranks as usize);
    assert_eq!((line["status"].as_str(), line["wrong"].as_u64()), (Some("ok"), Some(0)));
    assert!(line["id"].as_str().is_some_and(|id| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
}

#[test]
fn case_lines_are_as_designed() {
    let place = Place::new();
    let arguments = "comm all_reduce --ranks 2,4,6 --bytes 1KiB,64KiB,1MiB --json --max-seconds 0.1s --output-dir out";
    let ended = place.run(arguments).exits(0);
    let lines = json_lines(&ended.out);
    let combinations: Vec<(u64, u64)> =
        lines.iter().map(|line| (line["ranks"].as_u64().unwrap(), line["bytes"].as_u64().unwrap())).collect();
    let wanted = [2, 4, 6].into_iter().flat_map(|ranks| [1 << 10, 64 << 10, 1 << 20].map(|bytes| (ranks, bytes)));
    assert_eq!(combinations, wanted.collect::<Vec<_>>());
    for line in &lines {
        check_keys(line);
        check_numbers(line);
    }
    // A case of one trial has no limit, and says so.
    let has_limit = |line: &&Value| {
        let said = line["caveats"].as_array().is_some_and(|all| all.contains(&json!("limit_not_found")));
        line["limit"]["share"].is_f64() || said
    };
    assert!(lines.iter().filter(|line| line["bytes"] == 1 << 20).all(|line| has_limit(&line)), "{lines:#?}");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = json_lines(text).into_iter().map(|line| without_place(line).to_string()).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ended.out), sorted(&place.read("out/cases.jsonl")), "the same lines as in the record");
    // The text is where it does not disturb.
    assert!(ended.err.contains("all_reduce") && ended.err.contains("report   out/report.html"), "{}", ended.err);
}

#[test]
fn the_identity_of_a_case_depends_on_what_it_is_only() {
    let place = Place::new();
    let ids = |arguments: &str| -> Vec<Value> {
        let ended = place.run(&format!("comm all_reduce --bytes 1KiB --json {arguments}")).exits(0);
        json_lines(&ended.out).iter().map(|line| line["id"].clone()).collect()
    };
    let short = ids("--max-seconds 0.02s");
    assert_eq!(short, ids("--iters 10 --limits false"), "sampling is not part of it");
    assert_ne!(short, ids("--max-seconds 0.02s --seed 2"));
    let plan =
        r#"{"experiment": "a", "cases": [{"benchmark": "collective", "op": "all-reduce", "bytes": 1024, "iters": 6}]}"#;
    place.write("plan.json", plan);
    let ended = place.run("run plan.json --json").exits(0);
    assert_eq!(json_lines(&ended.out)[0]["id"], short[0], "a plan and flags that say the same are the same");
}

#[test]
fn cases_in_random_order_end_in_tables() {
    let place = Place::new();
    let arguments = "comm all_reduce,all_gather --backend shm --buffers registered,private --bytes 1KiB,2KiB --trials 3 \
                     --spacing 0s --iters 6 --warmup 1 --limits false --output-dir r";
    let said = place.run(arguments).exits(0).out;
    let lines: Vec<&str> = said.lines().collect();
    let headings = lines.iter().filter(|line| line.starts_with("collective ")).count();
    let rows: Vec<&&str> =
        lines.iter().filter(|line| line.starts_with("all_") && !line.contains(" peaks at ")).collect();
    assert_eq!((headings, rows.len()), (1, 8), "{said}");
    assert!(rows.iter().all(|row| row.contains("KiB") && !row.contains("short span")), "{said}");
    assert!(said.contains("All 8 rows: ") && said.matches("short span").count() == 1, "said once: {said}");
}

#[test]
fn six_trials_have_an_interval_and_say_of_what() {
    let place = Place::new();
    let arguments = "comm all_reduce --bytes 1KiB --trials 6 --spacing 0s --max-seconds 0.1s --json --output-dir r";
    let ended = place.run(arguments).exits(0);
    let line = &json_lines(&ended.out)[0];
    let ends = [0, 1].map(|end| line["time_s"]["ci95"][end].as_f64().unwrap());
    let median = line["time_s"]["median"].as_f64().unwrap();
    assert!(ends[0] <= median && median <= ends[1], "{line}");
    assert_eq!((line["trials"].as_u64(), line["trial_median_s"].as_array().map(Vec::len)), (Some(6), Some(6)));
    // Of a quiet machine, what an equal run would show is told; else what the trials of this run show.
    let either = ["in which the median of an equal run lies", "that a case's trials span"];
    assert!(either.iter().any(|claim| ended.err.contains(claim)), "{}", ended.err);
    let file: Value = serde_json::from_str(&place.read("r/run.json")).unwrap();
    assert_eq!((file["rounds"]["made"].as_u64(), file["rounds"]["seed"].is_u64()), (Some(6), true));
}

#[test]
fn each_run_has_a_seed_of_its_own() {
    let place = Place::new();
    let seed = |name: &str| {
        let arguments = "comm all_reduce --bytes 1KiB --trials 1 --iters 6 --limits false --output-dir";
        place.run(&format!("{arguments} {name}")).exits(0);
        let file: Value = serde_json::from_str(&place.read(&format!("{name}/run.json"))).unwrap();
        file["rounds"]["seed"].as_u64().unwrap()
    };
    assert_ne!(seed("one"), seed("other"));
}

#[test]
fn trials_are_spread_over_the_run() {
    let place = Place::new();
    let started = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    place.run("comm all_reduce --bytes 1KiB --trials 3 --max-seconds 0.1s --output-dir r").exits(0);
    let begun: Vec<f64> =
        json_lines(&place.read("r/samples.jsonl")).iter().map(|s| s["begun_s"].as_f64().unwrap()).collect();
    // From the start of the run: a busy machine may begin a trial late, and the next one not.
    let after: Vec<f64> = begun.iter().map(|begun| begun - started).collect();
    assert!(after.iter().enumerate().all(|(trial, after)| *after >= 1.5 * trial as f64), "{after:?}");
}

#[test]
fn a_quick_look_says_what_it_is() {
    let place = Place::new();
    let ended = place.run("comm all_reduce --bytes 1KiB --max-seconds 0.1s --quick --output-dir r").exits(0);
    let line = &place.cases("r")[0];
    assert_eq!((line["trials"].as_u64(), line["time_s"].get("ci95")), (Some(3), None));
    assert!(ended.out.contains("a quick look without intervals") && ended.out.contains("quick look"), "{}", ended.out);
}

#[test]
fn samples_that_were_asked_for_give_way_to_the_budget() {
    let place = Place::new();
    let sizes = "comm all_reduce --ranks 2 --bytes 32MiB,64MiB,128MiB --iters 10000 --warmup 100";
    let ended = place.run(&format!("{sizes} --budget 15s --output-dir r"));
    assert!(ended.took.as_secs() < 60, "{ended:?}");
    for case in place.cases("r") {
        let samples = case["samples"].as_u64().unwrap_or_else(|| panic!("no trial: {case}"));
        assert!(case["status"] == "ok" && (1..10_000).contains(&samples), "{case}");
    }
    let note = "--budget: 3 cases have fewer samples per trial than --iters asked for";
    assert!(ended.err.contains(note) || ended.out.contains(note), "{ended:?}");
}

#[test]
fn a_budget_ends_the_run_with_what_it_has() {
    let place = Place::new();
    let arguments = "comm all_reduce --bytes 1KiB,2KiB --trials 20 --max-seconds 0.2s --budget 3s --output-dir r";
    place.run(arguments).exits(0);
    for line in place.cases("r") {
        assert!(line["trials"].as_u64().is_some_and(|trials| (1..=3).contains(&trials)), "{line}");
        assert!(line["caveats"].as_array().unwrap().iter().any(|caveat| caveat == "short_span"), "{line}");
    }
}

#[test]
fn a_size_of_what_has_none_is_refused() {
    let place = Place::new();
    place.run("comm barrier --bytes 1KiB --dry-run").refuses(&["`barrier` has no bytes", "leave `--bytes` out"]);
    place.run("comm barrier --dry-run").exits(0);
    place.run("comm barrier,broadcast --bytes 1KiB --dry-run").exits(0);
    place.run("primitive cp_ring --m 64 --n 4 --k 16 --ranks 1 --dry-run").exits(0);
}
