//! Text from the record never becomes markup, a formula or a path, and numbers that are none are never shown.

use proptest::prelude::*;
use record::show::{Column, Format as CellFormat, Table};
use record::{Labels, Machine};
use report::{FORMATS, Run, format};
use serde_json::json;

use crate::data;
use crate::explained::text;
use crate::tables::read_csv;

#[test]
fn markdown_stays_text() {
    let markdown = text("markdown", &data::hostile());
    // Inside code, text cannot be markup; everywhere else no tag may begin.
    let mut outside = String::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.contains("`` ") {
            outside += line;
            outside.push('\n');
        }
    }
    assert!(!fenced);
    assert!(!outside.contains('<'), "{outside}");
    assert!(!outside.contains('\u{202E}') && !outside.contains('\0'));
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with('|')).collect();
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    for pair in rows.windows(2).filter(|pair| cells(pair[0]) != cells(pair[1])) {
        // Two tables may differ; a row of one may not.
        assert!(pair[1].contains("---") || pair[1].starts_with("| op") || pair[1].starts_with("| bytes"), "{pair:?}");
    }
}

#[test]
fn csv_has_no_formulas_and_reads_back() {
    let csv = text("csv", &data::hostile());
    let rows = read_csv(&csv);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    for cell in rows.iter().flatten() {
        let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
        assert!(!formula || cell.parse::<f64>().is_ok(), "{cell}");
    }
    assert!(rows[1].iter().any(|cell| *cell == view::one_line(data::HOSTILE)), "words of the record, on one line");
    assert!(rows[1].iter().any(|cell| cell == "'=cmd|' /C calc'!A0"));
}

/// What a text may be made of that a terminal, a CI system, a spreadsheet or a browser obeys.
const PIECES: [&str; 26] = [
    "a",
    "word",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\u{0}",
    "\u{1b}[31m",
    "\u{1b}]0;t\u{7}",
    "\u{9b}2J",
    "\u{202E}",
    "\u{2066}",
    "\u{61C}",
    "\u{2028}",
    "::error::",
    "::warning file=a::",
    "##[error]",
    "##vso[task.complete]",
    "=1+1",
    "|",
    "`",
    "*",
    "[a](b)",
    "![a](b)",
    "<script>",
    "]]>",
];

fn piece() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..8).prop_map(|pieces| pieces.concat())
}

/// A record of somebody else, with this text wherever it may have one.
fn foreign(text: &str) -> Run {
    let mut run = data::one_series();
    run.cases.truncate(4);
    let own = || text.to_owned();
    (run.title, run.started, run.machine, run.command) = (own(), own(), own(), own());
    (run.launcher, run.program, run.started_by) = (own(), own(), Some(own()));
    run.labels = Labels { name: Some(own()), tags: vec![own()], note: Some(own()) };
    run.environment = [(own(), own())].into();
    run.versions = [(own(), own())].into();
    (run.notes, run.plan_notes, run.profiles, run.merged) = (vec![own()], vec![own()], vec![own()], vec![own()]);
    run.hosts = vec![Machine { host: own(), cpu_model: own(), ..Machine::default() }; 2];
    for case in &mut run.cases {
        (case.backend, case.device, case.dtype, case.runtime) = (own(), own(), Some(own()), own());
        case.parameters.insert("op", json!(text));
        case.parameters.insert("word", json!(text));
        case.parameters.insert(own(), json!(text));
        case.metrics.insert("told", json!(text));
        case.gates_missed = vec![own()];
    }
    (run.cases[3].status, run.cases[3].reason) = (terms::Status::Failed, Some(own()));
    let word = Column { unit: own(), ..Column::new(text, "told", CellFormat::Word) };
    let size = Column { unit: own(), ..Column::new(text, "bytes", CellFormat::Bytes) };
    let table = Table { title: own(), columns: vec![word, size], note: own(), ..Table::default() };
    for declared in &mut run.benchmarks {
        declared.doc = own();
        declared.show.tables.push(table.clone());
        declared.show.timed = own();
        declared.show.charts.iter_mut().for_each(|chart| {
            (chart.title, chart.x_title, chart.y_title) = (own(), own(), own());
        });
        declared.metrics.iter_mut().for_each(|metric| {
            (metric.doc, metric.unit) = (own(), own());
        });
        declared.fields.iter_mut().for_each(|field| {
            (field.doc, field.unit) = (own(), own());
        });
    }
    run
}

/// What a line of output must not hold, whatever the record says.
fn obeyed(line: &str) -> Option<&'static str> {
    let begin = line.trim_start();
    let named = begin.strip_prefix("::").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    [
        (line.chars().any(|c| c.is_control() && c != '\t'), "a control character"),
        (line.chars().any(view::is_invisible), "a character that turns the direction of text"),
        (named || line.contains("##[") || line.contains("##vso["), "a command to a CI system"),
        (line.contains("<script>") && line.contains("alert"), "a script"),
    ]
    .into_iter()
    .find_map(|(holds, what)| holds.then_some(what))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_format_passes_text_of_a_record_on_as_commands(text in piece()) {
        let run = foreign(&text);
        for format in FORMATS.iter().filter(|format| !["parquet", "png", "pdf"].contains(&format.name())) {
            for file in format.render(&run).unwrap() {
                let shown = String::from_utf8(file.content).unwrap();
                for line in shown.lines() {
                    prop_assert_eq!(obeyed(line), None, "{} of {:?}: {:?}", format.name(), text, line);
                }
            }
        }
        for sentence in report::sentences(&run) {
            prop_assert_eq!(obeyed(&sentence), None, "{:?}", sentence);
        }
    }
}

#[test]
fn titles_units_and_notes_of_a_record_are_no_markup() {
    let text = "a|b <b>c</b> [d](e)";
    let markdown = self::text("markdown", &foreign(text));
    assert!(markdown.contains("a\\|b &lt;b>c&lt;/b> \\[d\\](e)"), "{markdown}");
    let is_text = |line: &&str| line.starts_with(['|', '*', '#']) && !line.contains('`');
    assert!(!markdown.lines().filter(is_text).any(|line| line.contains(" [d](e)")), "{markdown}");
}

#[test]
fn paths_stay_inside() {
    let mut run = data::hostile();
    run.cases[0].parameters.insert("op", json!("../../../etc/passwd"));
    run.cases[1].parameters.insert("op", json!("..\\..\\etc/passwd"));
    let mut paths = Vec::new();
    for name in ["svg", "png"] {
        for file in format(name).unwrap().render(&run).unwrap() {
            let name = file.path.to_string();
            let stem = name.strip_prefix("charts/").unwrap();
            assert!(stem.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)), "{name}");
            assert!(!stem.contains(".."), "{name}");
            paths.push(name);
        }
    }
    let number = paths.len();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), number, "two charts share a file");
}

#[test]
fn numbers_that_are_none_are_never_shown() {
    let mut run = data::one_series();
    for (index, value) in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0].into_iter().enumerate() {
        let time = run.cases[index].time_s.as_mut().unwrap();
        time.median = value;
        let time = run.cases[index + 5].time_s.as_mut().unwrap();
        time.ci95 = Some([value, value]);
        time.ci95_again = time.ci95;
        run.cases[index + 10].metrics.insert("busbw_gbs", json!(value));
        run.cases[index + 15].metrics.insert("limit_share", json!(if value.is_nan() { 1e308 } else { value }));
    }
    for name in ["markdown", "svg"] {
        let text = text(name, &run).to_lowercase();
        let words = |c: char| !c.is_ascii_alphanumeric();
        let shown = text.split(words).find(|word| ["nan", "inf", "infinity"].contains(word));
        assert_eq!(shown, None, "{name}");
    }
    assert!(report::sentences(&run).iter().all(|sentence| !sentence.contains("NaN") && !sentence.contains("inf")));
}
