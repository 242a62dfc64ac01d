//! The CSV of the all-reduce study.

use crate::{lines, one, refusal, sample};

fn text() -> String {
    sample("allreduce_study", "gloo_cpu_benchmark.csv")
}

#[test]
fn rows_become_cases_of_pytorch() {
    let results = one(&text());
    let shape = "collective op=all_reduce ranks";
    assert_eq!(
        lines(&results),
        [
            format!(
                "{shape}=2 backend=gloo runtime=pytorch dtype=f32 bytes=1048576 reduce=sum in_place=true mode=isolated on cpu: \
                     800.000 us mean 800.000 min 700.000 max 1200.000"
            ),
            format!(
                "{shape}=6 backend=gloo runtime=pytorch dtype=f32 bytes=1048576000 reduce=sum in_place=true mode=isolated on cpu: \
                     950500.000 us mean 950500.000 min 930250.000 max 990000.000"
            ),
        ]
    );
    assert!(results.notes.iter().any(|note| note.contains("1024 x 1024")), "{:?}", results.notes);
    assert_eq!(results.all_omitted(), ["line 4: it has no time, or an element type that is none of ours"]);
}

#[test]
fn a_file_that_tells_bytes_needs_no_megabytes() {
    let told = one("backend,world_size,total_bytes,average_time\nnccl,4,10000000,0.002\n");
    assert!(
        lines(&told)[0].contains("ranks=4 backend=nccl runtime=pytorch dtype=f32 bytes=10000000"),
        "{:?}",
        lines(&told)
    );
    assert!(!told.notes.iter().any(|note| note.contains("1024")), "{:?}", told.notes);
}

#[test]
fn bad_cells_and_columns_are_refused_by_line() {
    assert!(
        refusal(&text().replace("std_time_ms", "=cmd()")).starts_with("x.log, line 1: the table has a column `=cmd()`")
    );
    assert!(
        refusal(&text().replace("950.5", "slow"))
            .starts_with("x.log, line 3: `mean_time_ms`: expected a number, found `slow`")
    );
    assert!(
        refusal(&text().replace("gloo,cpu,6", "mpi,cpu,6"))
            .starts_with("x.log, line 3: `backend`: expected gloo or nccl, found `mpi`")
    );
    assert!(refusal(&text().replace(",990,1.10", "")).starts_with("x.log, line 3: expected 9 columns, found 7"));
}
