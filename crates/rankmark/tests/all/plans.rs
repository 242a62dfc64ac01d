//! Plans that are not plans: refused whole, with the place and the nearest word, quickly, and nothing is made on disk.

use std::time::Duration;

use crate::place::Place;

/// Runs a plan that must be refused.
#[track_caller]
fn refused(text: impl AsRef<[u8]>, words: &[&str]) {
    let place = Place::new();
    place.write("plan.yaml", text);
    let ended = place.run("run plan.yaml --output-dir out").refuses(words);
    assert_eq!(place.names(), ["plan.yaml"], "a refused plan makes nothing");
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    assert!(ended.err.len() < 20_000, "{} bytes of errors", ended.err.len());
}

/// A plan around one case's fields.
fn plan(fields: &str) -> String {
    format!("experiment: bad\ncases:\n  - benchmark: collective\n    {fields}\n")
}

#[test]
fn malformed_plans() {
    refused("", &["plan.yaml"]);
    refused("experiment: [\n", &["plan.yaml:"]);
    refused("experiment: a\ncases: {\n", &["plan.yaml:"]);
    refused("just words", &["plan.yaml:1:1"]);
    refused("{\"experiment\": \"a\", \"cases\": 3}", &["plan.yaml:1:"]);
    refused(b"\x00\xff\xfe", &["not UTF-8"]);
    refused("experiment: a\ncases: []\n", &["cases"]);
    refused("experiment: a\nexperiment: b\ncases: []\n", &["plan.yaml:2:1", "experiment"]);
    refused("experiment: ../../etc\ncases:\n  - benchmark: collective\n", &["plan.yaml:1:13"]);
}

#[test]
fn unknown_words_name_the_nearest_and_the_place() {
    refused(
        "experiment: a\ncasse:\n  - benchmark: collective\n",
        &["plan.yaml:2:1", "`casse`", "did you mean `cases`?"],
    );
    refused(
        "experiment: a\ncases:\n  - benchmark: colective\n",
        &["plan.yaml:3:16", "`colective`", "did you mean `collective`?"],
    );
    refused(plan("opp: all_reduce"), &["plan.yaml:4:5", "`opp`", "did you mean `op`?"]);
    refused(plan("op: [all_reduce, all_gahter]"), &["plan.yaml:4:22", "`all_gahter`", "did you mean `all_gather`?"]);
    refused(plan("backend: smh"), &["plan.yaml:4:14", "`smh`", "did you mean `shm`?"]);
    refused(plan("dtype: [f32, bf61]"), &["plan.yaml:4:18", "`bf61`", "did you mean `bf16`?"]);
    refused(plan("reduce: summ"), &["plan.yaml:4:13", "did you mean `sum`?"]);
    refused(plan("mode: streming"), &["plan.yaml:4:11", "did you mean `streaming`?"]);
    refused(plan("inject: \"kil:rank=1\""), &["plan.yaml:4:13", "did you mean `kill`?"]);
    refused(plan("expect: busbw_gb>=1"), &["plan.yaml:4:13", "did you mean `busbw_gbs`?"]);
}

#[test]
fn wrong_values_say_what_is_right() {
    refused(plan("ranks: 0"), &["plan.yaml:4:12", "from 1 to 65536", "not 0"]);
    refused(plan("ranks: 10000"), &["plan.yaml:4:12", "10000 ranks: at most 1024 can be started"]);
    refused(plan("ranks: two"), &["plan.yaml:4:12", "two"]);
    refused(plan("bytes: -1"), &["plan.yaml:4:12"]);
    refused(plan("bytes: 1KiB1"), &["plan.yaml:4:12", "64KiB"]);
    refused(plan("bytes: 999999999999999999999"), &["plan.yaml:4:12"]);
    refused(plan("bytes: {from: 1KiB, to: 1GiB, step: 4}"), &["plan.yaml:4:35", "`step`"]);
    refused(plan("in_place: perhaps"), &["plan.yaml:4:15"]);
    refused(plan("{op: all_reduce}"), &["plan.yaml:"]);
    refused(plan("op: send_recv\n    in_place: true"), &["plan.yaml:5:15", "no in-place form"]);
    refused(plan("op: broadcast\n    ranks: 2\n    root: 2"), &["plan.yaml:6:11", "no rank 2 among 2"]);
    refused(plan("inject: \"kill:rank=2\""), &["plan.yaml:4:13", "no rank 2 among 2"]);
    refused(plan("link_latency: 5us"), &["plan.yaml:4:19", "backend `sim`"]);
    // Every error at once, in the order of the file.
    refused(plan("ranks: 0\n    dtype: f99\n    bogus: 1"), &["plan.yaml:4:12", "plan.yaml:5:12", "plan.yaml:6:5"]);
}

#[test]
fn hostile_plans() {
    refused(format!("cases: {}{}", "[".repeat(100_000), "]".repeat(100_000)), &["plan.yaml:1:", "nested"]);
    refused(format!("{}{}", "{\"a\":".repeat(50_000), "}".repeat(50_000)), &["nested"]);
    refused("- ".repeat(50_000), &["nested"]);
    refused(format!("experiment: a\n{}", "# comment\n".repeat(2 << 20)), &["larger than 16 MiB"]);
    refused(format!("experiment: {}\n", "a".repeat(1 << 20)), &["plan.yaml:1:"]);
    refused("experiment: a\ncases:\n".to_owned() + &"  - {benchmark: collective}\n".repeat(100_000), &["plan.yaml"]);
    let axes = "ranks: {from: 1, to: 1000, step: 1}\n    seed: {from: 1, to: 100000, step: 1}";
    refused(plan(axes), &["plan.yaml"]);
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..30 {
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 9].join(",")));
    }
    refused(bomb + "cases: *a29\n", &["plan.yaml:1:", "aliases"]);
    refused(plan("op: all_reduce # \u{1b}[2J\n    \u{1b}[31m: 1"), &["plan.yaml:"]);
}

#[test]
fn errors_of_flags_point_at_the_flag() {
    let place = Place::new();
    let refused = |arguments: &str, words: &[&str]| place.run(arguments).refuses(words);
    refused("comm all_reduec", &["all_reduec", "did you mean `all_reduce`?"]);
    refused("comm all_reduce --ranks 0", &["--ranks 0", "from 1 to 65536"]);
    refused("comm all_reduce --ranks 10000", &["--ranks 10000", "10000 ranks: at most 1024 can be started"]);
    refused("comm all_reduce --backend pigeon", &["--backend pigeon", "shm"]);
    refused("comm all_reduce --backend nccl2", &["--backend nccl2", "did you mean `nccl`?"]);
    refused("comm all_reduce --dtype f31", &["--dtype f31", "did you mean `f32`?"]);
    refused("comm all_reduce --bytes 64KB,1XB", &["1XB", "64KiB"]);
    refused("comm all_reduce --set rnaks=2", &["`rnaks`", "did you mean `ranks`?"]);
    refused("comm all_reduce --set ranks", &["sets nothing", "--set FIELD=VALUE"]);
    refused("comm all_reduce --inject dealy:rank=1", &["did you mean `delay`?"]);
    refused("comm all_reduce --expect latency<=3", &["`latency` is not a metric", "busbw_gbs"]);
    refused("comm all_reduce --expect busbw_gbs=3", &["compares nothing"]);
    refused("comm all_reduce --rnaks 2", &["--rnaks", "--ranks"]);
    refused("run nowhere.yaml", &["nowhere.yaml", "No such file"]);
    refused("run .", &["plan . cannot be read: it is a folder, not a plain file"]);
    refused("report nowhere", &["there is no record in nowhere"]);
    refused("run --resume nowhere", &["there is no folder nowhere"]);
    refused("measure", &["measure"]);
    assert_eq!(place.names(), [""; 0], "nothing is made");
}

/// A plan of both runtimes: a backend that one of them has is an override for its cases alone.
#[test]
fn an_override_that_the_plan_excludes_leaves_cases_out_and_says_so() {
    let place = Place::new();
    let native = "  - {benchmark: collective, op: all_reduce, ranks: 2, bytes: 1KiB}\n";
    let pytorch = "  - {benchmark: collective, op: all_reduce, ranks: 2, bytes: 1KiB, runtime: pytorch, device: cpu}\n";
    place.write("both.yaml", format!("experiment: both\ncases:\n{native}{pytorch}"));
    place.write("one.yaml", format!("experiment: one\ncases:\n{pytorch}"));
    let why = "runtime `pytorch` has no backend `shm`";
    let ended = place.run("run both.yaml --set backend=shm --dry-run").exits(0);
    let said = format!("{}{}", ended.out, ended.err).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("1 case is left out: {why}")), "{ended:?}");
    place.run("run one.yaml --set backend=shm --dry-run").refuses(&[why]);
    // Who gives both means the pair.
    place.run("run both.yaml --set backend=shm --set runtime=pytorch --dry-run").refuses(&[why]);
}
