//! `rankmark startup` from outside: each stage in processes, cold and warm, and a wrong first call.

use serde_json::Value;

use crate::place::{Place, json_lines, reason, statuses};
use crate::pytorch::torch;

const SHORT: &str = "--ranks 2 --trials 1 --max-seconds 0.02s --output-dir out --json";

#[test]
fn each_stage_is_measured_cold_and_warm_in_processes() {
    let place = Place::new();
    let ended = place.run(&format!("startup --bytes 4KiB --communicators 2 {SHORT}")).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [7, 0, 0, 0], "{}", ended.out);
    let of = |stage: &str, start: &str| -> &Value {
        let is_it = |line: &&Value| line["parameters"]["stage"] == stage && line["parameters"]["start"] == start;
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{stage} {start}"))
    };
    for line in &lines {
        assert_eq!(line["wrong"], 0, "{line}");
        assert!(line["time_s"]["median"].as_f64().unwrap() > 0.0 && line["wait_s"].as_f64().unwrap() >= 0.0, "{line}");
        assert_eq!(line["last"]["of"], 1, "{line}");
    }
    let joined = of("join", "cold");
    let (time, open) = (joined["time_s"]["median"].as_f64().unwrap(), joined["open_s"].as_f64().unwrap());
    assert!(0.0 < open && open <= time, "{joined}");
    for start in ["cold", "warm"] {
        let first = of("first_call", start);
        assert!(first["first_over_later"]["value"].as_f64().unwrap() > 0.0, "{first}");
        assert_eq!(first["later_s"], of("later_call", "warm")["time_s"]["median"], "{first}");
    }
    assert!(of("communicator", "cold")["cold_over_warm"]["value"].as_f64().unwrap() > 0.0);
    assert_eq!(of("communicator", "warm")["parameters"]["communicators"], 2);
    let report = place.read("out/report.md");
    assert!(report.contains("join: 2 ranks over shm can communicate"), "{report}");
    assert!(report.contains("communicator: one more communicator of 2 ranks over shm takes"), "{report}");
}

#[test]
fn each_stage_of_pytorch_is_measured_cold_and_warm() {
    let Some(python) = torch("start-up of pytorch/gloo") else { return };
    let place = Place::new();
    let ended =
        place.run(&format!("startup --backend gloo --python {python} --bytes 4KiB --communicators 2 {SHORT}")).exits(0);
    let lines = json_lines(&ended.out);
    assert_eq!(statuses(&lines), [7, 0, 0, 0], "{}", ended.out);
    for line in &lines {
        assert_eq!((&line["wrong"], &line["runtime"]), (&0.into(), &"pytorch".into()), "{line}");
        assert!(line["time_s"]["median"].as_f64().unwrap() > 0.0 && line["wait_s"].as_f64().unwrap() >= 0.0, "{line}");
        let is_cold = line["parameters"]["start"] == "cold";
        assert!(!is_cold || line["worlds"] == "fresh", "{line}");
    }
    let of = |stage: &str, start: &str| -> &Value {
        let is_it = |line: &&Value| line["parameters"]["stage"] == stage && line["parameters"]["start"] == start;
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{stage} {start}"))
    };
    let joined = of("join", "cold");
    let (time, open) = (joined["time_s"]["median"].as_f64().unwrap(), joined["open_s"].as_f64().unwrap());
    assert!(0.0 < open && open <= time, "{joined}");
    assert!(of("first_call", "warm")["first_over_later"]["value"].as_f64().unwrap() > 0.0);
    assert!(place.read("out/report.md").contains("join: 2 ranks over gloo can communicate"));
}

#[test]
fn a_first_call_of_pytorch_that_is_wrong_fails() {
    let Some(python) = torch("a wrong first call of pytorch/gloo") else { return };
    let place = Place::new();
    let wrong = format!("--backend gloo --python {python} --bytes 4KiB --inject wrong:rank=1,element=5");
    for start in ["cold", "warm"] {
        let command =
            format!("startup first_call --start {start} {wrong} {}", SHORT.replace("dir out", &format!("dir {start}")));
        let lines = json_lines(&place.run(&command).exits(1).out);
        let said = reason(&lines[0]);
        assert!(said.contains("rank 1") && said.contains("element 5"), "{said}");
    }
}

#[test]
fn a_first_call_that_is_wrong_fails() {
    let place = Place::new();
    let wrong = "--start cold --bytes 4KiB --inject wrong:rank=1,element=5";
    let ended = place.run(&format!("startup first_call {wrong} {SHORT}")).exits(1);
    let lines = json_lines(&ended.out);
    let said = reason(&lines[0]);
    assert!(said.contains("rank 1") && said.contains("element 5"), "{said}");
}

#[test]
fn what_has_no_start_up_is_refused() {
    let place = Place::new();
    for (options, words) in [
        ("--backend sim", "not how ranks join"),
        ("join --bytes 1KiB", "join does not use `bytes`"),
        ("first_call --start cold --iters 20", "one sample in each trial"),
    ] {
        place.run(&format!("startup {options}")).refuses(&[words]);
    }
}
