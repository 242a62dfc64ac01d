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
                "{shape}=2 backend=gloo runtime=pytorch dtype=f32 bytes=1000000 reduce=sum in_place=true mode=isolated on cpu: \
                     800.000 us mean 800.000 min 700.000 max 1200.000"
            ),
            format!(
                "{shape}=6 backend=gloo runtime=pytorch dtype=f32 bytes=1000000000 reduce=sum in_place=true mode=isolated on cpu: \
                     950500.000 us mean 950500.000 min 930250.000 max 990000.000"
            ),
        ]
    );
    assert!(results.notes.iter().any(|note| note.contains("1e6 bytes")), "{:?}", results.notes);
    assert!(results.notes.contains(&"`bandwidth_gb_s` is computed again from size, ranks and time".to_owned()));
    assert_eq!(
        results.all_omitted(),
        [
            "line 4: it has no time, or an element type that is none of ours",
            "the column `std_time_ms`: the record has no standard deviation"
        ]
    );
}

#[test]
fn a_file_that_tells_bytes_needs_no_megabytes() {
    let told = one("backend,world_size,total_bytes,average_time\nnccl,4,10000000,0.002\n");
    assert!(
        lines(&told)[0].contains("ranks=4 backend=nccl runtime=pytorch dtype=f32 bytes=10000000"),
        "{:?}",
        lines(&told)
    );
    assert!(!told.notes.iter().any(|note| note.contains("1e6")), "{:?}", told.notes);
}

#[test]
fn bad_cells_and_columns_are_refused_by_line() {
    assert!(refusal(&text().replace("std_time_ms", "=cmd()")).starts_with(
        "x.log, line 1: the table of benchmark_allreduce.py, which names no version, has a column `=cmd()`"
    ));
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

#[test]
fn what_rankmark_writes_comes_back_as_it_was() {
    let text = sample("allreduce_study", "rankmark.csv");
    let writer = include_str!("../../../report/src/layouts/allreduce_study.rs");
    let header = format!("const HEADER: &str = \"{}\\n\";", text.lines().next().unwrap());
    assert!(writer.contains(&header), "the layout allreduce-study has other columns: this reader must know them");
    let results = one(&text);
    let tail = |time: &str| format!("reduce=sum on cpu: {time} us mean {time}");
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=2 backend=gloo runtime=pytorch dtype=f32 bytes=1000000 reduce=sum in_place=true on \
             cpu: 800.000 us mean 800.000"
                .to_owned(),
            "collective op=all_reduce ranks=2 backend=gloo runtime=pytorch dtype=f32 bytes=100000000 reduce=sum in_place=true \
             on cpu: 80000.000 us mean 80000.000"
                .to_owned(),
            "collective op=all_reduce ranks=4 backend=gloo runtime=pytorch dtype=f32 bytes=1024 reduce=sum in_place=true on \
             cpu: 100.000 us mean 100.000"
                .to_owned(),
            format!("collective op=all_reduce ranks=2 backend=shm dtype=f32 bytes=1000000 {}", tail("200.000")),
            format!("collective op=all_reduce ranks=2 backend=shm dtype=f32 bytes=100000000 {}", tail("20000.000")),
            "collective op=all_reduce ranks=2 backend=nccl dtype=f32 bytes=100000000 reduce=sum on cuda: 1000.000 us mean \
             1000.000"
                .to_owned(),
        ]
    );
    assert_eq!(
        (results.tool.as_str(), results.statistic.as_str()),
        ("Rankmark", "mean over samples of the slowest rank")
    );
    // Times that a model computed must not come back as measured.
    let simulated = one(&text.replace("shm,", "sim,"));
    assert_eq!(simulated.shapes().len(), 4);
    assert_eq!(simulated.all_omitted()[0], "line 5: times of `sim` are computed and not measured");
}

#[test]
fn times_in_seconds_and_in_milliseconds_are_alike() {
    let csv = |unit: &str, time: &str| format!("backend,world_size,data_size_mb,avg_time_{unit}\ngloo,4,100,{time}\n");
    assert_eq!(lines(&one(&csv("s", "0.05"))), lines(&one(&csv("ms", "50"))));
    assert!(lines(&one(&csv("ms", "50")))[0].contains("bytes=100000000 "));
    let elements = one("backend,world_size,data_size_mb,num_elements,avg_time_s\ngloo,4,100,26214400,0.05\n");
    assert!(lines(&elements)[0].contains("bytes=104857600 "), "{:?}", lines(&elements));
}

#[test]
fn rows_of_other_warm_ups_are_no_trials_of_one_case() {
    let csv = |second: &str| {
        format!(
            "backend,world_size,data_size_mb,num_warmup,num_iters,avg_time_s\ngloo,4,1,5,50,0.05\ngloo,4,1,{second},0.06\n"
        )
    };
    let records = |second: &str| crate::read(&crate::source(&csv(second))).unwrap();
    assert_eq!(records("5,50").len(), 1);
    assert_eq!((records("0,50").len(), records("5,500").len()), (2, 2));
    assert_eq!(records("0,50")[1].facts["num_warmup"], "0");
}
