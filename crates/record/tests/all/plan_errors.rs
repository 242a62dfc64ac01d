//! What is said of a wrong plan: file, line, column, the line itself, the nearest right word.

use record::plan;

use crate::table::{TABLE, pairs};

fn errors(text: &str, set: &[(&str, &str)]) -> String {
    plan::read(text, "p.yaml", &TABLE, &pairs(set)).expect_err("the plan is wrong").to_string()
}

/// The errors of a plan, whole.
fn check(text: &str, expected: &str) {
    let said = errors(text, &[]);
    assert_eq!(said, expected.trim_start_matches('\n'), "\n{said}\n");
}

/// The first error of a plan with one case that holds `field`, without the excerpt.
fn check_field(field: &str, expected: &str) {
    let text = format!("experiment: x\ncases:\n  - benchmark: collective\n    op: reduce\n    {field}\n");
    let said = errors(&text, &[]);
    let short: Vec<&str> = said.lines().filter(|line| !line.contains(" | ")).collect();
    assert_eq!(short.join("\n"), expected, "\n{said}\n");
}

#[test]
fn every_error_is_reported_with_its_place() {
    check(
        "experimnt: x
defaults: {sed: 1}
cases:
  - benchmark: colective
  - benchmark: collective
    op: [all_reduce, brodcast]
    ranks: 0
    bytes: 64K
  - ranks: 2
",
        "
error: p.yaml:1:1: a plan has no key `experimnt`
 1 | experimnt: x
   | ^^^^^^^^^
hint:  did you mean `experiment`?

error: p.yaml:1:1: the plan has no `experiment`
 1 | experimnt: x
   | ^
hint:  a plan holds `experiment: NAME` and `cases:` with `- benchmark: NAME` items

error: p.yaml:2:12: no benchmark has a field `sed`
 2 | defaults: {sed: 1}
   |            ^^^
hint:  did you mean `seed`?

error: p.yaml:4:16: there is no benchmark `colective`
 4 |   - benchmark: colective
   |                ^^^^^^^^^
hint:  did you mean `collective`?

error: p.yaml:6:22: `op` does not take `brodcast`
 6 |     op: [all_reduce, brodcast]
   |                      ^^^^^^^^
hint:  did you mean `broadcast`?

error: p.yaml:7:12: `ranks` must be a whole number from 1 to 4096, not 0
 7 |     ranks: 0
   |            ^

error: p.yaml:8:12: `bytes`: `64K` has two meanings
 8 |     bytes: 64K
   |            ^^^
hint:  write 64KiB (65,536 bytes) or 64kB (64,000 bytes)

error: p.yaml:9:5: the case has no `benchmark`
 9 |   - ranks: 2
   |     ^
hint:  valid values: collective, training",
    );
}

#[test]
fn wrong_fields() {
    for (field, expected) in [
        ("ranks: 10000", "error: p.yaml:5:12: `ranks` must be a whole number from 1 to 4096, not 10000"),
        ("ranks: -1", "error: p.yaml:5:12: `ranks` must be a whole number from 1 to 4096, not -1"),
        (
            "ranks: 99999999999999999999999",
            "error: p.yaml:5:12: `ranks` must be a whole number from 1 to 4096, not 99999999999999999999999",
        ),
        ("ranks: 2.5", "error: p.yaml:5:12: `ranks` must be a whole number from 1 to 4096, not `2.5`"),
        ("ranks: two", "error: p.yaml:5:12: `ranks` must be a whole number from 1 to 4096, not `two`"),
        (
            "ranks: '2'",
            "error: p.yaml:5:12: `ranks` must be a whole number from 1 to 4096, not a text\nhint:  remove the quotes",
        ),
        ("ranks: []", "error: p.yaml:5:12: `ranks` is an empty list\nhint:  leave it out, or name a value"),
        ("ranks: [[1]]", "error: p.yaml:5:13: `ranks` takes a whole number from 1 to 4096, not a list"),
        ("ranks: {a: 1}", "error: p.yaml:5:12: `ranks` takes a whole number from 1 to 4096, not a mapping"),
        ("ranks:", "error: p.yaml:5:10: `ranks` has no value\nhint:  it takes a whole number from 1 to 4096"),
        ("in_place: yes", "error: p.yaml:5:15: `in_place` must be true or false, not `yes`"),
        (
            "pace: {latncy: 1us}",
            "error: p.yaml:5:12: benchmark `collective` has no field `pace_latncy`\nhint:  did you mean `pace_latency`?",
        ),
        (
            "pace_latency: 5xs",
            "error: p.yaml:5:19: `pace_latency`: `5xs` is not a duration (write it like 5us, 20ms, 60s or 2min)",
        ),
        ("pace_latency: 1e308h", "error: p.yaml:5:19: `pace_latency`: 1e308h is too large"),
        (
            "pace: {bandwidth: 10GB}",
            "error: p.yaml:5:23: `pace_bandwidth`: `10GB` is not a bandwidth (write it like 10GB/s, 800MiB/s or 100Gbit/s)",
        ),
        (
            "target_precision: x",
            "error: p.yaml:5:23: `target_precision`: `x` is not a share (write it like 2% or 0.02)",
        ),
        (
            "max_seconds: [1, 2]",
            "error: p.yaml:5:22: `max_seconds` says how to sample, not what: it takes one value\n\
             hint:  put cases that differ in it into separate plans",
        ),
        ("bytes: 0..8", "error: p.yaml:5:12: `bytes`: a range starts above 0 and its factor is at least 2"),
        ("bytes: 8..64*1", "error: p.yaml:5:12: `bytes`: a range starts above 0 and its factor is at least 2"),
        ("bytes: 8..64*x", "error: p.yaml:5:12: `bytes`: a range's factor is a whole number, not `x`"),
        ("bytes: 64..8", "error: p.yaml:5:12: `bytes`: the range from 64 to 8 is empty"),
        ("bytes: {from: 8}", "error: p.yaml:5:12: a range of `bytes` needs `from` and `to`"),
        (
            "bytes: {from: 8, too: 9}",
            "error: p.yaml:5:22: a range of `bytes` has no `too`\nhint:  write {from: 1KiB, to: 1GiB, factor: 4}",
        ),
        ("bytes: {from: [8], to: 9}", "error: p.yaml:5:19: `from` of a range takes a single value"),
        ("inject: a b", "error: p.yaml:5:13: `inject` cannot hold white space"),
        (
            "expect: [a>1, HF_TOKEN=abc]",
            "error: p.yaml:5:19: `expect` would put a secret into the record\n\
             hint:  export it in the shell that starts the run: processes inherit it",
        ),
        ("expect: {a: 1}", "error: p.yaml:5:13: `expect` takes texts, not a mapping"),
        (
            "global_batch: 2",
            "error: p.yaml:5:5: benchmark `collective` has no field `global_batch`\nhint:  benchmark `training` has it",
        ),
        (
            "zip: [1]",
            "error: p.yaml:5:10: `zip` takes a mapping of lists, not a list\nhint:  write zip: {ranks: [1, 2], bytes: [1MiB, 2MiB]}",
        ),
        (
            "zip: {ranks: [1, 2], bytes: [8]}",
            "error: p.yaml:5:5: the lists of a zip must be equally long: `ranks` 2, `bytes` 1",
        ),
        (
            "zip: {ranks: 1, bytes: [8]}",
            "error: p.yaml:5:18: `ranks` in a zip takes a list, not a single value\nhint:  write zip: {ranks: [1, 2], bytes: [1MiB, 2MiB]}",
        ),
        ("zip: {op: [reduce]}", "error: p.yaml:5:11: `op` is given twice in this case"),
        ("Op: barrier\n    bytes: 8", "error: p.yaml:5:5: key `Op` is given twice, first in line 4"),
    ] {
        check_field(field, expected);
    }
}

#[test]
fn impossible_combinations_point_at_the_value() {
    check(
        "experiment: x
cases:
  - benchmark: collective
    op: [all_reduce, broadcast]
    ranks: 2
    bytes: [8, 16]
    root: [0, 1, 5]
  - benchmark: collective
",
        "
error: p.yaml:7:18: root 5 of 2 ranks
 7 |     root: [0, 1, 5]
   |                  ^
hint:  ranks count from 0

error: p.yaml:8:16: the case names no operation
 8 |   - benchmark: collective
   |                ^^^^^^^^^^
hint:  write op: all_reduce",
    );
}

#[test]
fn the_same_field_under_two_keys() {
    check_field(
        "pace: {latency: 1us}\n    pace_latency: 2us",
        "error: p.yaml:6:5: `pace_latency` is given twice in this case",
    );
}

#[test]
fn the_same_case_with_other_settings() {
    check(
        "experiment: x
cases:
  - {benchmark: collective, op: barrier, max_seconds: 1}
  - {benchmark: collective, op: barrier, max_seconds: 2}
",
        "
error: p.yaml:4:17: a case of this entry is asked for twice, with different `max_seconds`
 4 |   - {benchmark: collective, op: barrier, max_seconds: 2}
   |                 ^^^^^^^^^^
hint:  cases that differ only in how they are sampled belong in separate plans",
    );
}

#[test]
fn wrong_overrides() {
    let text = "experiment: x\ncases: [{benchmark: training}]\n";
    let expected = "error: no benchmark has a field `rank`
  | --set rank=2
  | ^^^^^^^^^^
hint:  did you mean `ranks`?

error: no case of this plan has a field `bytes`
  | --set bytes=8
  | ^^^^^^^^^^^

error: `ranks` must be a whole number from 1 to 4096, not 0
  | --set ranks=0
  |             ^";
    assert_eq!(errors(text, &[("rank", "2"), ("bytes", "8"), ("ranks", "0")]), expected);
}

#[test]
fn a_wrong_default_is_reported_once_and_also_when_unused() {
    let text = "experiment: x\ndefaults: {ranks: 0, bytes: x}\ncases: [{benchmark: training}, {benchmark: training}]\n";
    let said = errors(text, &[]);
    assert_eq!(said.matches("error:").count(), 2, "{said}");
    assert!(said.contains("p.yaml:2:19: `ranks` must be") && said.contains("p.yaml:2:29: `bytes`: `x`"), "{said}");
}

#[test]
fn unsafe_experiment_names() {
    for name in ["../x", "a/b", "''", ".hidden", "-rf", "a b", "é", "[a]", &"a".repeat(65)] {
        let said = errors(&format!("experiment: {name}\ncases: [{{benchmark: training}}]\n"), &[]);
        assert!(said.contains("p.yaml:1:13") && said.contains("experiment"), "{said}");
    }
}
