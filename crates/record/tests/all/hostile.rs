//! Plans that mean harm: huge, deep, self-multiplying, or plain noise. They are refused quickly, and nothing panics.

use std::time::Duration;

use proptest::prelude::*;
use record::plan::{self, limits};

use crate::table::{COLLECTIVES, TABLE, pairs};

/// Time that this thread had of a processor: what other programs do does not count.
fn spent() -> Duration {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(line.split_whitespace().next().unwrap().parse().unwrap())
}

/// Refused with an error that holds `expected`, in far less time than a person would notice.
fn check(text: &str, expected: &str) {
    let begin = spent();
    let said = plan::read(text, "p.yaml", &TABLE, &[]).expect_err("the plan is hostile").to_string();
    assert!(said.contains(expected), "{said}");
    assert!(said.len() < 20_000, "the message itself is {} bytes long", said.len());
    let took = spent() - begin;
    assert!(took < Duration::from_secs(10), "{took:?} for: {expected}");
}

fn case(fields: &str) -> String {
    format!("experiment: x\ncases:\n  - benchmark: collective\n    op: reduce\n    {fields}\n")
}

#[test]
fn malformed() {
    check("", "the plan is empty");
    check("# nothing\n", "the plan is empty");
    check("\u{feff}", "the plan is empty");
    check("x", "a plan is a mapping, not a single value");
    check("[]", "a plan is a mapping, not a list");
    check("{", "p.yaml:1:1: not valid YAML or JSON: unclosed bracket '{'");
    check("experiment: x\n\tcases: 1\n", "hint:  indent with spaces");
    check("experiment: \"x\ncases: 1\n", "not valid YAML or JSON");
    check("experiment: x\ncases: []\n---\nexperiment: y\n", "p.yaml:3:1: a second document begins here");
    check("? {a: 1}\n: 2\n", "a key must be a name");
    check(&"? ".repeat(1 << 20), "a key must be a name");
    check("experiment: !!str x\ncases: []\n", "plans do not support tags");
    check("%TAG ! tag:x,2000:\n---\na: 1\n", "not valid YAML or JSON");
    check("a: \0", "not valid YAML or JSON");
    check("experiment: x\ncases: {}\n", "`cases` takes a list, not a mapping");
    check("experiment: x\ncases: [1]\n", "a case is a mapping, not a single value");
    check("experiment: x\ncases: [{benchmark: [a]}]\n", "`benchmark` takes one name, not a list");
    check("experiment: x\nprofiling: true\ncases: []\n", "`profiling` takes a mapping");
    check("experiment: x\ndefaults: [1]\ncases: []\n", "`defaults` takes a mapping");
    check("experiment: x\ndefaults: {zip: {}}\ncases: []\n", "`zip` belongs in a case");
}

#[test]
fn huge() {
    check(&"#".repeat(limits::BYTES + 1), "plan p.yaml is larger than 16 MiB");
    check(&format!("a: {}", "x".repeat(limits::BYTES - 10)), "a text of 16777206 bytes; at most 4096");
    check(&format!("a: [{}]", "1,".repeat(limits::NODES)), "more than 1500000 keys and values");
    check(&case(&format!("{}: 1", "k".repeat(1000))), "has no field `kkk");
    check(&"k: 1\n".repeat(100_000), "key `k` is given twice, first in line 1");
    check(&format!("experiment: x\ncases: [{}]", "{benchmark: training},".repeat(20_001)), "has at least 20001 cases");
    let many = format!("experiment: x\ncases: [{}]", "{benchmrk: training},".repeat(20_000));
    check(&many, "and 19");
}

#[test]
fn deep() {
    for text in ["[".repeat(1 << 20), "{a: ".repeat(1 << 20), "- ".repeat(1 << 20)] {
        check(&text, "nested more than 64 levels deep");
    }
    let stairs: String = (0..1000).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    check(&stairs, "nested more than 64 levels deep");
    let inside = format!("pace: {{{}a: 1{}", "a: {".repeat(50), "}".repeat(51));
    check(&case(&inside), "has no field");
}

#[test]
fn alias_bombs() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n";
    check(bomb, "p.yaml:1:7: plans do not support anchors, aliases and merge keys");
    check("a: *b\n", "plans do not support anchors, aliases and merge keys");
    check("a: {<<: {b: 1}}\n", "plans do not support anchors, aliases and merge keys");
    check("&a a: 1\n", "plans do not support anchors, aliases and merge keys");
}

#[test]
fn products() {
    let list = |count: usize| (0..count).map(|seed| seed.to_string()).collect::<Vec<_>>().join(",");
    let wide = format!("seed: [{}]\n    ranks: [{}]\n    bytes: 8..1TiB", list(3000), list(3000).replacen('0', "1", 1));
    check(&case(&wide), "has at least 342000000 cases; at most 20000");
    // The product passes 2^64.
    let fields = ["seed", "ranks", "root"].map(|name| format!("{name}: [{}]", list(4000).replacen('0', "1", 1)));
    let mut text = fields.join("\n    ");
    text.push_str(&format!(
        "\n    bytes: [{}]\n    dtype: [{}]\n    mode: [{}]",
        "8..1TiB,".repeat(300),
        "f32,".repeat(4000),
        "streaming,".repeat(4000)
    ));
    check(&case(&text), "has more than can be counted cases; at most 20000");
    // Each entry reads the defaults again: many entries times long defaults must not take long either.
    let defaults = format!(
        "experiment: x\ndefaults: {{seed: [{}]}}\ncases: [{}]",
        list(15_000),
        "{benchmark: training},".repeat(20_000)
    );
    check(&defaults, "has at least 30000 cases");
    let wrong = format!(
        "experiment: x\ndefaults: {{seed: [{}]}}\ncases: [{}]",
        "x,".repeat(50_000),
        "{benchmark: training},".repeat(20_000)
    );
    check(&wrong, "`seed` must be a whole number");
    let texts = format!(
        "experiment: x\ndefaults: {{expect: [{}]}}\ncases: [{}]",
        "x,".repeat(50_000),
        "{benchmark: training},".repeat(20_000)
    );
    check(&texts, "`expect` takes 1 to 64 texts, not 50000");
}

#[test]
fn terminals_are_not_driven_by_a_plan() {
    for text in
        ["experiment: \"\\e[2J\\u202e\"\ncases: [{benchmark: \"\\e]0;x\\a\"}]\n", "a\u{202e}b: 1\n", "a: \"\\e[31m\"\n"]
    {
        let said =
            plan::read(text, "p\u{1b}.yaml", &TABLE, &pairs(&[("\u{1b}[2J", "\u{1b}")])).unwrap_err().to_string();
        assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
        assert!(!said.contains('\u{202e}'), "{said:?}");
    }
}

#[test]
fn the_largest_honest_plan_is_taken() {
    let seeds = (0..20_000).map(|seed| seed.to_string()).collect::<Vec<_>>().join(",");
    let text = case(&format!("bytes: 8\n    seed: [{seeds}]"));
    let begin = spent();
    assert_eq!(plan::read(&text, "p.yaml", &TABLE, &[]).unwrap().cases.len(), 20_000);
    assert!(spent() - begin < Duration::from_secs(10), "{:?}", spent() - begin);
}

#[test]
fn the_most_cases_may_be_written_out_one_by_one() {
    use std::fmt::Write as _;
    let mut text = "experiment: x\ncases:\n".to_owned();
    for seed in 0..limits::CASES {
        writeln!(
            text,
            "  - {{benchmark: collective, op: all_reduce, bytes: 1MiB, ranks: 2, backend: shm, bind: core, dtype: f32, mode: \
             streaming, seed: {seed}, in_place: true, target_precision: 2%, max_seconds: 5s, pace: {{latency: 5us, bandwidth: \
             1GB/s}}}}"
        )
        .unwrap();
    }
    assert!(text.len() > 4 << 20, "{}", text.len());
    let begin = spent();
    assert_eq!(plan::read(&text, "p.yaml", &TABLE, &[]).unwrap().cases.len(), limits::CASES);
    assert!(spent() - begin < Duration::from_secs(10), "{:?}", spent() - begin);
}

/// Text that is often nearly a plan.
fn nearly_a_plan() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "experiment",
        "defaults",
        "cases",
        "benchmark",
        "collective",
        "training",
        "zip",
        "ranks",
        "bytes",
        "from",
        "to",
        "factor",
        "pace",
        "latency",
        "op",
        "all_reduce",
        "8..1GiB*2",
        "1KiB",
        "5us",
        "2%",
        "0",
        "-1",
        "1e400",
        "x",
        "true",
        "null",
        "expect",
        "inject",
        "seed",
        "18446744073709551616",
        "..",
        "*",
        "&a",
        "*a",
        "!!x",
        "\u{feff}",
        "é\u{0301}",
    ]);
    let glue = prop::sample::select(vec![
        ": ", ":\n  ", "\n", "\n  - ", ", ", "[", "]", "{", "}", " ", "\t", "\"", "'", "#", "|\n", "\r\n", "---\n",
        "..",
    ]);
    prop::collection::vec((word, glue), 0..60)
        .prop_map(|parts| parts.into_iter().flat_map(|(word, glue)| [word, glue]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = plan::read(&text, "p.yaml", &TABLE, &[]);
    }

    #[test]
    fn nothing_near_a_plan_panics(text in nearly_a_plan(), set in nearly_a_plan()) {
        match plan::read(&text, "p.yaml", &TABLE, &pairs(&[("bytes", &set)])) {
            Ok(plan) => prop_assert!(!plan.cases.is_empty()),
            Err(errors) => prop_assert!(!errors.to_string().is_empty()),
        }
    }

    #[test]
    fn no_field_panics(name in prop::sample::select(vec!["ranks", "bytes", "pace_latency", "pace_bandwidth", "expect",
        "target_precision", "in_place", "traffic_file", "zip", "pace", "op"]), text in "[0-9eE.*,kKiIBGMT/s%{}\\[\\]: -]{0,24}") {
        let _ = plan::read(&case(&format!("{name}: {text}")), "p.yaml", &TABLE, &[]);
        let _ = plan::from_flags(&COLLECTIVES, &pairs(&[("op", "reduce"), (name, &text)]), &[]);
    }

    #[test]
    fn every_identity_is_unique_and_stable(sizes in prop::collection::vec(0u64..1 << 40, 1..20), ranks in prop::collection::vec(1u32..64, 1..4)) {
        let list = |values: Vec<String>| values.join(",");
        let fields = format!("bytes: [{}]\n    ranks: [{}]", list(sizes.iter().map(u64::to_string).collect()),
            list(ranks.iter().map(u32::to_string).collect()));
        let plan = plan::read(&case(&fields), "p.yaml", &TABLE, &[]).unwrap();
        let ids: std::collections::HashSet<_> = plan.cases.iter().map(|case| case.id.clone()).collect();
        prop_assert_eq!(ids.len(), plan.cases.len());
        // Cases of one world are together.
        let mut worlds: Vec<_> = plan.cases.iter().map(|case| serde_json::to_string(&case.world).unwrap()).collect();
        worlds.dedup();
        let distinct: std::collections::HashSet<_> = worlds.iter().collect();
        prop_assert_eq!(distinct.len(), worlds.len());
    }
}
