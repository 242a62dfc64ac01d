//! The text of all_reduce_bench.py.

use crate::{lines, one, read, refusal, sample, source};

fn table() -> String {
    sample("all_reduce_bench", "table.txt")
}

#[test]
fn times_follow_from_payload_and_algbw() {
    let results = one(&table());
    let shape = "collective op=all_reduce ranks=4 backend=nccl runtime=pytorch dtype=f32";
    assert_eq!(
        lines(&results),
        [
            format!("{shape} bytes=32768 reduce=sum in_place=true on cuda: 41.478 us x20"),
            format!("{shape} bytes=1073741824 reduce=sum in_place=true on cuda: 4527.691 us x20"),
        ]
    );
    assert_eq!((results.versions["torch"].as_str(), results.versions["nccl"].as_str()), ("2.7.0", "2.26.2"));
}

#[test]
fn the_older_form_names_one_payload() {
    let results = one(&sample("all_reduce_bench", "one_payload.txt"));
    assert_eq!(results.runs(), 2);
    let found = lines(&results);
    assert!(
        found[0].contains("ranks=4 ")
            && found[0].ends_with("bytes=4000000000 reduce=sum in_place=true on cuda: 18295.332 us x20"),
        "{found:?}"
    );
    assert!(found[1].contains("ranks=8 "), "{found:?}");
}

#[test]
fn a_payload_or_a_bandwidth_that_is_none_is_told_by_line() {
    let text = sample("all_reduce_bench", "one_payload.txt");
    let first = text.lines().find(|line| line.contains("payload")).unwrap();
    let payload = first.split(' ').find(|word| word.ends_with("GB")).unwrap();
    // By such sizes and rates the time of a call would be 0 or no number.
    for odd in ["0GB", "1e-12GB", "nanGB", "infGB", "1e300GB", "-4.0GB", "4.0MB"] {
        let omitted = one(&text.replacen(payload, odd, 1)).all_omitted();
        assert_eq!(omitted, [format!("line 2: expected a payload, found `{odd}`")], "{odd}");
    }
    let rate = text.lines().nth(1).unwrap().split(' ').find(|word| word.parse::<f64>().is_ok()).unwrap();
    let omitted = one(&text.replacen(rate, "1e300", 1)).all_omitted();
    assert_eq!(omitted, ["line 2: expected a bandwidth above 0, found `1e300`"]);
}

#[test]
fn what_does_not_fit_is_told_by_line() {
    let why = refusal(&table().replace("|    algbw   |", "|    algbw   | latency median |"));
    assert!(
        why.starts_with(
            "x.log, line 7: the table of all_reduce_bench.py, which names no version, has a column `latency median`"
        ),
        "{why}"
    );
    assert_eq!(
        one(&table().replace("0.79GBps", "0.00GBps")).all_omitted(),
        ["line 9: expected a bandwidth above 0, found `0.00`"]
    );
    assert_eq!(one(&table().replace(" |   0.79GBps", "")).all_omitted(), ["line 9: expected 3 columns, found 2"]);
    assert!(
        refusal(&table().replace("over 4 ranks", "over all")).contains("line 9: the file does not say how many ranks")
    );
}

#[test]
fn tables_of_other_calls_are_no_trials_of_one_case() {
    let queued = sample("all_reduce_bench", "queued.txt");
    assert_eq!(lines(&one(&queued)).len(), 5);
    let records = |other: String| read(&source(&(queued.clone() + "\n" + &other))).unwrap();
    assert_eq!(records(queued.clone()).len(), 1);
    let host = queued.replace("up to 10 queued calls per trial", "1 call per trial, host overhead included");
    let both = records(host);
    assert_eq!(both.iter().map(|results| results.shapes()[0].1.len()).collect::<Vec<_>>(), [1, 1]);
    assert!(both[1].facts["table"].contains("host overhead included"), "{:?}", both[1].facts);
    assert_eq!(records(queued.replace("5 warmups", "50 warmups")).len(), 2);
    assert_eq!(records(queued.replace("32 ranks", "16 ranks")).len(), 1);
}

#[test]
fn rows_that_are_damaged_are_left_out_by_number() {
    for (damaged, columns) in [("|    1GiB | 355.72GBps | 237.1", 3), ("   1GiB | 355.72GBps | 237.15GBps |", 3)] {
        let results = one(&table().replace("|    1GiB | 355.72GBps | 237.15GBps |", damaged));
        let why = format!("line 10: expected 3 columns between `|`, found {columns}");
        assert_eq!(results.all_omitted(), [why], "{damaged}");
    }
    let legend = table() + "        1GBps = 10**9 Bytes per second (networking bw spec convention)\n";
    assert_eq!(one(&legend).all_omitted(), [""; 0]);
}
