//! Text from the record never becomes markup, a formula or a path, and numbers that are none are never shown.

use report::{Run, format};
use serde_json::json;

use crate::data;
use crate::tables::read_csv;

fn text(name: &str, run: &Run) -> String {
    let files = format(name).unwrap().render(run).unwrap();
    files.iter().map(|file| String::from_utf8_lossy(&file.content).into_owned()).collect()
}

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
    assert!(rows[1].iter().any(|cell| cell == data::HOSTILE));
    assert!(rows[1].iter().any(|cell| cell == "'=cmd|' /C calc'!A0"));
}

#[test]
fn paths_stay_inside() {
    let mut run = data::hostile();
    run.cases[0].parameters.insert("op".into(), json!("../../../etc/passwd"));
    run.cases[1].parameters.insert("op".into(), json!("..\\..\\etc/passwd"));
    let mut paths = Vec::new();
    for name in ["svg", "png"] {
        for file in format(name).unwrap().render(&run).unwrap() {
            let name = file.path.to_str().unwrap().to_owned();
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
        run.cases[index + 10].metrics.insert("busbw_gbs".into(), json!(value));
        run.cases[index + 15].metrics.insert("limit_share".into(), json!(if value.is_nan() { 1e308 } else { value }));
    }
    for name in ["markdown", "svg"] {
        let text = text(name, &run).to_lowercase();
        let words = |c: char| !c.is_ascii_alphanumeric();
        let shown = text.split(words).find(|word| ["nan", "inf", "infinity"].contains(word));
        assert_eq!(shown, None, "{name}");
    }
    assert!(report::sentences(&run).iter().all(|sentence| !sentence.contains("NaN") && !sentence.contains("inf")));
}
