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
                "{shape}=2 backend=gloo runtime=pytorch dtype=f32 bytes=1000000 reduce=sum in_place=true on cpu: \
                     800.000 us mean 800.000 std 100.000 min 700.000 max 1200.000"
            ),
            format!(
                "{shape}=6 backend=gloo runtime=pytorch dtype=f32 bytes=1000000000 reduce=sum in_place=true on cpu: \
                     950500.000 us mean 950500.000 std 12500.000 min 930250.000 max 990000.000"
            ),
        ]
    );
    assert!(results.notes.iter().any(|note| note.contains("1e6 bytes")), "{:?}", results.notes);
    // As `rankmark comm --num-processes 2 --data-sizes 1` runs it: the two can be compared.
    assert!(results.notes.iter().any(|note| note.contains("the mode is `streaming`")), "{:?}", results.notes);
    assert!(results.notes.contains(&"`bandwidth_gb_s` is computed again from size, ranks and time".to_owned()));
    assert_eq!(results.all_omitted(), ["line 4: it has no time, or an element type that rankmark does not have"]);
}

#[test]
fn a_file_that_tells_bytes_needs_no_megabytes() {
    let results = one("backend,world_size,total_bytes,average_time\nnccl,4,10000000,0.002\n");
    assert!(
        lines(&results)[0].contains("ranks=4 backend=nccl runtime=pytorch dtype=f32 bytes=10000000"),
        "{:?}",
        lines(&results)
    );
    assert!(!results.notes.iter().any(|note| note.contains("1e6")), "{:?}", results.notes);
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

/// Rows of ours differ in what the columns behind those of the study tell. That the writer has these columns, too, is tested
/// where the program runs (`imports` of the crate `rankmark`).
#[test]
fn what_rankmark_writes_comes_back_as_it_was() {
    let text = sample("allreduce_study", "rankmark.csv");
    let results = one(&text);
    let shape = |ranks: u32, backend: &str, dtype: &str, bytes: u64| {
        format!("collective op=all_reduce ranks={ranks} backend={backend} dtype={dtype} bytes={bytes}")
    };
    let mut wanted: Vec<String> = Vec::new();
    for (backend, mean_us, std_us) in [("gloo runtime=pytorch", 800.0, Some(10.0)), ("shm", 200.0, None)] {
        for (bytes, times) in [(1_000_000, 1.0), (10_000_000, 10.0), (100_000_000, 100.0), (1_000_000_000, 1000.0)] {
            let std = std_us.map_or_else(String::new, |std| format!(" std {:.3}", std * times));
            let time = format!("{:.3} us mean {:.3}{std}", mean_us * times, mean_us * times);
            wanted.push(format!("{} reduce=sum in_place=true on cpu: {time}", shape(2, backend, "f32", bytes)));
        }
    }
    let expected = |dtype: &str, rest: &str, time: &str| {
        format!("{} {rest} on cpu: {time} us mean {time}", shape(2, "shm", dtype, 1_000_000))
    };
    wanted.push(expected("f32", "reduce=sum in_place=false", "300.000"));
    wanted.push(expected("i32", "reduce=sum in_place=true", "400.000"));
    wanted.push(expected("f32", "reduce=max in_place=true", "500.000"));
    wanted.push(expected("f32", "reduce=sum in_place=true mode=isolated", "600.000"));
    for (backend, time) in [("nccl", "1000.000"), ("nccl runtime=pytorch", "1100.000")] {
        let shape = shape(2, backend, "f32", 100_000_000);
        wanted.push(format!("{shape} reduce=sum in_place=true on cuda: {time} us mean {time}"));
    }
    let ucc = shape(4, "ucc/tl/ucp runtime=pytorch", "f32", 1024);
    wanted.push(format!("{ucc} reduce=sum in_place=true on cpu: 100.000 us mean 100.000"));
    assert_eq!(lines(&results), wanted);
    assert_eq!(
        (results.tool.as_str(), results.statistic.as_str()),
        ("Rankmark", "mean over samples of the slowest rank")
    );
    assert!(!results.notes.iter().any(|note| note.contains("does not tell")), "{:?}", results.notes);
    // Times that a model computed must not come back as measured.
    let simulated = one(&text.replace("shm,", "sim,"));
    assert_eq!(simulated.shapes().len(), 7);
    assert_eq!(simulated.all_omitted()[0], "line 6: times of `sim` are computed and not measured");
}

#[test]
fn a_file_of_an_incomplete_run_of_ours_is_read_as_one_without_an_end() {
    let text = sample("allreduce_study", "rankmark.csv");
    let cut: String = text
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{line},{}\n", if at == 0 { "run_end" } else { "killed" }))
        .collect();
    let (whole, cut) = (one(&text), one(&cut));
    assert_eq!(lines(&cut), lines(&whole));
    assert_eq!((cut.tool.as_str(), cut.cut, whole.cut), ("Rankmark", true, false));
}

#[test]
fn a_file_of_ours_with_the_columns_of_the_study_alone_is_read_with_our_defaults() {
    let results = one(&sample("allreduce_study", "rankmark_7_columns.csv"));
    let tail = |time: &str| format!("reduce=sum on cpu: {time} us mean {time}");
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=2 backend=gloo runtime=pytorch dtype=f32 bytes=1000000 reduce=sum in_place=true on \
             cpu: 800.000 us mean 800.000"
                .to_owned(),
            "collective op=all_reduce ranks=2 backend=gloo runtime=pytorch dtype=f32 bytes=100000000 reduce=sum in_place=true \
             on cpu: 80000.000 us mean 80000.000 std 1000.000"
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
    assert_eq!(results.tool, "Rankmark");
    let notes = ["the file does not tell the element type", "the file does not tell the runtime: `nccl`"];
    assert!(notes.iter().all(|what| results.notes.iter().any(|note| note.contains(what))), "{:?}", results.notes);
}

#[test]
fn rows_of_ours_that_cannot_be_or_say_nothing_new_are_told_by_line() {
    let text = sample("allreduce_study", "rankmark.csv");
    let row = |rest: &str| {
        text.replace("1.25,pytorch,f32,sum,true,streaming\ngloo,cpu,2,10,", &format!("1.25,{rest}\ngloo,cpu,2,10,"))
    };
    for (rest, why) in [
        ("torch,f32,sum,true,streaming", "`runtime`: expected native or pytorch, found `torch`"),
        ("pytorch,f32,sun,true,streaming", "`reduce`: expected sum or prod or min or max or avg, found `sun`"),
        ("pytorch,f32,sum,yes,streaming", "`in_place`: expected true or false, found `yes`"),
        ("pytorch,f32,sum,true,queued", "`mode`: expected streaming or isolated or decode, found `queued`"),
    ] {
        assert_eq!(refusal(&row(rest)), format!("x.log, line 2: {why}"));
    }
    let omitted = one(&row("native,f32,sum,true,streaming")).all_omitted();
    assert_eq!(omitted[0], "line 2: runtime `native` has no backend `gloo`");
    let omitted = one(&row("pytorch,f32,sum,true,decode")).all_omitted();
    assert_eq!(omitted[0], "line 2: mode `decode`: the row does not say what ranks computed between calls");
    let last = text.lines().last().unwrap();
    let again = one(&format!("{text}{last}\n"));
    assert_eq!(again.shapes().last().unwrap().1.len(), 2);
    let note = "line 17 equals an earlier line: it is read as another trial".to_owned();
    assert!(again.notes.contains(&note), "{:?}", again.notes);
    // The study's own files have none of these columns.
    let why = refusal("backend,world_size,data_size_mb,avg_time_s,runtime\ngloo,4,100,0.05,native\n");
    assert!(why.contains("has a column `runtime`"), "{why}");
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
