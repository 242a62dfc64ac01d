//! The metrics of NCCL Inspector for Prometheus.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("nccl_inspector_prom", file)
}

#[test]
fn ranges_of_sizes_stay_ranges() {
    let results = one(&text("nvl72.prom"));
    assert_eq!(
        lines(&results),
        [
            "nccl_inspector operation=send ranks=64 nodes=1 message_size=1-2MB on cuda: 92.898 us busbw_gbs 19.1634",
            "nccl_inspector operation=recv ranks=64 nodes=1 message_size=1-2MB on cuda: 92.578 us busbw_gbs 19.2396",
            "nccl_inspector operation=reduce_scatter ranks=32 nodes=4 message_size=134-135MB algorithm=RING_SIMPLE \
             on cuda: \
             104164.000 us busbw_gbs 44.1181",
        ]
    );
    assert_eq!((results.hosts.as_slice(), results.facts["gpu"].as_str()), (&["node-a".to_owned()][..], "GPU0"));
    assert_eq!(results.facts["slurm job"], "1670760");
    assert!(results.notes.iter().any(|note| note.contains("`1-2MB` begins at 1 MiB")), "{:?}", results.notes);
    let named = lines(&one(&text("readme.prom")));
    assert!(named[0].contains("communicator=DP Group 0 algorithm=Ring_ll"), "{named:?}");
    assert_eq!(lines(&one(&text("rccl.prom"))).len(), 1);
}

#[test]
fn each_gpu_has_a_record_and_later_versions_have_more() {
    let one_gpu = text("rccl.prom");
    let both = one_gpu.clone() + &one_gpu.replace("GPU0", "GPU1");
    let all = read(&source(&both)).unwrap();
    assert_eq!(all.iter().map(|results| results.facts["gpu"].as_str()).collect::<Vec<_>>(), ["GPU0", "GPU1"]);
    let labels = one_gpu.lines().last().unwrap().split_once('{').unwrap().1.split_once('}').unwrap().0;
    let more = format!(
        "nccl_collective_count{{{labels}}} 12\nnccl_collective_exec_time_p95_microseconds{{{labels}}} 70\n\
         nccl_collective_exec_time_max_microseconds{{{labels}}} 80\n"
    );
    let found = lines(&one(&(one_gpu.clone() + &more)));
    assert!(found[0].ends_with("58.865 us x12 p95 70.000 max 80.000 busbw_gbs 34.2887"), "{found:?}");
    let newer = one(&one_gpu.replace("v5.1", "v6.1"));
    assert!(newer.notes.iter().any(|note| note.contains("version `v6.1` of NCCL Inspector's metrics is new")));
}

#[test]
fn damaged_lines_are_left_out_by_number() {
    let whole = text("nvl72.prom");
    for (from, to, why) in [
        ("92.8984", "92,8984", "line 2: expected a number, found `92,8984`: a comma counts only"),
        ("92.8984", "92.8984 us", "line 2: expected one number behind the labels, found 2"),
        ("92.8984", "0", "line 1: a time of 0 us is not a time"),
    ] {
        let results = one(&whole.replace(from, to));
        let omitted = results.all_omitted();
        assert!(omitted.iter().any(|what| what.starts_with(why)), "{from}: {omitted:?}");
        assert_eq!(results.shapes().len(), 2);
    }
    for (from, to, why) in [
        (
            "message_size=\"134-135MB\"",
            "message_size=\"134MB\"",
            "expected a range of sizes such as `1-2MB`, found `134MB`",
        ),
        ("nranks=\"32\"", "nranks=\"x\"", "`nranks` is `x`, not a number"),
        ("n_nodes=\"4\",", "", "the label `n_nodes` is missing"),
    ] {
        let omitted = one(&whole.replace(from, to)).all_omitted();
        assert_eq!(omitted, [format!("line 6: {why}")], "{from}");
    }
    // A bandwidth is not a time.
    let without: String =
        whole.lines().filter(|line| !line.contains("exec_time")).map(|line| format!("{line}\n")).collect();
    assert!(import::recognise(&source(&without)).is_none());
}

#[test]
fn lines_that_are_cut_at_a_width_give_no_shorter_number() {
    let whole = text("nvl72.prom");
    // The line of the time of ReduceScatter ends behind `104164`; at this width it ends within.
    let longest = whole.lines().map(str::len).max().unwrap();
    let cut = |columns: usize| -> String {
        whole.lines().map(|line| line.chars().take(columns).collect::<String>() + "\n").collect()
    };
    let longer = whole
        .replace("comm_name=\"unknown\",n_nodes=\"1\"", &format!("comm_name=\"{}\",n_nodes=\"1\"", "x".repeat(90)));
    let cut_longer: String =
        longer.lines().map(|line| line.chars().take(longest - 2).collect::<String>() + "\n").collect();
    let results = one(&cut_longer);
    let omitted = results.all_omitted();
    assert!(omitted.iter().any(|what| what.starts_with("line 7: the line ends where others are cut")), "{omitted:?}");
    assert_eq!(results.shapes().len(), 0);
    assert!(refusal(&cut(120)).contains("line 1: the line is cut: its labels have no end"));
}

#[test]
fn two_dumps_in_one_file_are_refused() {
    let whole = text("nvl72.prom");
    let why = refusal(&(whole.clone() + &whole));
    assert!(
        why.contains("line 8: `nccl_p2p_bus_bandwidth_gbs` stands twice with the same labels, first in line 1"),
        "{why}"
    );
}

#[test]
fn a_number_that_the_file_ends_in_is_not_read() {
    let whole = text("nvl72.prom");
    let start = whole.trim_end().rfind('\n').unwrap() + 1;
    for at in start + 1..whole.len() {
        let cut = source(&whole[..at]);
        let results = read(&cut).unwrap().remove(0);
        assert_eq!(results.shapes().len(), 2, "{at}: {:?}", lines(&results));
        let missing = "a bandwidth without its time: the line of the time is missing";
        assert!(results.all_omitted().iter().any(|what| what.contains(missing)), "{:?}", results.all_omitted());
        assert!(cut.unfinished().unwrap().starts_with("line 7, the last, has no line end"));
    }
}
