//! The text of the Intel MPI Benchmarks.

use crate::{lines, one, read, refusal, sample, source};

fn text() -> String {
    sample("imb", "2021_several.txt")
}

#[test]
fn a_page_may_have_taken_the_marks_of_lines() {
    let whole = "# Intel(R) MPI Benchmarks 2021.6, MPI-1 part\n# Benchmarking Allreduce\n# #processes = 4\n       \
                 #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n 4  1000  5.00  6.00  5.50\n";
    let pasted = whole.replace("# ", "");
    assert_eq!(lines(&one(&pasted)), lines(&one(whole)));
}

#[test]
fn several_benchmarks_of_one_file() {
    let results = one(&text());
    assert_eq!(
        lines(&results),
        [
            "collective op=all_to_all ranks=2 backend=mpi dtype=u8 bytes=2048 in_place=false on cpu: 4.060 us x1000 min 1.810 \
             max 6.310",
            "collective op=all_reduce ranks=4 backend=mpi dtype=f32 bytes=4 reduce=sum in_place=false on cpu: 4.350 us x100 \
             min 4.250 max 4.460",
            "collective op=all_reduce ranks=4 backend=mpi dtype=f32 bytes=524288 reduce=sum in_place=false on cpu: 99.750 us \
             x80 min 99.020 max 100.480",
            "collective op=ping_pong ranks=2 backend=mpi dtype=u8 bytes=1024 on cpu: 1.500 us x1000",
            "collective op=barrier ranks=4 backend=mpi on cpu: 2.110 us x1000 min 2.100 max 2.130",
        ]
    );
    assert_eq!(results.tool, "Intel MPI Benchmarks 2021.3");
    assert_eq!(results.facts["Date"], "Thu Mar 24 04:29:15 2022");
    let omitted = results.all_omitted();
    assert_eq!(omitted.len(), 4, "{omitted:?}");
    assert!(omitted[3].contains("`Exchange` has no counterpart here"), "{omitted:?}");
}

#[test]
fn ranks_that_are_missing_come_from_the_user() {
    let cut = text().replace("# #processes = 4", "#");
    let why = refusal(&cut);
    assert!(why.contains("line 36: the file does not say how many ranks ran"), "{why}");
    let given = source(&cut).with_given("ranks", "16");
    assert!(lines(&read(&given).unwrap()[0])[1].contains("op=all_reduce ranks=16"));
}

#[test]
fn unknown_columns_and_damaged_lines_are_told() {
    let why = refusal(&text().replace("t_avg[usec]", "t_p99[usec]"));
    assert!(why.contains("line 31: the table of Intel MPI Benchmarks 2021.3 has a column `t_p99[usec]`"), "{why}");
    let cut = one(&text().replace("6.31         4.06", "6.31"));
    assert!(cut.all_omitted().contains(&"line 33: expected 5 columns, found 4".to_owned()), "{:?}", cut.all_omitted());
    let groups = text().replace(
        "( 2 additional processes waiting in MPI_Barrier)",
        "( 2 groups of 2 processes each running simultaneous ) ",
    );
    assert!(
        one(&groups).all_omitted().contains(&"line 29: `Alltoall`: several groups ran at once".to_owned()),
        "{:?}",
        one(&groups).all_omitted()
    );
}

#[test]
fn versions_that_nobody_has_seen_are_read_with_a_note() {
    for version in ["2099.1", "2022.0", "5.0", "2021.8"] {
        let results = one(&text().replace("2021.3", version));
        assert_eq!(lines(&results), lines(&one(&text())), "{version}");
        let note = format!("line 2: version `{version}` of the Intel MPI Benchmarks is new to this reader");
        assert!(results.notes.iter().any(|noted| noted.starts_with(&note)), "{:?}", results.notes);
    }
    for version in ["2019 Update 4", "4.0", "2021.7", "2018"] {
        assert_eq!(lines(&one(&text().replace("2021.3", version))), lines(&one(&text())), "{version}");
    }
}

#[test]
fn rows_that_are_damaged_in_front_are_left_out_by_number() {
    let whole = sample("imb", "2021.6_allreduce.txt");
    assert_eq!(one(&whole).all_omitted(), ["line 36: 0 bytes: nothing moves"]);
    for (damaged, why) in [
        ("1O24         1000         7.01         8.35         7.40", "expected a whole number, found `1O24`"),
        ("X        1000         7.01         8.35         7.40", "expected a whole number, found `X`"),
        ("1000         7.01         8.35         7.40", "expected 5 columns, found 4"),
    ] {
        let omitted =
            one(&whole.replace("1024         1000         7.01         8.35         7.40", damaged)).all_omitted();
        assert_eq!(omitted[1..], [format!("line 38: {why}")], "{damaged}");
    }
}

#[test]
fn runs_of_other_options_and_versions_are_no_trials_of_one_case() {
    let one = sample("imb", "2021.6_allreduce.txt");
    let records = |other: String| read(&source(&(one.clone() + &other))).unwrap();
    let again = records(one.clone());
    assert_eq!((again.len(), again[0].runs(), again[0].shapes()[0].1.len()), (1, 2, 2));
    assert_eq!(again[0].facts["run 2: Date"], "Thu Jul 20 17:06:33 2023");
    for (name, by) in [("2021.6,", "2021.7,"), ("# IMB-MPI1 -msglog", "# IMB-MPI1 -off_cache 64 -msglog")] {
        assert_eq!(records(one.replace(name, by)).len(), 2, "{by}");
    }
    // Trials have equal command lines, whatever the difference does.
    assert_eq!(records(one.replace("-npmin 144", "-npmin 72")).len(), 2);
}

#[test]
fn buffers_on_gpus_are_on_no_cpu() {
    let on = |text: &str| one(text).shapes()[0].0.device;
    let whole = sample("imb", "2021.6_allreduce.txt");
    let gpu = |options: &str| whole.replace("# IMB-MPI1 ", &format!("# IMB-MPI1-GPU {options}"));
    assert_eq!((on(&whole), on(&gpu("")), on(&gpu("-mem_alloc_type host "))), ("cpu", "gpu", "cpu"));
    let titled = whole.replace("MPI-1 part", "MPI-1 part (GPU)");
    assert_eq!(on(&titled), "gpu");
    assert!(one(&titled).notes.iter().any(|note| note.contains("in the memory of GPUs")));
}

#[test]
fn one_process_communicates_nothing() {
    let one_process = sample("imb", "2021.6_allreduce.txt").replace("# #processes = 144", "# #processes = 1");
    let results = one(&one_process);
    assert!(lines(&results)[0].contains("ranks=1 "));
    assert!(results.notes.contains(&"one rank: nothing was communicated".to_owned()), "{:?}", results.notes);
}

#[test]
fn what_is_given_must_not_contradict_the_file() {
    let given = |name: &str, value: &str| read(&source(&text()).with_given(name, value)).map_err(|why| why.to_string());
    let why = given("ranks", "16").unwrap_err();
    assert!(why.contains("`--ranks 16` contradicts x.log") && why.contains("the ranks in the file are 2, 4"), "{why}");
    assert!(given("ranks", "4").is_ok(), "one of its tables has 4");
    let why = given("op", "broadcast").unwrap_err();
    assert!(why.contains("`--op broadcast` contradicts x.log") && why.contains("all_reduce, all_to_all"), "{why}");
}

#[test]
fn the_shells_command_line_counts_too() {
    let whole = sample("imb", "2021.6_allreduce.txt");
    let without = whole.replace("# #processes = 144", "#");
    assert!(lines(&one(&without))[0].contains("ranks=144 "));
    // Settings of the launcher make another method.
    let other = whole.replace("mlx5_2:1", "mlx5_3:1");
    assert_eq!(read(&source(&(whole.clone() + &other))).unwrap().len(), 2);
    assert!(one(&whole).facts["command line"].starts_with("mpirun -n 144"), "{:?}", one(&whole).facts);
}

/// Written, from `IMB_output.c` of 2021.7; its header stands in issue 51 of intel/mpi-benchmarks.
const NBC: &str = "\
#    Intel(R) MPI Benchmarks 2021.7, MPI-NBC part
# Calling sequence was:
# ./IMB-NBC -npmin 4 Iallreduce Iallreduce_pure
# MPI_Datatype for reductions    :   MPI_FLOAT
#------------------------------------------------------------------------------------------
# Benchmarking Iallreduce
# #processes = 4
#------------------------------------------------------------------------------------------
       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]      defects
            0         1000         0.63         0.30         0.30         0.00         0.00
            4         1000         9.10         5.20         5.00        21.15         0.00
            8         1000         9.30         5.30         5.10        20.75         0.00

# Benchmarking Iallreduce_pure
# #processes = 4
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]      defects
            4         1000         4.10         5.20         4.90         0.00
";

#[test]
fn non_blocking_calls_are_not_the_blocking_ones() {
    let all = read(&source(NBC)).unwrap();
    assert_eq!(all.len(), 2);
    let shape = "collective op=all_reduce ranks=4 backend=mpi dtype=f32 bytes=4 reduce=sum in_place=false on cpu:";
    assert_eq!(lines(&all[0])[0], format!("{shape} 5.200 us x1000 wrong 0"));
    assert_eq!(lines(&all[1]), [format!("{shape} 4.900 us x1000 wrong 0 min 4.100 max 5.200")]);
    assert!(all[0].statistic.contains("of the rank whose call with computation takes longest"), "{}", all[0].statistic);
    assert!(all[1].statistic.ends_with("of a non-blocking call and its wait without computation"));
    assert_eq!(all[0].facts["overlap of Iallreduce, 4 ranks"], "4 B: 21.15 %; 8 B: 20.75 %");
    assert!(all[0].all_omitted().iter().any(|what| what.starts_with("the columns `t_ovrl[usec]`")));
    assert!(
        read(&source(&NBC.replace("21.15", "21,15"))).unwrap()[0].all_omitted()[1].contains("found `21,15`: a comma")
    );
}

#[test]
fn tables_that_are_cut_at_a_width_give_no_other_figures() {
    for whole in [text(), sample("imb", "2021.6_allreduce.txt"), sample("imb", "2021.7_alltoall.txt"), NBC.to_owned()] {
        let figures = |text: &str| -> Option<Vec<String>> {
            let all = read(&source(text)).ok()?;
            let shapes = all.iter().flat_map(|results| results.shapes().to_vec());
            Some(shapes.map(|(shape, all)| format!("{shape:?} {:.4e}", all[0].time_s)).collect())
        };
        let right = figures(&whole).unwrap();
        for width in 20..=200 {
            let cut: String = whole.lines().map(|line| line.chars().take(width).collect::<String>() + "\n").collect();
            let found = figures(&cut).unwrap_or_default();
            assert!(found.iter().all(|figure| right.contains(figure)), "{width}: {found:?}");
        }
    }
}

#[test]
fn a_run_of_nothing_but_zero_bytes_has_no_case() {
    // Of intel/mpi-benchmarks issue 51: the check of the next size failed, and the program ended.
    let text = "#    Intel(R) MPI Benchmarks 2018, MPI-NBC part\n# Benchmarking Ireduce_scatter \n# #processes = 2 \n\
                #-------------------------------------------------------------------------------------\n       \
                #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]      defects\n            \
                0         1000         0.63         0.30         0.30         0.00         0.00\n\
                1: Error Ireduce_scatter_pure,size = 4\n";
    let results = one(text);
    assert!(results.is_empty(), "{:?}", lines(&results));
    assert!(results.all_omitted().iter().any(|what| what.contains("0 bytes")), "{:?}", results.all_omitted());
}
