//! The JSON of nccl-tests and rccl-tests.

use crate::{lines, one, refusal, sample};

fn nccl() -> String {
    sample("nccl_tests_json", "v3.json")
}

fn rccl() -> String {
    sample("rccl_tests_json", "all_reduce.json")
}

#[test]
fn nccl_tests_tells_ranks_iterations_and_percentiles() {
    let results = one(&nccl());
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=false on cuda: 67.310 us \
             x20 wrong 0 p50 67.000 p95 75.000 p99 79.000 min 60.000 max 80.000",
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=true on cuda: 65.270 us x20",
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=2097152 reduce=sum in_place=false on cuda: 81.120 us \
             x20 wrong 2",
        ]
    );
    assert_eq!(results.hosts, ["node-a", "node-b"]);
    assert_eq!(results.versions["nccl"], "2.29.7");
    assert_eq!(results.facts["environment"], "NCCL_ALGO=Ring");
    assert_eq!(results.all_omitted(), ["line 2: a time of NaN us is no time"]);
    assert!(results.notes.contains(&"out of bounds values: 1".to_owned()));
    assert!(!results.notes.iter().any(|note| note.contains("bw of")), "{:?}", results.notes);
}

#[test]
fn nccl_tests_of_another_version_or_cut_off_is_refused() {
    assert_eq!(
        refusal(&nccl().replace("\"version\":3", "\"version\":4")),
        "x.log: version 4 of nccl-tests' JSON is not known\nhint:  known versions: 1, 2, 3"
    );
    let cut = nccl().split("\"out_of_bounds\"").next().unwrap().to_owned();
    assert!(refusal(&cut).starts_with("x.log, line 7: this is no JSON"), "{}", refusal(&cut));
    let why = refusal(&nccl().replace("\"time\":67.310000", "\"time\":\"fast\""));
    assert_eq!(why, "x.log: results[0].out_of_place.time: expected a number");
    assert!(refusal(&nccl().replace("\"time\":6", "\"cpu_time\":6")).contains("`cpu_time` is the time until"));
}

#[test]
fn cycles_of_rccl_tests_are_trials() {
    let results = one(&rccl());
    assert_eq!(results.runs(), 2);
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=2 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=false on cuda: 60.500 us \
             wrong 0, 62.500 us wrong 0",
            "collective op=all_reduce ranks=2 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=true on cuda: 61.500 us",
        ]
    );
    let bare: String =
        rccl().lines().filter(|line| line.len() > 2).map(|line| line.trim_end_matches(',').to_owned() + "\n").collect();
    assert_eq!(lines(&one(&bare)), lines(&results));
    let why = refusal(&rccl().replace("\"wrong\"", "\"errors\""));
    assert!(why.contains("[0] has a field `errors` that this reader does not know"), "{why}");
    let why = refusal(&rccl().replace("60.500000", "NaN"));
    assert!(why.starts_with("x.log, line 2: this is no JSON"), "{why}");
}
