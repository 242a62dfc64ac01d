//! `cases.csv`: one row a case, the names of the case line, exact values.
//!
//! Quoting is RFC 4180's; lines end in LF, as every reader accepts and line tools prefer. Nested values get dotted names
//! (`time_s.median`), lists are joined by spaces. Parameters are columns of their own; one that the case line
//! repeats on top (`ranks`) is not repeated here.

mod leaves;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use record::CaseLine;
use serde_json::Value;

use crate::escape;
use crate::write::Out;
use crate::{Artifact, Error, Format, Run, error};
use leaves::Leaves;

const FILE: &str = "cases.csv";

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
        let mut content = Vec::new();
        write(run, &mut content).map_err(|error| error::unwritten(Path::new(FILE), &error))?;
        Ok(vec![Artifact::new(FILE, content)])
    }

    /// Row by row: the text of a large run takes a fifth of the memory that its cases take.
    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        out.file(Path::new(FILE), |to| write(run, to))
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

/// Goes over the cases twice, first for the columns: rows that are kept until all columns are known take more memory than
/// the text.
fn write(run: &Run, to: &mut dyn Write) -> io::Result<()> {
    let (mut columns, mut leaves) = (Columns::default(), Leaves::default());
    run.cases.iter().for_each(|case| each_cell(&mut leaves, case, &mut |name, _| columns.add(name)));
    let order = columns.order();
    let mut text = String::new();
    line(&mut text, order.iter().map(|column| escape::csv(&columns.names[*column])));
    let mut row = vec![String::new(); order.len()];
    for case in &run.cases {
        to.write_all(text.as_bytes())?;
        text.clear();
        row.iter_mut().for_each(String::clear);
        each_cell(&mut leaves, case, &mut |name, value| row[columns.places[name]] = cell(value));
        line(&mut text, order.iter().map(|column| &row[*column]));
    }
    to.write_all(text.as_bytes())
}

#[derive(Default)]
struct Columns {
    /// In the order in which they occur.
    names: Vec<String>,
    /// The column of each name.
    places: HashMap<String, usize>,
}

impl Columns {
    fn add(&mut self, name: &str) {
        if !self.places.contains_key(name) {
            self.places.insert(name.to_owned(), self.names.len());
            self.names.push(name.to_owned());
        }
    }

    /// Columns in the order in which they are written.
    fn order(&self) -> Vec<usize> {
        let first = |name: &String| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len());
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|column| first(&self.names[*column]));
        order
    }
}

/// The case line as a row of flat names and values. What the parameters repeat of the line is not repeated here.
fn each_cell(leaves: &mut Leaves, case: &CaseLine, put: &mut impl FnMut(&str, &Value)) {
    let leaves = leaves.of(case);
    let line = || leaves.iter().filter(|(name, _)| own(name).is_none());
    for (name, value) in line() {
        put_leaf(name, value, put);
    }
    for (whole, value) in leaves {
        let Some(name) = own(whole) else { continue };
        let begins =
            |other: &str| other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        match line().find(|(other, _)| begins(other)) {
            Some((other, repeated)) if other == name && repeated == value => {}
            Some(_) => put_leaf(whole, value, put),
            None => put_leaf(name, value, put),
        }
    }
}

/// The name of a parameter's leaf without what all of them begin with.
fn own(name: &str) -> Option<&str> {
    name.strip_prefix("parameters.")
}

fn put_leaf(name: &str, value: &Value, put: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Array(ends) if is_interval(name) && ends.len() == 2 => {
            put(&format!("{name}_low"), &ends[0]);
            put(&format!("{name}_high"), &ends[1]);
        }
        other => put(name, other),
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
