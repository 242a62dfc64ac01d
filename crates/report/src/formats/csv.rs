//! `cases.csv`: one row a case, the names of the case line, exact values.
//!
//! Quoting is RFC 4180's; lines end in LF, as every reader accepts and line tools prefer. Nested values get dotted names
//! (`time_s.median`), lists are joined by spaces. Parameters are columns of their own; one that the case line
//! repeats on top (`ranks`) is not repeated here.
//!
//! If traces were explained, each of their tables is a file next to it: `profile-CASE-NAME.csv`.

use std::io::{self, Write};
use std::path::Path;

use record::file::FileName;
use serde_json::Value;

use crate::escape;
use crate::formats::rows::Columns;
use crate::formats::write::Out;
use crate::{Artifact, Error, Format, Run, error, formats::rows, words::explained};

const FILE: &str = "cases.csv";

/// The CSV export.
#[derive(Debug)]
pub(crate) struct Csv;

impl Format for Csv {
    fn about(&self) -> (&'static str, &'static str) {
        ("csv", "cases.csv: one row per case, with exact values and the names of cases.jsonl")
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let mut content = Vec::new();
        write(run, &mut content).map_err(|error| error::unwritten(Path::new(FILE), &error))?;
        Ok(vec![Artifact::new(FILE, content)])
    }

    /// Row by row: the text of a large run takes a fifth of the memory that its cases take. Tables of traces have files of
    /// their own, so that [`Format::render`] is the one file that `-o` names.
    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        out.file(&FileName::literal(FILE).into(), |to| write(run, to))?;
        let tables = explained::tables_of(run);
        tables.iter().try_for_each(|table| out.put(&Artifact::at(table.file.clone(), table.csv().into_bytes())))
    }
}

/// Goes over the cases twice, first for the columns: rows that are kept until all columns are known take more memory than
/// the text.
fn write(run: &Run, to: &mut dyn Write) -> io::Result<()> {
    let mut columns = Columns::<()>::from_run(run, |_, _| {});
    let mut text = String::new();
    line(&mut text, columns.names().iter().map(|name| escape::csv(name)));
    let mut row = vec![String::new(); columns.names().len()];
    for case in &run.cases {
        to.write_all(text.as_bytes())?;
        text.clear();
        row.iter_mut().for_each(String::clear);
        columns.each(case, &mut |place, value| cell(value, &mut row[place]));
        line(&mut text, row.iter());
    }
    to.write_all(text.as_bytes())
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

fn cell(value: &Value, text: &mut String) {
    use std::fmt::Write as _;
    text.clear();
    // Numbers and switches have nothing to escape. Writing to a text cannot fail.
    let _ = match value {
        Value::Number(number) => write!(text, "{number}"),
        Value::Bool(on) => write!(text, "{on}"),
        other => text.write_str(&escape::csv(&rows::text(other))),
    };
}
