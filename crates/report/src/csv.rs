//! `cases.csv`: one row a case, the names of the case line, exact values.
//!
//! Quoting is RFC 4180's; lines end in LF, as every reader accepts and line tools prefer. Nested values get dotted names
//! (`time_s.median`), lists are joined by spaces. Parameters are columns of their own; one that the case line
//! repeats on top (`ranks`) is not repeated here.

use std::collections::HashMap;

use serde_json::Value;

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
const FIRST: [&str; 20] = [
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
    "time_s.ci95_again_low",
    "time_s.ci95_again_high",
    "algbw_gbs",
    "busbw_gbs",
    "limit_share",
    "wrong",
];

fn table(run: &Run) -> String {
    let mut table = Table::default();
    run.cases.iter().for_each(|case| table.add(case));
    table.text()
}

/// Rows as text, whose columns get their order once all are known. Flat rows as values would take more memory than the
/// record.
#[derive(Default)]
struct Table {
    /// In the order in which they occur.
    columns: Vec<String>,
    /// The column of each name.
    places: HashMap<String, usize>,
    /// All cells, as they are written.
    cells: String,
    /// Of each cell its column and its bytes.
    lengths: Vec<(u32, u32)>,
    /// How many cells there are once each row is done.
    rows: Vec<usize>,
}

impl Table {
    /// The case line as a row of flat names and values.
    fn add(&mut self, case: &record::CaseLine) {
        // A case line is plain data with text keys, so this conversion has no way to fail.
        let Ok(Value::Object(line)) = serde_json::to_value(case) else { return };
        for (name, value) in line.iter().filter(|(name, _)| *name != "parameters") {
            self.flatten(name, value);
        }
        for (name, value) in &case.parameters {
            match line.get(name) {
                Some(repeated) if repeated == value => {}
                Some(_) => self.flatten(&format!("parameters.{name}"), value),
                None => self.flatten(name, value),
            }
        }
        self.rows.push(self.lengths.len());
    }

    fn flatten(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(field, value)| self.flatten(&format!("{name}.{field}"), value));
            }
            Value::Array(ends) if is_interval(name) && ends.len() == 2 => {
                self.cell(&format!("{name}_low"), &ends[0]);
                self.cell(&format!("{name}_high"), &ends[1]);
            }
            other => self.cell(name, other),
        }
    }

    fn cell(&mut self, name: &str, value: &Value) {
        let column = self.places.get(name).copied().unwrap_or_else(|| {
            self.columns.push(name.to_owned());
            self.places.insert(name.to_owned(), self.columns.len() - 1);
            self.columns.len() - 1
        });
        let cell = cell(value);
        self.cells += &cell;
        // A case line is at most 16 MiB, so neither number can be larger.
        self.lengths.push((column as u32, cell.len() as u32));
    }

    fn text(&self) -> String {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        let first = |name: &String| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len());
        order.sort_by_key(|column| first(&self.columns[*column]));
        let mut text = String::with_capacity(self.cells.len() + self.rows.len() * (self.columns.len() + 1));
        line(&mut text, order.iter().map(|column| escape::csv(&self.columns[*column])));
        let (mut row, mut begin, mut next) = (vec![""; self.columns.len()], 0, 0);
        for cells in &self.rows {
            row.fill("");
            for (column, length) in &self.lengths[next..*cells] {
                let end = begin + *length as usize;
                row[*column as usize] = &self.cells[begin..end];
                begin = end;
            }
            next = *cells;
            line(&mut text, order.iter().map(|column| row[*column]));
        }
        text
    }
}

fn line(text: &mut String, cells: impl Iterator<Item = impl AsRef<str>>) {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(cell.as_ref());
    }
    text.push('\n');
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape::csv(text),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            escape::csv(&items.iter().map(view::plain).collect::<Vec<_>>().join(" "))
        }
        other => escape::csv(&other.to_string()),
    }
}
/// Whether a field holds the two ends of an interval, which get a column each.
fn is_interval(name: &str) -> bool {
    name.ends_with("ci95") || name.ends_with("ci95_again")
}
