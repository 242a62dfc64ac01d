//! `--quiet`: nothing is said of what works, and why of what does not.

use crate::place::Place;

#[test]
fn quietly_only_what_went_wrong_is_said() {
    let place = Place::new();
    let cases = "experiment: x\ndefaults: {op: [all_reduce, broadcast], bytes: [1KiB, 4KiB]}\ncases:\n";
    let sim = "  - {benchmark: collective, backend: sim, expect: \"busbw_gbs>=1e9\"}\n";
    let nccl = "  - {benchmark: collective, backend: nccl, nccl_library: /no/such}\n";
    place.write("plan.yaml", format!("{cases}{sim}{nccl}"));
    let ended = place.run("run plan.yaml --quiet --output-dir out").exits(1);
    assert_eq!(ended.out, "");
    let lines: Vec<&str> = ended.err.lines().collect();
    let skipped: Vec<&&str> = lines.iter().filter(|line| line.starts_with("skipped  ")).collect();
    assert_eq!(skipped.len(), 1, "one reason: {}", ended.err);
    assert!(skipped[0].contains(" and 3 more: ") && skipped[0].contains("`nccl`"), "{}", ended.err);
    assert_eq!(lines.iter().filter(|line| line.starts_with("gate missed  ")).count(), 4, "{}", ended.err);
    assert!(lines.contains(&"4 ok, 4 skipped"), "{}", ended.err);
    let fine = place.run("comm all_reduce --backend sim --bytes 1KiB --quiet --output-dir fine").exits(0);
    assert_eq!((fine.out.as_str(), fine.err.as_str()), ("", ""), "nothing went wrong");
}

#[test]
fn a_failed_case_says_why_quietly() {
    let place = Place::new();
    let ended = place
        .run("comm all_reduce --bytes 1KiB,4KiB --max-seconds 0.02s --inject kill:rank=1 --quiet --output-dir out");
    let ended = ended.exits(1);
    assert_eq!(ended.out, "");
    let failed: Vec<&str> = ended.err.lines().filter(|line| line.starts_with("failed  ")).collect();
    assert!(!failed.is_empty() && failed.iter().all(|line| line.contains("rank 1")), "{}", ended.err);
    assert!(ended.err.contains("0 ok, 2 failed\n"), "{}", ended.err);
}

#[test]
fn sides_of_a_comparison_that_cannot_run_say_why_quietly() {
    let place = Place::new();
    let case = "{benchmark: collective, op: all_reduce, backend: nccl, nccl_library: /no/such, bytes: [8, 16]}";
    place.write("plan.yaml", format!("experiment: x\ncases: [{case}]\n"));
    let ended = place.run("compare --interleave plan.yaml --quiet --output-dir pairs");
    assert_eq!((ended.out.as_str(), ended.status.code() != Some(0)), ("", true));
    let skipped: Vec<&str> = ended.err.lines().filter(|line| line.starts_with("skipped  ")).collect();
    assert!(skipped.len() == 1 && skipped[0].contains(" and 1 more: "), "{}", ended.err);
}
