//! The CSV of DDLB.

use crate::{lines, one, read, refusal, sample, source};

fn text() -> String {
    sample("ddlb_csv", "columnwise.csv")
}

#[test]
fn rows_of_pytorch_become_sequential_cases() {
    let mut all = read(&source(&text())).unwrap();
    let clocks: Vec<&str> = all.iter().map(|results| results.facts["time_measurement_backend"].as_str()).collect();
    // Rows of other clocks are not trials of one case.
    assert_eq!(clocks, ["cpu_clock", "cuda_event"]);
    let found: Vec<String> = all.iter().flat_map(lines).collect();
    let results = all.remove(0);
    let of_pytorch: Vec<&String> = found.iter().filter(|line| line.contains("variant sequential")).collect();
    assert_eq!(
        of_pytorch,
        [
            "primitive primitive=tp_columnwise m=65536 n=1024 k=1024 ranks=2 dtype=f32 implementation=sequential:order=AG_before \
             runtime=pytorch backend=nccl mode=isolated on cuda: 2500.000 us wrong 0 mean 2500.000 std 100.000 min 2400.000 max 2900.000 \
             tflops 54.97 variant sequential order AG_before",
            "primitive primitive=tp_columnwise m=65536 n=1024 k=1024 ranks=2 dtype=bf16 implementation=sequential:order=AG_after \
             runtime=pytorch backend=ucc/tl/cuda on cuda: 3500.000 us wrong 0 mean 3500.000 std 100.000 min 3400.000 max 3900.000 tflops \
             39.27 variant sequential order AG_after",
        ]
    );
    // What has no counterpart keeps its name.
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().any(|line| line.contains("variant compute_only")), "{found:?}");
    assert!(found.iter().any(|line| line.contains("variant fuser (backend=")), "{found:?}");
    assert_eq!(results.hosts, ["node-a"]);
    assert!(results.notes.iter().any(|note| note.contains("sharded and unsharded look alike")), "{:?}", results.notes);
    let omitted = results.all_omitted();
    assert!(omitted[0].starts_with("line 6: ") && omitted[0].ends_with("its own check failed"), "{omitted:?}");
    assert_eq!(
        omitted[1..],
        ["the column `Throughput std (TFLOPS)`: the record has the standard deviation of times alone"]
    );
    let odd = text().replace(
        "\"backend=nccl, order=AG_before\",True\n\"pytorch (backend=ucc",
        "backend=gloo,True\n\"pytorch (backend=ucc",
    );
    let omitted = read(&source(&odd)).unwrap()[0].all_omitted();
    assert!(
        omitted.contains(&"`option` of line 3: `backend=gloo` is not among those of the implementation".to_owned()),
        "{omitted:?}"
    );
}

#[test]
fn bad_tables_are_refused_by_line() {
    assert!(
        refusal(&text().replace(",option,", ",choice,"))
            .starts_with("x.log, line 1: the table of DDLB, which names no version, has a column `choice`")
    );
    let why = refusal(&text().replace(",2.5,0.1,2.4", ",fast,0.1,2.4"));
    assert!(why.starts_with("x.log, line 3: `mean_time (ms)`: expected a number, found `fast`"), "{why}");
    // A last line without its end may be cut: the rows before it are read.
    let all = text();
    let whole = read(&source(&all[..=all.trim_end().rfind('\n').unwrap()])).unwrap();
    assert_eq!(read(&source(&all[..all.len() - 60])).unwrap(), whole);
    let why = refusal(&text().replace("2.5,0.1,2.4,2.9,65536", "2.5,0.1,2.4,2.9,-1"));
    assert!(why.starts_with("x.log, line 3: `m`: expected a whole number from 1, found `-1`"), "{why}");
}

#[test]
fn formulas_and_markup_stay_text() {
    let results = &read(&source(&text().replace("compute_only,", "=HYPERLINK(<b>),"))).unwrap()[0];
    assert!(results.all_omitted()[0].contains("`=HYPERLINK(<b>)`"), "{:?}", results.all_omitted());
}

#[test]
fn rows_that_look_alike_are_no_trials() {
    let row = |us: f64| format!("compute_only,{us},1024,1024,1024,float16,2,10,tp_columnwise\n");
    let header = "implementation,mean_time (ms),m,n,k,dtype,world_size,Throughput (TFLOPS),primitive";
    let results = one(&format!("{header}\n{}{}", row(2.5), row(5.0)));
    let names: Vec<_> = results.shapes().iter().map(|(shape, _)| shape.implementation.as_deref()).collect();
    assert_eq!(names, [Some("compute_only"), Some("compute_only (line 3)")]);
}

#[test]
fn a_column_tells_the_primitive_of_a_row_that_does_not() {
    let header = "implementation,mean_time (ms),m,n,k,dtype,world_size,Throughput (TFLOPS)";
    let row = "transformer_engine,2.5,1024,1024,1024,float16,2,10";
    let omitted = one(&format!("{header}\n{row}\n")).all_omitted();
    let hint = "the file does not say which primitive; add a column `primitive` with tp_columnwise or tp_rowwise";
    assert_eq!(omitted, [format!("line 2: `transformer_engine`: {hint}")]);
    let named = one(&format!("{header},primitive\n{row},tp_rowwise\n"));
    assert!(
        lines(&named)[0].contains("primitive=tp_rowwise")
            && lines(&named)[0].contains("implementation=transformer_engine")
            && lines(&named)[0].ends_with("variant transformer_engine order RS_after")
    );
}
