//! Tables of a case's traces: for reading, as CSV and as values for a page's script with exact numbers.

use record::ExplainedTable;
use record::file::{FileName, FileStem};
use serde_json::Value;

use crate::document::{Align, Block, Table, Words, code};
use crate::escape::{self, one_line};
use crate::number::{NONE, count, percent, seconds, three_digits};

/// Rows that are shown; the file of the table has all.
const ROWS: usize = 50;
/// Columns that are shown.
const COLUMNS: usize = 64;

/// A table with the name of its file.
pub(crate) struct Named<'r> {
    /// `profile-CASE-NAME.csv`.
    pub(crate) file: FileName,
    table: &'r ExplainedTable,
}

impl<'r> Named<'r> {
    pub(super) fn new(case: &FileStem, name: &FileStem, table: &'r ExplainedTable) -> Self {
        Self { file: FileStem::of("profile").and(case).and(name).file(".csv"), table }
    }

    /// What it shows.
    pub(crate) fn title(&self) -> String {
        let title = one_line(&self.table.title);
        if title.is_empty() { one_line(&self.table.name) } else { title }
    }

    /// A cell for each column: a row that is too short ends in empty ones.
    fn cells(&self, row: &'r [Value]) -> impl Iterator<Item = &'r Value> {
        row.iter().chain(std::iter::repeat(&Value::Null)).take(self.table.columns.len())
    }

    /// The first rows.
    pub(crate) fn table(&self) -> Table {
        let is_number = |at: usize| {
            let mut cells = self.table.rows.iter().filter_map(|row| row.get(at)).filter(|cell| !cell.is_null());
            cells.all(Value::is_number)
        };
        let align = |at: usize| if is_number(at) { Align::Right } else { Align::Left };
        let heads = &self.table.columns[..self.table.columns.len().min(COLUMNS)];
        let mut table = Table::new(heads.iter().enumerate().map(|(at, head)| (titled(head), align(at))));
        for row in self.table.rows.iter().take(ROWS) {
            table.row(self.cells(row).zip(heads).map(|(cell, head)| shown(cell, head)));
        }
        table
    }

    /// Which rows and columns are not shown.
    pub(crate) fn more(&self) -> Option<Block> {
        let (rows, columns) = (self.table.rows.len(), self.table.columns.len());
        let rows = (rows > ROWS).then(|| format!("the first {ROWS} of {}", count(rows, "row", "rows")));
        let columns =
            (columns > COLUMNS).then(|| format!("the first {COLUMNS} of {}", count(columns, "column", "columns")));
        let parts: Vec<String> = rows.into_iter().chain(columns).collect();
        let words = || Words::from(format!("Shown: {}. {} has all.", parts.join(", "), code(self.file.as_str())));
        (!parts.is_empty()).then(|| Block::Paragraph(words()))
    }

    /// The whole table as CSV.
    pub(crate) fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut text = line(self.table.columns.iter().map(|head| escape::csv(head).into_owned()).collect());
        for row in &self.table.rows {
            text += &line(self.cells(row).map(cell).collect());
        }
        text
    }

    /// Rows of the table, head first, each cell as the CSV has it.
    pub(crate) fn values(&self) -> Vec<Vec<String>> {
        let head = self.table.columns.clone();
        let rows = self.table.rows.iter().map(|row| self.cells(row).map(text).collect());
        std::iter::once(head).chain(rows).collect()
    }
}

/// A cell of a CSV file.
fn cell(value: &Value) -> String {
    match value {
        // Numbers and switches have nothing to escape.
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        other => escape::csv(&text(other)).into_owned(),
    }
}

/// The exact value as text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The title of a column for reading: its times have their own units.
fn titled(head: &str) -> &str {
    head.strip_suffix(" s").unwrap_or(head).trim_end_matches(',')
}

/// A cell for reading. The last word of a column's head says what its numbers are.
fn shown(value: &Value, head: &str) -> String {
    let last = head.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default();
    match (value, value.as_f64()) {
        (Value::Null, _) => NONE.to_owned(),
        (Value::Number(number), Some(value)) => match last {
            "s" | "seconds" => seconds(value),
            "share" | "efficiency" => percent(value),
            "bytes" if value >= 0.0 => terms::Bytes(value as u64).about(),
            _ if number.is_f64() && (value.fract() != 0.0 || value.abs() >= 1e15) => three_digits(value),
            _ if number.is_f64() => format!("{value:.0}"),
            _ => number.to_string(),
        },
        (other, _) => text(other),
    }
}
