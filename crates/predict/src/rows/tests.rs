//! Tables with mistakes.

use super::*;

const HEAD: &str = "machine,gpus,gpus_per_node,hidden,heads,layers,sequence,vocabulary,tensor,data,pipeline,interleave,micro_batch,\
                    global_batch,recompute,sequence_parallel,step_s,source";

fn line(change: impl Fn(usize) -> Option<&'static str>) -> String {
    let plain = "\"8x, \"\"A\"\"\"|8|8|1024|16|24|1024|51200|2|2|2|1|4|32|full|0|0.25|x";
    let cells = plain.split('|').enumerate().map(|(at, cell)| change(at).unwrap_or(cell));
    cells.collect::<Vec<_>>().join(",")
}

#[test]
fn rows_that_cannot_be_used_are_listed_with_the_reason() {
    let with = |at: usize, cell: &'static str| line(move |place| (place == at).then_some(cell));
    let lines = [
        line(|_| None),
        with(16, "NaN"),
        with(16, "0"),
        with(16, "-1.5"),
        with(1, "16"),
        with(13, "30"),
        with(4, "15"),
        with(10, "0"),
        with(14, "sometimes"),
        with(5, "25"),
        with(15, "2"),
        // Three micro-batches of two stages of two chunks.
        line(|at| match at {
            11 => Some("2"),
            13 => Some("24"),
            _ => None,
        }),
    ];
    let rows = read_rows(&format!("{HEAD}\n{}\n", lines.join("\n"))).unwrap();
    assert_eq!((rows.rows.len(), rows.rows[0].line, rows.rows[0].step_s), (1, 2, 0.25));
    let says = [
        "step_s is `NaN`",
        "step_s is `0`",
        "step_s is `-1.5`",
        "has 8 ranks, not 16",
        "30 samples",
        "heads",
        "pipeline is `0`",
        "recompute is `sometimes`",
        "25 layers",
        "sequence_parallel is `2`",
        "interleave is 2: 3 micro-batches",
    ];
    assert_eq!(rows.skipped.len(), says.len(), "{:?}", rows.skipped);
    for ((number, why), (at, says)) in rows.skipped.iter().zip(says.iter().enumerate()) {
        assert!(*number == at + 3 && why.contains(says), "line {number}: {why} lacks {says}");
    }
}

#[test]
fn a_row_whose_micro_batches_fit_its_interleave_is_used() {
    let rows = read_rows(&format!("{HEAD}\n{}\n", line(|at| (at == 11).then_some("2")))).unwrap();
    let recipe = &rows.rows[0].workload.recipe;
    assert_eq!((recipe.chunks, recipe.micro_batches.as_slice()), (2, [4, 4].as_slice()));
    rows.rows[0].workload.step().unwrap();
}

#[test]
fn sequence_parallelism_is_read_however_it_is_written() {
    let [yes, no] = [["1", "true", "True", "TRUE", "Yes"], ["", "0", "false", "False", "no"]];
    for (cell, wanted) in yes.map(|cell| (cell, true)).into_iter().chain(no.map(|cell| (cell, false))) {
        let rows = read_rows(&format!("{HEAD}\n{}\n", line(|at| (at == 15).then_some(cell)))).unwrap();
        assert_eq!(rows.rows[0].workload.recipe.sequence_parallel, wanted, "`{cell}`");
    }
}

#[test]
fn a_table_is_read_as_other_programs_write_it() {
    // A byte order mark, whole numbers as floating-point ones, words as they begin a cell.
    let row = line(|at| match at {
        1 => Some("8.0"),
        11 => Some("1.0"),
        14 => Some("Full"),
        _ => None,
    });
    let head = HEAD.strip_prefix("machine,").unwrap();
    let (_, row) = row.split_once("\"\"\",").unwrap();
    let rows = read_rows(&format!("\u{feff}{head}\n{row}\n")).unwrap();
    assert_eq!(rows.skipped, []);
    assert!(rows.rows[0].workload.recipe.recompute && rows.rows[0].workload.recipe.chunks == 1, "{:?}", rows.rows);
    for (cell, says) in [("8.5", "a whole number above zero"), ("8000000", "at most 1048576")] {
        let why = read_rows(&format!("{HEAD}\n{}\n", line(|at| (at == 1).then_some(cell)))).unwrap_err();
        assert!(why.cause.as_ref().is_some_and(|cause| cause.contains(says)), "{why:?}");
    }
}

#[test]
fn equal_rows_become_one_with_a_spread() {
    let other = line(|at| (at == 16).then_some("0.36"));
    let rows = read_rows(&format!("{HEAD}\n{}\n{other}\n", line(|_| None))).unwrap();
    let [row] = rows.rows.as_slice() else { panic!("{rows:?}") };
    assert!((row.step_s - 0.3).abs() < 1e-9 && row.count == 2, "{row:?}");
    assert!((row.spread - (0.36_f64 / 0.25).ln() / 2_f64.sqrt()).abs() < 1e-9, "{}", row.spread);
}

#[test]
fn rows_of_two_machines_stay_two() {
    let other = line(|at| match at {
        0 => Some("another"),
        16 => Some("0.36"),
        _ => None,
    });
    let rows = read_rows(&format!("{HEAD}\n{}\n{other}\n", line(|_| None))).unwrap();
    let found: Vec<(f64, f64, usize)> = rows.rows.iter().map(|row| (row.step_s, row.spread, row.count)).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!((found[1].0 - 0.36).abs() < 1e-9 && found[1].1 == 0.0 && found[1].2 == 1, "{found:?}");
}

#[test]
fn a_table_without_a_column_or_without_rows_is_refused() {
    let why = read_rows(&HEAD.replace("micro_batch,", "")).unwrap_err();
    assert!(why.cause.unwrap().contains("micro_batch"));
    let why = read_rows(HEAD).unwrap_err();
    assert!(why.what.contains("no row"), "{why}");
    assert!(read_rows("").is_err());
}

#[test]
fn a_time_in_another_unit_is_left_out() {
    let with = |cell: &'static str| line(move |place| (place == 16).then_some(cell));
    let text = format!("{HEAD}\n{}\n{}\n{}\n{}\n", with("0.25"), with("0.26"), with("250"), with("0.27"));
    let rows = read_rows(&text).unwrap();
    assert_eq!((rows.rows.len(), rows.rows[0].count), (1, 3));
    assert!(rows.rows[0].spread < 0.1, "{:?}", rows.rows[0]);
    let [(4, why)] = rows.skipped.as_slice() else { panic!("{:?}", rows.skipped) };
    assert!(why.contains("step_s is 250") && why.contains("seconds are read"), "{why}");
}
