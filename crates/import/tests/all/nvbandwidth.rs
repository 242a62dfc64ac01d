//! The text and the JSON of nvbandwidth.

use crate::{lines, one, read, refusal, sample, source};

fn text(file: &str) -> String {
    sample("nvbandwidth", file)
}

#[test]
fn testcases_of_one_gpu_are_tests_of_one_rank() {
    let results = one(&text("v0.8_one_gpu.txt"));
    assert_eq!(
        lines(&results),
        [
            // 536870912 bytes / 12.98e9 bytes a second, and so on.
            "hardware test=host_to_device ranks=1 device=cuda bytes=536870912 on cuda: 41361.395 us gbs 12.98",
            "hardware test=device_to_host ranks=1 device=cuda bytes=536870912 on cuda: 40764.686 us gbs 13.17",
            "hardware test=host_both_ways ranks=1 device=cuda bytes=536870912 on cuda: 42406.865 us gbs 12.659999999999998",
            "hardware test=host_both_ways ranks=1 device=cuda bytes=536870912 on cuda: 48541.674 us gbs 11.06",
            "hardware test=host_latency ranks=1 device=cuda bytes=2097152 on cuda: 0.613 us",
            "hardware test=device_copy ranks=1 device=cuda bytes=536870912 on cuda: 6366.310 us gbs 168.66",
        ]
    );
    let names: Vec<_> = results.shapes().iter().filter_map(|(shape, _)| shape.implementation.as_deref()).collect();
    assert_eq!(names, ["host_to_device_bidirectional_memcpy_ce", "device_to_host_bidirectional_memcpy_ce"]);
    assert_eq!((results.tool.as_str(), results.hosts.as_slice()), ("nvbandwidth 0.8", &["node-a".to_owned()][..]));
    let omitted = results.all_omitted();
    assert_eq!(omitted.len(), 2, "{omitted:?}");
    assert!(omitted[0].starts_with("line 43: `all_to_host_memcpy_ce`: copies of several GPUs"), "{omitted:?}");
    assert!(omitted[1].contains("`host_to_device_memcpy_sm`: it copies by kernels"), "{omitted:?}");
    assert!(results.notes.iter().any(|note| note.contains("read as 512 MiB")), "{:?}", results.notes);
}

#[test]
fn pairs_are_a_matrix_of_the_gpu_that_reads_by_the_gpu_that_is_read() {
    let results = one(&text("v0.8_quoted.md"));
    let (shape, figures) = &results.shapes()[0];
    assert_eq!(shape.implementation.as_deref(), Some("device_to_device_memcpy_read_ce"));
    let details = figures[0].details.as_ref().unwrap();
    let near = |rate: Option<f64>, expected: f64| (rate.unwrap() - expected).abs() < 1e-9;
    let rates = &details.matrices.iter().find(|(name, _)| *name == "pair_gbs").unwrap().1;
    assert!(rates[0][0].is_none() && near(rates[0][3], 21.95) && near(rates[3][0], 21.82));
    // Of 30 pairs, 12 reach 26.3 GB/s; the median is between 22.62 and 22.64.
    let median = 536_870_912.0 / figures[0].time_s / 1e9;
    assert!((22.6..22.7).contains(&median), "{median}");
    assert_eq!(shape.fields[1].1, "6");
    let several = one(&text("v0.10_seven_gpus.md"));
    assert_eq!(several.shapes().len(), 4);
    assert!(lines(&several)[0].starts_with("hardware test=host_to_device ranks=1"), "{:?}", lines(&several));
    assert!(lines(&several)[0].contains("min ") && lines(&several)[2].contains("ranks=7"), "{:?}", lines(&several));
    assert!(several.facts["host_to_device_memcpy_ce, by GPU"].starts_with("55.59 55.6 55.6"), "{:?}", several.facts);
}

#[test]
fn the_matrix_reaches_the_record() {
    let tool = record::Tool { name: "rankmark".to_owned(), version: "0".to_owned() };
    let file = source(&text("v0.8_quoted.md"));
    let results = read(&file).unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let records = import::records(&file, "nvbandwidth", results, &benchmarks::abouts(), &tool, now).unwrap();
    let line = &records[0].lines[0];
    assert!(line.metrics["pair_gbs"][0][0].is_null(), "{:?}", line.metrics);
    assert!((line.metrics["pair_gbs"][0][1].as_f64().unwrap() - 26.34).abs() < 1e-9);
    assert_eq!((line.ranks, line.bytes), (6, Some(512 << 20)));
}

#[test]
fn the_size_is_that_of_the_command_line_or_the_default_of_the_version() {
    let old = one(&text("v0.2_eight_gpus.txt"));
    assert!(lines(&old)[0].contains("bytes=67108864"), "{:?}", lines(&old));
    let given = |command: &str| one(&format!("$ {command}\n{}", text("v0.8_one_gpu.txt")));
    for command in
        ["./nvbandwidth -b 1024 -i 5", "./nvbandwidth --bufferSize=1024 -i 5", "nvbandwidth -b1024 -i 5 | tee x"]
    {
        let results = given(command);
        assert!(lines(&results)[0].contains("bytes=1073741824 on cuda: 82722.791 us x5"), "{:?}", lines(&results));
        // Loads go through 2 MiB whatever is asked for.
        assert!(lines(&results)[4].contains("bytes=2097152"), "{command}");
        assert!(!results.notes.iter().any(|note| note.contains("are read as")), "{:?}", results.notes);
    }
    let note = "NOTE: You have chosen a buffer size that is smaller than the default buffer size.";
    let unknown = one(&text("v0.8_one_gpu.txt").replace("CUDA Runtime", &format!("{note}\nCUDA Runtime")));
    assert_eq!(unknown.shapes().len(), 1, "only host_latency has a size: {:?}", lines(&unknown));
    assert!(unknown.all_omitted()[0].contains("smaller than the default"), "{:?}", unknown.all_omitted());
}

#[test]
fn a_result_may_be_quoted_without_its_head() {
    let quoted = text("v0.8_one_gpu.txt").split_once("Running host").unwrap().1.to_owned();
    let results = one(&format!("My GPU:\n```\nRunning host{quoted}```\n"));
    assert_eq!((results.shapes().len(), results.tool.as_str()), (6, "nvbandwidth"));
    assert!(results.notes.iter().any(|note| note.contains("since 0.7 (before: 64 MiB)")), "{:?}", results.notes);
}

#[test]
fn a_table_that_is_cut_is_left_out_with_its_sum() {
    let cut = |width: usize, file: &str| {
        let text: String = text(file).lines().map(|line| line.get(..width).unwrap_or(line).to_owned() + "\n").collect();
        one(&text)
    };
    let results = cut(70, "v0.10_seven_gpus.md");
    assert_eq!(results.shapes().len(), 0, "{:?}", lines(&results));
    assert!(results.all_omitted()[0].contains("expected 6 values behind the number of the row, found 7"));
    let results = cut(61, "v0.10_seven_gpus.md");
    assert_eq!(results.shapes().len(), 0, "{:?}", lines(&results));
    let results = cut(62, "v0.10_seven_gpus.md");
    assert!(results.all_omitted()[0].contains("a part of the table is missing"), "{:?}", results.all_omitted());
    let results = one(&text("v0.10_seven_gpus.md").replace(" 3    765.80    765.18", " 3    765.80"));
    assert!(results.all_omitted()[0].contains("expected 7 values behind the number of the row, found 6"));
    assert_eq!(results.shapes().len(), 3);
    let results = one(&text("v0.8_one_gpu.txt").replace("SUM device_local_copy 84.33\n", ""));
    assert!(results.cut && results.all_omitted().iter().any(|what| what.contains("the file ends before its sum")));
    let wrong = one(&text("v0.8_one_gpu.txt").replace("GPU(column) bandwidth (GB/s)", "GPU(column) bandwidth (GiB/s)"));
    assert_eq!(wrong.shapes().len(), 1, "{:?}", lines(&wrong));
    assert!(wrong.all_omitted()[0].contains("expected values in (GB/s)"), "{:?}", wrong.all_omitted());
}

#[test]
fn commas_and_mixed_lines_are_refused() {
    let why = refusal(&text("v0.8_one_gpu.txt").replace("0     12.98", "0     12,98"));
    assert!(why.starts_with("x.log, line 14: expected a number, found `12,98`: a comma counts only"), "{why}");
    let whole = text("v0.8_one_gpu.txt");
    for (from, to) in [
        ("SUM device_to_host_memcpy_ce", "SUM host_to_device_memcpy_ce"),
        (" 0     13.17\n", " 0     13.17\n 0     13.18\n"),
        (" 0     13.17\n", " 0     13.17\nmemcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n"),
    ] {
        let why = refusal(&whole.replace(from, to));
        assert!(why.contains("separate programs wrote here at once"), "{why}");
    }
}

#[test]
fn runs_under_two_headings_are_two_records() {
    let run = text("v0.8_one_gpu.txt");
    let two = format!("## before\n\n{run}\n## after\n\n{}", run.replace("12.98", "13.98"));
    let all = read(&source(&two)).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].facts["heading"], "after");
    assert!(lines(&all[1])[0].ends_with("gbs 13.98"), "{:?}", lines(&all[1]));
    let numbered = two.replace("## before", "1. before").replace("## after", "2. after");
    assert_eq!(read(&source(&numbered)).unwrap().len(), 2);
    // The same twice without anything between: trials.
    let trials = one(&format!("{run}{run}"));
    assert_eq!(trials.shapes()[0].1.len(), 2);
}

#[test]
fn json_has_the_same_testcases() {
    let text = sample("nvbandwidth_json", "v0.5.json");
    let results = one(&text);
    assert_eq!(
        lines(&results)[0],
        "hardware test=host_to_device ranks=1 device=cuda bytes=67108864 on cuda: 5413.577 us gbs 12.3964"
    );
    assert_eq!(results.shapes().len(), 5);
    // Before 0.7, loads go through a buffer as large as that of copies.
    assert!(lines(&results)[4].contains("test=host_latency ranks=1 device=cuda bytes=67108864 on cuda: 0.650 us"));
    assert_eq!(results.all_omitted().len(), 2, "{:?}", results.all_omitted());
    let off = one(&text.replace("\"12.3964\"", "\"2.3964\""));
    assert!(off.all_omitted()[0].contains("a part of the table is missing"), "{:?}", off.all_omitted());
    assert!(refusal(&text.replace("\"12.3964\"", "\"12,3964\"")).contains("a comma counts only"));
    assert!(refusal(&text[..text.len() / 2]).contains("the JSON is cut off here"));
}
