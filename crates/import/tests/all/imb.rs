//! The text of the Intel MPI Benchmarks.

use crate::{lines, one, read, refusal, sample, source};

fn text() -> String {
    sample("imb", "2021_several.txt")
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
