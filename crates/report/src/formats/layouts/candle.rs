//! The result table of the Candle suite: one column for each training case. Its three scores are defined in docs/how-to/configurations.md.

use record::CaseLine;
use terms::Status;

use crate::escape::one_line;
use crate::number::{thousands, three_digits};
use crate::study::banner;
use crate::words::damage::end_banner;
use crate::{Artifact, Error, Format, Run};

/// The layout.
#[derive(Debug)]
pub(super) struct Candle;

/// Columns that stand side by side at most.
const ABREAST: usize = 4;

impl Format for Candle {
    fn about(&self) -> (&'static str, &'static str) {
        ("candle", "the result table of the Candle suite: results_table.txt")
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        if columns(run).is_empty() {
            let what = "the layout `candle` is a table of training cases, and the record has none";
            return Err(Error::new(what).hint("rankmark train --model transformer-small --strategy data --ranks 1,2"));
        }
        Ok(vec![Artifact::new("results_table.txt", table(run, 120).into_bytes())])
    }
}

/// The table in so many columns of text; empty where the record has no training case.
pub(super) fn table(run: &Run, width: usize) -> String {
    let columns = columns(run);
    if columns.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for banner in end_banner(run).into_iter().chain(banner(run.cases.iter())) {
        text += &format!("{}\n", one_line(&banner));
    }
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let fits = (1..=rest.len().min(ABREAST)).rev().find(|number| wide(&rest[..*number]) <= width).unwrap_or(1);
        text += &boxed(&rest[..fits]);
        rest = &rest[fits..];
    }
    let notes: Vec<&CandleColumn> = columns.iter().filter(|column| !column.notes.is_empty()).collect();
    for column in notes {
        text += &format!("{}: {}\n", column.cells[0], column.notes.join("; "));
    }
    text
}

/// The rows of the table.
const ROWS: [&str; 11] = [
    "Configuration",
    "Model",
    "Strategy",
    "Hardware",
    "Throughput (samples/s)",
    "Throughput (tokens/s)",
    "Forward Time (ms)",
    "Backward Time (ms)",
    "Memory Efficiency",
    "Performance Score",
    "Efficiency Score",
];

/// One training case: a cell for each row, and why cells are empty.
struct CandleColumn {
    cells: [String; ROWS.len()],
    notes: Vec<String>,
}

fn columns(run: &Run) -> Vec<CandleColumn> {
    run.cases.iter().filter(|case| case.benchmark == "training").map(|case| column(case, run)).collect()
}

fn column(case: &CaseLine, run: &Run) -> CandleColumn {
    let text = |name: &str| {
        case.parameters
            .get(name)
            .map_or("-".to_owned(), |value| one_line(&view::plain(value)).chars().take(40).collect())
    };
    let (model, strategy): (String, String) = (text("model"), text("strategy"));
    let hardware = match (case.runtime.as_str(), case.simulated) {
        (_, true) => "simulated".to_owned(),
        ("pytorch", _) => format!("{} (pytorch)", one_line(&case.device)),
        _ => one_line(&case.device),
    };
    let number = |path: &[&str]| {
        let mut value = case.metrics.get(path[0])?;
        for part in &path[1..] {
            value = value.get(part)?;
        }
        value.as_f64().filter(|value| value.is_finite())
    };
    let mut notes = Vec::new();
    if case.status != Status::Ok {
        notes.push(format!("{}: {}", case.status, one_line(case.reason.as_deref().unwrap_or("no reason is given"))));
    }
    let is_ok = case.status == Status::Ok;
    let mut score = |value: Option<f64>, why: &str, name: &str, show: fn(f64) -> String| {
        if value.is_none() && is_ok {
            notes.push(format!("no {name}: {why}"));
        }
        value.map_or("-".to_owned(), show)
    };
    let used = memory(case, run);
    let cells = [
        format!("{model}-{strategy} ({})", ranks(case.ranks)),
        model,
        strategy,
        hardware,
        number(&["samples_per_s"]).map_or("-".to_owned(), three_digits),
        number(&["tokens_per_s"]).map_or("-".to_owned(), tokens),
        number(&["phases_s", "forward"]).map_or("-".to_owned(), |time| three_digits(time * 1e3)),
        number(&["phases_s", "backward"]).map_or("-".to_owned(), |time| three_digits(time * 1e3)),
        score(used, "the memory of this case was not measured", "Memory Efficiency", |value| format!("{value:.2}x")),
        score(number(&["mfu", "headline"]), "the peak of these cores was not measured", "Performance Score", |value| {
            format!("{value:.3}")
        }),
        score(number(&["efficiency"]), "no comparable case with fewer ranks", "Efficiency Score", |value| {
            format!("{value:.3}")
        }),
    ];
    CandleColumn { cells, notes }
}

/// Bytes that were used over bytes that the step needs: of the case, else of a memory case of the same division.
fn memory(case: &CaseLine, run: &Run) -> Option<f64> {
    const SAME: [&str; 6] = ["model", "strategy", "mesh", "layers", "width", "sequence"];
    let of = |case: &CaseLine| {
        let memory = case.metrics.get("memory")?;
        let total = |name: &str| memory.get(name)?.get("total")?.as_f64().filter(|bytes| *bytes > 0.0);
        Some(total("measured")? / total("predicted")?)
    };
    let same = |other: &&CaseLine| {
        other.benchmark == "memory"
            && other.ranks == case.ranks
            && other.status == Status::Ok
            && SAME.iter().all(|name| other.parameters.get(name) == case.parameters.get(name))
    };
    of(case).or_else(|| run.cases.iter().filter(same).find_map(of))
}

fn ranks(number: u32) -> String {
    if number == 1 { "1 rank".to_owned() } else { format!("{number} ranks") }
}

/// Tokens a second, with thousands marked, as the suite prints them.
fn tokens(value: f64) -> String {
    if value < 1000.0 { three_digits(value) } else { thousands(value.round() as i64) }
}

fn widths(columns: &[CandleColumn]) -> Vec<usize> {
    let cell = |text: &str| text.chars().count();
    let labels = ROWS.iter().map(|label| cell(label)).max().unwrap_or(0);
    let of = |column: &CandleColumn| column.cells.iter().map(|text| cell(text)).max().unwrap_or(0).max(5);
    std::iter::once(labels).chain(columns.iter().map(of)).collect()
}

fn wide(columns: &[CandleColumn]) -> usize {
    widths(columns).iter().map(|width| width + 3).sum::<usize>() + 1
}

fn boxed(columns: &[CandleColumn]) -> String {
    let widths = widths(columns);
    let rule = |left: &str, middle: &str, right: &str| {
        let lines: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", lines.join(middle))
    };
    let row = |label: &str, cells: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("│ {label:<width$} │", width = widths[0]);
        for (cell, width) in cells.zip(&widths[1..]) {
            line += &format!(" {cell:<width$} │");
        }
        line + "\n"
    };
    let mut text = rule("┌", "┬", "┐") + &row("Metric", &mut columns.iter().map(|_| "Value"));
    text += &rule("├", "┼", "┤");
    for (at, label) in ROWS.iter().enumerate() {
        text += &row(label, &mut columns.iter().map(|column| column.cells[at].as_str()));
    }
    text + &rule("└", "┴", "┘")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case(ranks: u32, metrics: serde_json::Value) -> CaseLine {
        let mut line: CaseLine = serde_json::from_value(json!({
            "schema": 1, "id": format!("{ranks:012}"), "benchmark": "training", "status": "ok", "ranks": ranks,
            "parameters": {"model": "transformer-large", "strategy": "hybrid", "mesh": "2x1x2"},
            "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
        }))
        .unwrap();
        line.metrics = metrics.as_object().cloned().unwrap_or_default().into();
        line
    }

    #[test]
    fn scores_are_those_of_the_record_and_missing_ones_say_why() {
        let whole = json!({
            "samples_per_s": 156.2, "tokens_per_s": 320_204.8, "phases_s": {"forward": 0.04523, "backward": 0.07845},
            "memory": {"measured": {"total": 240}, "predicted": {"total": 100}}, "mfu": {"headline": 0.847},
            "efficiency": 0.923,
        });
        let bare = json!({"samples_per_s": 1.0});
        let mut skipped = case(8, json!({}));
        skipped.status = Status::Skipped;
        skipped.reason = Some("not enough memory\u{1b}[31m\nx".to_owned());
        let run = Run { cases: vec![case(4, whole), case(1, bare), skipped], ..Run::default() };
        let text = table(&run, 120);
        for line in [
            "│ Configuration          │ transformer-large-hybrid (4 ranks) │ ",
            "│ Throughput (samples/s) │ 156 ",
            "│ Throughput (tokens/s)  │ 320,205 ",
            "│ Forward Time (ms)      │ 45.2 ",
            "│ Backward Time (ms)     │ 78.5 ",
            "│ Memory Efficiency      │ 2.40x ",
            "│ Performance Score      │ 0.847 ",
            "│ Efficiency Score       │ 0.923 ",
            "(1 rank): no Memory Efficiency: the memory of this case was not measured; no Performance Score: ",
            "no Efficiency Score: no comparable case with fewer ranks\n",
            "(8 ranks): skipped: not enough memory",
        ] {
            assert!(text.contains(line), "`{line}` is missing in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(table(&run, 80).lines().all(|line| !line.contains('│') || line.chars().count() <= 80));
        assert_eq!(table(&Run::default(), 80), "");
        assert!(Candle.render(&Run::default()).is_err());
    }
}
