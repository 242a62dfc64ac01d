//! One page about several records, and the pages of a record that holds two sides.

use report::{AgainstBase, CaseAgainstBase, Differing, Run, format, write_together};
use serde_json::Value;

use crate::data;

/// A record of three sizes, slower by this factor than the base.
fn record(title: &str, slower: f64) -> Run {
    let sizes = [1u64 << 10, 1 << 16, 1 << 20];
    let time = |bytes: u64| data::transport(bytes, 1e-6, 40.0, 28.0) * slower;
    let cases = sizes.map(|bytes| data::Invented::new(2, bytes, time(bytes)).line());
    Run { title: title.into(), ..data::run(cases.to_vec()) }
}

/// A comparison in which the second case is worse.
fn worse() -> AgainstBase {
    let case = |id: &str, label: &str, ratio: f64, verdict: &str| CaseAgainstBase {
        id: id.into(),
        label: label.into(),
        values: ["1.00 us".into(), format!("{ratio:.2} us")],
        ratio: Some(ratio),
        interval: Some([ratio - 0.05, ratio + 0.05]),
        extrapolated: verdict == "same",
        verdict: verdict.into(),
    };
    AgainstBase {
        verdict: "worse".into(),
        sentence: "worse: 1 of 2 cases, all_reduce 64 KiB by +12%; 1 the same within 3%".into(),
        largest: "all_reduce 64 KiB, 2 ranks: +12% (+7.0% to +17%)".into(),
        cases: vec![case("b", "all_reduce 64 KiB", 1.12, "worse"), case("a", "all_reduce 1 KiB", 1.0, "same")],
        notes: vec!["These are two single runs.".into()],
        differences: vec![Differing {
            topic: "environment".into(),
            name: "NCCL_ALGO".into(),
            base: None,
            new: Some("Ring".into()),
        }],
        ..AgainstBase::default()
    }
}

fn written(runs: &[Run], compared: &[AgainstBase]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(&write_together(runs, compared, folder.path()).unwrap()[0]).unwrap();
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
    let (page, values) = written(&[record("monday", 1.0), record("today", 1.12)], &[worse()]);
    in_order(
        &page,
        &[
            "<strong>Worse</strong>: 1 of 2 cases, all_reduce 64 KiB by +12%; 1 the same within 3%",
            "+12% (+7.0% to +17%)",
            "NCCL_ALGO",
            "all_reduce 64 KiB</th>",
            "1.120 (1.070 to 1.170)",
            "all_reduce 1 KiB</th>",
            "1.000 (0.950 to 1.050)*",
            "<figure",
            "<details",
        ],
    );
    assert!(page.contains("class=\"verdict bad\""), "the colour agrees");
    assert_eq!(page.matches("<details class=\"record\"").count(), 2, "each report is folded");
    let charts = values["charts"].as_array().unwrap();
    let labels = |chart: &Value| -> Vec<String> {
        chart["s"].as_array().unwrap().iter().map(|one| one[0].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(labels(&charts[0]), ["A", "B"], "a line a record");
    assert_ne!(charts[0]["s"][0][1], charts[0]["s"][1][1], "each with its colour");
}

/// Where the comparison took another state of the machine, charts show its times, as the table does, and the rates that
/// follow from them.
#[test]
fn charts_show_the_times_that_were_compared() {
    let (monday, today) = (record("monday", 1.0), record("today", 1.12));
    let slower = |run: &Run, factor: f64| {
        let mut lines = run.cases.clone();
        for line in &mut lines {
            line.time_s.as_mut().unwrap().median *= factor;
            line.metrics.clear();
        }
        lines
    };
    let compared = AgainstBase { lines: [slower(&monday, 2.0), slower(&today, 1.0)], ..worse() };
    let (_, values) = written(&[monday.clone(), today], &[compared]);
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
    let sided = |side: &str| {
        let mut lines = a.cases.clone();
        lines.iter_mut().for_each(|line| line.parameters.insert("side", side.into()));
        lines
    };
    a.cases = [sided("A"), sided("B")].concat();
    let (_, values) = written(&[a, b], &[worse()]);
    let series = values["charts"][0]["s"].as_array().unwrap();
    let labels: Vec<&str> = series.iter().map(|one| one[0].as_str().unwrap()).collect();
    assert_eq!(labels, ["A, 2 ranks, A", "A, 2 ranks, B", "B, 2 ranks"]);
}

#[test]
fn of_several_records_each_is_compared_with_the_base() {
    let better = AgainstBase {
        verdict: "better".into(),
        sentence: "better: 1 of 1 case".into(),
        cases: vec![CaseAgainstBase { ratio: Some(0.5), verdict: "better".into(), ..worse().cases[1].clone() }],
        ..AgainstBase::default()
    };
    let runs = [record("a", 1.0), record("b", 1.12), record("c", 0.5)];
    let (page, values) = written(&runs, &[worse(), better]);
    in_order(
        &page,
        &[
            "B against A: <strong>Worse</strong>",
            "C against A: <strong>Better</strong>",
            "<table",
            "B/A",
            "C/A",
            "0.500",
            "<details",
        ],
    );
    assert_eq!(values["charts"][0]["s"].as_array().unwrap().len(), 3);
    assert_eq!(page.matches("<th scope=\"row\">all_reduce 1 KiB").count(), 1, "a row a case");
}

#[test]
fn records_with_nothing_in_common_say_so_and_are_both_shown() {
    let nothing = AgainstBase {
        sentence: "no case of A measures the same workload in the same world as one of B".into(),
        ..AgainstBase::default()
    };
    let (page, _) = written(&[record("monday", 1.0), record("today", 1.0)], &[nothing]);
    in_order(
        &page,
        &["Nothing in common", "no case of A measures the same workload", "<details class=\"record\" open"],
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

fn text(run: &Run, name: &str) -> String {
    let file = format(name).unwrap().render(run).unwrap().remove(0);
    String::from_utf8_lossy(&file.content).into_owned()
}

#[test]
fn pages_of_an_interleaved_record_begin_with_its_verdict() {
    let run = interleaved(&[("worse", 1.1), ("same", 1.0)]);
    let page = text(&run, "html");
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
        &text(&run, "markdown"),
        &["**Worse**: B compared with A: worse in 1", "## Comparison", "| all_reduce 1 KiB"],
    );
    in_order(&text(&run, "github-summary"), &["**Worse**: B compared with A: worse in 1", "## Comparison"]);
    for (verdict, word, class) in
        [("better", "Better", "verdict"), ("same", "Same", "verdict"), ("cannot tell", "Cannot tell", "verdict care")]
    {
        let page = text(&interleaved(&[(verdict, 1.0)]), "html");
        assert!(page.contains(&format!("class=\"{class}\"><strong>{word}</strong>")), "{verdict}");
    }
}

#[test]
fn a_ratio_of_pairs_that_contradicts_the_times_says_why() {
    let note = "The ratio is the median over pairs of the same round";
    let page = text(&interleaved(&[("better", 0.9)]), "markdown");
    assert_eq!(page.matches(note).count(), 1, "{page}");
    assert!(!text(&interleaved(&[("worse", 1.1)]), "markdown").contains(note));
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
    in_order(&text(&run, "html"), &["class=\"verdict", line, "<table"]);
    in_order(&text(&run, "markdown"), &[line, "| "]);
    assert_eq!(text(&run, "markdown").matches("Speedup of shm").count(), 0, "said once");
    assert_eq!(report::runtimes(&run), [line.to_owned()]);
    assert!(report::runtimes(&data::run(lines[..1].to_vec())).is_empty());
}

#[test]
fn junit_names_tell_cases_apart_and_times_add_up() {
    let mut lines: Vec<_> = (0..3).map(|_| data::Invented::new(2, 1024, 1e-6).line()).collect();
    lines[1].parameters.insert("buffers", "private".into());
    lines[1].span_s = Some(0.123_456_7);
    lines[0].span_s = Some(0.000_000_4);
    let xml = text(&data::run(lines), "junit");
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
    let (summary, report) = (text(&run, "github-summary"), text(&run, "markdown"));
    let verdict = report.lines().find(|line| line.starts_with("**")).unwrap();
    let to_do = report.split_once("## What to do").unwrap().1.split_once("\n## ").unwrap().0;
    in_order(&summary, &[verdict, "## What to do", to_do.trim(), "## What the data show"]);
}
