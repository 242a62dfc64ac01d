//! Files for other programs: JUnit, Prometheus, the summary of a CI job, the document of a PDF.

use std::collections::{BTreeMap, HashSet};

use report::{Run, format};
use terms::Status;

use crate::data;
use crate::golden::text;

/// One case of each end.
fn ends() -> Run {
    let mut run = data::one_series();
    run.cases.truncate(5);
    let end = |case: &mut record::CaseLine, status, reason: &str| {
        case.status = status;
        case.reason = Some(reason.to_owned());
        case.time_s = None;
        case.metrics.clear();
    };
    end(&mut run.cases[1], Status::Failed, "2 wrong elements");
    end(&mut run.cases[2], Status::Skipped, "NCCL is not installed");
    end(&mut run.cases[3], Status::NotRun, "the run was interrupted");
    run.cases[4].gates_missed = vec!["busbw_gbs>=12: 4.32".into()];
    run
}

#[test]
fn junit_says_how_each_case_ended() {
    let text = text("junit", &ends());
    let document = roxmltree::Document::parse(&text).unwrap();
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    let of = |name| suite.attribute(name).unwrap();
    assert_eq!([of("name"), of("tests"), of("failures"), of("skipped")], ["sweep", "5", "3", "1"]);
    let outcome = |case: roxmltree::Node| {
        let child = case.children().find(roxmltree::Node::is_element);
        child.map(|child| format!("{}: {}", child.tag_name().name(), child.attribute("message").unwrap()))
    };
    let cases: Vec<roxmltree::Node> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
    let outcomes: Vec<Option<String>> = cases.iter().map(|case| outcome(*case)).collect();
    let expected = [
        None,
        Some("failure: 2 wrong elements"),
        Some("skipped: NCCL is not installed"),
        Some("failure: not run: the run was interrupted"),
        Some("failure: gate missed: busbw_gbs>=12: 4.32"),
    ];
    assert_eq!(outcomes.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    let names: HashSet<&str> = cases.iter().map(|case| case.attribute("name").unwrap()).collect();
    assert_eq!(names.len(), 5);
    assert_eq!(cases[0].attribute("time"), Some("8.400000000"));
}

#[test]
fn junit_of_hostile_names_is_xml() {
    let text = text("junit", &data::hostile());
    let document = roxmltree::Document::parse(&text).unwrap();
    assert!(document.descendants().all(|node| !node.has_tag_name("script")));
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("testcase")).count(), 3);
}

/// One sample: labels and value.
type Sample = (BTreeMap<String, String>, f64);

/// The text format, read strictly: each metric has HELP and TYPE once and before its samples, which stand together; no
/// labels twice; names and escapes as the specification has them; no time of a sample's own.
fn read_prometheus(text: &str) -> BTreeMap<String, Vec<Sample>> {
    assert!(text.is_empty() || text.ends_with('\n'));
    let mut metrics: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    let (mut helped, mut open) = (HashSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(kind == "gauge" && helped.contains(name), "{line}");
            assert!(metrics.insert(name.to_owned(), Vec::new()).is_none(), "{line}");
            open = name.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            assert_eq!(name, open, "{line}");
            let samples = metrics.get_mut(&name).unwrap();
            assert!(samples.iter().all(|(known, _)| *known != labels), "twice: {line}");
            samples.push((labels, value));
        }
    }
    metrics
}

fn is_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(word)
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        let mut characters = inside.char_indices();
        let mut begin = 0;
        let after = loop {
            let equals = begin + inside[begin..].find("=\"").unwrap();
            let label = &inside[begin..equals];
            let mut value = String::new();
            let mut at = characters.by_ref().skip_while(|(place, _)| *place < equals + 2);
            let close = loop {
                match at.next().unwrap() {
                    (_, '\\') => match at.next().unwrap().1 {
                        'n' => value.push('\n'),
                        escaped @ ('\\' | '"') => value.push(escaped),
                        other => panic!("no escape: \\{other} in {line}"),
                    },
                    (place, '"') => break place,
                    (_, other) => value.push(other),
                }
            };
            assert!(is_name(label) && labels.insert(label.to_owned(), value).is_none(), "{line}");
            match &inside[close + 1..=close + 1] {
                "," => begin = close + 2,
                "}" => break close + 2,
                other => panic!("`{other}` behind a label in {line}"),
            }
        };
        rest = &inside[after..];
    }
    let value = rest.strip_prefix(' ').unwrap();
    assert!(!value.contains(' '), "a time, or a second value: {line}");
    (name.to_owned(), labels, value.parse().unwrap())
}

#[test]
fn prometheus_has_a_sample_a_case() {
    let run = ends();
    let metrics = read_prometheus(&text("prometheus", &run));
    let times = &metrics["rankmark_case_time_seconds"];
    // The first, and the one that missed its gate.
    assert_eq!(times.len(), 2);
    let time = run.cases[0].time_s.as_ref().unwrap();
    let (labels, value) = &times[0];
    assert!((value - time.median).abs() < 1e-15);
    let of = |name: &str| labels.get(name).map(String::as_str);
    assert_eq!(
        [of("run"), of("op"), of("backend"), of("simulated")],
        ["sweep", "all_reduce", "shm", "false"].map(Some)
    );
    assert_eq!(metrics["rankmark_case_time_low_seconds"][0].1, time.ci95.unwrap()[0]);
    let busbw = metrics["rankmark_case_busbw_bytes_per_second"][0].1;
    assert!((busbw / 1e9 / run.cases[0].metric("busbw_gbs").unwrap() - 1.0).abs() < 1e-12);
    let status = |name: &str| {
        let of = |(labels, _): &&Sample| labels["status"] == name;
        metrics["rankmark_run_cases"].iter().find(of).unwrap().1
    };
    assert_eq!(["ok", "failed", "skipped", "not_run"].map(status), [2.0, 1.0, 1.0, 1.0]);
    assert_eq!(metrics["rankmark_run_gates_missed"][0].1, 1.0);
    assert_eq!(metrics["rankmark_run_start_time_seconds"][0].1, 1_795_169_700.0);
}

#[test]
fn prometheus_keeps_the_mark_of_simulated_cases_and_takes_any_text() {
    let mut run = data::one_series();
    run.cases.iter_mut().for_each(|case| case.simulated = true);
    let metrics = read_prometheus(&text("prometheus", &run));
    assert!(metrics["rankmark_case_time_seconds"].iter().all(|(labels, _)| labels["simulated"] == "true"));
    assert_eq!(metrics["rankmark_run_info"][0].0["simulated"], "true");
    // Two cases of it have one id, so that their labels are the same.
    let hostile = read_prometheus(&text("prometheus", &data::hostile()));
    assert!(hostile["rankmark_run_info"][0].0["run"].contains("<script>"));
    let mut never = data::one_series();
    never.cases[0].time_s.as_mut().unwrap().median = f64::NAN;
    assert_eq!(read_prometheus(&text("prometheus", &never))["rankmark_case_time_seconds"].len(), never.cases.len() - 1);
}

/// What <https://bencher.dev/bmf.json> asks: benchmarks, measures, and of each a number with two more that may be absent.
fn read_bencher(text: &str) -> BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>> {
    let benchmarks: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>> = serde_json::from_str(text).unwrap();
    for (name, measures) in &benchmarks {
        assert!((1..=1024).contains(&name.chars().count()) && !measures.is_empty(), "{name}");
        for (measure, values) in measures {
            assert!((1..=64).contains(&measure.len()) && values.contains_key("value"), "{name}: {measure}");
            assert!(
                values.keys().all(|key| ["value", "lower_value", "upper_value"].contains(&key.as_str())),
                "{values:?}"
            );
        }
    }
    benchmarks
}

#[test]
fn bencher_has_times_and_rates_with_their_intervals() {
    let run = ends();
    let benchmarks = read_bencher(&text("bencher", &run));
    // The first case, and the one that missed its gate: others have no time.
    assert_eq!(benchmarks.len(), 2, "{benchmarks:?}");
    let case = &run.cases[0];
    let name = format!("all_reduce {}, 2 ranks, shm (id {})", view::number::bytes(case.bytes.unwrap()), case.id);
    let measures = &benchmarks[&name];
    assert_eq!(measures.keys().collect::<Vec<_>>(), ["algbw_gbs", "busbw_gbs", "latency", "limit_share"]);
    let near = |measure: &str, key: &str, expected: f64| {
        let value = measures[measure][key];
        assert!((value / expected - 1.0).abs() < 1e-12, "{measure} {key}: {value}, not {expected}");
    };
    let time = case.time_s.as_ref().unwrap();
    let [low, high] = time.ci95.unwrap();
    near("latency", "value", time.median * 1e9);
    near("latency", "lower_value", low * 1e9);
    near("latency", "upper_value", high * 1e9);
    let busbw = case.metric("busbw_gbs").unwrap();
    near("busbw_gbs", "value", busbw);
    // The fastest rate is that of the shortest time.
    near("busbw_gbs", "lower_value", busbw * time.median / high);
    near("busbw_gbs", "upper_value", busbw * time.median / low);
}

#[test]
fn bencher_has_a_benchmark_a_case_whatever_its_text() {
    let mut run = data::one_series();
    run.cases.truncate(3);
    run.cases[0].simulated = true;
    let time = run.cases[1].time_s.as_mut().unwrap();
    (time.ci95, time.ci95_again) = (None, None);
    run.cases[0].caveats = vec![record::Caveat::Paced];
    run.cases[2].id = run.cases[1].id.clone();
    run.cases[2].bytes = run.cases[1].bytes;
    let benchmarks = read_bencher(&text("bencher", &run));
    let names: Vec<&String> = benchmarks.keys().collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("simulated: paced: all_reduce ")).count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.ends_with(" #2")).count(), 1, "{names:?}");
    // Fewer than six trials have no interval.
    let without = names.iter().find(|name| !name.starts_with("sim") && !name.ends_with(" #2")).unwrap();
    assert_eq!(benchmarks[*without]["latency"].keys().collect::<Vec<_>>(), ["value"]);
    let mut wrong = data::one_series();
    wrong.cases[0].wrong = Some(1);
    assert_eq!(read_bencher(&text("bencher", &wrong)).len(), wrong.cases.len() - 1);
    assert!(read_bencher(&text("bencher", &data::hostile())).keys().all(|name| !name.contains(char::is_control)));
    assert_eq!(text("bencher", &Run::default()), "{}\n");
}

#[test]
fn a_summary_is_short_and_says_what_failed() {
    let summary = text("github-summary", &ends());
    assert!(summary.starts_with("# sweep\n"), "{summary}");
    for part in ["5 cases: 2 ok", "1 skipped", "## What the data show", "2 wrong elements", "gate missed", "| op "] {
        assert!(summary.contains(part), "`{part}` is missing: {summary}");
    }
    assert!(!summary.contains("charts/"));
    let many = text("github-summary", &crate::many::run(4_000));
    assert!(many.contains("SIMULATED"));
    assert!(many.len() < 1 << 20, "{}", many.len());
    // In code spans Markdown takes everything as it is; two marks begin one, since the text has single ones.
    let hostile = text("github-summary", &data::hostile());
    let outside: String = hostile.split("``").step_by(2).collect();
    assert!(!outside.contains('<'), "{outside}");
}

#[test]
fn a_pdf_is_one_file_that_says_what_it_lacks() {
    let pdf = format("pdf").unwrap();
    let of = |run: &Run| pdf.render(run).unwrap().remove(0);
    let plain = of(&data::study());
    assert_eq!(plain.path.to_string(), "report.pdf");
    assert!(plain.content.starts_with(b"%PDF-") && plain.content.ends_with(b"%%EOF"));
    assert_eq!((plain.remark.as_deref(), of(&data::study()).content == plain.content), (None, true));
    let japanese = Run { title: "\u{6e2c}\u{5b9a}".to_owned(), ..data::study() };
    let remark = of(&japanese).remark.unwrap();
    assert!(
        remark.contains("does not claim PDF/UA-1") && remark.ends_with("(U+5B9A), and 1 more character"),
        "{remark}"
    );
}

#[test]
fn files_that_users_name_are_written_whole_and_summaries_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/metrics.prom");
    let (prometheus, summary) = (format("prometheus").unwrap(), format("github-summary").unwrap());
    for _ in 0..2 {
        report::write_file(&data::study(), prometheus, &file).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text("prometheus", &data::study()));
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
    let page = folder.path().join("summary");
    for _ in 0..2 {
        report::append_file(&data::study(), summary, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&page).unwrap(), text("github-summary", &data::study()).repeat(2));
    assert!(report::append_file(&data::study(), summary, folder.path()).is_err());
    assert!(report::write_file(&data::study(), format("svg").unwrap(), &file).is_err(), "several files");
}
