//! Whole files against the ones in `tests/golden`, which were read and found right.
//!
//! A difference leaves the new text in the folder that the failure names: read it, and copy it if it is better.

use std::path::Path;

use record::{CaseLine, Caveat, WrongElement};
use report::{Run, format};
use terms::Status;

use crate::data::{self, Invented};

/// The text of a run in a format that is one file.
pub(crate) fn text(format_name: &str, run: &Run) -> String {
    let files = format(format_name).unwrap().render(run).unwrap();
    assert_eq!(files.len(), 1, "{format_name}");
    String::from_utf8(files[0].content.clone()).unwrap()
}

/// Compares with a file of `tests/golden`.
pub(crate) fn check(name: &str, actual: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    if actual != expected {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&new, actual).unwrap();
        let differs = |(a, b): &(&str, &str)| a != b;
        let first = actual.lines().zip(expected.lines()).enumerate().find(|(_, pair)| differs(pair));
        panic!("{name} differs, first at {first:?}; the new text is in {}", new.display());
    }
}

/// Everything that can go wrong with a case, once.
fn mixed() -> Run {
    let with = |caveats: &[Caveat], ranks, bytes, time| -> CaseLine {
        Invented { caveats: caveats.to_vec(), limit: Some(30.0), ..Invented::new(ranks, bytes, time) }.line()
    };
    let mut cases: Vec<CaseLine> = (10..20)
        .map(|exponent| {
            with(&[Caveat::ContextSwitches], 2, 1 << exponent, data::transport(1 << exponent, 2e-6, 30.0, 20.0))
        })
        .collect();
    let mut simulated = with(&[Caveat::Simulated, Caveat::ContextSwitches], 2, 1 << 20, 40e-6);
    simulated.simulated = true;
    cases.push(simulated);
    let mut wrong = with(&[Caveat::ContextSwitches], 2, 1 << 21, 80e-6);
    wrong.status = Status::Failed;
    wrong.wrong = Some(2);
    wrong.reason = Some("2 wrong elements".into());
    wrong.wrong_elements = vec![WrongElement { rank: 1, index: 7, expected: "3".into(), got: "4".into() }];
    cases.push(wrong);
    for exponent in 22..27 {
        let mut skipped = with(&[], 2, 1 << exponent, 1.0);
        skipped.time_s = None;
        skipped.metrics.clear();
        skipped.wrong = None;
        skipped.status = Status::Skipped;
        skipped.reason = Some("needs 5.86 GiB, 2.00 GiB are available".into());
        cases.push(skipped);
    }
    cases[3].gates_missed = vec!["busbw_gbs>=12: 4.32".into()];
    let mut run = data::run(cases);
    run.notes = vec!["the last line was cut short".into()];
    run.overhead = Some(record::Overhead { sample_ns: 42.0, call_ns: 1.5 });
    run
}

#[test]
fn study_as_markdown() {
    check("study.md", &text("markdown", &data::study()));
}

#[test]
fn study_as_csv() {
    check("study.csv", &text("csv", &data::study()));
}

#[test]
fn everything_that_goes_wrong_as_markdown() {
    check("mixed.md", &text("markdown", &mixed()));
}

#[test]
fn everything_that_goes_wrong_as_csv() {
    check("mixed.csv", &text("csv", &mixed()));
}

/// The page without its style and script, which have no data in them; each larger element begins a line, so that a difference
/// can be read.
#[test]
fn everything_that_goes_wrong_as_html() {
    let page = text("html", &mixed());
    let (head, rest) = page.split_once("<style>").unwrap();
    let (body, _) = rest.split_once("</style>").unwrap().1.rsplit_once("<script>").unwrap();
    // The policy has the hashes of both.
    let head: Vec<&str> = head.lines().filter(|line| !line.contains("Content-Security-Policy")).collect();
    let mut text = format!("{}{body}", head.join("\n"));
    for begin in ["<section", "<figure", "<svg", "<path", "<tr", "<li", "<dt", "<p", "<div", "<h2", "\"s\":", "[\"0000"]
    {
        text = text.replace(begin, &format!("\n{begin}"));
    }
    check("mixed.html", &text);
}

#[test]
fn study_as_svg() {
    let files = format("svg").unwrap().render(&data::study()).unwrap();
    let busbw = files.iter().find(|file| file.path.to_string().ends_with("all_reduce-busbw.svg")).unwrap();
    check("study-busbw.svg", std::str::from_utf8(&busbw.content).unwrap());
}

#[test]
fn an_empty_run_is_a_report_too() {
    let markdown = text("markdown", &data::run(Vec::new()));
    assert!(markdown.contains("0 cases: -"), "{markdown}");
    assert!(!markdown.contains("charts/") && !markdown.contains("## Method"), "{markdown}");
    assert!(format("svg").unwrap().render(&data::run(Vec::new())).unwrap().is_empty());
}
