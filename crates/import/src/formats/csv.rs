//! Comma-separated values: quotes, line numbers, and columns by name.

use terms::Error;

use super::nccl::plain;
use super::versions::unknown_column;
use crate::Source;

/// A table, with the line of each row.
pub(super) struct CsvTable {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<(usize, Vec<String>)>,
}

/// Splits a text. A row that has another number of columns than the header is an error at its line.
pub(super) fn table(source: &Source) -> Result<CsvTable, Error> {
    let mut rows = rows(source)?.into_iter();
    let (_, header) = rows.next().ok_or_else(|| Error::new(format!("{} is empty", source.name())))?;
    let header: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    let rows: Vec<_> = rows.filter(|(_, row)| row.len() != 1 || !row[0].trim().is_empty()).collect();
    if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != header.len()) {
        let what = format!("expected {} columns, found {}", header.len(), row.len());
        return Err(source.error(*line, what).hint("a file that was written to its end has whole lines"));
    }
    Ok(CsvTable { header, rows })
}

fn rows(source: &Source) -> Result<Vec<(usize, Vec<String>)>, Error> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut start, mut quoted) = (1, 1, None);
    let whole: String = source.whole_lines().flat_map(|line| [line, "\n"]).collect();
    let mut letters = whole.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted.is_some() && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = if quoted.is_none() { Some(line) } else { None },
            ',' if quoted.is_none() => row.push(std::mem::take(&mut cell)),
            '\n' => {
                line += 1;
                if quoted.is_some() {
                    cell.push(letter);
                    continue;
                }
                row.push(std::mem::take(&mut cell));
                rows.push((start, std::mem::take(&mut row)));
                start = line;
            }
            '\r' if letters.peek() == Some(&'\n') => {}
            _ => cell.push(letter),
        }
    }
    if let Some(line) = quoted {
        return Err(source.error(line, "a quoted cell has no end"));
    }
    if !(cell.is_empty() && row.is_empty()) {
        row.push(cell);
        rows.push((start, row));
    }
    Ok(rows)
}

impl CsvTable {
    /// The place of the first of these columns that the table has.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        self.header.iter().position(|name| names.contains(&name.as_str()))
    }

    /// Refuses columns that are not among these.
    pub(super) fn refuse_unknown(&self, source: &Source, tool: &str, known: &[&[&str]]) -> Result<(), Error> {
        let odd = self.header.iter().find(|name| !known.iter().any(|names| names.contains(&name.as_str())));
        let Some(odd) = odd else { return Ok(()) };
        let names: Vec<&str> = known.iter().filter_map(|names| names.first().copied()).collect();
        Err(unknown_column(source, 1, tool, odd, &names.join(", ")))
    }
}

/// The number in a cell.
pub(super) fn parse_number(source: &Source, line: usize, name: &str, cell: &str) -> Result<f64, Error> {
    let value: Option<f64> = cell.trim().parse().ok();
    let wrong = || source.error(line, format!("`{name}`: expected a number, found `{}`", plain(cell)));
    value.filter(|value| value.is_finite()).ok_or_else(wrong)
}

/// The whole number in a cell, from 1.
pub(super) fn whole(source: &Source, line: usize, name: &str, cell: &str) -> Result<u64, Error> {
    let wrong = || source.error(line, format!("`{name}`: expected a whole number from 1, found `{}`", plain(cell)));
    cell.trim().parse().ok().filter(|value| *value > 0).ok_or_else(wrong)
}

/// The standard deviation of times in a cell, in seconds: equal times have none.
pub(super) fn deviation(source: &Source, line: usize, name: &str, cell: &str, unit: f64) -> Result<f64, Error> {
    let wrong = || source.error(line, format!("`{name}`: expected a standard deviation, found `{}`", plain(cell)));
    let seconds = parse_number(source, line, name, cell)? * unit;
    if seconds >= 0.0 { Ok(seconds) } else { Err(wrong()) }
}

/// The time in a cell, in seconds, of a column in units of so many.
pub(super) fn time(source: &Source, line: usize, name: &str, cell: &str, unit: f64) -> Result<f64, Error> {
    let wrong = || source.error(line, format!("`{name}`: expected a time, found `{}`", plain(cell)));
    let seconds = parse_number(source, line, name, cell)? * unit;
    if seconds > 0.0 { Ok(seconds) } else { Err(wrong()) }
}
