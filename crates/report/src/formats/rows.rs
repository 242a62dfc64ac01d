//! Case lines as rows of flat names and plain values: the columns that CSV and Parquet share.
//!
//! Nested values get dotted names (`time_s.median`). Parameters are columns of their own; one that the case line
//! repeats on top (`ranks`) is not repeated here. Knows no file format.

mod leaves;

use std::collections::HashMap;

use record::CaseLine;
use serde_json::Value;

use leaves::Leaves;

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

/// The columns of some cases, in the order in which they are written, each with what a format notes of its values.
pub(crate) struct Columns<T> {
    names: Vec<String>,
    noted: Vec<T>,
    /// The column of each name.
    places: HashMap<String, usize>,
}

impl<T: Default> Columns<T> {
    /// Collects the columns of all cases, and passes each value to `note`.
    pub(crate) fn from_cases(cases: &[CaseLine], mut note: impl FnMut(&mut T, &Value)) -> Self {
        let (mut found, mut places): (Vec<(String, T)>, HashMap<String, usize>) = Default::default();
        let mut cells = Cells::default();
        for case in cases {
            cells.each(case, &mut |name, value| {
                let place = places.get(name).copied().unwrap_or_else(|| {
                    places.insert(name.to_owned(), found.len());
                    found.push((name.to_owned(), T::default()));
                    found.len() - 1
                });
                note(&mut found[place].1, value);
            });
        }
        // A stable sort: other columns stand in the order in which they occur.
        found.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        let (names, noted): (Vec<String>, Vec<T>) = found.into_iter().unzip();
        let places = names.iter().cloned().zip(0..).collect();
        Self { names, noted, places }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn noted(&self) -> &[T] {
        &self.noted
    }

    /// The place of a column that one of the cases has.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.places[name]
    }
}

/// Reads case lines as rows. Room is kept from one to the next.
#[derive(Default)]
pub(crate) struct Cells(Leaves);

impl Cells {
    /// Each cell that the case has, by the name of its column.
    pub(crate) fn each(&mut self, case: &CaseLine, put: &mut impl FnMut(&str, &Value)) {
        each_cell(&mut self.0, case, put);
    }
}

/// A value as one plain text: items of a list are joined by spaces. Null is empty.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            items.iter().map(view::plain).collect::<Vec<_>>().join(" ")
        }
        other => view::plain(other),
    }
}

/// The case line as a row of flat names and values. What the parameters repeat of the line is not repeated here.
fn each_cell(leaves: &mut Leaves, case: &CaseLine, put: &mut impl FnMut(&str, &Value)) {
    let leaves = leaves.flatten(case);
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

/// Whether a field holds the two ends of an interval, which get a column each.
fn is_interval(name: &str) -> bool {
    name.ends_with("ci95") || name.ends_with("ci95_again")
}
