//! The CSV of DDLB.

use crate::{lines, one, refusal, sample};

fn text() -> String {
    sample("ddlb_csv", "columnwise.csv")
}

#[test]
fn rows_of_pytorch_become_sequential_cases() {
    let results = one(&text());
    assert_eq!(
        lines(&results),
        [
            "primitive primitive=tp_columnwise m=65536 n=1024 k=1024 ranks=2 dtype=f32 implementation=sequential:order=AG_before \
             runtime=pytorch backend=nccl mode=isolated on cuda: 2500.000 us wrong 0 mean 2500.000 min 2400.000 max 2900.000 \
             tflops 54.97",
            "primitive primitive=tp_columnwise m=65536 n=1024 k=1024 ranks=2 dtype=bf16 implementation=sequential:order=AG_after \
             runtime=pytorch backend=ucc/tl/cuda on cuda: 3500.000 us wrong 0 mean 3500.000 min 3400.000 max 3900.000 tflops \
             39.27",
        ]
    );
    assert_eq!(results.hosts, ["node-a"]);
    let omitted = results.all_omitted();
    assert_eq!(omitted[0], "line 2: `compute_only`: the CSV does not tell `size`: sharded and unsharded look alike");
    assert!(omitted[1].contains("nvFuser is none of our implementations"), "{omitted:?}");
    assert!(omitted[2].starts_with("line 6: ") && omitted[2].ends_with("its own check failed"), "{omitted:?}");
}

#[test]
fn bad_tables_are_refused_by_line() {
    assert!(
        refusal(&text().replace(",option,", ",choice,")).starts_with("x.log, line 1: the table has a column `choice`")
    );
    let why = refusal(&text().replace(",2.5,0.1,2.4", ",fast,0.1,2.4"));
    assert!(why.starts_with("x.log, line 3: `mean_time (ms)`: expected a number, found `fast`"), "{why}");
    let cut = &text()[..text().len() - 60];
    assert!(refusal(cut).contains("line 6: "), "{}", refusal(cut));
    let why = refusal(&text().replace("2.5,0.1,2.4,2.9,65536", "2.5,0.1,2.4,2.9,-1"));
    assert!(why.starts_with("x.log, line 3: `m`: expected a whole number from 1, found `-1`"), "{why}");
}

#[test]
fn formulas_and_markup_stay_text() {
    let results = one(&text().replace("compute_only,", "=HYPERLINK(<b>),"));
    assert!(results.all_omitted()[0].contains("`=HYPERLINK(<b>)`"), "{:?}", results.all_omitted());
}
