//! Copies of GPUs as other programs measure them: cases of `hardware`, and tables with a value for each GPU or pair.

use std::borrow::Cow;

use crate::numbers::{self, NotANumber};
use crate::{Details, Figures, Results, Row, Shape};

/// A table of a value for each GPU (one row) or for each pair of GPUs, as it was printed. Not a number: nothing was
/// measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cells {
    /// The number of columns.
    pub(super) columns: usize,
    pub(super) rows: Vec<Vec<f64>>,
}

/// Why a line is not the next row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BadRow {
    /// A decimal comma: no figure of the file can be trusted.
    Comma(String),
    /// A row that stands in another place of the table: another program wrote it.
    Mixed(String),
    /// The row is damaged.
    Damaged(String),
}

/// The number of columns of a header: `0 1 2`, behind the word of a corner if the table has one.
pub(super) fn columns(text: &str, corner: Option<&str>) -> Option<usize> {
    let mut words = text.split_ascii_whitespace();
    if corner.is_some() && words.next() != corner {
        return None;
    }
    let mut count = 0;
    for word in words {
        if word.parse() != Ok(count) {
            return None;
        }
        count += 1;
    }
    (count > 0).then_some(count)
}

impl Cells {
    /// An empty table of so many columns.
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds the next row: its number, and a value for each column.
    pub(super) fn add(&mut self, text: &str) -> Result<(), BadRow> {
        let mut words = text.split_ascii_whitespace();
        let at: Option<usize> = words.next().and_then(|word| word.parse().ok());
        match at {
            Some(at) if at < self.rows.len() => {
                return Err(BadRow::Mixed(format!("row {at} stands twice in one table")));
            }
            Some(at) if at == self.rows.len() => {}
            _ => return Err(BadRow::Damaged(format!("expected row {} of a table", self.rows.len()))),
        }
        let words: Vec<&str> = words.collect();
        if words.len() != self.columns {
            let what = format!("expected {} values behind the number of the row, found {}", self.columns, words.len());
            return Err(BadRow::Damaged(what));
        }
        self.rows.push(words.into_iter().map(cell).collect::<Result<_, _>>()?);
        Ok(())
    }

    /// The sum of all values.
    pub(super) fn sum(&self) -> f64 {
        self.values().sum()
    }

    /// All values that were measured.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.rows.iter().flatten().copied().filter(|value| value.is_finite())
    }

    /// The table without the values of these places.
    pub(super) fn without(&self, is_left_out: impl Fn(usize, usize) -> bool) -> Self {
        let row = |(at, row): (usize, &Vec<f64>)| {
            let value = |(column, value): (usize, &f64)| if is_left_out(at, column) { f64::NAN } else { *value };
            row.iter().enumerate().map(value).collect()
        };
        Self { columns: self.columns, rows: self.rows.iter().enumerate().map(row).collect() }
    }

    /// Whether it has a row for each column.
    pub(super) fn is_square(&self) -> bool {
        self.rows.len() == self.columns && self.rows.iter().all(|row| row.len() == self.columns)
    }
}

/// A value, or `N/A`.
pub(super) fn cell(word: &str) -> Result<f64, BadRow> {
    if word == "N/A" {
        return Ok(f64::NAN);
    }
    numbers::plain(word).map_err(|why| match why {
        NotANumber::Comma => BadRow::Comma(format!("expected a number, {}", why.found(word))),
        NotANumber::Other => BadRow::Damaged(format!("expected a number, {}", why.found(word))),
    })
}

/// What is measured of GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Copy<'n> {
    /// A test of `hardware`.
    pub(super) test: &'static str,
    pub(super) bytes: u64,
    /// The name of what a native run does in another way: its cases are others.
    pub(super) implementation: Option<&'n str>,
    /// How many times the bytes of a copy count in `gbs`; 0 where there is no such metric.
    pub(super) counted: u32,
}

impl Copy<'_> {
    fn shape(&self, ranks: usize) -> Shape {
        let fields: Vec<(&'static str, Cow<'static, str>)> = vec![
            ("test", self.test.into()),
            ("ranks", ranks.to_string().into()),
            ("device", "cuda".into()),
            ("bytes", self.bytes.to_string().into()),
        ];
        let implementation = self.implementation.map(str::to_owned);
        Shape { benchmark: "hardware", fields, device: "cuda", implementation }
    }

    fn gbs(&self, seconds: f64) -> f64 {
        f64::from(self.counted) * self.bytes as f64 / seconds / 1e9
    }

    /// Adds times of one GPU alone, or of several that were measured one after the other: one case, of the median GPU.
    /// Gives whether there was one.
    pub(super) fn add_alone(&self, results: &mut Results, seconds: &[f64], iterations: Option<u64>) -> bool {
        if seconds.is_empty() {
            return false;
        }
        let time_s = stats::median(seconds);
        let several = seconds.len() > 1;
        let end = |better: fn(f64, f64) -> f64| seconds.iter().copied().reduce(better).filter(|_| several);
        let metrics = if self.counted > 0 { vec![("gbs", self.gbs(time_s))] } else { Vec::new() };
        let details = Details { min: end(f64::min), max: end(f64::max), metrics, ..Details::default() };
        let figures = Figures { time_s, iterations, wrong: None, details: Some(Box::new(details)) };
        results.add(Row { shape: self.shape(1), figures });
        true
    }

    /// Adds the time of one copy that so many ranks take part in.
    pub(super) fn add_one(&self, results: &mut Results, ranks: usize, time_s: f64) {
        let details = Details { metrics: vec![("gbs", self.gbs(time_s))], ..Details::default() };
        let figures = Figures { time_s, iterations: None, wrong: None, details: Some(Box::new(details)) };
        results.add(Row { shape: self.shape(ranks), figures });
    }

    /// Adds a table of pairs: seconds of one copy. The time of the case is that of the median pair. Gives whether it
    /// has one.
    pub(super) fn add_pairs(&self, results: &mut Results, seconds: &Cells, iterations: Option<u64>) -> bool {
        let apart = seconds.without(|row, column| row == column);
        let all: Vec<f64> = apart.values().collect();
        if all.is_empty() {
            return false;
        }
        let time_s = stats::median(&all);
        let table = |of: &dyn Fn(f64) -> f64| -> Vec<Vec<Option<f64>>> {
            let cell = |time: &f64| Some(of(*time)).filter(|value| value.is_finite());
            apart.rows.iter().map(|row| row.iter().map(cell).collect()).collect()
        };
        let rates = table(&|time| self.bytes as f64 / time / 1e9);
        let details = Details {
            min: all.iter().copied().reduce(f64::min),
            max: all.iter().copied().reduce(f64::max),
            metrics: vec![("gbs", self.gbs(time_s))],
            matrices: vec![("pair_s", table(&|time| time)), ("pair_gbs", rates)],
            ..Details::default()
        };
        let figures = Figures { time_s, iterations, wrong: None, details: Some(Box::new(details)) };
        results.add(Row { shape: self.shape(seconds.columns), figures });
        true
    }
}

/// Times of copies of so many bytes by their rates in 1e9 bytes a second. A rate of zero is not one.
pub(super) fn seconds(rates: &Cells, bytes: f64) -> Cells {
    let time = |rate: &f64| if *rate > 0.0 { bytes / rate / 1e9 } else { f64::NAN };
    Cells { columns: rates.columns, rows: rates.rows.iter().map(|row| row.iter().map(time).collect()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_counts_from_zero() {
        for (text, corner, expected) in [
            ("   0   1   2", None, Some(3)),
            ("D\\D 0 1", Some("D\\D"), Some(2)),
            ("0 1 3", None, None),
            ("", None, None),
            ("D\\D", Some("D\\D"), None),
        ] {
            assert_eq!(columns(text, corner), expected, "{text}");
        }
    }

    #[test]
    fn rows_are_those_of_the_header() {
        let mut cells = Cells::new(2);
        assert_eq!(cells.add("0 N/A 26.3"), Ok(()));
        assert!(matches!(cells.add("0 1.0 26.3"), Err(BadRow::Mixed(_))));
        assert!(matches!(cells.add("1 1.0"), Err(BadRow::Damaged(_))));
        assert!(matches!(cells.add("1 26,3 1.0"), Err(BadRow::Comma(_))));
        assert!(matches!(cells.add("1 inf 1.0"), Err(BadRow::Damaged(_))));
        assert_eq!(cells.add("1 26.5 N/A"), Ok(()));
        assert!(cells.is_square());
        assert_eq!(cells.values().collect::<Vec<_>>(), [26.3, 26.5]);
        assert_eq!(seconds(&cells, 26.3e9).rows[0][1], 1.0);
    }
}
