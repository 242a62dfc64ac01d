//! The tables of DeepSpeed's communication benchmarks.

use crate::{lines, one, read, refusal, sample, source};

const TITLE: &str =
    "---- Performance of all_reduce on 8 devices ---------------------------------------------------------\n";
const RULE: &str =
    "----------------------------------------------------------------------------------------------------\n";

fn text() -> String {
    sample("ds_bench", "two_nodes.txt")
}

/// A table as the program prints it.
fn table(op: &str, head: &str, rows: &[&str]) -> String {
    format!("\n{}{head}\n{RULE}{}\n", TITLE.replace("all_reduce", op), rows.join("\n"))
}

fn gbps(op: &str, rows: &[&str]) -> String {
    table(op, "Size (Bytes)  Description  Duration  Throughput (Gbps)  BusBW (Gbps)", rows)
}

#[test]
fn the_size_is_that_of_the_description() {
    let results = one(&text());
    // 8501054668 x 4 bytes = 34,004,218,672, in 3176.620 ms: 10.704541 GB/s x 2 x 7/8 = 18.73295 GB/s = 149.863 Gb/s.
    assert_eq!(
        lines(&results),
        ["collective op=all_reduce ranks=8 backend=nccl runtime=pytorch dtype=f32 bytes=34004218672 reduce=sum \
             in_place=true \
          on cuda: 3176620.000 us x50"]
    );
    assert_eq!(
        results.notes,
        ["the file does not tell the element type: elements of 4 bytes are read as f32, the default of the program"]
    );
    assert_eq!(results.all_omitted(), Vec::<String>::new());
}

#[test]
fn parts_of_a_rank_are_multiplied_and_other_tables_are_told() {
    let text =
        gbps("all_gather", &["128.0 B  32x4  20.000 us  0.410  0.358", "1.0 KB  256x4  20.000 us  3.277  2.867"])
            + &gbps("pt2pt", &["1.0 KB  256x4  20.000 us  0.410  0.410"])
            + &gbps("broadcast", &["1.0 KB  512x2  20.000 us  0.410  0.410"])
            + &gbps("all_reduce", &["1.0 KB  512x2  20.000 us  0.410  0.410"]);
    let results = one(&text);
    let found = lines(&results);
    // 1 KiB x 8 ranks in 20 us: 0.4096 GB/s x 7/8 = 2.867 Gb/s.
    assert!(found[1].contains("op=all_gather ranks=8") && found[1].contains("bytes=8192 "), "{found:?}");
    assert!(found[2].contains("op=broadcast") && found[2].contains("dtype=u8 bytes=1024"), "{found:?}");
    assert_eq!(found.len(), 3);
    let omitted = results.all_omitted();
    assert!(omitted[0].contains("pt2pt sends one way, from rank 0 to rank 1"), "{omitted:?}");
    assert!(omitted[1].contains("does not tell which element type of 2 bytes is reduced"), "{omitted:?}");
    assert!(!results.notes.iter().any(|note| note.contains("busbw")), "{:?}", results.notes);
}

#[test]
fn a_command_line_tells_type_backend_and_trials() {
    let rows = ["1024                 512x2                     20.000               0.051                0.090"];
    let head = "Size (Bytes)         Description               Duration (us)        Throughput (GBps)    BusBW (GBps)";
    let command =
        "$ mpirun -np 8 python all_reduce.py --scan --raw --bw-unit GBps --dtype=bfloat16 --trials 7 --backend mpi\n";
    let results = one(&(command.to_owned() + &table("all_reduce", head, &rows)));
    assert_eq!(
        lines(&results),
        ["collective op=all_reduce ranks=8 backend=mpi runtime=pytorch dtype=bf16 bytes=1024 reduce=sum \
             in_place=true on cuda: \
          20.000 us x7"]
    );
    assert!(results.notes.is_empty(), "{:?}", results.notes);
    // The unit of the head decides: 0.090 Gb/s is not what size and time give.
    let wrong = one(&(command.to_owned() + &table("all_reduce", &head.replace("GBps", "Gbps"), &rows)));
    assert!(
        wrong.notes[0].contains("printed a busbw of 0.09 Gb/s, and size, ranks and time give 0.717"),
        "{:?}",
        wrong.notes
    );
    assert!(wrong.shapes()[0].1[0].time_s > 1.9e-5);
}

#[test]
fn damaged_rows_are_left_out_and_damaged_heads_refused() {
    let whole = text();
    for (from, to, why) in [
        ("3176.620 ms", "3176,620 ms", "expected a number, found `3176,620`: a comma counts only"),
        ("149.863", "149.8", "expected a number with 3 decimals, found `149.8`: the line may be cut"),
        ("          149.863", "", "expected 5 words behind the size, found 4"),
        ("31.67 GB", "31.67 MB", "the size is not that of `8501054668x4`, which has 34004218672 bytes"),
        ("3176.620 ms", "3176.620 s ", "expected a duration in us or ms, found `s`"),
        ("8501054668x4 ", "850105466x4  ", "the size is not that of `850105466x4`"),
    ] {
        let damaged = whole.replace(from, to);
        assert_ne!(damaged, whole);
        let omitted = one(&damaged).all_omitted();
        assert!(omitted[0].starts_with("line 11: ") && omitted[0].contains(why), "{from}: {omitted:?}");
    }
    let narrow: String = whole.lines().map(|line| line.chars().take(104).collect::<String>() + "\n").collect();
    assert!(refusal(&narrow).contains("line 9: the head of the table is cut"), "{}", refusal(&narrow));
    let other = refusal(&whole.replace("BusBW (Gbps)", "BusBW (Gibps)"));
    assert!(other.contains("line 9: the table of ds_bench"), "{other}");
    let empty: String = whole.lines().filter(|line| !line.contains("31.67")).map(|line| format!("{line}\n")).collect();
    assert!(refusal(&empty).contains("holds no line of results"));
}

#[test]
fn two_programs_that_wrote_at_once_are_refused_and_two_runs_kept_apart() {
    let rows = ["128.0 B  32x4  20.000 us  0.102  0.090", "1.0 KB  256x4  20.000 us  0.819  0.717"];
    let table = gbps("all_reduce", &rows);
    let twice = gbps("all_reduce", &[rows[0], rows[0], rows[1], rows[1]]);
    assert!(
        refusal(&twice).contains("line 6: the size is not larger than the one before in the table of line 2: separate")
    );
    let mixed: String = table.lines().flat_map(|line| [line, "\n", line, "\n"]).collect();
    assert!(refusal(&mixed).contains("a second table begins before the head of that of line 3"), "{}", refusal(&mixed));
    // One size each: the second program's title stands before the first row.
    let single = gbps("all_reduce", &[rows[0]]);
    let heads = single.split_once(rows[0]).unwrap().0;
    let why = refusal(&format!("{heads}{heads}{}\n{}\n", rows[0], rows[1]));
    assert!(why.contains("line 6: a second table of all_reduce, and that of line 2 has no row yet"), "{why}");
    let prefixed =
        |host: &str, text: &str| -> String { text.lines().map(|line| format!("{host}: {line}\n")).collect() };
    let hosts = prefixed("node-a", &table) + &prefixed("node-b", &single) + &format!("node-a: {}\n", rows[1]);
    let all = read(&source(&hosts)).unwrap();
    let omitted: Vec<String> = all.iter().flat_map(import::Results::all_omitted).collect();
    assert_eq!(omitted, ["line 12: a row behind another prefix than that of the table above"]);
    let two = format!("## before\n{table}\n## after\n{}", table.replace("20.000", "30.000"));
    let all = read(&source(&two)).unwrap();
    let headings: Vec<&str> = all.iter().map(|results| results.facts["heading"].as_str()).collect();
    assert_eq!(headings, ["before", "after"]);
    let numbered = two.replace("## before", "1. before").replace("## after", "2. after");
    assert_eq!(read(&source(&numbered)).unwrap().len(), 2);
    assert!(all.iter().all(|results| results.shapes().iter().all(|(_, trials)| trials.len() == 1)));
}
