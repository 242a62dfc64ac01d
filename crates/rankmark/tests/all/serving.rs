//! What serving asks: the tails of single calls, tokens that go to their experts, and two traces kernel by kernel.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::place::Place;

#[test]
fn calls_of_a_chain_have_their_tails() {
    let place = Place::new();
    let ended =
        place.run("comm all_reduce --pattern decode --bytes 1KiB,8KiB --ranks 2 --quick --output-dir d").exits(0);
    for title in ["p50", "p99", "p99.9", "decode", "20.0 us of computing before each call"] {
        assert!(ended.out.contains(title), "{title}: {}", ended.out);
    }
    for line in place.cases("d") {
        let time = |part: &str| line["time_s"][part].as_f64().unwrap();
        assert!(time("p50") <= time("p99") && time("p99") <= time("p999") && time("p999") <= time("max"), "{line}");
        assert_eq!((&line["mode"], &line["parameters"]["compute_s"]), (&json!("decode"), &json!(2e-5)), "{line}");
        assert_eq!((line["wrong"].as_u64(), line["calls_per_sample"].as_u64()), (Some(0), Some(1)), "{line}");
    }
    let routed = "primitive ep_all_to_all --pattern decode --compute-s 5us --ranks 2 -m 2 -k 64 -n 64 --experts 8 \
                  --top-k 2 --implementation dispatch_only,combine_only --quick --expect p99_s<=1min --output-dir e";
    assert!(place.run(routed).exits(0).out.contains("p99.9"));
    assert!(place.cases("e").iter().all(|line| line["wrong"] == 0), "one token a rank");
    place.run("comm all_reduce --compute-s 10us").refuses(&["between two calls of a chain", "`mode: decode`"]);
    place.run("hardware memory --mode decode").refuses(&["valid values: streaming, isolated"]);
    // Other modes have no columns of tails.
    let ended = place.run("comm all_reduce --bytes 1KiB --ranks 2 --quick --output-dir s").exits(0);
    assert!(!ended.out.contains("p99"), "{}", ended.out);
}

const ROUTED: &str = "primitive ep_all_to_all --ranks 2 -m 64 -k 64 -n 64 --experts 8 --top-k 2 \
                      --implementation sequential,dispatch_only --trials 1 --quick";

#[test]
fn loads_of_experts_tell_their_imbalance() {
    let place = Place::new();
    let ended = place.run(&format!("{ROUTED} --tokens lognormal,rotating --output-dir r")).exits(0);
    assert!(ended.out.contains("MaxVio") && ended.out.contains("balancedness"), "{}", ended.out);
    let lines = place.cases("r");
    assert_eq!(lines.len(), 4);
    for line in lines {
        let of = |name: &str| line[name].as_f64().unwrap();
        assert_eq!(line["wrong"], 0, "{line}");
        assert!((of("max_vio") - (of("expert_imbalance") - 1.0)).abs() < 1e-12 && of("max_vio") > 0.0, "{line}");
        assert!((of("balancedness") * of("rank_imbalance") - 1.0).abs() < 1e-12, "{line}");
    }
    place.run(&format!("{ROUTED} --tokens lognormal:sigma=5")).refuses(&["sigma = 5 gives all tokens to one expert"]);
}

/// Each of the loads that calls go through is compared: one of them alone is wrong here.
#[test]
fn a_wrong_token_of_one_rotation_is_found() {
    let place = Place::new();
    let wrong = format!("{ROUTED} --tokens rotating --inject wrong:rank=0,at=3,every=8 --output-dir w");
    place.run(&wrong).exits(1);
    assert!(place.cases("w").iter().all(|line| line["wrong"].as_u64().unwrap() > 0));
}

/// A trace of the PyTorch profiler with steps of two kernels.
pub(crate) fn kineto(gemm_us: f64, last: &str) -> String {
    let mut events = String::new();
    let mut add = |category: &str, name: &str, begin: f64, length: f64, thread: u32| {
        let event =
            json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": length});
        write!(events, "{}{event}", if events.is_empty() { "" } else { ",\n" }).unwrap();
    };
    for step in 0..40_u32 {
        let (begin, noise) = (f64::from(step) * 1000.0, f64::from(step * 7 % 5));
        add("user_annotation", &format!("ProfilerStep#{step}"), begin, 1000.0, 10);
        add("kernel", "gemm_128x128", begin + 100.0, gemm_us + noise, 7);
        add("kernel", last, begin + 600.0, 50.0 + noise / 10.0, 7);
    }
    format!("{{\"distributedInfo\": {{\"rank\": 0, \"world_size\": 1}}, \"traceEvents\": [{events}]}}")
}

#[test]
fn two_traces_are_compared_kernel_by_kernel() {
    let place = Place::new();
    place.write("before.json", kineto(200.0, "softmax")).write("after.json", kineto(300.0, "softmax_fused"));
    let ended = place.run("compare before.json after.json").exits(0);
    let row = |name: &str| -> Vec<&str> {
        let row = ended.out.lines().find(|line| line.split_whitespace().next() == Some(name));
        row.unwrap_or_else(|| panic!("no {name}: {}", ended.out)).split_whitespace().collect()
    };
    assert_eq!(row("gemm_128x128")[1..], ["kernel", "202", "us", "302", "us", "+100", "us"], "{}", ended.out);
    assert_eq!((row("softmax_fused").last(), row("softmax").last()), (Some(&"new"), Some(&"gone")), "{}", ended.out);
    let found: Value = serde_json::from_str(&place.run("compare before.json after.json --json").exits(0).out).unwrap();
    assert_eq!(found["kind"], "profile_differences");
    let same = place.run("compare before.json before.json").exits(0);
    assert!(same.out.contains("2 kernels take as long as before"), "{}", same.out);
    place.run("compare before.json after.json before.json").refuses(&["3 traces are named, and two are compared"]);
    place.run("compare before.json nowhere").exits(2);
    // Options of records would do nothing here: a gate would always hold, and a file would not be written.
    for option in ["--fail-on worse", "--threshold 5%", "--junit x.xml", "--history results", "--all", "--quiet"] {
        let name = option.split(' ').next().unwrap();
        let says = format!("`{name}` is for records, and before.json is a trace");
        place.run(&format!("compare before.json after.json {option}")).refuses(&[says.as_str()]);
    }
}
