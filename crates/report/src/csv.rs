//! `cases.csv`: one row a case, the names of the case line, exact values.
//!
//! Quoting is RFC 4180's; lines end in LF, as every reader accepts and line tools prefer. Nested values get dotted names
//! (`time_s.median`), lists are joined by spaces. Parameters are columns of their own; one that the case line
//! repeats on top (`ranks`) is not repeated here.

use serde_json::{Map, Value};

use crate::escape;
use crate::{Artifact, Error, Format, Run};

/// The CSV export.
#[derive(Debug)]
pub(crate) struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn doc(&self) -> &'static str {
        "cases.csv: one row a case, the names of the case line, exact values"
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("cases.csv", table(run).into_bytes())])
    }
}

/// Columns that stand first, where they occur, so that a reader sees what was measured before how.
const FIRST: [&str; 18] = [
    "id",
    "benchmark",
    "op",
    "status",
    "ranks",
    "runtime",
    "backend",
    "device",
    "dtype",
    "mode",
    "bytes",
    "time_s.median",
    "time_s.ci95_low",
    "time_s.ci95_high",
    "algbw_gbs",
    "busbw_gbs",
    "limit_share",
    "wrong",
];

fn table(run: &Run) -> String {
    let rows: Vec<Map<String, Value>> = run.cases.iter().map(row).collect();
    let mut columns: Vec<String> = FIRST.iter().map(|name| (*name).to_owned()).collect();
    columns.retain(|name| rows.iter().any(|row| row.contains_key(name)));
    for name in rows.iter().flat_map(Map::keys) {
        if !columns.contains(name) {
            columns.push(name.clone());
        }
    }
    let mut text = line(columns.iter().map(|name| escape::csv(name)));
    for row in &rows {
        text += &line(columns.iter().map(|name| row.get(name).map(cell).unwrap_or_default()));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// The case line as flat names and values.
fn row(case: &record::CaseLine) -> Map<String, Value> {
    // A case line is plain data with text keys, so this conversion has no way to fail.
    let Ok(Value::Object(line)) = serde_json::to_value(case) else { return Map::new() };
    let mut row = Map::new();
    for (name, value) in line.iter().filter(|(name, _)| *name != "parameters") {
        flatten(&mut row, name, value);
    }
    for (name, value) in &case.parameters {
        match line.get(name) {
            Some(repeated) if repeated == value => {}
            Some(_) => flatten(&mut row, &format!("parameters.{name}"), value),
            None => flatten(&mut row, name, value),
        }
    }
    row
}

fn flatten(row: &mut Map<String, Value>, name: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, value)| flatten(row, &format!("{name}.{field}"), value))
        }
        Value::Array(ends) if name.ends_with("ci95") && ends.len() == 2 => {
            row.insert(format!("{name}_low"), ends[0].clone());
            row.insert(format!("{name}_high"), ends[1].clone());
        }
        other => {
            row.insert(name.to_owned(), other.clone());
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape::csv(text),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            escape::csv(&items.iter().map(crate::study::plain).collect::<Vec<_>>().join(" "))
        }
        other => escape::csv(&other.to_string()),
    }
}
