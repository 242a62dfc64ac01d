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
