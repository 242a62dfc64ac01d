//! Several runs of a program in one file: which are trials of one case, and which are not.

use crate::{lines, one, read, refusal, sample, source};

const HEADER: &str = "#       size         count      type   re\u{64}op    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";

/// A run of nccl-tests on two ranks with one line, as short as it can be.
fn run(us: f64, wrong: u32) -> String {
    let rate = 1048.576 / us;
    format!(
        "# Collective test starting: all_reduce_perf\n\
         # nThread 1 nGpus 1 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n\
         #\n# Using devices\n\
         #  Rank  0 Group  0 Pid      1 on     node-a device  0 [0x31] NVIDIA A100-PCIE-40GB\n\
         #  Rank  1 Group  0 Pid      2 on     node-b device  0 [0x31] NVIDIA A100-PCIE-40GB\n#\n\
         {HEADER}     1048576        262144     float     sum      -1  {us:7.2}  {rate:6.2}  {rate:6.2} {wrong:6}  {us:7.2}  {rate:6.2}  {rate:6.2} {wrong:6}\n\
         # Out of bounds values : {wrong} OK\n# Avg bus bandwidth    : {rate:.2}\n#\n"
    )
}

/// The times of the first case of each record, in microseconds.
fn trials(text: &str) -> Vec<Vec<f64>> {
    let times = |results: &import::Results| {
        results.shapes()[0].1.iter().map(|figures| (figures.time_s * 1e8).round() / 100.0).collect()
    };
    read(&source(text)).unwrap().iter().map(times).collect()
}

#[test]
fn what_stands_between_two_runs_makes_them_different() {
    let (slow, quick) = (run(77.2, 4096), run(18.8, 0));
    assert_eq!(trials(&format!("{slow}{quick}")), [[77.2, 18.8]], "nothing stands between");
    for between in [
        "+ mpirun -np 2 ./run_without_offload.sh\n",
        "### After\n",
        "# After\n",
        "2. After\n",
        "2) After\n",
        "16 nodes in another rack\n",
        "export NCCL_ALGO=Tree\n",
        "$ module load mpich/develop\n\nThe following have been reloaded with a version change:\n  1) mpich/4.2.3 => mpich/develop\n",
        "```\n\n```\n",
    ] {
        let text = format!("### Before\n{slow}{between}{quick}");
        assert_eq!(trials(&text), [[77.2], [18.8]], "{between}");
    }
    // A loop that says the same before each run.
    let looped = format!("job 7 begins\n== run\n{slow}== run\n{quick}");
    assert_eq!(trials(&looped), [[77.2, 18.8]]);
    // Messages of libraries and of Slurm differ between equal runs.
    let noisy = format!("{slow}node-a:17:17 [0] NCCL INFO comm 0x7f\nsrun: job 8 queued\n\n{quick}");
    assert_eq!(trials(&noisy), [[77.2, 18.8]]);
    // What nccl-tests says before and behind a run is of the run, whatever file it writes.
    let error = "# error: NET/IB : no device found\n";
    let reduced = "#\n# Reducing maxBytes to 1048576 due to memory limitation\n#       size";
    let written = |run: &str, file: &str| {
        format!("# Writing JSON output to {file}\n{}{error}", run.replace("#       size", reduced))
    };
    let looped = written(&slow, "x.json") + &written(&quick, "x.json.0");
    assert_eq!(trials(&looped), [[77.2, 18.8]]);
    assert!(one(&looped).notes.iter().any(|note| note.ends_with("error: NET/IB : no device found")));
    let blocking = |run: &str, how: &str| run.replace("#\n# Using", &format!("# Blocking Enabled: {how}\n#\n# Using"));
    let inner = blocking(&slow, "wait and barrier after each inner iteration (-m)");
    let outer = blocking(&quick, "wait and barrier after each outer iteration (-n); reported time excludes barrier");
    assert_eq!(trials(&(inner.clone() + &outer)), [[77.2], [18.8]]);
    assert_eq!(trials(&(inner.clone() + &inner)), [[77.2, 77.2]]);
    // Neither are they cases of one name in two files: only `-z 3` times what `isolated` does.
    let alone = blocking(&quick, "wait after each inner iteration (-m), no barrier");
    let kind = |text: &str| {
        let (shape, _) = one(text).shapes()[0].clone();
        (shape.fields.contains(&("mode", "isolated".into())), shape.implementation.unwrap_or_default())
    };
    assert_eq!(
        [kind(&quick), kind(&inner), kind(&alone), kind(&outer)],
        [
            (false, String::new()),
            (true, "-z 1: a call and a barrier".to_owned()),
            (false, "-z 2: a wait behind each call".to_owned()),
            (true, String::new()),
        ]
    );
    // RCCL says what it is at its start, and pages take `#` for the mark of a heading.
    let banner = "HIP version  : 7.1.2\nROCm version : 7.1.0\nHostname     : node-a\nLibrccl path : /opt/a.so.1\n#\n";
    let of_rccl = |run: &str| run.replace("GB\n#\n", &format!("GB\n{banner}"));
    assert_eq!(trials(&(of_rccl(&slow) + &of_rccl(&quick))), [[77.2, 18.8]]);
    let pasted = |run: &str| -> String {
        run.lines().map(|line| format!("{}\n", line.strip_prefix('#').unwrap_or(line))).collect()
    };
    assert_eq!(trials(&(pasted(&slow) + &pasted(&quick))), [[77.2, 18.8]]);
    // Repeated runs compare bits since 2.20.
    let repeated = |run: &str| {
        let said = "#\n# Bitwise Repeatability: 3 comparisons after one reference run \n# Using";
        let counted = "# Bitwise mismatches   : 0 OK\n# Avg bus";
        run.replace("#\n# Using", said).replace("# Avg bus", counted)
    };
    assert_eq!(trials(&(repeated(&slow) + &repeated(&quick))), [[77.2, 18.8]]);
    let records = read(&source(&format!("### Before\n{slow}### After\n{quick}"))).unwrap();
    assert_eq!(
        records.iter().map(|results| results.facts["heading"].as_str()).collect::<Vec<_>>(),
        ["Before", "After"]
    );
}

#[test]
fn numbered_headings_are_no_rows() {
    let osu = |us: f64| {
        format!(
            "$ mpirun -np 4 ./osu_allreduce\n# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n\
             4   {us:.2}\n8   {us:.2}\n"
        )
    };
    let imb = |us: f64| {
        format!(
            "#    Intel(R) MPI Benchmarks 2021.6, MPI-1 part\n# Benchmarking Allreduce\n# #processes = 4\n       \
             #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n\
             4  1000  {us:.2}  {us:.2}  {us:.2}\n8  1000  {us:.2}  {us:.2}  {us:.2}\n"
        )
    };
    for heading in ["2. Open MPI 5", "2) Open MPI 5", "2 switches apart"] {
        for [first, second] in [[osu(5.0), osu(9.0)], [imb(5.0), imb(9.0)]] {
            let text = format!("1. Open MPI 4\n{first}{heading}\n{second}");
            assert_eq!(trials(&text), [[5.0], [9.0]], "{text}");
            assert!(read(&source(&text)).unwrap().iter().all(|one| one.all_omitted().is_empty()), "{text}");
        }
    }
}

#[test]
fn other_command_lines_are_other_cases() {
    let commanded = |options: &str, us: f64| format!("$ mpirun -np 2 ./all_reduce_perf {options}\n{}", run(us, 0));
    assert_eq!(trials(&(commanded("-b 8", 20.0) + &commanded("-b 8 | tee x.log", 30.0))), [[20.0, 30.0]]);
    assert_eq!(trials(&(commanded("-b 8", 20.0) + &commanded("-b 8 -e 1G", 30.0))), [[20.0], [30.0]]);
    // What differs in size or operation stands in one record.
    let other = run(40.0, 0).replace("all_reduce_perf", "reduce_scatter_perf");
    let both = read(&source(&format!("## all_reduce\n{}## reduce_scatter\n{other}", run(20.0, 0)))).unwrap();
    assert_eq!((both.len(), both[0].shapes().len()), (1, 4));
}

#[test]
fn tables_of_a_document_are_apart() {
    let row = |us: f64| {
        format!(
            "     8388608       4194304  bfloat16     sum   {us}   11.05   11.05       0   {us}   11.05   11.05       0\n"
        )
    };
    let header = HEADER.replace("    root", "");
    let text =
        format!("### Before\n\n```\n{header}{}```\n\n### After\n\n```\n{header}{}```\n", row(759.31), row(455.0));
    let given = source(&text).with_given("ranks", "2").with_given("op", "all_reduce");
    let records = read(&given).unwrap();
    assert_eq!(records.len(), 2);
    assert!(lines(&records[1])[0].contains("455.000 us"), "{:?}", lines(&records[1]));
    let osu =
        |us: f64| format!("# OSU MPI-ZE Allreduce Latency Test v5.6.2\n# Size       Avg Latency(us)\n2048   {us}\n\n");
    let command = "~> mpiexec -n 6 ./osu_bench/osu_allreduce -m 2048:2048 -d ze D D\n\n";
    let load =
        "~> module load mpich/develop\n\nThe following have been reloaded:\n  1) mpich/4.2.3 => mpich/develop\n\n";
    let text = format!("{command}{}{load}{command}{}", osu(17.74), osu(61.02));
    let records = read(&source(&text)).unwrap();
    assert_eq!(records.len(), 2, "{records:?}");
    assert!(lines(&records[0])[0].contains("ranks=6") && lines(&records[0])[0].contains("on xpu: 17.740 us"));
    assert_eq!(records[0].all_omitted(), [""; 0]);
    assert_eq!(trials(&format!("{command}{}{command}{}", osu(17.74), osu(61.02))), [[17.74, 61.02]]);
}

#[test]
fn programs_that_ran_at_once_are_refused() {
    let one = run(34.0, 0);
    let (head, rest) = one.split_once("#  Rank  0").unwrap();
    let (ranks, table) = rest.split_once("#\n").unwrap();
    let (table, footer) = table.split_once("# Out of").unwrap();
    let ranks = |host: &str| format!("#  Rank  0{}", ranks.replace("node-a", host).replace("node-b", host));
    let (header, row) = table.split_at(HEADER.len());
    let text = format!(
        "{head}{head}{}{}#\n{header}#\n{header}{row}{row}# Out of{footer}# Out of{footer}",
        ranks("node-a"),
        ranks("node-b")
    );
    let why = refusal(&text);
    assert!(why.contains("2 separate programs of 2 ranks wrote here at once on node-a, node-b"), "{why}");
    assert!(why.contains("nothing was measured between them") && why.contains("MPI=1"), "{why}");
    // Beside a good run, the record is that of the good run and says so.
    let results = crate::one(&format!("{one}{text}"));
    assert_eq!(results.shapes()[0].1.len(), 1);
    assert!(results.all_omitted()[0].contains("2 separate programs of 2 ranks"), "{:?}", results.all_omitted());
}

#[test]
fn a_run_that_failed_says_with_what() {
    let (head, _) = run(20.0, 0).split_once(HEADER).map(|(head, rest)| (head.to_owned(), rest.to_owned())).unwrap();
    let failed = format!(
        "# nccl-tests version 2.17.8 nccl-headers=22606 nccl-library=22606\n{head}node-a: Test CUDA failure common.cu:1304 \
         'CUDA-capable device(s) is/are busy or unavailable'\n .. node-a pid 3617716: Test failure common.cu:1181\n\
         srun: error: node-a: task 1: Exited with exit code 3\n"
    );
    let why = refusal(&failed);
    for part in [
        "nccl-tests 2.17.8, all_reduce_perf on node-a, node-b failed before its first line",
        "common.cu:1304",
        "busy or unavailable",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    // A second try is a run of its own.
    let results = one(&(failed + &run(20.0, 0)));
    assert_eq!((results.runs(), results.shapes()[0].1.len()), (1, 1));
    assert!(results.notes.iter().any(|note| note.contains("common.cu:1304")), "{:?}", results.notes);
}

#[test]
fn a_run_that_was_ended_says_so() {
    let whole = run(20.0, 0);
    let (ended, _) = whole.split_once("# Out of").unwrap();
    let results = one(&format!(
        "{ended}-----\nThe user-provided time limit for job execution has been reached:\n\n  Timeout: 20 seconds\n"
    ));
    let notes = results.notes.join("\n");
    assert!(notes.contains("this run has no last lines (`Avg bus bandwidth`)"), "{notes}");
    assert!(notes.contains("line 11: The user-provided time limit"), "{notes}");
    assert!(!one(&whole).notes.join("\n").contains("no last lines"));
}

#[test]
fn a_last_line_that_is_cut_is_left_out() {
    let osu = "$ mpirun -np 4 ./osu_allreduce\n# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n4   1.98\n1048576   63";
    let results = one(osu);
    assert_eq!((results.shapes().len(), results.all_omitted()), (1, vec![]));
    assert!(source(osu).unfinished().unwrap().starts_with("line 5, the last"));
    assert_eq!(one(&format!("{osu}0.67\n")).shapes().len(), 2);
    assert!(one(osu.split("1048576").next().unwrap().trim_end()).is_empty());
    let imb = sample("imb", "2021.6_allreduce.txt");
    let (whole, cut) = (one(&imb), one(&imb[..imb.find("615.04").unwrap() + 3]));
    assert!(cut.shapes().len() < whole.shapes().len());
    assert!(whole.shapes().starts_with(cut.shapes()), "no figure is another one");
}

#[test]
fn ranks_follow_from_the_command_line() {
    let unlisted: String =
        run(105.9, 0).lines().filter(|line| !line.contains("Rank")).map(|line| format!("{line}\n")).collect();
    let command = "$> env NCCL_ALGO=Tree srun --exclusive -c 72 -n 4 --ntasks-per-node=4 ./build/all_reduce_perf -b 1M >& out.txt\n";
    let results = one(&format!("{command}{}", unlisted.replace("nGpus 1", "nGpus 2").replace("   9.90 ", "  17.33 ")));
    assert!(lines(&results)[0].contains("op=all_reduce ranks=8"), "{:?}", lines(&results));
    assert!(
        results.notes.iter().any(|note| note.ends_with("8 ranks, by the command line above")),
        "{:?}",
        results.notes
    );
    assert!(refusal(&unlisted).contains("the file does not say how many ranks ran"));
}

#[test]
fn a_command_line_counts_without_options_and_over_several_lines() {
    let row = "     1048576        262144     float     sum      -1   105.90    9.90   17.33      0   105.90    9.90   17.33      0\n";
    for (command, ranks) in [
        ("$ mpirun -n 256 ./build/all_reduce_perf -b 1M -e 1M\n", 256),
        ("$ srun -N 4 --ntasks-per-node 8 ./all_reduce_perf -b 1M -g 1\n", 32),
        ("mpirun \\\n  -np 16 \\\n  -x NCCL_DEBUG=INFO \\\n  ./all_reduce_perf -b 1M -g 2\n", 32),
    ] {
        let text = format!("{command}{HEADER}{row}# Avg bus bandwidth    : 17.33\n");
        let text =
            text.replace("   17.33 ", &format!("  {:6.2} ", 9.90 * 2.0 * f64::from(ranks - 1) / f64::from(ranks)));
        let results = one(&text);
        assert!(lines(&results)[0].contains(&format!("op=all_reduce ranks={ranks} ")), "{:?}", lines(&results));
    }
    let prose = format!("A drop in all_reduce_perf 1MB size\n{HEADER}{row}");
    assert!(refusal(&prose).contains("the file does not say how many ranks ran"), "prose starts nothing");
}

#[test]
fn groups_are_communicators_of_their_own() {
    let rank = |rank: u32| {
        format!("#  Rank  {rank} Group  {} Pid    10{rank} on     node-a device  {rank} [0x31] NVIDIA A100\n", rank % 2)
    };
    let text = run(100.0, 0);
    let listed: String = (0..4).map(rank).collect();
    let from = text.find("#  Rank  0").unwrap();
    let to = text.find("#\n#       size").unwrap();
    let results = one(&format!("{}{listed}{}", &text[..from], &text[to..]));
    assert!(lines(&results)[0].contains("ranks=2 backend=nccl dtype=f32 bytes=1048576"), "{:?}", lines(&results));
    assert!(results.notes.iter().any(|note| note.starts_with("2 communicators ran at once")), "{:?}", results.notes);
    assert!(!results.notes.iter().any(|note| note.contains("busbw")), "{:?}", results.notes);
}

#[test]
fn sends_have_no_in_place_trial() {
    let text = run(103.5, 0).replace("all_reduce_perf", "sendrecv_perf");
    let results = one(&text);
    assert_eq!(results.shapes().len(), 1);
    assert!(lines(&results)[0].ends_with("on cuda: 103.500 us x20 wrong 0"), "{:?}", lines(&results));
    assert!(results.notes.iter().any(|note| note.contains("in-place times of send_recv are left out")));
}

#[test]
fn calls_of_a_graph_are_counted() {
    let results = one(&run(20.0, 0).replace("graph: 0", "graph: 3"));
    assert!(lines(&results)[0].contains("x60"), "{:?}", lines(&results));
    assert!(results.notes.iter().any(|note| note.contains("CUDA graph, which was launched 3 times")));
}

#[test]
fn tables_of_a_guide_that_nothing_announces_are_apart() {
    let table = |rate: &str| {
        format!(
            "```\n| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n|    1MiB |  39.93GBps |  {rate}GBps |\n```\n\n"
        )
    };
    let command = "$ python -u -m torch.distributed.run --nproc_per_node=8 all_reduce_bench.py\n\n";
    let text = format!(
        "The output on one node:\n{command}{}With the other switch:\n{command}{}",
        table("22.82"),
        table("11.41")
    );
    let records = read(&source(&text)).unwrap();
    assert_eq!(records.len(), 2, "{records:?}");
    assert!(lines(&records[0])[0].contains("ranks=8"), "{:?}", lines(&records[0]));
    assert!(records.iter().all(|results| results.shapes()[0].1.len() == 1), "no trials: {records:?}");
}
