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

/// `--post_list`: other times, and so other cases. Two equal runs of it are trials.
#[test]
fn lists_of_messages_are_a_field() {
    let text = text("both_ways.rst")
        .replace("Bidirectional BW Test", "Bidirectional Post List BW Test")
        .replace("   CQ Moderation", "   Post List       : 64\n   CQ Moderation");
    let found = lines(&one(&text));
    let has_list = |line: &String| line.contains(" tx_depth=128 post_list=64 mtu=4096 ");
    assert!(found.len() == 5 && found.iter().all(has_list), "{found:?}");
    let (_, run) = text.split_once("localhost\n").unwrap();
    assert_eq!(one(&run.repeat(2)).runs(), 2);
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

/// What perftest prints of a GPU before its title.
const CUDA: &str = "Perftest doesn't supports CUDA tests with inline messages: inline size set to 0
initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 57:00

Picking device No. 0
[pid = 69, dev = 0] device name = [NVIDIA A100-SXM4-80GB]
creating CUDA Ctx
making it the current CUDA Ctx
cuMemAlloc() of a 33554432 bytes GPU buffer
allocated GPU buffer address at 00007f2418000000 pointer=0x7f2418000000
";

/// What it prints of a GPU of AMD.
const ROCM: &str =
    "Using ROCm Device with ID: 0, Name: AMD Instinct MI355X, PCI Bus ID: 0x5, GCN Arch: gfx950:sramecc+:xnack-
allocated 16777216 bytes of GPU buffer at 0x7f042a400000
";

#[test]
fn buffers_on_a_gpu_make_cases_of_their_own() {
    let run = text("both_ways.rst");
    let above = |lines: &str| run.replacen("   ---", &format!("{lines}   ---"), 1);
    let below = |lines: &str| run.replacen("BW Test\n", &format!("BW Test\n{lines}"), 1);
    let by_command = |flag: &str| run.replace("<RDMA-NIC-2>", "mlx5_0").replace("-use_rocm=0", flag);
    let are = |text: &str, what: &str| {
        let found = lines(&one(text));
        assert!(found.len() == 5 && found.iter().all(|line| line.contains(what)), "{what}: {found:?}");
    };
    are(&above(CUDA), " memory=cuda on cuda:");
    are(&below(CUDA), " memory=cuda on cuda:");
    are(&by_command("--use_cuda_bus_id=0a:00.0"), " memory=cuda on cuda:");
    are(&above(ROCM), " memory=rocm on gpu:");
    are(&below("   Use ROCm memory : ON\n"), " memory=rocm on gpu:");
    are(&by_command("--use_rocm=0"), " memory=rocm on gpu:");
    // All of these are of the host.
    let allocated = "Host allocation selected, calling memalign allocator for 65536 bytes with 4096 page size\n";
    for of_host in [run.clone(), below("   Use ROCm memory : OFF\n"), above(&format!("{CUDA}{allocated}"))] {
        are(&of_host, " link=Ethernet on cpu:");
    }
}

#[test]
fn addresses_on_a_gpu_make_no_other_run() {
    let run = text("both_ways.rst");
    let with = |lines: &str| {
        let end = "deallocating GPU buffer 00007f2418000000\ndestroying current CUDA Ctx\n";
        run.replacen("   ---", &format!("{lines}   ---"), 1) + end
    };
    let again = CUDA.replace("7f2418000000", "7f71e8000000").replace("pid = 69", "pid = 112");
    let results = one(&(with(CUDA) + &with(&again)));
    assert!(results.shapes().len() == 5 && results.shapes().iter().all(|(_, figures)| figures.len() == 2));
    // The next run is on the host again.
    let found = lines(&one(&(with(CUDA) + &run)));
    assert_eq!((found.len(), found.iter().filter(|line| line.contains("memory=cuda")).count()), (10, 5), "{found:?}");
}

#[test]
fn a_size_that_is_measured_again_and_again_has_trials() {
    let run = text("both_ways.rst");
    let (head, _) = run.split_once("   2          5000").unwrap();
    let first = "   65536      5000             0.00               203.85             0.388818\n";
    let second = "   65536      5000             0.00               203.76             0.388641\n";
    let results = one(&format!("{head}{first}{second}{first}"));
    let trials: Vec<usize> = results.shapes().iter().map(|(_, figures)| figures.len()).collect();
    assert_eq!(trials, [3], "{:?}", lines(&results));
    assert!(results.notes.iter().any(|note| note.starts_with("rows of one size are trials")), "{:?}", results.notes);
    // One program does not go on to another size then, and two heads are of two programs.
    let smaller = "   2          5000           0.142947            0.012281            0.767588\n";
    let larger = "   8388608    5000             204.59             204.59             0.003049\n";
    let twice: String = head.lines().map(|line| format!("{line}\n{line}\n")).collect();
    for mixed in [
        format!("{head}{first}{second}{smaller}"),
        format!("{head}{first}{second}{larger}"),
        format!("{head}{smaller}{first}{second}"),
        format!("{twice}{first}{second}"),
    ] {
        assert!(refusal(&mixed).contains("separate programs wrote here at once"), "{mixed}");
    }
}
