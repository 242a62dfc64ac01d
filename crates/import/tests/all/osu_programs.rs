//! OSU's rates of messages, non-blocking collectives, and where its buffers were.

use import::Results;

use crate::{lines, one, read, refusal, sample, source};

/// `[record][case]`.
fn records(text: &str) -> Vec<Results> {
    read(&source(text)).unwrap()
}

fn text(file: &str) -> String {
    sample("osu", file)
}

#[test]
fn rates_of_messages_are_those_of_links() {
    let all = records(&text("5.8_point_to_point.txt"));
    assert_eq!(all.len(), 2, "{all:?}");
    let found = lines(&all[0]);
    assert_eq!(found[0], "collective op=ping_pong ranks=2 backend=mpi dtype=u8 bytes=1 on cpu: 0.460 us");
    let rates = lines(&all[1]);
    // OSU adds both directions: 2 bytes in 0.830 us are 1.205 MB/s each way.
    assert_eq!(rates[0], "hardware test=both_ways ranks=2 backend=mpi bytes=1 on cpu: 0.830 us gbs 0.001205");
    assert_eq!(rates[5], "hardware test=bandwidth ranks=2 backend=mpi bytes=1 on cpu: 0.546 us gbs 0.00183");
    assert_eq!(rates[9], "hardware test=bandwidth ranks=2 backend=mpi bytes=1048576 on cpu: 56.751 us gbs 18.47689");
    assert_eq!(all[1].statistic, "mean over messages, of which 64 were under way at once");
    let notes = all[1].notes.join("\n");
    assert!(notes.contains("half of it, because OSU adds both directions"), "{notes}");
    assert!(!notes.contains("no command line"), "{notes}");
    let omitted: Vec<String> = all.iter().flat_map(Results::all_omitted).collect();
    assert_eq!(omitted[0], "line 3: `MPI_Put Latency` has no counterpart here");
}

#[test]
fn records_of_rates_have_their_bandwidth_and_device() {
    let tool = record::Tool { name: "rankmark".to_owned(), version: "0".to_owned() };
    for (library, device) in [("MPI", "cpu"), ("MPI-CUDA", "cuda"), ("MPI-ZE", "xpu"), ("NCCL-CUDA", "cuda")] {
        let source =
            source(&format!("# OSU {library} Bandwidth Test v7.5\n# Size      Bandwidth (MB/s)\n4096  8192.00\n"));
        let now = jiff::Timestamp::UNIX_EPOCH;
        let results = read(&source).unwrap();
        let records = import::records(&source, "osu", results, &benchmarks::abouts(), &tool, now).unwrap();
        let (case, line) = (&records[0].file.plan.cases[0], &records[0].lines[0]);
        assert_eq!((case.benchmark.as_str(), line.metrics["gbs"].as_f64()), ("hardware", Some(8.192)), "{library}");
        assert_eq!(case.parameters.get("device").and_then(|value| value.as_str()).unwrap_or("cpu"), device, "{case:?}");
        assert!((line.time_s.as_ref().unwrap().median - 5e-7).abs() < 1e-15, "{line:?}");
    }
}

#[test]
fn another_window_is_another_figure() {
    let whole = text("5.8_point_to_point.txt");
    let wide = whole.replace("pt2pt/osu_bw\n", "pt2pt/osu_bw -W 128\n");
    let all = records(&wide);
    assert_eq!(all.len(), 3);
    assert_eq!(all[2].statistic, "mean over messages, of which 128 were under way at once");
    let bare = one("# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n4   8.00\n");
    assert!(bare.notes.iter().any(|note| note.contains("64 messages are taken to be under way")), "{:?}", bare.notes);
}

#[test]
fn a_bandwidth_is_never_a_latency() {
    let why = refusal("# OSU MPI Bandwidth Test v5.9\n# Size          Latency (us)\n4   8.00\n");
    assert!(why.contains("line 2: the title says `MPI Bandwidth`, and the table has other columns"), "{why}");
    let why =
        refusal("$ mpirun -np 2 osu_latency\n# OSU MPI Latency Test v5.9\n# Size      Bandwidth (MB/s)\n4   8.00\n");
    assert!(why.contains("line 3: the title says `MPI Latency`"), "{why}");
    let why = refusal("# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (GB/s)\n4   8.00\n");
    assert!(why.contains("a column `Bandwidth (GB/s)` that this reader does not know"), "{why}");
    let comma = one("# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n4   8,25\n8   16.5\n");
    assert!(comma.all_omitted()[0].starts_with("line 3: expected a bandwidth, found `8,25`: a comma"), "{comma:?}");
    assert_eq!(comma.shapes().len(), 1);
}

#[test]
fn buffers_are_where_the_program_says() {
    let all = records(&text("5.3_cuda_buffers.txt"));
    assert_eq!(all.len(), 2);
    let first = |results: &Results| (results.shapes()[0].0.device, results.facts["buffers"].clone());
    assert_eq!(first(&all[0]), ("cpu", "H H".to_owned()));
    assert_eq!(first(&all[1]), ("cuda", "D D".to_owned()));
    assert!(lines(&all[1])[0].ends_with("on cuda: 61.330 us"), "{:?}", lines(&all[1]));
    let table = |buffers: &str| {
        let line = format!("# Send Buffer on {buffers}\n");
        format!("# OSU MPI-CUDA Latency Test v7.2\n{line}# Size          Latency (us)\n8   1.30\n")
    };
    let mixed = one(&table("HOST (H) and Receive Buffer on DEVICE (D)"));
    assert_eq!(first(&mixed), ("cuda", "H D".to_owned()));
    assert!(mixed.statistic.ends_with("; send buffer on the host, receive buffer on a GPU"), "{}", mixed.statistic);
    // Neither are they trials of one case.
    let both =
        table("DEVICE (D) and Receive Buffer on DEVICE (D)") + &table("HOST (H) and Receive Buffer on DEVICE (D)");
    let both = records(&both);
    assert_eq!((both.len(), both[0].shapes()[0].1.len(), both[1].shapes()[0].1.len()), (2, 1, 1));
    let managed = one(&table("MANAGED (MD) and Receive Buffer on MANAGED (MD)"));
    assert!(managed.statistic.ends_with("receive buffer in managed memory, on a GPU"), "{}", managed.statistic);
}

#[test]
fn the_command_line_tells_buffers_where_the_program_does_not() {
    let text = |buffers: &str| {
        format!(
            "$ mpirun -n 2 osu_latency -m 1:1 -d cuda {buffers}\n\n# OSU MPI-CUDA Latency Test v7.5\n# Datatype: MPI_CHAR.\n\
             # Size       Avg Latency(us)\n1                       2.48\n"
        )
    };
    let all = records(&(text("D D") + &text("H D") + &text("H H")));
    let found: Vec<(&str, &str)> =
        all.iter().map(|one| (one.facts["buffers"].as_str(), one.shapes()[0].0.device)).collect();
    assert_eq!(found, [("D D", "cuda"), ("H D", "cuda"), ("H H", "cpu")]);
    let untold = one(&text(""));
    assert!(untold.notes.iter().any(|note| note.contains("does not say where the buffers were")), "{untold:?}");
    // Rocm of the sample, too.
    let rocm = records(&sample("osu", "7.5_rocm_bandwidth.txt"));
    assert_eq!((rocm.len(), rocm[0].shapes().len(), rocm[1].shapes().len()), (2, 4, 3));
    assert!(lines(&rocm[0])[3].ends_with("bytes=134217728 device=cuda on cuda: 958.960 us gbs 139.9618"), "{rocm:?}");
    // A build without a device has its buffers on the host, whatever stands behind.
    let plain = one(&text("D D").replace("MPI-CUDA", "MPI"));
    assert_eq!((plain.shapes()[0].0.device, plain.facts.get("buffers")), ("cpu", None));
}

#[test]
fn memory_that_is_of_no_device_here_is_left_out() {
    let why = "# OSU MPI-CXL Latency Test v7.4\n# Size          Latency (us)\n8   1.30\n";
    let all = records(why);
    assert!(all[0].all_omitted()[0].contains("neither of a processor nor of a GPU"), "{all:?}");
    let nccl = one(
        "$ mpirun -np 4 osu_xccl_allreduce\n# OSU NCCL Allreduce Latency Test v7.1\n# Size   Avg Latency(us)\n8  9.0\n",
    );
    assert!(lines(&nccl)[0].ends_with("on cuda: 9.000 us"), "{:?}", lines(&nccl));
}

#[test]
fn non_blocking_collectives_are_not_the_blocking_ones() {
    let results = one(&text("5.3_iallgather.txt"));
    let shape = |ranks: u32| {
        format!(
            "collective op=all_gather ranks={ranks} backend=mpi dtype=u8 bytes={ranks} in_place=false mode=isolated on cpu:"
        )
    };
    assert_eq!(
        lines(&results),
        [format!("{} 135.610 us", shape(16)), format!("{} 184.280 us", shape(24)), format!("{} 219.840 us", shape(28))]
    );
    assert!(results.statistic.ends_with("of a non-blocking call and its wait without computation"));
    assert_eq!(results.facts["overlap of MPI Non-blocking Allgather Latency"], "1 B: 44.29 %");
    assert_eq!(results.facts["run 3: overlap of MPI Non-blocking Allgather Latency"], "1 B: 39.53 %");
    let unread =
        "the columns `Overall(us)`, `Compute(us)` and their parts: a case has the time of the communication alone";
    assert_eq!(results.all_omitted(), [unread]);
    // Without command lines, too.
    let table = |title: &str, rest: &str| format!("# OSU MPI {title} Latency Test v7.4\n{rest}");
    let blocking = table("Allreduce", "# Size       Avg Latency(us)\n4    2.00\n");
    let other = table(
        "Non-blocking Allreduce",
        "# Size           Overall(us)       Compute(us)    Coll. Init(us)      MPI_Test(us)      MPI_Wait(us)    Pure Comm.(us)  \
         Min Comm.(us)     Max Comm.(us)        Overlap(%)\n4    9.0 5.0 1.0 1.0 1.0 4.0 3.0 5.0 7.5\n",
    );
    let all = read(&source(&(blocking + &other)).with_given("ranks", "4")).unwrap();
    assert_eq!((all.len(), all[0].shapes()[0].1.len()), (2, 1));
    assert!(lines(&all[1])[0].ends_with("on cpu: 4.000 us min 3.000 max 5.000"), "{:?}", lines(&all[1]));
}

#[test]
fn blocks_that_cannot_be_divided_are_smaller() {
    let text = "$ mpirun -np 3 osu_reduce_scatter_block\n# OSU MPI Reduce_scatter_block Latency Test v7.4\n\
                # Datatype: MPI_INT.\n# Size       Avg Latency(us)\n4   0.10\n64   1.50\n";
    let results = one(text);
    // 16 elements are 5 for each of 3 ranks.
    assert!(lines(&results)[0].contains("op=reduce_scatter ranks=3 backend=mpi dtype=i32 bytes=60 "), "{results:?}");
    assert_eq!(results.all_omitted(), ["line 5: 0 bytes: nothing moves"]);
}

#[test]
fn ranks_count_wherever_the_command_line_has_them() {
    let table = "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n4    2.00\n";
    for (command, ranks) in [
        ("mpirun -n 256 -ppn 8 osu_allreduce", 256),
        ("srun -N 4 --ntasks-per-node 8 ./osu_allreduce -f", 32),
        ("$ mpirun -np 16 \\\n    --bind-to core \\\n    ./osu_allreduce", 16),
        ("mpirun \\\n> -np 12 \\\n> osu_allreduce", 12),
    ] {
        let results = one(&format!("{command}\n{table}"));
        assert!(lines(&results)[0].contains(&format!("ranks={ranks} ")), "{command}: {:?}", lines(&results));
    }
}

#[test]
fn what_is_given_must_not_contradict_the_file() {
    let text = text("7.5_allreduce.txt");
    let given = |name: &str, value: &str| read(&source(&text).with_given(name, value)).map_err(|why| why.to_string());
    let why = given("ranks", "8").unwrap_err();
    assert!(why.contains("`--ranks 8` contradicts x.log") && why.contains("the file says 144 ranks"), "{why}");
    let why = given("op", "all_gather").unwrap_err();
    assert!(why.contains("`--op all_gather` contradicts x.log") && why.contains("the file says all_reduce"), "{why}");
    assert!(given("ranks", "144").is_ok() && given("op", "all_reduce").is_ok());
    // Where the file does not tell the ranks of each table, the user's are those of the others.
    let both = text.clone() + "# OSU MPI Allgather Latency Test v7.5\n# Size       Avg Latency(us)\n4    2.00\n";
    let all = read(&source(&both).with_given("ranks", "8")).unwrap();
    assert!(lines(&all[0])[0].contains("ranks=144") && lines(&all[1])[0].contains("ranks=8"), "{all:?}");
}

#[test]
fn one_rank_communicates_nothing() {
    let text = text("7.5_allreduce.txt").replace("-n 144", "-n 1");
    assert!(one(&text).notes.contains(&"one rank: nothing was communicated".to_owned()));
}

#[test]
fn tables_that_are_cut_at_a_width_give_no_other_figures() {
    for file in [
        "7.0_cuda_full.txt",
        "5.3_iallgather.txt",
        "5.8_point_to_point.txt",
        "7.5_allreduce.txt",
        "5.3_cuda_buffers.txt",
    ] {
        let whole = text(file);
        let figures = |results: &[Results]| -> Vec<String> {
            results
                .iter()
                .flat_map(|results| results.shapes().to_vec())
                .map(|(shape, all)| {
                    let times: Vec<String> = all.iter().map(|one| format!("{:.4e}", one.time_s)).collect();
                    format!("{shape:?}: {times:?}")
                })
                .collect()
        };
        let right = figures(&records(&whole));
        for width in 20..=200 {
            let cut: String = whole.lines().map(|line| line.chars().take(width).collect::<String>() + "\n").collect();
            // The cut may have taken the number of ranks: nothing is told then.
            let Ok(found) = read(&source(&cut)) else { continue };
            for figure in figures(&found) {
                // Where the command line is cut, buffers may be unknown.
                let is_right = right.contains(&figure) || right.contains(&figure.replace("\"cuda\"", "\"cpu\""));
                assert!(is_right, "{file}, {width}: {figure}");
            }
        }
    }
}
