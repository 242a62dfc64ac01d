//! One page about several records, and the pages of a record that holds two sides.

use diagnose::compare::{Settings, compare};
use record::{CaseLine, Record, RunEnd};
use report::{Against, Comparisons, Run, write_together};
use serde_json::{Value, json};

use crate::data;
use crate::golden::text;

/// A record of three sizes, each slower by its factor than the base, and equal otherwise.
fn record_of(title: &str, slower: [f64; 3]) -> Run {
    let sizes = [1u64 << 10, 1 << 16, 1 << 20];
    let case = |(bytes, slower): (u64, f64)| {
        let time = data::transport(bytes, 1e-6, 40.0, 28.0) * slower;
        let trials = (0..12).map(|trial| time * (1.0 + 1e-3 * f64::from(trial % 4))).collect();
        CaseLine { trial_median_s: trials, trials: Some(12), ..data::Invented::new(2, bytes, time).line() }
    };
    Run { title: title.into(), ..data::run(sizes.into_iter().zip(slower).map(case).collect()) }
}

fn record(title: &str, slower: f64) -> Run {
    record_of(title, [slower; 3])
}

/// What a comparison reads of a run.
fn as_record(run: &Run) -> Record {
    let file = json!({"schema": 1, "tool": {"name": "rankmark", "version": "0.1.0"}, "experiment": "sweep",
        "started": "2026-11-20T10:15:00Z", "command_line": [], "simulated": false,
        "plan": {"experiment": "sweep", "profiling": false, "cases": []}, "benchmarks": run.benchmarks,
        "environment": {"NCCL_ALGO": run.title}, "machine": record::Machine::default()});
    Record {
        file: serde_json::from_value(file).unwrap(),
        cases: run.cases.clone(),
        end: RunEnd::Ended,
        damaged: Vec::new(),
        notes: Vec::new(),
    }
}

/// The page of these runs, each compared with the first, and the values of its script.
fn written(runs: &[Run]) -> (String, Value) {
    let records: Vec<Record> = runs.iter().map(as_record).collect();
    compared(runs, &records)
}

fn compared(runs: &[Run], records: &[Record]) -> (String, Value) {
    let settings = Settings { threshold: 0.03, history: Vec::new() };
    let mut others: Vec<Against> = Vec::new();
    for (latest, run) in records[1..].iter().zip(&runs[1..]) {
        let comparison = compare(&[&records[0]], latest, &settings);
        others.push(Against { name: run.title.clone(), latest, comparison });
    }
    let compared = Comparisons { name: runs[0].title.clone(), base: &records[0], others };
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(&write_together(runs, Some(&compared), folder.path()).unwrap()[0]).unwrap();
    let (_, values) = page.split_once("id=\"data\">").unwrap();
    let values = serde_json::from_str(values.split_once("</script>").unwrap().0).unwrap();
    let body = page.split_once("<main>").unwrap().1.split_once("</main>").unwrap().0;
    let closed = body.replace("<br>", "<br/>").replace(" hidden ", " ").replace(" hidden>", ">");
    let closed =
        closed.replace("data-copy ", "").replace(" data-copy>", ">").replace(" open>", ">").replace(" open ", " ");
    roxmltree::Document::parse(&format!("<main>{closed}</main>")).unwrap();
    (body.to_owned(), values)
}

/// Where these texts stand, which must be in this order.
fn in_order(page: &str, texts: &[&str]) {
    let places = texts.iter().map(|text| page.find(text).unwrap_or_else(|| panic!("no {text} in {page}")));
    let places: Vec<usize> = places.collect();
    assert!(places.is_sorted(), "{texts:?} stand at {places:?}");
}

#[test]
fn two_records_are_one_page_that_begins_with_what_changed() {
    let (page, values) = written(&[record("monday", 1.0), record_of("today", [1.0, 2.0, 1.0])]);
    in_order(
        &page,
        &[
            "<p class=\"verdict bad\"><strong>worse</strong>: 1 of 3 cases, all_reduce 64 KiB, 2 ranks by 2.00x",
            "Largest change: all_reduce 64 KiB, 2 ranks: 2.00x (",
            "environment NCCL_ALGO",
            "all_reduce 64 KiB, 2 ranks</td>",
            "<td class=\"n\">2.000 (",
            "<td class=\"bad\">worse</td>",
            "all_reduce 1 KiB, 2 ranks</td>",
            "<figure",
            "<details",
        ],
    );
    assert_eq!(page.matches("<details class=\"record\"").count(), 2, "each report is folded");
    let charts = values["charts"].as_array().unwrap();
    let labels = |chart: &Value| -> Vec<String> {
        chart["s"].as_array().unwrap().iter().map(|one| one[0].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(labels(&charts[0]), ["A", "B"], "a line a record");
    assert_ne!(charts[0]["s"][0][1], charts[0]["s"][1][1], "each with its colour");
}

/// A case that failed has changed, and no value says by how much.
#[test]
fn a_case_that_newly_failed_is_a_change() {
    let mut today = record("today", 1.0);
    let failed = &mut today.cases[1];
    (failed.status, failed.time_s, failed.reason) = (terms::Status::Failed, None, Some("rank 1 died".to_owned()));
    failed.trial_median_s.clear();
    let (page, _) = written(&[record("monday", 1.0), today]);
    assert!(page.contains("(1 newly failed)"), "{page}");
    assert!(page.contains("No change of a value was detected. The largest difference is in "), "{page}");
}

/// Where the comparison took another state of the machine, charts show its times, as the table does, and the rates that
/// follow from them.
#[test]
fn charts_show_the_times_that_were_compared() {
    let (monday, today) = (record("monday", 1.0), record("today", 1.12));
    let slower = |run: &Run, factor: f64| {
        let mut record = as_record(run);
        for line in &mut record.cases {
            line.time_s.as_mut().unwrap().median *= factor;
            line.metrics.clear();
        }
        record
    };
    let records = [slower(&monday, 2.0), slower(&today, 1.0)];
    let (_, values) = compared(&[monday.clone(), today], &records);
    let charts = values["charts"].as_array().unwrap();
    let first = |title: &str| {
        let chart = charts.iter().find(|chart| chart["t"].as_str().unwrap().contains(title)).expect("a chart");
        chart["s"][0][2][0][1].as_f64().unwrap()
    };
    let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-3;
    let case = &monday.cases[0];
    assert!(near(first(": time vs"), 2.0 * case.time_s.as_ref().unwrap().median));
    assert!(near(first("busbw vs message"), case.metric("busbw_gbs").unwrap() / 2.0));
}

/// A value of another field may be a letter, too: the side of an interleaved record.
#[test]
fn lines_of_charts_are_those_of_their_record() {
    let (mut a, b) = (record("a", 1.0), record("b", 1.12));
    let records = [as_record(&a), as_record(&b)];
    let sided = |side: &str| {
        let mut lines = a.cases.clone();
        lines.iter_mut().for_each(|line| line.parameters.insert("side", side.into()));
        lines
    };
    a.cases = [sided("A"), sided("B")].concat();
    let sided = Record { cases: a.cases.clone(), ..records[0].clone() };
    let (_, values) = compared(&[a, b], &[sided, records[1].clone()]);
    let series = values["charts"][0]["s"].as_array().unwrap();
    let labels: Vec<&str> = series.iter().map(|one| one[0].as_str().unwrap()).collect();
    assert_eq!(labels, ["A, 2 ranks, A", "A, 2 ranks, B", "B, 2 ranks"]);
}

#[test]
fn of_several_records_each_is_compared_with_the_base() {
    let runs = [record("a", 1.0), record("b", 2.0), record("c", 0.5)];
    let (page, values) = written(&runs);
    in_order(
        &page,
        &[
            "B  b: <strong>worse</strong>: 3 of 3 cases",
            "C  c: <strong>better</strong>: 3 of 3 cases",
            "<table",
            "B / base",
            "C / base",
            "0.500",
            "<details",
        ],
    );
    assert_eq!(values["charts"][0]["s"].as_array().unwrap().len(), 3);
    assert_eq!(page.matches("<td class=\"long\">all_reduce 1 KiB, 2 ranks<").count(), 1, "a row a case");
}

#[test]
fn records_with_nothing_in_common_say_so_and_are_both_shown() {
    let mut other = record("today", 1.0);
    for line in &mut other.cases {
        line.parameters.insert("op", "broadcast".into());
        line.id.push('x');
    }
    let (page, _) = written(&[record("monday", 1.0), other]);
    in_order(
        &page,
        &["nothing in common", "has the same workload, ranks and device", "<details class=\"record\" open"],
    );
    assert_eq!(page.matches("<details class=\"record\" open").count(), 2);
}

fn interleaved(verdicts: &[(&str, f64)]) -> Run {
    let case = |(at, (verdict, ratio)): (usize, &(&str, f64))| record::ComparedCase {
        benchmark: "collective".to_owned(),
        parameters: serde_json::from_str(&format!(r#"{{"op": "all_reduce", "ranks": 2, "bytes": {}}}"#, 1024 << at))
            .unwrap(),
        differs: serde_json::Map::new(),
        ids: ["a".to_owned(), "b".to_owned()],
        status: terms::Status::Ok,
        reason: None,
        time_s: Some([1e-6, 1.1e-6]),
        log_ratios: vec![ratio.ln(); 6],
        ratio: Some(*ratio),
        ratio_ci95: Some([ratio - 0.05, ratio + 0.05]),
        smallest_change: Some(0.04),
        looks: vec![6],
        verdict: (*verdict).to_owned(),
    };
    let cases = verdicts.iter().enumerate().map(case).collect();
    let sides = [record::Side { plan: "a.yaml".into(), ..record::Side::default() }, record::Side::default()];
    let interleaved = record::Interleaved { sides, threshold: 0.03, cases, ..record::Interleaved::default() };
    Run { interleaved: Some(interleaved), ..record("ab", 1.0) }
}

#[test]
fn pages_of_an_interleaved_record_begin_with_its_verdict() {
    let run = interleaved(&[("worse", 1.1), ("same", 1.0)]);
    let page = text("html", &run);
    in_order(
        &page,
        &[
            "class=\"verdict bad\"><strong>Worse</strong>: B compared with A: worse in 1, the same within 3% in 1 of 2 cases.",
            "<table",
            "1.100",
            "1.050 to 1.150",
        ],
    );
    let (_, bar) = page.split_once("class=\"share\"").unwrap();
    assert!(bar.split_once("</svg>").unwrap().0.contains("class=\"failed\""), "the bar agrees");
    in_order(
        &text("markdown", &run),
        &["**Worse**: B compared with A: worse in 1", "## Comparison", "| all_reduce 1 KiB"],
    );
    in_order(&text("github-summary", &run), &["**Worse**: B compared with A: worse in 1", "## Comparison"]);
    for (verdict, word, class) in
        [("better", "Better", "verdict"), ("same", "Same", "verdict"), ("cannot tell", "Cannot tell", "verdict care")]
    {
        let page = text("html", &interleaved(&[(verdict, 1.0)]));
        assert!(page.contains(&format!("class=\"{class}\"><strong>{word}</strong>")), "{verdict}");
    }
}

#[test]
fn a_ratio_of_pairs_that_contradicts_the_times_says_why() {
    let note = "The ratio is the median over pairs of the same round";
    let page = text("markdown", &interleaved(&[("better", 0.9)]));
    assert_eq!(page.matches(note).count(), 1, "{page}");
    assert!(!text("markdown", &interleaved(&[("worse", 1.1)])).contains(note));
}

#[test]
fn the_ratio_of_both_runtimes_is_a_line_of_its_own() {
    let case = |backend: &'static str, bytes: u64, time: f64| {
        let mut line = data::Invented { backend, ..data::Invented::new(2, bytes, time) }.line();
        if backend == "gloo" {
            line.runtime = "pytorch".into();
            line.parameters.insert("runtime", "pytorch".into());
        }
        line
    };
    let lines =
        vec![case("shm", 1024, 1e-6), case("gloo", 1024, 4e-6), case("shm", 65536, 1e-5), case("gloo", 65536, 2e-5)];
    let run = data::run(lines.clone());
    let line = "Native ranks are 2.83x as fast as PyTorch ranks in all_reduce (geometric mean of 2 pairs from 2.00x to \
                4.00x): faster in 2, slower in 0, cannot tell in 0.";
    in_order(&text("html", &run), &["class=\"verdict", line, "<table"]);
    in_order(&text("markdown", &run), &[line, "| "]);
    assert_eq!(text("markdown", &run).matches("Speedup of shm").count(), 0, "said once");
    assert_eq!(report::runtimes(&run), [line.to_owned()]);
    assert!(report::runtimes(&data::run(lines[..1].to_vec())).is_empty());
}

#[test]
fn junit_names_tell_cases_apart_and_times_add_up() {
    let mut lines: Vec<_> = (0..3).map(|_| data::Invented::new(2, 1024, 1e-6).line()).collect();
    lines[1].parameters.insert("buffers", "private".into());
    lines[1].span_s = Some(0.123_456_7);
    lines[0].span_s = Some(0.000_000_4);
    let xml = text("junit", &data::run(lines));
    let document = roxmltree::Document::parse(&xml).unwrap();
    let cases: Vec<_> = document.descendants().filter(|node| node.has_tag_name("testcase")).collect();
    let names: Vec<&str> = cases.iter().map(|case| case.attribute("name").unwrap()).collect();
    let different: std::collections::BTreeSet<&&str> = names.iter().collect();
    assert_eq!(different.len(), 3, "{names:?}");
    assert!(names[0].contains("registered buffers") && names[1].contains("private buffers"), "{names:?}");
    let nanos = |text: &str| -> u64 { text.replace('.', "").parse().unwrap() };
    let sum: u64 = cases.iter().map(|case| nanos(case.attribute("time").unwrap())).sum();
    let time = |tag: &str| {
        let node = document.descendants().find(|node| node.has_tag_name(tag)).unwrap();
        nanos(node.attribute("time").unwrap_or_else(|| panic!("{tag} has no time: {xml}")))
    };
    assert_eq!([time("testsuite"), time("testsuites")], [sum, sum]);
}

#[test]
fn the_summary_of_a_job_begins_like_the_report() {
    let run = data::study();
    let (summary, report) = (text("github-summary", &run), text("markdown", &run));
    let verdict = report.lines().find(|line| line.starts_with("**")).unwrap();
    let to_do = report.split_once("## What to do").unwrap().1.split_once("\n## ").unwrap().0;
    in_order(&summary, &[verdict, "## What to do", to_do.trim(), "## What the data show"]);
}
