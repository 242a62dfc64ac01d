//! Gates and wrong results: the exit code, and what is said.

use crate::place::{Place, json_lines, reason};

const SHORT: &str = "comm all_reduce --bytes 1KiB --max-seconds 0.02s --output-dir out";

#[test]
fn a_gate_that_holds_says_nothing() {
    let place = Place::new();
    let ended = place.run(&format!("{SHORT} --expect busbw_gbs>=0.000001 --expect p99_s<60")).exits(0);
    assert!(!ended.out.contains("gate") && !ended.out.contains("GATE"), "{}", ended.out);
    assert!(place.cases("out")[0].get("gates_missed").is_none());
}

#[test]
fn bounds_of_times_have_units() {
    let place = Place::new();
    place.run(&format!("{SHORT} --expect p99_s<=60s --expect time_s<=1min")).exits(0);
    let missed = place.run(&format!("{SHORT}1 --expect p99_s<=1ns --expect time_s<=2e-9")).exits(1);
    for gate in ["p99_s<=1ns: it is ", "time_s<=2e-9: it is "] {
        assert!(missed.out.contains(gate), "{gate}: {}", missed.out);
    }
    assert!(place.run(&format!("{SHORT}2 --expect time_s<=fast")).exits(2).err.contains("`fast` is not a time"));
    assert!(place.run(&format!("{SHORT}2 --expect busbw_gbs>=1us")).exits(2).err.contains("`1us` is not a number"));
}

#[test]
fn a_gate_that_is_missed_is_named() {
    let place = Place::new();
    let ended = place.run(&format!("{SHORT} --expect busbw_gbs>=1e9 --expect busbw_gbs>0 --expect time_s<0")).exits(1);
    assert!(ended.out.contains("busbw_gbs>=1e9: it is "), "{}", ended.out);
    let line = &place.cases("out")[0];
    let missed: Vec<&str> = line["gates_missed"].as_array().unwrap().iter().filter_map(|gate| gate.as_str()).collect();
    assert_eq!(missed.len(), 2, "{missed:?}");
    assert!(missed[0].starts_with("busbw_gbs>=1e9") && missed[1].starts_with("time_s<0"), "{missed:?}");
    assert_eq!(line["status"], "ok", "it was measured well");
    assert!(
        place.read("out/report.md").contains("busbw_gbs&gt;=1e9")
            || place.read("out/report.md").contains("busbw_gbs>=1e9")
    );
}

#[test]
fn wrong_results_fail_and_have_no_bandwidth() {
    for (rank, element) in [(1, 5), (0, 255)] {
        let place = Place::new();
        let ended = place.run(&format!("{SHORT} --json --inject wrong:rank={rank},element={element}")).exits(1);
        let line = &json_lines(&ended.out)[0];
        assert_eq!(line["status"], "failed");
        assert!(line["wrong"].as_u64().unwrap() > 0, "{line}");
        for name in ["algbw_gbs", "busbw_gbs", "limit_share"] {
            assert!(line.get(name).is_none(), "{name} of wrong data: {line}");
        }
        let found = line["wrong_elements"].as_array().unwrap();
        assert!(found.iter().any(|wrong| wrong["rank"] == rank && wrong["index"] == element), "{line}");
        assert!(found.iter().all(|wrong| wrong["index"] == element && wrong["expected"] != wrong["got"]), "{line}");
        let said = reason(line);
        assert!(said.contains("wrong element") && said.contains(&format!("element {element}")), "{said}");
        assert!(said.contains(&format!("rank {rank}")), "{said}");
        assert!(ended.err.contains(said), "{}", ended.err);
        let caveats = line["caveats"].as_array().unwrap();
        assert!(caveats.iter().any(|caveat| caveat == "injected"), "{line}");
        // Nor does the table or the report print one.
        let row = ended.err.lines().find(|row| row.contains("FAILED")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let failed = cells.iter().position(|cell| *cell == "FAILED").unwrap();
        // Between the time and the number of wrong elements there is the interval; what no row has, has no column.
        let unit = cells.iter().position(|cell| ["ns", "us", "ms", "s"].contains(cell)).unwrap();
        assert!(failed - unit > 2 && cells[unit + 1..failed - 1].iter().all(|cell| *cell == "-"), "{row}");
        assert!(place.read("out/cases.csv").lines().nth(1).unwrap().contains("failed"));
    }
}

#[test]
fn a_gate_on_wrong_results_is_missed() {
    let place = Place::new();
    place.run(&format!("{SHORT} --inject wrong:rank=1 --expect busbw_gbs>=0.000001")).exits(1);
    let line = &place.cases("out")[0];
    assert!(line["gates_missed"][0].as_str().unwrap().contains("was not measured"), "{line}");
}
