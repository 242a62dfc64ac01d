//! Plans for kinds of hardware, and the shares of their figures that a run says.

use crate::place::Place;

/// Two cases, and three figures: one that is far exceeded, one out of reach, one without a case.
const PLAN: &str = "experiment: tiny
defaults: {iters: 6, warmup: 1, trials: 1, limits: false, ranks: 2}
cases:
  - {benchmark: collective, op: all_reduce, bytes: [1KiB, 64KiB]}
expected:
  - {benchmark: collective, where: {op: all_reduce, ranks: 2}, metric: busbw_gbs, value: 1e-9, basis: measured, source: low}
  - {benchmark: collective, where: {op: all_reduce, bytes: 1KiB}, metric: busbw_gbs, value: 1e9, basis: specification, source: high}
  - {benchmark: collective, where: {ranks: 3}, metric: busbw_gbs, value: 7, basis: measured, source: none}
";

#[test]
fn a_run_says_which_share_of_its_figures_it_reaches() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let said = place.run("run plan.yaml --output-dir r").exits(0).out;
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("all_reduce over 2 ranks at "), "{said}");
    assert!(flat.contains("measured, low), more than is expected."), "{said}");
    assert!(flat.contains("all_reduce, 1 KiB: busbw ") && flat.contains("specification, high)."), "{said}");
    assert!(!flat.contains("none)"), "{said}");
    // The record keeps the figures, so that a report written later says the same.
    std::fs::remove_file(place.path("r/report.md")).unwrap();
    place.run("report r").exits(0);
    let report = place.read("r/report.md");
    let table = report.split("## ").find(|section| section.starts_with("Expected figures")).unwrap();
    assert!(table.lines().filter(|line| line.starts_with("| ")).count() == 5 && table.contains("none"), "{report}");
}

/// What a reason of `validate` says of the machine. Another machine has the backend, the memory or the cores.
const OF_THE_MACHINE: [&str; 3] = [" is not ready: ", "not enough memory: ", "a core for each rank: "];

#[test]
fn no_preset_has_a_case_that_no_machine_runs() {
    let place = Place::new();
    let names = |kind: &str| -> Vec<String> {
        let listed = place.run(&format!("list {kind} --json")).exits(0).out;
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let entries = listed[kind].as_array().unwrap().iter();
        entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    let hardware = names("hardware").into_iter().map(|name| format!("--hardware {name}"));
    let all: Vec<String> = names("presets").into_iter().chain(hardware).collect();
    assert!(all.len() > 10, "{all:?}");
    for name in all {
        let plan = place.run(&format!("gen-config {name}")).exits(0).out;
        place.write("plan.yaml", plan);
        let told = place.run("validate --quick --plan plan.yaml --json");
        let told: serde_json::Value =
            serde_json::from_str(&told.out).unwrap_or_else(|error| panic!("{error}: {told:?}"));
        for skipped in told["plan"]["skipped"].as_array().unwrap() {
            let reason = skipped["reason"].as_str().unwrap();
            assert!(OF_THE_MACHINE.iter().any(|words| reason.contains(words)), "{name}: {skipped}");
        }
    }
}

#[test]
fn plans_for_hardware_are_read_again() {
    let place = Place::new();
    let listed = place.run("list hardware --json").exits(0).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<&str> =
        listed["hardware"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 12);
    for name in names.into_iter().chain(["auto", "h100_nvlink"]) {
        let plan = place.run(&format!("gen-config --hardware {name}")).exits(0).out;
        place.write("plan.yaml", plan);
        // Cases on the cores of the host run anywhere; a cluster's need MPI.
        let dry = place.run("run plan.yaml --dry-run");
        let lacks_mpi = dry.status.code() == Some(2) && dry.out.contains("backend `mpi` is not ready");
        assert!(dry.status.success() || lacks_mpi, "{name}: {dry:?}");
    }
    let auto = place.run("gen-config --hardware auto").exits(0).out;
    assert!(auto.starts_with("# Chosen by `rankmark gen-config --hardware auto`: "), "{auto}");
    assert!(auto.contains("# Looked at:\n#   cores: "), "{auto}");
    place.run("gen-config quick --hardware laptop").refuses(&["exclude each other"]);
    place.run("gen-config --hardware h100-nvlnk").refuses(&["did you mean `h100-nvlink`?"]);
}

#[test]
fn a_merged_record_has_the_figures_of_all_its_parts() {
    let place = Place::new();
    let with = |op: &str, value: f64| {
        let figure = "metric: busbw_gbs, basis: measured, source: here";
        format!(
            "experiment: tiny\n\
             defaults: {{iters: 6, trials: 1, limits: false, ranks: 2, backend: sim, bytes: 1KiB}}\ncases:\n  \
             - {{benchmark: collective, op: {op}}}\nexpected:\n  \
             - {{benchmark: collective, where: {{op: {op}}}, value: {value}, {figure}}}\n  \
             - {{benchmark: collective, where: {{bytes: 1KiB}}, value: {value}, {figure}}}\n"
        )
    };
    for (name, op, value) in [("a", "all_reduce", 3.0), ("b", "all_gather", 4.0)] {
        place.write("plan.yaml", with(op, value));
        place.run(&format!("run plan.yaml --output-dir {name}")).exits(0);
    }
    place.run("merge a b --output-dir both").exits(0);
    let report = place.read("both/report.md");
    let table = report.split("## ").find(|section| section.starts_with("Expected figures")).unwrap();
    for row in ["| all_reduce: busbw | 3.00 GB/s", "| all_gather: busbw | 4.00 GB/s"] {
        assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains(row), "{row}: {table}");
    }
    // Nobody knows which of the two holds for both.
    assert!(!table.contains("1 KiB"), "{table}");
    let said = "is left out: 3 in a and 4 in b contradict each other";
    assert!(report.lines().any(|line| line.starts_with("Plan: expected busbw_gbs") && line.contains(said)), "{report}");
}
