//! The text of the OSU Micro-Benchmarks.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("osu", file)
}

#[test]
fn ranks_come_from_the_command_line_above_or_from_the_user() {
    let results = one(&text("7.0_cuda_full.txt"));
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=4 backend=mpi dtype=f32 bytes=16777216 reduce=sum in_place=false mode=isolated on cuda: \
          8630.580 us x10 min 8619.500 max 8642.460"
        ]
    );
    assert_eq!(results.tool, "OSU Micro-Benchmarks 7.0");
    assert!(results.notes.contains(&"line 4: 4 ranks, by the command line above".to_owned()), "{:?}", results.notes);
    assert!(results.notes.iter().any(|note| note.contains("all_reduce is read as f32")), "{:?}", results.notes);
    let nccl = one(&text("7.5_nccl.txt"));
    assert!(lines(&nccl)[0].starts_with("collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=1073741824"));
    let why = refusal(&text("7.4_allgather.txt"));
    assert_eq!(why, "x.log, line 1: the file does not say how many ranks ran\nhint:  give the number: `--ranks N`");
}

#[test]
fn a_page_may_have_taken_the_marks_of_lines() {
    for file in ["7.4_allgather.txt", "7.2_latency.txt"] {
        let whole = text(file);
        let pasted: String = whole.lines().map(|line| format!("{}\n", line.trim_start_matches(['#', ' ']))).collect();
        let found = |text: &str| -> Vec<String> {
            read(&source(text).with_given("ranks", "3")).unwrap().iter().flat_map(lines).collect()
        };
        assert_eq!(found(&pasted), found(&whole), "{file}");
        assert!(!found(&whole).is_empty(), "{file}");
    }
}

#[test]
fn the_size_of_an_all_gather_is_one_ranks_part() {
    let source = source(&text("7.4_allgather.txt")).with_given("ranks", "3");
    let results = &read(&source).unwrap()[0];
    assert_eq!(
        lines(results)[1],
        "collective op=all_gather ranks=3 backend=mpi dtype=u8 bytes=3145728 in_place=false mode=isolated on cpu: \
         104.300 us x10 min 104.260 max 104.330"
    );
    // A bandwidth test in the same file has a record of its own.
    let again = crate::source(&text("7.4_allgather.txt")).with_given("ranks", "no");
    assert!(read(&again).unwrap_err().to_string().contains("`no` is not a number of ranks"));
}

#[test]
fn several_programs_and_old_types() {
    let source = source(&text("5.6_several.txt")).with_given("ranks", "8");
    let records = read(&source).unwrap();
    let found = lines(&records[0]);
    assert_eq!(found[2], "collective op=barrier ranks=8 backend=mpi on cpu: 1.570 us");
    assert_eq!(
        found[4],
        "collective op=reduce_scatter ranks=8 backend=mpi dtype=f32 bytes=65536 reduce=sum in_place=false mode=isolated on cpu: \
         34.510 us"
    );
    assert_eq!((records.len(), records[0].all_omitted()), (2, Vec::new()));
    // A call and its wait are not the blocking call.
    assert_eq!(
        lines(&records[1]),
        [
            "collective op=all_reduce ranks=8 backend=mpi dtype=f32 bytes=4 reduce=sum in_place=false mode=isolated on cpu: \
             4.000 us"
        ]
    );
    assert_ne!(records[0].statistic, records[1].statistic);
    assert_eq!(records[1].facts["overlap of MPI Non-blocking Allreduce Latency"], "4 B: 50 %");
}

#[test]
fn a_ping_pong_has_two_ranks() {
    let results = one(&text("7.2_latency.txt"));
    assert_eq!(lines(&results)[1], "collective op=ping_pong ranks=2 backend=mpi dtype=u8 bytes=1024 on cpu: 0.880 us");
}

#[test]
fn a_failed_validation_is_no_figure() {
    let results = one(&text("7.4_validation.txt"));
    assert_eq!(results.shapes().len(), 1);
    assert!(lines(&results)[0].contains("dtype=i32 bytes=4") && lines(&results)[0].contains("wrong 0"));
    assert_eq!(results.all_omitted(), ["line 6: its own check failed"]);
}

#[test]
fn unknown_columns_versions_and_damaged_lines_are_told() {
    let text = text("7.0_cuda_full.txt");
    let why = refusal(&text.replace("Iterations", "Jitter(us)"));
    assert!(why.contains("line 5: the table of OSU Micro-Benchmarks 7.0 has a column `Jitter(us)`"), "{why}");
    for version in ["9.1", "7.6"] {
        let notes = one(&text.replace("Test v7.0", &format!("Test v{version}"))).notes.join("\n");
        let note = format!(
            "line 4: version `{version}` of the OSU Micro-Benchmarks is new to this reader, which knows 3.0 to 7.5"
        );
        assert!(notes.contains(&note), "{notes}");
    }
    let cut = one(&text.replace("8642.46         10", ""));
    assert_eq!(cut.all_omitted(), ["line 6: expected 5 columns, found 3"]);
    let odd = one(&text.replace("8630.58", "nan"));
    assert_eq!(odd.all_omitted(), ["line 6: expected a time, found `nan`"]);
}

#[test]
fn rows_that_are_damaged_in_front_are_left_out_by_number() {
    let whole = text("7.5_allreduce.txt");
    for (damaged, why) in [
        ("X024                   17.97", "expected a whole number, found `X024`"),
        (".97", "expected 2 columns, found 1"),
        ("1O24 17.97", "expected a whole number, found `1O24`"),
        ("-1024 17.97", "expected a whole number, found `-1024`"),
        ("1024 17.97node-a:1 x 1 2 3", "expected 2 columns, found 6"),
    ] {
        let results = one(&whole.replace("1024                   17.97", damaged));
        assert_eq!((results.shapes().len(), results.all_omitted()), (4, vec![format!("line 8: {why}")]), "{damaged}");
    }
    let noisy = one(&whole.replace("1048576  ", "srun: job 1 queued and waiting\n[node-a:1] x\n1048576  "));
    assert_eq!((noisy.shapes().len(), noisy.all_omitted()), (5, Vec::new()));
}

#[test]
fn tables_of_other_options_are_no_trials_of_one_case() {
    let one = text("7.5_allreduce.txt");
    let records = |other: String| read(&source(&(one.clone() + &other))).unwrap();
    assert_eq!(records(one.clone()).len(), 1);
    for (name, by) in [("-i 10 ", "-i 1000 "), ("mlx5_2", "mlx5_3"), ("-x 10", "-x 0")] {
        assert_eq!(records(one.replace(name, by)).len(), 2, "{by}");
    }
    // Trials have equal command lines, whatever the difference does.
    assert_eq!(records(one.replace("4:268435456", "4:1024")).len(), 2);
    assert!(records(one.clone())[0].facts["settings of the command line"].contains("-i 10"));
}

#[test]
fn a_percentile_without_a_place_is_told() {
    let header = "# OSU MPI Allreduce Latency Test v7.5\n# Datatype: MPI_INT.\n";
    let text = format!(
        "{header}# Size Avg Latency(us) P50 Tail Lat(us) P90 Tail Lat(us) P99 Tail Lat(us)\n4 2.0 1.0 3.0 4.0\n"
    );
    let source = source(&text).with_given("ranks", "4");
    let results = &read(&source).unwrap()[0];
    assert_eq!(results.all_omitted(), ["the column `P90 Tail Lat(us)`: the record has the percentiles 5, 50, 95, 99"]);
    assert!(lines(results)[0].ends_with("2.000 us p50 1.000 p99 4.000"), "{:?}", lines(results));
}
