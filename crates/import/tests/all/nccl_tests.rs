//! The text of nccl-tests and rccl-tests.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("nccl_tests", file)
}

#[test]
fn a_table_of_2_19_becomes_two_cases_a_line() {
    let results = one(&text("2.19.txt"));
    let found = lines(&results);
    assert_eq!(found.len(), 8);
    assert_eq!(
        found[0],
        "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=8 reduce=sum in_place=false on cuda: 34.840 us x20 \
         wrong 0"
    );
    assert_eq!(
        found[7],
        "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=134217728 reduce=sum in_place=true on cuda: \
         1284.210 us x20 wrong 0"
    );
    assert_eq!(results.tool, "nccl-tests 2.19.4");
    assert_eq!(results.statistic, "mean over iterations of the mean over ranks");
    assert_eq!(results.hosts, ["node-a"]);
    assert_eq!(results.versions["nccl"], "2.19.3");
    assert_eq!(results.facts["device"], "NVIDIA A100-SXM4-80GB");
    assert_eq!(results.facts["average bus bandwidth, GB/s"], "34.9024");
    assert_eq!((results.notes.len(), results.all_omitted().len()), (0, 0), "{:?}", results.notes);
}

#[test]
fn runs_behind_a_launchers_tags_are_trials_of_one_record() {
    let results = one(&text("2.18_tagged.txt"));
    assert_eq!(results.runs(), 2);
    let found = lines(&results);
    assert_eq!(found.len(), 4);
    assert!(
        found[0].ends_with("in_place=false on cuda: 4366.460 us x50 wrong 0, 4366.110 us x50 wrong 0"),
        "{}",
        found[0]
    );
    assert_eq!(results.facts["run 2: average bus bandwidth, GB/s"], "1.58183");
    assert_eq!(results.notes, ["the file does not tell `-a`: times are read as its default, the mean over ranks"]);
}

#[test]
fn old_tables_have_the_columns_that_their_headers_name() {
    let results = one(&text("2.0_several.txt"));
    assert_eq!(results.runs(), 3);
    let found = lines(&results);
    assert_eq!(found.len(), 8);
    assert_eq!(
        found[0],
        "collective op=all_gather ranks=12 backend=nccl dtype=f32 bytes=67108848 in_place=false on cuda: 915.300 us x20"
    );
    assert_eq!(
        found[7],
        "collective op=broadcast ranks=12 backend=nccl dtype=f32 bytes=67108864 root=0 in_place=true on cuda: 638.700 us x20"
    );
    // The algbw of such an all_gather counts (n-1)/n of the bytes: no disagreement.
    assert!(!results.notes.iter().any(|note| note.contains("algbw")), "{:?}", results.notes);
    assert!(results.notes.contains(&"line 14: Out of bounds values : 4 FAILED".to_owned()), "{:?}", results.notes);
    let difference = "the column `error`: it is the largest difference, and the record counts wrong elements";
    assert_eq!(results.all_omitted(), ["line 11: 0 bytes: nothing moves", difference]);
}

#[test]
fn an_operation_that_no_line_names_follows_from_the_bus_factor() {
    let results = one(&text("2.10_unnamed.txt"));
    assert!(lines(&results)[0].contains("op=all_reduce ranks=4"), "{:?}", lines(&results));
    // With 2 ranks, 2(n-1)/n is 1: an all_reduce or a ring of sends.
    let two: String = text("2.10_unnamed.txt")
        .lines()
        .filter(|line| !line.contains("Rank  2") && !line.contains("Rank  3"))
        .map(|line| format!("{}\n", line.replace("2.53", "1.69").replace("2.56", "1.71")))
        .collect();
    let why = refusal(&two);
    assert!(why.starts_with("x.log, line 1: the file does not say which operation"), "{why}");
    assert!(why.contains("--op all_gather"), "{why}");
    let given = source(&two).with_given("op", "all_reduce");
    assert!(lines(&read(&given).unwrap()[0])[0].contains("op=all_reduce ranks=2"));
}

#[test]
fn rccl_tests_is_read_alike() {
    let results = one(&text("rccl_2.17.txt"));
    assert_eq!(results.tool, "rccl-tests 2.17.9-develop:2596ca5f71");
    assert_eq!(results.versions["rccl"], "2.27.7");
    let found = lines(&results);
    assert_eq!(
        found[2..],
        [
            "collective op=all_to_all ranks=8 backend=nccl dtype=f32 bytes=1048576 in_place=false on cuda: 46.560 us x20 wrong 0"
        ]
    );
    assert!(results.notes.contains(&"in-place times of all_to_all are left out: it has no in-place form".to_owned()));
}

/// `-O 0` of rccl-tests leaves the calls out of place out.
#[test]
fn a_table_of_in_place_calls_alone_is_in_place() {
    let text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
                validation: 1 graph: 0\n#\nrccl-tests: Version develop:2596ca5f71\n# Using devices\n\
                #   Rank  0 Pid      1 on     node-a device  0 [0000:05:00] AMD Instinct MI300X\n\
                #   Rank  3 Pid      1 on     node-a device  3 [0000:29:00] AMD Instinct MI300X\n#\n\
                #                                                              in-place          \n\
                #       size         count      type   re\u{64}op    root     time   algbw   busbw #wrong\n\
                #        (B)    (elements)                               (us)  (GB/s)  (GB/s)       \n\
                1048576        262144     float     sum      -1    20.00   52.43   78.64       0\n\
                # Errors with asterisks indicate errors that have exceeded the maximum threshold.\n\
                # Out of bounds values : 0 OK\n# Avg bus bandwidth    : 78.64 \n#\n\n";
    let results = one(text);
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=4 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=true on cuda: 20.000 us x20 \
             wrong 0"
        ]
    );
    assert!(!results.notes.iter().any(|note| note.contains("in-place columns")), "{:?}", results.notes);
}

#[test]
fn a_table_without_ranks_and_operation_takes_them_from_the_user() {
    let text = text("blank_redop.txt");
    let why = refusal(&text);
    assert!(why.contains("line 2: the file does not say how many ranks ran") && why.contains("--ranks N"), "{why}");
    let given = source(&text).with_given("ranks", "8").with_given("op", "all_to_all");
    let found = lines(&read(&given).unwrap()[0]);
    assert_eq!(
        found[0],
        "collective op=all_to_all ranks=8 backend=nccl dtype=f32 bytes=16384 in_place=false on cuda: 28.140 us"
    );
}

#[test]
fn per_iteration_columns_blocking_and_timestamps_are_read() {
    let results = one(&text("2.19_per_iteration.txt"));
    let found = lines(&results);
    assert_eq!(
        found[0],
        "collective op=reduce_scatter ranks=2 backend=nccl dtype=bf16 bytes=1048576 reduce=avg in_place=false mode=isolated \
         on cuda: 20.000 us x40 p99 24.500 min 19.000 max 25.000"
    );
    assert_eq!(found.len(), 4);
    // A sum of FP8, which is not run here, is read.
    assert!(found[2].contains(" dtype=f8e4m3 bytes=1048576 reduce=sum "), "{}", found[2]);
    assert_eq!(
        results.all_omitted(),
        [
            "the column `i_cv%`: the record has no coefficient of variation",
            "the column `timestamp`: the record has the times of the first and the last row",
        ]
    );
    assert_eq!(results.facts["first row, local time"], "2026-07-09 16:03:21");
    assert_eq!(results.facts["last row, local time"], "2026-07-09 16:03:22");
}

/// `-Y N` of 2.20 repeats a call and counts what differs.
#[test]
fn columns_of_differing_bits_are_known() {
    let text = text("2.19.txt").replace("#wrong", "#wrong #bitdiff");
    let rows: String = text
        .lines()
        .map(|line| match line.trim_start().starts_with(|first: char| first.is_ascii_digit()) {
            true => {
                let words: Vec<&str> = line.split_whitespace().collect();
                format!("{} 0 {} 0\n", words[..9].join(" "), words[9..].join(" "))
            }
            false => format!("{line}\n"),
        })
        .collect();
    let (plain, repeated) = (one(&self::text("2.19.txt")), one(&rows));
    assert_eq!(lines(&repeated), lines(&plain));
    assert!(repeated.all_omitted().iter().any(|what| what.starts_with("the column `#bitdiff`")));
}

#[test]
fn a_command_line_tells_how_times_are_merged() {
    let text = text("2.19.txt").replace("-g 8\n", "-g 8 -a 3\n");
    assert_eq!(one(&text).statistic, "mean over iterations of the slowest rank");
}

#[test]
fn bandwidths_that_disagree_with_ours_are_told() {
    let results = one(&text("2.19.txt").replace("27.26", "29.26"));
    let odd: Vec<&String> = results.notes.iter().filter(|note| note.contains("busbw")).collect();
    assert_eq!(odd, ["line 21: its busbw of 29.26 GB/s is not that of 8 ranks, 27.26 GB/s"]);
    // Two programs of one rank each, under a launcher that the program was not built for.
    let worlds = text("2.19.txt").replace("#  Rank  7 ", "#  Rank  0 ");
    assert!(refusal(&worlds).contains("2 separate programs of 7 ranks"), "{}", refusal(&worlds));
}

#[test]
fn damaged_lines_are_left_out_by_number() {
    let text = text("2.19.txt");
    let cut = text.split("1284.21").next().unwrap();
    let results = one(cut);
    assert_eq!((results.shapes().len(), results.all_omitted()), (6, vec![]));
    assert!(source(cut).unfinished().unwrap().starts_with("line 22, the last, has no line end"));
    let odd = one(&text.replace("   67.31   15.58", "   67,31   15.58"));
    assert_eq!(
        odd.all_omitted(),
        [
            "line 21: expected a time, found `67,31`: a comma counts only between groups of three digits, and this one may stand before decimals"
        ]
    );
    let none = one(&text.replace("   67.31   15.58", "   0.00   15.58"));
    assert_eq!(none.all_omitted(), ["line 21: a time of 0 us is not a time"]);
}

#[test]
fn columns_that_nobody_has_seen_are_refused_by_name() {
    let why = refusal(&text("2.19.txt").replace("busbw  #wrong \n", "busbw  #wrong p50\n"));
    assert!(why.contains("line 17: the table of nccl-tests 2.19.4 has a column `p50` that this reader"), "{why}");
    let why = refusal(&text("2.10_unnamed.txt").replace("busbw  error\n", "busbw  error p50\n"));
    assert!(why.contains("of nccl-tests, of a version that the file does not tell, has a column `p50`"), "{why}");
    let why = refusal(&text("2.19.txt").replace(" time ", " cputime "));
    assert!(why.contains("`cputime` is the time until a call returns"), "{why}");
}

#[test]
fn failures_in_a_log_are_notes() {
    let text = text("2.19.txt") + "node-a: Test NCCL failure common.cu:1279 'unhandled system error / '\n";
    assert!(
        one(&text)
            .notes
            .contains(&"line 28: node-a: Test NCCL failure common.cu:1279 'unhandled system error / '".to_owned())
    );
}

#[test]
fn a_command_line_of_another_program_is_no_guess() {
    let text = text("2.10_unnamed.txt");
    let why = refusal(&format!("$ ./build/reduce_scatter_perf -b 32M\n{text}"));
    assert!(why.contains("the command line says reduce_scatter, the table is one of all_reduce"), "{why}");
}

#[test]
fn rows_that_are_damaged_in_front_are_left_out_by_number() {
    let whole = text("2.19.txt");
    let row = whole.lines().nth(20).unwrap();
    let glued = format!("{row}node-a:1:1 [0] NCCL INFO {}", "Channel 00 : 0 1 2 3 ".repeat(5));
    let behind = format!("node-a:1:1 [0] NCCL INFO Launch {row}");
    for (damaged, why) in [
        (row.replace("1048576 ", "10485X6 "), "expected a size and a count, found `10485X6 262144`"),
        (row.replace("1048576 ", ""), "expected 13 columns, found 12"),
        (row.replace(" 262144 ", ""), "expected 13 columns, found 12"),
        (row.replace("     1048576        262144     float     sum ", ""), "expected 13 columns, found 9"),
        (
            row.replace("     1048576        262144     float     sum      -1    67.31 ", ""),
            "expected 13 columns, found 7",
        ),
        (row.replace("1048576 ", "? "), "expected a size and a count, found `? 262144`"),
        ("     1048576".to_owned(), "expected 13 columns, found 1"),
        (glued, "expected 13 columns, found 51"),
        (behind, "expected 13 columns, found 18"),
    ] {
        let results = one(&whole.replace(row, &damaged));
        assert_eq!(results.all_omitted(), [format!("line 21: {why}")], "{damaged}");
        assert_eq!(results.shapes().len(), 6);
    }
}

#[test]
fn lines_of_other_programs_are_no_damaged_rows() {
    let whole = text("2.19.txt");
    let first = whole.lines().nth(19).unwrap();
    for other in [
        "node-a:195:195 [0] NCCL INFO Channel 00/04 :    0   1   2   3",
        "node-a:195:195 [0] NCCL INFO Launch mode Parallel",
        "srun: job 1 queued and waiting for resources",
        "2 additional processes wait",
        "mpirun -np 8 ./build/all_reduce_perf -b 8 -e 128 -f 2 -g 1",
        "-----",
        "# 1 2 3 4 5",
    ] {
        let results = one(&whole.replace(first, &format!("{first}\n{other}")));
        assert_eq!((results.shapes().len(), results.all_omitted()), (8, Vec::new()), "{other}");
    }
    // Behind the table nothing is a row.
    assert_eq!(one(&format!("{whole}times 1 2 3 4 5\n")).all_omitted(), [""; 0]);
    let lost =
        whole.lines().filter(|line| !line.contains("size   ")).map(|line| format!("{line}\n")).collect::<String>();
    let results = one(&(lost + &whole));
    assert_eq!(results.all_omitted()[0], "line 18: no header of a table stands above this line");
}

#[test]
fn a_run_without_rows_is_not_lost() {
    let failed = text("2.19.txt").split("           8  ").next().unwrap().to_owned()
        + "  1048576  2\nnode-a: Test NCCL failure common.cu:1279 'unhandled system error / '\n";
    let results = one(&(failed + &text("2.19.txt")));
    assert_eq!(results.all_omitted(), ["line 19: expected 13 columns, found 2"]);
    assert!(
        results.notes.iter().any(|note| note.starts_with("line 20: node-a: Test NCCL failure")),
        "{:?}",
        results.notes
    );
}

#[test]
fn runs_of_other_options_are_no_trials_of_one_case() {
    let plain = text("2.19.txt");
    let all = |second: String| read(&source(&(plain.clone() + &second))).unwrap();
    let trials = |results: &[import::Results]| results.iter().map(|one| one.shapes()[0].1.len()).collect::<Vec<_>>();
    assert_eq!(trials(&all(plain.clone())), [2]);
    for (name, by) in [
        ("iters: 20 agg iters: 1 validation: 1 graph: 0", "iters: 100 agg iters: 1 validation: 1 graph: 0"),
        ("graph: 0", "graph: 1"),
        ("agg iters: 1 ", "agg iters: 4 "),
        ("warmup iters: 1", "warmup iters: 5"),
        ("-g 8\n", "-g 8 -R 1\n"),
        ("-g 8\n", "-g 8 -a 3\n"),
        ("./build", "NCCL_ALGO=Ring ./build"),
    ] {
        assert!(plain.contains(name));
        assert_eq!(trials(&all(plain.replace(name, by))), [1, 1], "{by}");
    }
    // Trials have equal command lines, whatever the difference does.
    assert_eq!(trials(&all(plain.replace("-e 128M", "-e 1G"))), [1, 1]);
    // Checks and where results go change no time.
    for (name, by) in [("validation: 1", "validation: 0"), ("-g 8\n", "-g 8 | tee x.log\n")] {
        assert_eq!(trials(&all(plain.replace(name, by))), [2], "{by}");
    }
}

#[test]
fn versions_that_nobody_has_seen_are_read_with_a_note() {
    let whole = text("2.19.txt");
    for version in ["9.99.0", "2.21.0", "two"] {
        let results = one(&whole.replace("2.19.4", version));
        assert_eq!(lines(&results), lines(&one(&whole)));
        let note = format!("line 2: version `{version}` of nccl-tests is new to this reader, which knows 2.0 to 2.20");
        assert!(results.notes.iter().any(|noted| noted.starts_with(&note)), "{:?}", results.notes);
    }
    let notes = one(&text("rccl_2.17.txt").replace("rccl-tests version 2.17.9", "rccl-tests version 3.0.1")).notes;
    assert!(
        notes.iter().any(|note| note.contains("version `3.0.1-develop:2596ca5f71` of rccl-tests is new")),
        "{notes:?}"
    );
    let version = "rccl-tests version 2.17.9-develop:2596ca5f71 rccl-headers=22803 rccl-library=22707";
    let early = text("rccl_2.17.txt").replace(version, "rccl-tests: Version develop:2596ca5f71");
    assert_eq!((one(&early).tool.as_str(), one(&early).runs()), ("rccl-tests develop:2596ca5f71", 2));
}

#[test]
fn what_a_long_log_says_is_counted_where_it_is_not_listed() {
    let results = one(&text("2.19.txt").repeat(30));
    assert_eq!(results.all_omitted(), ["and 10 more runs: facts are listed of the first 20"]);
    let failures: String = (0..60).map(|at| format!("node-a: Test NCCL failure common.cu:{at}\n")).collect();
    let results = one(&(text("2.19.txt") + &failures));
    assert_eq!(results.all_omitted(), ["and 10 more lines like those of the notes"]);
}
