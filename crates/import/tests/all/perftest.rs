//! The text of perftest: ib_write_bw and its like.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("perftest", file)
}

#[test]
fn units_are_those_that_the_source_prints() {
    let all = read(&source(&text("connectx7.md"))).unwrap();
    let found: Vec<String> = all.iter().flat_map(lines).collect();
    assert_eq!(
        found,
        [
            // 46557.03 x 2^20 bytes a second.
            "rdma test=send_bw ranks=2 bytes=65536 direction=one_way queue_pairs=1 connection=RC tx_depth=128 mtu=4096 \
                 link=IB on cpu: 1.342 us x1000 gbs 48.81858428928 messages_per_s 744912 peak_gbs 48.82939510783999",
            "rdma test=send_lat ranks=2 bytes=2 queue_pairs=1 connection=RC tx_depth=1 mtu=4096 link=IB on cpu: \
                 1.270 us x1000 mean 1.270 p99 1.370 min 1.240 max 5.190",
            // 328.61e9 bits a second.
            "rdma test=read_bw ranks=2 bytes=65536 direction=one_way queue_pairs=1 connection=RC tx_depth=128 mtu=4096 \
                 link=IB on cpu: 1.595 us x1000 gbs 41.07625 messages_per_s 626777 peak_gbs 41.08",
            "rdma test=write_bw ranks=2 bytes=65536 direction=one_way queue_pairs=1 connection=RC tx_depth=128 mtu=4096 \
                 link=IB on cpu: 1.336 us x5000 gbs 49.0425 messages_per_s 748336 peak_gbs 49.0475",
        ]
    );
    let notes: Vec<&String> = all.iter().flat_map(|results| &results.notes).collect();
    assert!(notes.iter().any(|note| note.contains("send_lat: times are half of a round trip")), "{notes:?}");
    let whole = one(&text("connectx7.md").replace("Send Latency", "RDMA_Read Latency"));
    assert!(whole.notes.iter().any(|note| note.contains("whole round trips")), "{:?}", whole.notes);
}

#[test]
fn older_versions_call_the_same_unit_mb() {
    let old = text("connectx7.md").replace("MiB/sec", "MB/sec");
    let found: Vec<String> = read(&source(&old)).unwrap().iter().flat_map(lines).collect();
    assert!(found[0].contains(" 1.342 us x1000 gbs 48.81858428928 "), "{found:?}");
}

#[test]
fn both_ways_is_a_case_of_its_own() {
    let results = one(&text("both_ways.rst"));
    let found = lines(&results);
    assert_eq!(found.len(), 5);
    assert!(found[0].contains("bytes=2 direction=both_ways") && found[0].contains("gbs 0.001535125"), "{found:?}");
    assert!(found[4].contains("bytes=8388608") && found[4].contains("gbs 25.57375"), "{found:?}");
}

#[test]
fn rates_that_do_not_fit_their_messages_are_left_out() {
    let whole = text("both_ways.rst");
    for (from, to, why) in [
        ("66.92              8.168969", "66.92              8.16", "expected 6 decimals"),
        ("66.92              8.168969", "6.92              8.168969", "are not the average rate of 6.92"),
        ("66.92              8.168969", "66.92", "expected 5 columns, found 4"),
        ("66.92              8.168969", "66.92 8.168969 8.1", "expected 5 columns, found 6"),
        ("1024       5000 ", "1O24       5000 ", ""),
        ("1024       5000 ", "1024       nan ", "expected a whole number"),
    ] {
        let results = one(&whole.replace(from, to));
        assert_eq!(results.shapes().len(), 4, "{:?}", lines(&results));
        assert!(why.is_empty() || results.all_omitted()[0].contains(why), "{:?}", results.all_omitted());
    }
    // A wrong unit: the rates of messages tell.
    let wrong = one(&whole.replace("Gb/sec", "MiB/sec"));
    assert_eq!((wrong.shapes().len(), wrong.all_omitted().len()), (0, 5), "{:?}", lines(&wrong));
    let cut: String = whole.lines().map(|line| line.get(..75).unwrap_or(line).to_owned() + "\n").collect();
    assert_eq!(one(&cut).shapes().len(), 0);
    let unknown = one(&whole.replace("[Gb/sec]", "[GB/sec]"));
    assert!(unknown.all_omitted()[0].contains("does not know the columns"), "{:?}", unknown.all_omitted());
}

#[test]
fn latencies_and_bandwidths_are_not_mistaken_for_each_other() {
    let all = text("connectx7.md").replace("Send Latency Test", "Send BW Test");
    let omitted: Vec<String> = read(&source(&all)).unwrap().iter().flat_map(import::Results::all_omitted).collect();
    assert!(omitted.iter().any(|what| what.contains("the columns are those of another test")), "{omitted:?}");
    let odd = text("connectx7.md")
        .replace(" 2       1000          1.24           5.19", " 2       1000          5.19           1.24");
    let omitted: Vec<String> = read(&source(&odd)).unwrap().iter().flat_map(import::Results::all_omitted).collect();
    assert!(omitted.iter().any(|what| what.contains("are not in order")), "{omitted:?}");
}

#[test]
fn commas_and_mixed_lines_are_refused() {
    let whole = text("both_ways.rst");
    let why = refusal(&whole.replace("66.92 ", "66,92 "));
    assert!(why.starts_with("x.log, line 28: expected a number, found `66,92`"), "{why}");
    let row = "   1024       5000             67.22              66.92              8.168969\n";
    assert!(refusal(&whole.replace(row, &format!("{row}{row}"))).contains("separate programs wrote here at once"));
}

#[test]
fn runs_under_two_headings_are_two_records() {
    let run = text("both_ways.rst");
    let all = read(&source(&format!("before\n{run}\nafter\n{run}"))).unwrap();
    assert_eq!((all.len(), all[1].facts["heading"].as_str()), (2, ".. code-block:: shell"));
}
