//! What the formats have in common: their order, the charts that they show, one colour for one thing, and grammar.

use std::collections::BTreeMap;

use record::Caveat;
use report::Run;
use serde_json::json;

use crate::data::{self, Invented};
use crate::golden::text;

/// A run with both buffers of two operations, on 1, 2 and 4 ranks; the second operation has further variants before them.
fn over_ranks() -> Run {
    let mut cases = Vec::new();
    for (op, variants) in [("all_reduce", &["registered", "private"][..]), ("all_gather", &["private", "registered"])] {
        for ranks in [1, 2, 4] {
            for (number, buffers) in variants.iter().enumerate() {
                let mut line = Invented { op, ..Invented::new(ranks, 1 << 20, 1e-5 * f64::from(ranks)) }.line();
                line.id = format!("{op}{ranks}{number}");
                line.parameters.insert("buffers".to_owned(), json!(buffers));
                cases.push(line);
            }
        }
    }
    data::run(cases)
}

#[test]
fn markdown_has_the_order_of_the_page() {
    let mut run = data::study();
    run.cases.iter_mut().for_each(|line| line.caveats.push(Caveat::Noisy));
    run.plan_notes.push("one case is left out".to_owned());
    let (markdown, page) = (text("markdown", &run), text("html", &run));
    let places = |text: &str, parts: &[&str]| -> Vec<usize> {
        parts.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("no `{part}` in\n{text}"))).collect()
    };
    let titles = [
        "Results are right, times are disturbed",
        "12 cases: 12 ok",
        "one case is left out",
        "What to do",
        "What the data show",
        "Summary by configuration",
    ];
    let sections = ["## all_reduce", "## Caveats", "## Machine and record", "## Method", "## Run it again"];
    let order = places(&markdown, &[&titles[..], &sections[..]].concat());
    assert!(order.is_sorted(), "{order:?}\n{markdown}");
    let page = page.split("</style>").nth(1).unwrap();
    let page = page.split("<nav").next().unwrap().to_owned() + page.split("</nav>").nth(1).unwrap();
    let order = places(&page, &titles);
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn what_a_finding_says_is_not_said_again() {
    let mut run = data::study();
    let state =
        |name: &str| record::MachineState { name: Some(name.to_owned()), share: 0.5, trials: 20, canaries: Vec::new() };
    run.states = vec![state("near cores"), state("far cores")];
    for format_name in ["html", "markdown"] {
        let text = text(format_name, &run);
        let text = text.split("<script").next().unwrap();
        assert_eq!(text.matches("The machine had 2 states").count(), 1, "{format_name}: {text}");
    }
}

#[test]
fn neither_page_nor_document_shows_a_chart_of_one_point() {
    let mut run = data::scaled();
    let most = run.cases.iter().map(|line| line.ranks).max().unwrap();
    let mut seen = Vec::new();
    run.cases.retain(|line| {
        let is_new = !seen.contains(&line.ranks);
        seen.push(line.ranks);
        is_new && [1, most].contains(&line.ranks)
    });
    let (markdown, page) = (text("markdown", &run), text("html", &run));
    assert!(!markdown.contains("efficiency-") && !page.contains("efficiency-"), "{markdown}");
    let shown = markdown.matches("[![").count();
    assert!(shown > 0, "{markdown}");
    assert_eq!(page.matches("<figure").count(), shown);
}

#[test]
fn a_line_over_ranks_has_one_colour_in_all_sections() {
    let run = over_ranks();
    let operations = view::study::operations(&run.cases, &run.benchmarks);
    let mut styles: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for chart in operations.iter().flat_map(view::declared_charts).filter(|chart| chart.spec.x.title == "ranks") {
        chart.spec.series.into_iter().for_each(|series| styles.entry(series.label).or_default().push(series.style));
    }
    assert_eq!(styles.keys().collect::<Vec<_>>(), ["private buffers", "registered buffers"]);
    assert!(styles.values().all(|all| all.len() == 2 && all[0] == all[1]), "{styles:?}");
}

#[test]
fn a_line_that_a_logarithmic_axis_cannot_show_is_in_no_legend() {
    let case = |ranks, bytes| {
        let mut line = Invented::new(ranks, bytes, 1e-5).line();
        line.parameters.insert("buffers".to_owned(), json!("private"));
        line
    };
    let run =
        data::run([1, 2].into_iter().flat_map(|ranks| [1 << 10, 1 << 20, 1 << 24].map(|b| case(ranks, b))).collect());
    let operations = view::study::operations(&run.cases, &run.benchmarks);
    let charts = view::declared_charts(&operations[0]);
    let busbw =
        charts.iter().find(|chart| chart.spec.y.title.starts_with("busbw") && chart.spec.x.title == "message size");
    let labels: Vec<&str> = busbw.unwrap().spec.series.iter().map(|series| series.label.as_str()).collect();
    assert_eq!(labels, ["2 ranks"], "busbw of one rank is 0");
}

#[test]
fn one_case_is_and_two_cases_are() {
    let noisy = |all: usize, disturbed: usize| {
        let line = |number: usize| {
            let mut line = Invented::new(2, 1 << (10 + number), 1e-5).line();
            line.caveats = if number < disturbed { vec![Caveat::Noisy, Caveat::ContextSwitches] } else { Vec::new() };
            line
        };
        text("markdown", &data::run((0..all).map(line).collect()))
    };
    assert!(noisy(1, 1).contains("The case is disturbed: noisy and context switches"), "{}", noisy(1, 1));
    assert!(noisy(4, 1).contains("1 of 4 cases is disturbed: noisy and context switches"), "{}", noisy(4, 1));
    assert!(noisy(3, 2).contains("2 of 3 cases are disturbed"), "{}", noisy(3, 2));
}

#[test]
fn a_note_says_nothing_of_columns_that_are_not_there() {
    let hardware = |test: &str, metric: &str| {
        let mut line = Invented::new(1, 1 << 20, 1e-5).line();
        line.benchmark = "hardware".to_owned();
        line.parameters.insert("test".to_owned(), json!(test));
        line.metrics.clear();
        line.metrics.insert(metric.to_owned(), json!(12.5));
        text("html", &data::run(vec![line]))
    };
    let note = "words that the loop reads and writes";
    assert!(hardware("triad", "gbs").contains(note));
    assert!(!hardware("fma", "gflops").contains(note));
    assert!(!hardware("triad", "gbs").contains("with the lines that caches read"), "nothing was moved");
}
