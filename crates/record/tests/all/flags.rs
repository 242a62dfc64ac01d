//! Plans from command-line flags.

use record::plan;

use crate::table::{COLLECTIVES, pairs};

fn check(given: &[(&str, &str)], expected: &str) {
    let errors = plan::from_flags(&COLLECTIVES, &pairs(given), &[]).unwrap_err().to_string();
    assert_eq!(errors, expected.trim_start_matches('\n'), "\n{errors}\n");
}

#[test]
fn commas_split_and_lists_multiply() {
    let given = [("op", "all_reduce"), ("ranks", "2,4"), ("bytes", "8..32*2,1MB")];
    let plan = plan::from_flags(&COLLECTIVES, &pairs(&given), &[]).unwrap();
    let shown: Vec<_> = plan.cases.iter().map(|case| (case.ranks(), case.whole("bytes").unwrap())).collect();
    assert_eq!(shown[..5], [(2, 8), (2, 16), (2, 32), (2, 1_000_000), (4, 8)]);
    assert_eq!((plan.experiment.as_str(), plan.cases.len()), ("collective", 8));
}

#[test]
fn texts_repeat_and_never_multiply() {
    let given = [
        ("op", "barrier"),
        ("inject", "delay:rank=1,ms=2"),
        ("inject", "kill:rank=0"),
        ("expect", "busbw_gbs >= 1, 2"),
    ];
    let plan = plan::from_flags(&COLLECTIVES, &pairs(&given), &[]).unwrap();
    assert_eq!(plan.cases.len(), 1);
    assert_eq!(plan.cases[0].texts("inject"), ["delay:rank=1,ms=2", "kill:rank=0"]);
    assert_eq!(plan.cases[0].texts("expect"), ["busbw_gbs >= 1, 2"]);
}

#[test]
fn errors_show_the_flag() {
    check(
        &[("op", "all_reduce"), ("bytes", "1KiB,64K")],
        "
error: `bytes`: `64K` has two meanings
  | --bytes 1KiB,64K
  |              ^^^
hint:  write 64KiB (65,536 bytes) or 64kB (64,000 bytes)",
    );
    check(
        &[("op", "allreduc"), ("bytes", "8")],
        "
error: `op` does not take `allreduc`
  | --op allreduc
  |      ^^^^^^^^
hint:  did you mean `all_reduce`?",
    );
    check(
        &[("op", "broadcast"), ("bytes", "8"), ("root", "2")],
        "
error: root 2 of 2 ranks
  | --root 2
  |        ^
hint:  ranks count from 0",
    );
    check(
        &[("op", "barrier"), ("in-plac", "true")],
        "
error: benchmark `collective` has no field `in_plac`
  | --in-plac true
  | ^^^^^^^^^
hint:  did you mean `in_place`?",
    );
    check(
        &[("op", "barrier"), ("ranks", "1,,2")],
        "
error: `ranks` has no value
  | --ranks 1,,2
  |           ^
hint:  it takes a whole number from 1 to 4096",
    );
    check(
        &[("op", "barrier"), ("op", "reduce")],
        "
error: `op` is given twice
  | --op reduce
  |      ^^^^^^
hint:  separate values by commas",
    );
    check(
        &[("ranks", "2")],
        "
error: the case names no operation
  | rankmark collective
  |          ^^^^^^^^^^
hint:  write op: all_reduce",
    );
}

#[test]
fn overrides_work_over_flags() {
    let given = pairs(&[("op", "all_reduce"), ("bytes", "8")]);
    let plan = plan::from_flags(&COLLECTIVES, &given, &pairs(&[("bytes", "16"), ("seed", "7")])).unwrap();
    assert_eq!((plan.cases[0].whole("bytes"), plan.cases[0].whole("seed")), (Some(16), Some(7)));
}
