//! What a pipe hears of a run before its table.

use crate::place::Place;

#[test]
fn a_pipe_hears_of_results_before_the_first_round_ends() {
    let place = Place::new();
    // A trial of each case lasts a second; the first line is due after two.
    let out = place.run(
        "comm all_reduce --ranks 1 --bytes 1KiB,2KiB,4KiB,8KiB,16KiB --trials 1 --max-seconds 1 --output-dir record",
    );
    let out = out.exits(0).out;
    let lines: Vec<&str> = out.lines().collect();
    let told = lines.iter().position(|line| line.starts_with("round 1: ") && line.contains("/5 after "));
    let table = lines.iter().position(|line| line.starts_with("collective  all_reduce"));
    let told = told.unwrap_or_else(|| panic!("no line within the round: {out}"));
    assert!(table.is_some_and(|table| told < table), "{out}");
    assert!(lines[told].contains("all_reduce ") && lines[told].contains("wrong 0"), "{}", lines[told]);
    assert!(!out.contains('\u{1b}'), "a pipe gets no escape sequences: {out}");
}

/// A plan's fields are not flags of its command, so the proposal names them.
#[test]
fn what_is_next_after_a_plan_has_the_fields_of_the_plan() {
    let place = Place::new();
    let plan = "experiment: a_plan
defaults: {trials: 1, iters: 3, warmup: 1}
cases: [{benchmark: collective, op: all_gather, dtype: f64, ranks: 2, bytes: [1KiB, 4KiB, 16KiB]}]
";
    place.write("plan.yaml", plan);
    let out = place.run("run plan.yaml --output-dir record").exits(0).out;
    let next = out.find("\nnext     ").unwrap_or_else(|| panic!("no next command: {out}"));
    let command = out[next..].lines().nth(1).unwrap().trim_start_matches("next     rankmark ").to_owned();
    assert!(command.starts_with("comm all_gather ") && command.contains("--dtype f64"), "{command}");
    place.run(&format!("{command} --dry-run")).exits(0);
}

#[test]
fn the_end_tells_findings_reasons_once_the_report_and_what_is_next() {
    let place = Place::new();
    let sizes = "--bytes 1KiB,4KiB,16KiB,64KiB --trials 1 --max-seconds 0.1";
    let out = place.run(&format!("comm all_reduce --backend shm,nccl {sizes} --output-dir record")).exits(0).out;
    let findings = out.lines().filter(|line| line.starts_with("* ")).count();
    assert!((1..=3).contains(&findings), "{out}");
    assert!(
        !out.contains("see the reasons below") && out.contains("\n4 ok, 4 skipped\n"),
        "a line, and no finding: {out}"
    );
    assert_eq!(out.matches("backend `nccl` is not ready").count(), 1, "{out}");
    assert!(out.contains("\nskipped  all_reduce 1 KiB, 2 ranks, nccl and 3 more: "), "{out}");
    let report = out.find("\nreport   record/report.html").unwrap_or_else(|| panic!("no report: {out}"));
    let next = out.find("\nnext     rankmark comm all_reduce --").unwrap_or_else(|| panic!("no next command: {out}"));
    assert!(report < next, "{out}");
    let command = out[next..].lines().nth(1).unwrap().trim_start_matches("next     rankmark ");
    place.run(&format!("{command} --dry-run")).exits(0);
}
