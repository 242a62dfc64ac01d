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

#[test]
fn plans_for_hardware_are_read_again() {
    let place = Place::new();
    let listed = place.run("list hardware --json").exits(0).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let names: Vec<&str> =
        listed["hardware"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 8);
    for name in names.into_iter().chain(["auto", "h100_nvlink"]) {
        let plan = place.run(&format!("gen-config --hardware {name}")).exits(0).out;
        place.write("plan.yaml", plan);
        // Some cases run anywhere, on the cores of the host.
        place.run("run plan.yaml --dry-run").exits(0);
    }
    let auto = place.run("gen-config --hardware auto").exits(0).out;
    assert!(auto.starts_with("# Chosen by `rankmark gen-config --hardware auto`: "), "{auto}");
    assert!(auto.contains("# Looked at:\n#   cores: "), "{auto}");
    place.run("gen-config quick --hardware laptop").refuses(&["cannot be used with"]);
    place.run("gen-config --hardware h100-nvlnk").refuses(&["did you mean `h100-nvlink`?"]);
}
