//! `rankmark interference` from outside: a pair and its reverse in processes, and a wrong result of what runs beside.

use serde_json::Value;

use crate::place::{Place, json_lines, reason, statuses};

const SHORT: &str = "--ranks 2 --product-size 64 --collective-bytes 16KiB --trials 1 --iters 2 --warmup 1 --spacing 0s \
                     --output-dir out --json";

#[test]
fn a_pair_and_its_reverse_are_compared_with_each_alone() {
    let place = Place::new();
    let ended = place.run(&format!("interference product,collective --beside product,collective {SHORT}")).exits(0);
    let lines = json_lines(&ended.out);
    // Each alone, and with the other; no activity is measured with itself.
    assert_eq!(statuses(&lines), [4, 0, 2, 0], "{}", ended.out);
    let name = |line: &Value, field: &str| line["parameters"][field].as_str().unwrap().to_owned();
    for line in lines.iter().filter(|line| line["status"] == "ok") {
        assert_eq!(line["wrong"], 0, "{line}");
        let is_alone = name(line, "beside") == "none";
        assert_eq!(line["slowdown"]["value"].as_f64().is_some_and(|value| value > 0.0), !is_alone, "{line}");
        assert_eq!(line["beside_s"].as_f64().is_some_and(|time| time > 0.0), !is_alone, "{line}");
    }
    let pair = lines.iter().find(|line| name(line, "activity") == "product" && name(line, "beside") == "collective");
    let (pair, alone) = (pair.unwrap(), lines.iter().find(|line| name(line, "beside") == "none").unwrap());
    assert_eq!((name(alone, "activity"), &pair["alone_s"]), ("product".to_owned(), &alone["time_s"]["median"]));
    let report = place.read("out/report.md");
    assert!(report.contains("time with another activity / time alone"), "{report}");
    assert!(place.path("out/charts/interference-slowdown-2-ranks-over-shm.svg").exists());
}

#[test]
fn a_wrong_collective_fails_its_case() {
    let place = Place::new();
    let wrong = "collective --beside product --inject wrong:rank=1,element=5";
    let lines = json_lines(&place.run(&format!("interference {wrong} {SHORT}")).exits(1).out);
    for line in &lines {
        let said = reason(line);
        assert!(said.contains("rank 1") && said.contains("element 5"), "{line}");
    }
}

#[test]
fn what_knows_no_interference_is_refused() {
    let place = Place::new();
    for (options, words) in [
        ("--backend sim", "does not model interference"),
        ("--runtime pytorch", "`interference` measures native ranks"),
        ("collective --collective-bytes 7", "do not divide into whole elements"),
    ] {
        place.run(&format!("interference {options}")).refuses(&[words]);
    }
}
