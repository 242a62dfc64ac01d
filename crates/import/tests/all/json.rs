//! The JSON of nccl-tests and rccl-tests.

use crate::{lines, one, refusal, sample};

fn nccl() -> String {
    sample("nccl_tests_json", "v3.json")
}

fn rccl() -> String {
    sample("rccl_tests_json", "all_reduce.json")
}

#[test]
fn nccl_tests_tells_ranks_iterations_and_percentiles() {
    let results = one(&nccl());
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=false on cuda: 67.310 us \
             x20 wrong 0 mean 67.310 std 1.000 p50 67.000 p95 75.000 p99 79.000 min 60.000 max 80.000",
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=true on cuda: 65.270 us x20",
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes=2097152 reduce=sum in_place=false on cuda: 81.120 us \
             x20 wrong 2",
        ]
    );
    assert_eq!(results.hosts, ["node-a", "node-b"]);
    assert_eq!(results.versions["nccl"], "2.29.7");
    assert_eq!(results.facts["environment"], "NCCL_ALGO=Ring");
    assert_eq!(
        results.all_omitted(),
        [
            "line 2: a time of NaN us is not a time",
            "the key `env`: variables that do not begin with NCCL_ are left out, they may hold secrets",
            "the key `out_of_place_per_iter.cv_pct`: the record has no coefficient of variation",
            "the key `out_of_place_per_iter.times_us`: single iterations are kept if the file has those of each process",
        ]
    );
    assert!(results.facts["options"].contains("warmup_iters 1") && results.facts["options"].contains("graph 0"));
    assert!(results.notes.contains(&"out of bounds values: 1".to_owned()));
    assert!(!results.notes.iter().any(|note| note.contains("bw of")), "{:?}", results.notes);
}

/// The file has one word for `-z 1`, `-z 2` and `-z 3`.
#[test]
fn the_arguments_tell_how_calls_wait() {
    let kind = |value: &str| {
        let on = nccl().replace("\"blocking_collectives\":\"false\"", "\"blocking_collectives\":\"true\"");
        let (shape, _) = one(&on.replace("\"-g\"", &format!("{value}\"-g\""))).shapes()[0].clone();
        (shape.fields.contains(&("mode", "isolated".into())), shape.implementation.is_some())
    };
    let found = ["", "\"-z\",\"1\",", "\"--blocking=2\",", "\"-z\",\"3\","].map(kind);
    assert_eq!(found, [(true, true), (true, true), (false, true), (true, false)]);
}

#[test]
fn times_of_processes_are_kept_and_name_the_slow_one() {
    let time = |process: usize, at: usize| {
        (if process == 5 { 90.0 } else { 60.0 }) + ((process * 3 + at * 5) % 7) as f64 / 10.0
    };
    let rows: Vec<Vec<f64>> = (0..8).map(|process| (0..20).map(|at| time(process, at)).collect()).collect();
    let mut root: serde_json::Value = serde_json::from_str(&nccl()).unwrap();
    root["config"]["devices"] =
        (0..8).map(|rank| serde_json::json!({"rank": rank, "group": 0, "hostname": "node-a"})).collect();
    root["config"]["ngpus"] = 1.into();
    root["results"][0]["out_of_place_per_iter"]["per_process_max_times_us"] = serde_json::to_value(&rows).unwrap();
    root["results"][0]["out_of_place_per_iter"]["skipped_iterations"] = 4.into();
    let record = record(&root.to_string());
    let line = &record.lines[0];
    assert_eq!((line.metrics["slow_rank"].as_u64(), line.per_rank_median_s.as_ref().unwrap().len()), (Some(5), 8));
    assert!(line.caveats.contains(&record::Caveat::SlowRank), "{line:?}");
    assert!((2.8e-5..3.2e-5).contains(&line.metrics["slow_rank_wait_s"].as_f64().unwrap()), "{line:?}");
    let [samples] = &record.samples[..] else { panic!("one trial: {:?}", record.samples) };
    assert_eq!((samples.id.as_str(), samples.ns.len(), samples.ns[5].len()), (line.id.as_str(), 8, 16));
    assert_eq!(samples.ns[5][0], (rows[5][4] * 1e3).round() as u64);
    // Without a slow one nobody is named, and a process of two GPUs is not a rank.
    let even = root.to_string().replace("9", "6");
    assert!(!self::record(&even).lines[0].metrics.contains_key("slow_rank"));
    root["config"]["ngpus"] = 2.into();
    assert!(self::record(&root.to_string()).lines[0].per_rank_median_s.is_none());
}

/// The one record of a text.
fn record(text: &str) -> import::ImportedRecord {
    let (source, tool) = (crate::source(text), record::Tool { name: "rankmark".to_owned(), version: "0".to_owned() });
    let results = crate::read(&source).unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    import::records(&source, "nccl_tests_json", results, &benchmarks::abouts(), &tool, now).unwrap().remove(0)
}

#[test]
fn devices_of_other_groups_are_other_communicators() {
    let mut root: serde_json::Value = serde_json::from_str(&nccl()).unwrap();
    root["config"]["ngpus"] = 1.into();
    root["config"]["devices"] = (0..4).map(|rank| serde_json::json!({"rank": rank, "group": rank % 2})).collect();
    let results = one(&root.to_string());
    assert!(lines(&results)[0].contains("ranks=2"), "{:?}", lines(&results));
    assert!(results.notes.iter().any(|note| note.starts_with("2 communicators ran at once")));
}

#[test]
fn the_program_is_that_of_the_command() {
    let text = sample("nccl_tests_json", "v3_h100.json");
    let results = one(&text);
    let found = lines(&results);
    assert_eq!(found.len(), 16);
    assert_eq!(
        found[14],
        "collective op=all_reduce ranks=2 backend=nccl dtype=f32 bytes=16777216 reduce=sum in_place=false on cuda: 102.263 us x20 \
         wrong 0"
    );
    assert_eq!(results.versions["nccl"], "2.30.7");
    assert!(!results.notes.iter().any(|note| note.starts_with("error")), "{:?}", results.notes);
    let other = lines(&one(&text.replace("all_reduce_perf", "all_gather_perf_mpi")));
    assert!(other[0].starts_with("collective op=all_gather "), "{}", other[0]);
}

#[test]
fn nccl_tests_of_another_version_or_cut_off_is_refused() {
    assert_eq!(
        refusal(&nccl().replace("\"version\":3", "\"version\":4")),
        "x.log: version 4 of nccl-tests' JSON is not known\nhint:  known versions: 1, 2, 3"
    );
    let cut = nccl().split("\"out_of_bounds\"").next().unwrap().to_owned();
    assert!(
        refusal(&cut).starts_with("x.log, line 6: the JSON is cut off here: expected a value, but the file ends"),
        "{}",
        refusal(&cut)
    );
    let why = refusal(&nccl().replace("\"time\":67.310000", "\"time\":\"fast\""));
    assert_eq!(why, "x.log: results[0].out_of_place.time: expected a number");
    assert!(refusal(&nccl().replace("\"time\":6", "\"cpu_time\":6")).contains("`cpu_time` is the time until"));
}

#[test]
fn cycles_of_rccl_tests_are_trials() {
    let results = one(&rccl());
    assert_eq!(results.runs(), 2);
    assert_eq!(
        lines(&results),
        [
            "collective op=all_reduce ranks=2 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=false on cuda: 60.500 us \
             wrong 0, 62.500 us wrong 0",
            "collective op=all_reduce ranks=2 backend=nccl dtype=f32 bytes=1048576 reduce=sum in_place=true on cuda: 61.500 us",
        ]
    );
    let bare: String =
        rccl().lines().filter(|line| line.len() > 2).map(|line| line.trim_end_matches(',').to_owned() + "\n").collect();
    assert_eq!(lines(&one(&bare)), lines(&results));
    let why = refusal(&rccl().replace("\"wrong\"", "\"errors\""));
    assert!(why.contains("[0] has a field `errors` that this reader does not know"), "{why}");
    let why = refusal(&rccl().replace("60.500000", "NaN"));
    assert!(why.starts_with("x.log, line 2: this is not JSON"), "{why}");
}

#[test]
fn the_same_figures_as_text_and_as_json_are_the_same_cases() {
    // JSON tells the iterations' number as text does; both have the times that one public run printed.
    let by_json = lines(&one(&sample("nccl_tests_json", "v3_sizes.json")));
    let by_text = lines(&one(&sample("nccl_tests", "2.19.txt")));
    assert_eq!((by_json.len(), by_json), (8, by_text));
}

#[test]
fn records_of_rccl_tests_may_stand_one_a_line() {
    let lines = lines(&one(&sample("rccl_tests_json", "lines.json")));
    let shape = |bytes: u64, in_place: bool, time: &str| {
        format!(
            "collective op=all_reduce ranks=8 backend=nccl dtype=f32 bytes={bytes} reduce=sum in_place={in_place} on cuda: \
             {time} us wrong 0"
        )
    };
    assert_eq!(lines.len(), 8);
    assert_eq!((&lines[0], &lines[7]), (&shape(1 << 20, false, "61.500"), &shape(1 << 26, true, "524.000")));
}

#[test]
fn keys_that_nobody_has_seen_are_told_once() {
    let text = nccl()
        .replace("\"nwrong\":", "\"energy_j\":1.5,\"nwrong\":")
        .replace("\"parallel_init\":", "\"topology\":{\"x\":1},\"parallel_init\":")
        .replace("\"errors\":", "\"power_w\":300,\"errors\":")
        .replace("\"actual_iterations\":20,\"experiment_name\":\"AllReduce\"}]", "\"actual_iterations\":7}]");
    let omitted = one(&text).all_omitted();
    for what in [
        "the key `power_w`: this reader does not know it",
        "the key `config.topology`: this reader does not know it",
        "the key `out_of_place.energy_j`: this reader does not know it",
        "line 2: `actual_iterations` is 7: the record has the 20 of `config`",
    ] {
        assert_eq!(omitted.iter().filter(|omitted| *omitted == what).count(), 1, "{what}: {omitted:?}");
    }
}

#[test]
fn json_that_is_cut_off_says_where_and_what_was_expected() {
    for (text, why) in [
        (nccl()[..60].to_owned(), "x.log, line 1: the JSON is cut off here: expected the end of a text"),
        (
            nccl().split("\"results\"").next().unwrap().to_owned(),
            "x.log, line 3: the JSON is cut off here: expected a value",
        ),
        (rccl().split("\"algBw\"").next().unwrap().to_owned(), "x.log, line 2: the JSON is cut off here: expected "),
        ("{\n  \"hardware\": {\n".to_owned(), "x.log, line 2: the JSON is cut off here: expected `,` or `}`"),
        ("[\n{\"a\": 1},\n".to_owned(), "x.log, line 2: the JSON is cut off here: expected a value"),
        ("{\"a\": NaN}".to_owned(), "x.log, line 1: this is not JSON"),
    ] {
        assert!(refusal(&text).starts_with(why), "{text}: {}", refusal(&text));
    }
    // What is whole is only not known, and a launcher's prefix is not a list.
    for text in ["{\"a\": 1}", "{\"a\": 1}\n{\"a\": 2}\n", "// x\n{\"a\": [1 /* 2 */]}", "[1,0]<stdout>:hello", "[0] x"]
    {
        assert!(refusal(text).starts_with("no format recognises x.log"), "{text}: {}", refusal(text));
    }
}
