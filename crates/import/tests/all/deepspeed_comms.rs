//! The table of DeepSpeed's communication logger.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("deepspeed_comms", file)
}

const COLLECTIVE: &str = "backend=nccl runtime=pytorch dtype=u8";

#[test]
fn ranks_follow_from_the_share_of_the_bus() {
    let results = one(&text("zero3.txt"));
    let found = lines(&results);
    let starts = |at: usize, text: &str| assert!(found[at].starts_with(text), "{} {}", found[at], text);
    // 2 KiB of rank 0, within 5 bytes; 11.12 ms / 146 = 0.0762 ms.
    starts(
        0,
        &format!(
            "collective op=broadcast ranks=16 {COLLECTIVE} bytes=2048 in_place=true mode=isolated on cuda: \
             80.000 us x146"
        ),
    );
    assert!(found[0].ends_with("mean 76.164"), "{}", found[0]);
    starts(5, "collective op=barrier ranks=16 backend=nccl runtime=pytorch on cuda: 79320.000 us x3");
    // One rank's part is printed: 128 KiB x 16 ranks.
    assert!(found[7].contains("op=all_gather ranks=16") && found[7].contains("bytes=2097152 "), "{}", found[7]);
    // The total is printed: 678.86 MiB = 711,836,303 bytes.
    let scatter = found.iter().find(|line| line.contains("op=reduce_scatter")).unwrap();
    assert!(scatter.contains("bytes=711836303 reduce=sum") && scatter.contains(": 9690.000 us x40"), "{scatter}");
    assert_eq!(found.len(), 16);
    let omitted = results.all_omitted();
    assert_eq!(
        omitted,
        [
            "line 3: 0 bytes: nothing moves",
            "line 17: a mean of 0.00 ms: it is shorter than the digits show",
            "line 20: a line above is of the same operation, and its size is printed alike",
            "line 28: a barrier of log_summary itself",
        ]
    );
    let notes = results.notes.join("\n");
    for note in [
        "each is read as one of all 16 ranks of the job",
        "does not tell the element type: sizes are read as bytes",
        "sizes in MB are rounded to 0.01 MB: bytes are within 5243 of those sent",
        "sizes in KB are rounded to 0.01 KB: bytes are within 6 of those sent",
        "does not tell the backend",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

#[test]
fn a_table_of_stragglers_is_a_record_of_its_own() {
    let all = read(&source(&text("straggler.txt"))).unwrap();
    assert_eq!(all.len(), 2);
    // 32 KiB: 0.34 ms with waiting, 0.24 ms without; the share of the bus is that of 2 ranks.
    let with = lines(&all[0]);
    assert!(with[1].contains("op=all_reduce ranks=2") && with[1].contains("bytes=32768 "), "{with:?}");
    assert!(with[1].contains(": 340.000 us x3472 mean 369.136"), "{with:?}");
    let without = lines(&all[1]);
    assert!(without[2].contains("ranks=2") && without[2].contains(": 240.000 us x3472 mean 278.335"), "{without:?}");
    assert!(all[0].statistic.contains("with waiting") && all[1].statistic.contains("waited least"));
    assert!(all[1].notes.iter().any(|note| note.contains("pull request 8199")), "{:?}", all[1].notes);
    assert!(all[1].all_omitted().iter().any(|what| what.contains("Avg straggler(ms)")));
}

#[test]
fn each_caller_has_a_record() {
    let all = read(&source(&text("zero3_callers.txt"))).unwrap();
    let callers: Vec<&str> = all.iter().map(|results| results.facts["caller"].as_str()).collect();
    assert_eq!(callers, ["_broadcast_model", "reduce_scatter_fn", "has_overflow", "_model_parallel_all_reduce"]);
    assert!(lines(&all[3])[1].contains("op=all_reduce ranks=16") && lines(&all[3])[1].contains(": 60.000 us x40"));
}

#[test]
fn ranks_that_the_table_does_not_tell_come_from_elsewhere_and_must_fit() {
    let text = text("broadcast.txt");
    assert!(refusal(&text).starts_with("x.log, line 1: the file does not say how many ranks ran"));
    let given = read(&source(&text).with_given("ranks", "8")).unwrap();
    // 1.45 GiB = 1,556,925,645 bytes in 135.56 ms: 91.88 Gb/s, as printed (91.67, a mean of two).
    assert!(lines(&given[0])[5].contains("ranks=8") && lines(&given[0])[5].contains("bytes=1556925645"));
    // Who quotes a table may put a mark before its first line alone.
    let quoted = read(&source(&format!("`{text}")).with_given("ranks", "8")).unwrap();
    assert_eq!(lines(&quoted[0]), lines(&given[0]));
    let launched = one(&format!("[INFO] [launch.py:162:main] dist_world_size=4\n{text}"));
    assert!(lines(&launched)[0].contains("ranks=4"));
    let why = read(&source(&self::text("zero3.txt")).with_given("ranks", "8")).unwrap_err().to_string();
    assert!(why.contains("`--ranks 8` contradicts x.log") && why.contains("the file says 16 ranks"), "{why}");
    // Shares that fit no number, or several but not this one.
    let other = format!("Initializing TorchBackend in DeepSpeed with backend ccl\n{}", self::text("straggler.txt"));
    let omitted = read(&source(&other)).unwrap()[0].all_omitted();
    assert!(omitted[0].contains("backend `ccl`: only nccl, gloo and mpi have a counterpart here"), "{omitted:?}");
    let odd = self::text("straggler.txt").replace("1.71 0.86", "1.71 1.60").replace("11.17 5.58", "0.00 0.00");
    let why = read(&source(&odd).with_given("ranks", "4")).unwrap_err().to_string();
    assert!(why.contains("line 5: busbw_avg / tput_avg is not that of 4 ranks"), "{why}");
}

#[test]
fn damaged_rows_are_left_out_and_damaged_tables_refused() {
    let whole = text("zero3.txt");
    let count = |text: &str| one(text).shapes().len();
    for (from, to, why) in [
        ("9.69   ", "9,69   ", "line 23: expected a number, found `9,69`: a comma counts only"),
        ("678.86 MB", "678,86 MB", "line 23: expected a size, found `678,86`"),
        ("1376.31", "1376.3", "line 23: expected a number with 2 decimals, found `1376.3`: the line may be cut"),
        ("1468.06             1376.31", "", "line 23: expected 5 columns behind the size, found 3"),
        ("678.86 MB", "678.86 MiB", "line 23: expected a size such as `2.0 KB`, found `678.86 MiB`"),
    ] {
        let damaged = whole.replace(from, to);
        assert_ne!(damaged, whole);
        let omitted = one(&damaged).all_omitted();
        assert!(omitted.iter().any(|what| what.starts_with(why)), "{from}: {omitted:?}");
        assert_eq!(count(&damaged), 15, "{from}");
    }
    let narrow = |columns: usize| -> String {
        let cut = |line: &str| line.chars().take(columns).collect::<String>() + "\n";
        whole.lines().map(cut).collect()
    };
    for columns in [80, 100, 125] {
        assert!(refusal(&narrow(columns)).contains("line 1: the head of the table is cut"), "{columns}");
    }
    let why = refusal(&whole.replace("Avg Latency(ms)", "Total straggler(ms) Avg Latency(ms)"));
    assert!(why.contains("line 1: the table of DeepSpeed's communication logger"), "{why}");
}

#[test]
fn two_programs_that_wrote_at_once_are_refused() {
    let whole = text("zero3.txt");
    let twice: String = whole.lines().flat_map(|line| [line, "\n", line, "\n"]).collect();
    assert!(refusal(&twice).contains("line 2: a second head"), "{}", refusal(&twice));
    let back = whole.replace("                    8.0 MB  ", "                    1.0 KB  ");
    assert!(
        refusal(&back)
            .contains("line 7: the size is smaller than that of line 6: separate programs wrote here at once")
    );
    let again = whole.replace("all_gather_base\n", "all_gather\n");
    assert!(refusal(&again).contains("line 15: `all_gather` stands twice in one table, first in line 11"));
}

#[test]
fn two_runs_are_two_records_and_prefixes_are_taken_off() {
    let whole = text("zero3.txt");
    let two = format!("## before\n{whole}\n## after\n{}", whole.replace("9.69 ", "7.69 "));
    let all = read(&source(&two)).unwrap();
    let headings: Vec<&str> = all.iter().map(|results| results.facts["heading"].as_str()).collect();
    assert_eq!(headings, ["before", "after"]);
    let prefixed: String = whole.lines().map(|line| format!("node-a: {line}\nnode-b: step 3\n")).collect();
    assert_eq!(lines(&one(&prefixed)), lines(&one(&whole)));
    let other = one(&(prefixed + "node-b: 2.0 KB 1 0.10 0.10 0.10 0.10\n"));
    assert!(other.all_omitted()[0..5].iter().any(|what| what.contains("a row behind another prefix")), "{other:?}");
}
