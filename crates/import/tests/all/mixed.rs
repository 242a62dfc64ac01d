//! Tables of OSU and IMB into which several programs wrote at once.

use crate::{lines, one, read, refusal, sample, source};

/// The lines of a text from the first one that begins with a size.
fn rows(text: &str, begins: &str) -> (String, Vec<String>) {
    let all: Vec<&str> = text.lines().collect();
    let first = all.iter().position(|line| line.trim_start().starts_with(begins)).unwrap();
    let head = all[..first].join("\n") + "\n";
    (head, all[first..].iter().map(|line| (*line).to_owned()).collect())
}

/// Two programs: both heads, then their rows in turn.
fn in_turn(text: &str, begins: &str) -> String {
    let (head, rows) = rows(text, begins);
    let twice: String = rows.iter().map(|row| format!("{row}\n{row}\n")).collect();
    head.clone() + &head + &twice
}

#[test]
fn lines_of_two_programs_are_refused() {
    let why = refusal(&in_turn(&sample("osu", "7.5_allreduce.txt"), "4 "));
    assert!(
        why.contains("2 separate programs of 144 ranks wrote here at once: the table has 4 bytes twice, and their lines are mixed"),
        "{why}"
    );
    let why = refusal(&in_turn(&sample("imb", "2021.6_allreduce.txt"), "0 "));
    assert!(why.contains("2 separate programs of 144 ranks wrote here at once: the table has 8 bytes twice"), "{why}");
    assert!(why.contains("run them one after the other"), "{why}");
}

#[test]
fn sizes_that_go_back_are_of_two_programs() {
    let head = "$ mpirun -np 4 osu_allreduce\n# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n";
    let why = refusal(&format!("{head}{head}1024 5.0\n4 1.0\n2048 6.0\n8 1.1\n"));
    assert!(
        why.contains("line 8: separate programs of 4 ranks wrote here at once: the sizes go back from 1024 to 4"),
        "{why}"
    );
    // One row of each is enough if both heads are there.
    let titles = "# OSU MPI Allreduce Latency Test v7.4\n# OSU MPI Broadcast Latency Test v7.4\n";
    let header = "# Size       Avg Latency(us)\n";
    let both = source(&format!("{titles}{header}{header}4 2.0\n8 3.0\n")).with_given("ranks", "4");
    let why = read(&both).unwrap_err().to_string();
    assert!(
        why.contains("line 4: separate programs of 4 ranks wrote here at once: the table has its header twice"),
        "{why}"
    );
    // A size without its first digits is one damaged line.
    let damaged = one(&format!("{head}512 5.0\n24 6.0\n2048 7.0\n"));
    let why = "line 5: `24` may be what is left of 1024, the size that comes next";
    assert_eq!((damaged.shapes().len(), damaged.all_omitted()), (2, vec![why.to_owned()]));
    // Each element type of one program begins with the smallest size.
    let types = "# Datatype: MPI_INT.\n4 1.0\n8 1.1\n# Datatype: MPI_FLOAT.\n4 2.0\n8 2.1\n";
    assert_eq!(one(&format!("{head}{types}")).shapes().len(), 4);
}

#[test]
fn a_good_run_is_kept_beside_them() {
    let good = sample("osu", "7.5_allreduce.txt");
    let mixed = in_turn(&good.replace("-n 144", "-n 288"), "4 ");
    let all = read(&source(&(good.clone() + &mixed))).unwrap();
    let kept: Vec<_> = all.iter().filter(|results| !results.is_empty()).collect();
    assert_eq!((kept.len(), lines(kept[0])), (1, lines(&one(&good))));
    let omitted: Vec<String> = all.iter().flat_map(import::Results::all_omitted).collect();
    assert!(omitted[0].contains("2 separate programs of 288 ranks wrote here at once"), "{omitted:?}");
    let good = sample("imb", "2021.6_allreduce.txt");
    let all = read(&source(&(good.clone() + &in_turn(&good.replace("144", "72"), "0 ")))).unwrap();
    let kept: Vec<_> = all.iter().filter(|results| !results.is_empty()).collect();
    assert_eq!((kept.len(), lines(kept[0])), (1, lines(&one(&good))));
}

#[test]
fn imb_with_listed_sizes_has_them_in_any_order() {
    let text = |rows: &str, listed: &str| {
        format!(
            "# Calling sequence was:\n# IMB-MPI1 {listed} Allreduce\n# Benchmarking Allreduce\n# #processes = 4\n       \
             #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n{rows}"
        )
    };
    let rows = "4096 10 1.0 2.0 1.5\n8 10 0.5 0.7 0.6\n1024 10 0.8 1.0 0.9\n";
    assert_eq!(one(&text(rows, "-msglen sizes.txt")).shapes().len(), 3);
    let told = text(rows, "").replace("# Benchmarking", "# Message lengths were user defined\n# Benchmarking");
    assert_eq!(one(&told).shapes().len(), 3);
    assert!(refusal(&text(rows, "")).contains("the sizes go back from 4096 to 8"));
    let twice = format!("{rows}8 10 0.5 0.7 0.6\n");
    assert!(refusal(&text(&twice, "-msglen sizes.txt")).contains("the table has 8 bytes twice"));
}
