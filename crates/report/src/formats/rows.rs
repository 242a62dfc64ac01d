//! Case lines as rows of flat names and plain values: the columns that CSV and Parquet share.
//!
//! Nested values get dotted names (`time_s.median`). Parameters are columns of their own; one that the case line
//! repeats on top (`ranks`) is not repeated here. Knows no file format.

mod leaves;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use record::CaseLine;
use serde_json::Value;

use crate::Run;
use leaves::Leaves;

/// Columns that stand first, where they occur, so that a reader sees what was measured before how.
const FIRST: [&str; 22] = [
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
    "time_s.ci95_earlier_low",
    "time_s.ci95_earlier_high",
    "algbw_gbs",
    "busbw_gbs",
    "limit_share",
    "wrong",
];

/// The last column, which only an incomplete run has: how it ended.
pub(crate) const RUN_END: &str = "run_end";

/// The columns of a run's cases, in the order in which they are written, each with what a format notes of its values.
pub(crate) struct Columns<T> {
    names: Vec<String>,
    noted: Vec<T>,
    cells: RowCells,
    /// The place of each column, by its number.
    places: Vec<usize>,
    /// What stands in the last column of every row, if the run is incomplete.
    end: Option<Value>,
}

impl<T: Default> Columns<T> {
    /// Collects the columns of all cases, and passes each value to `note`.
    pub(crate) fn from_run(run: &Run, mut note: impl FnMut(&mut T, &Value)) -> Self {
        let (mut noted, mut cells): (Vec<T>, RowCells) = Default::default();
        for case in &run.cases {
            cells.each(case, &mut |number, value| {
                // Numbers are given in order.
                if number == noted.len() {
                    noted.push(T::default());
                }
                note(&mut noted[number], value);
            });
        }
        let mut found: Vec<(usize, String, T)> =
            cells.numbers.names.iter().cloned().zip(noted).enumerate().map(|(at, (name, of))| (at, name, of)).collect();
        // A stable sort: other columns stand in the order in which they occur.
        found.sort_by_key(|(_, name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        let mut places = vec![0; found.len()];
        found.iter().enumerate().for_each(|(place, (number, ..))| places[*number] = place);
        let (mut names, mut noted): (Vec<String>, Vec<T>) =
            found.into_iter().map(|(_, name, noted)| (name, noted)).unzip();
        let end = run.end.phrase().map(Value::String);
        if let Some(end) = &end {
            names.push(RUN_END.to_owned());
            let mut own = T::default();
            note(&mut own, end);
            noted.push(own);
        }
        Self { names, noted, cells, places, end }
    }

    /// Each cell that one of the cases has, by the place of its column.
    pub(crate) fn each(&mut self, case: &CaseLine, put: &mut impl FnMut(usize, &Value)) {
        let places = &self.places;
        self.cells.each(case, &mut |number, value| put(places[number], value));
        if let Some(end) = &self.end {
            put(self.names.len() - 1, end);
        }
    }
}

impl<T> Columns<T> {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn noted(&self) -> &[T] {
        &self.noted
    }
}

/// Names, numbered in the order in which they first occur.
#[derive(Default)]
struct NumberedNames {
    names: Vec<String>,
    known: HashMap<String, usize>,
}

impl NumberedNames {
    fn number_of(&mut self, name: &str) -> usize {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }
}

/// Reads case lines as rows. Room is kept from one to the next.
#[derive(Default)]
struct RowCells {
    leaves: Leaves,
    /// What becomes of leaves, with their names. A record has many cases, and few kinds of them.
    shapes: Vec<(Vec<String>, Vec<LeafSource>)>,
    /// The place of the last case's.
    last: usize,
    numbers: NumberedNames,
}

/// Kinds of cases that are remembered: those of a strange record could be as many as its cases.
const SHAPES: usize = 64;

/// A leaf that becomes one cell or, as the two ends of an interval, two.
struct LeafSource {
    /// Index among the leaves.
    leaf: usize,
    name: String,
    /// The leaf that may repeat a parameter.
    repeated: Option<usize>,
    /// The number of its column, once that is needed.
    whole: Option<usize>,
    /// The numbers of the columns of its ends.
    ends: Option<[usize; 2]>,
}

impl LeafSource {
    fn new(leaf: usize, name: &str, repeated: Option<usize>) -> Self {
        Self { leaf, name: name.to_owned(), repeated, whole: None, ends: None }
    }

    fn put(&mut self, value: &Value, numbers: &mut NumberedNames, put: &mut impl FnMut(usize, &Value)) {
        match value {
            Value::Array(ends) if ends.len() == 2 && is_interval(&self.name) => {
                let name = &self.name;
                let own = self
                    .ends
                    .get_or_insert_with(|| ["low", "high"].map(|end| numbers.number_of(&format!("{name}_{end}"))));
                own.iter().zip(ends).for_each(|(number, end)| put(*number, end));
            }
            other => put(*self.whole.get_or_insert_with(|| numbers.number_of(&self.name)), other),
        }
    }
}

impl RowCells {
    /// Each cell that the case has, by the number of its column: 0 for the first name that occurred.
    fn each(&mut self, case: &CaseLine, put: &mut impl FnMut(usize, &Value)) {
        self.leaves.flatten(case);
        let leaves = self.leaves.last();
        if self.leaves.are_renamed() {
            self.last = place_of(&mut self.shapes, leaves);
        }
        let Some((_, sources)) = self.shapes.get_mut(self.last) else { return };
        for source in sources {
            let value = &leaves[source.leaf].1;
            if source.repeated.is_none_or(|other| leaves[other].1 != *value) {
                source.put(value, &mut self.numbers, put);
            }
        }
    }
}

/// A value as one plain text: items of a list are joined by spaces. Null is empty.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let mut text = String::new();
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place > 0 { " " } else { "" });
                // Writing to a text cannot fail.
                let _ = match item {
                    Value::String(word) => text.write_str(word),
                    other => write!(text, "{other}"),
                };
            }
            Cow::Owned(text)
        }
        other => Cow::Owned(other.to_string()),
    }
}

/// Where it stands what becomes of leaves of these names.
fn place_of(shapes: &mut Vec<(Vec<String>, Vec<LeafSource>)>, leaves: &[(String, Value)]) -> usize {
    let names = || leaves.iter().map(|(name, _)| name);
    let is_known = |(known, _): &(Vec<String>, Vec<LeafSource>)| known.iter().eq(names());
    shapes.iter().position(is_known).unwrap_or_else(|| {
        if shapes.len() == SHAPES {
            shapes.clear();
        }
        shapes.push((names().cloned().collect(), sources(leaves)));
        shapes.len() - 1
    })
}

/// What becomes of the leaves of a case line, those of its parameters last. What these repeat of the line is left out.
fn sources(leaves: &[(String, Value)]) -> Vec<LeafSource> {
    let line = || leaves.iter().enumerate().filter(|(_, (name, _))| own(name).is_none());
    let mut sources: Vec<LeafSource> = line().map(|(leaf, (name, _))| LeafSource::new(leaf, name, None)).collect();
    for (leaf, (whole, _)) in leaves.iter().enumerate() {
        let Some(name) = own(whole) else { continue };
        let begins =
            |other: &str| other.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        sources.push(match line().find(|(_, (other, _))| begins(other)) {
            Some((place, (other, _))) if other == name => LeafSource::new(leaf, whole, Some(place)),
            Some(_) => LeafSource::new(leaf, whole, None),
            None => LeafSource::new(leaf, name, None),
        });
    }
    sources
}

/// The name of a parameter's leaf without what all of them begin with.
fn own(name: &str) -> Option<&str> {
    name.strip_prefix("parameters.")
}

/// Whether a field holds the two ends of an interval, which get a column each.
fn is_interval(name: &str) -> bool {
    ["ci95", "ci95_again", "ci95_earlier"].iter().any(|interval| name.ends_with(interval))
}

#[cfg(test)]
mod tests {
    use record::RunEnd;
    use serde_json::json;

    use super::*;

    fn line(parameters: Value, metrics: Value) -> CaseLine {
        let mut line = json!({
            "schema": 1, "id": "0", "benchmark": "x", "parameters": parameters, "status": "ok", "ranks": 2, "runtime": "native",
            "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
        });
        let members = metrics.as_object().cloned().unwrap_or_default();
        line.as_object_mut().unwrap().extend(members);
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn each_case_has_its_own_cells_whatever_stood_before_it() {
        let cases = vec![
            line(json!({"ranks": 2, "a": 1}), json!({"rate": {"value": 5, "ci95": [4, 6]}})),
            // The line says something else than the parameter.
            line(json!({"ranks": 3, "a": 1}), json!({"rate": {"value": 5, "ci95": [4, 6]}})),
            // A list of three numbers is not an interval, and the line has members of this parameter.
            line(json!({"rate": "x", "a": 2}), json!({"rate": {"ci95": [1, 2, 3]}})),
            line(json!({"ranks": 2, "a": 3}), json!({"rate": {"value": 7, "ci95": [6, 8]}})),
        ];
        let run = Run { cases, end: RunEnd::Killed, ..Run::default() };
        let mut columns = Columns::<usize>::from_run(&run, |number, _| *number += 1);
        let names = columns.names().to_vec();
        let counted: Vec<usize> = columns.noted().to_vec();
        assert_eq!((names.last().unwrap().as_str(), counted.last()), (RUN_END, Some(&1)));
        let own =
            ["ranks", "parameters.ranks", "a", "rate.value", "rate.ci95", "rate.ci95_low", "parameters.rate", RUN_END];
        let cells = |case: &CaseLine| {
            let mut cells = own.map(|_| String::new());
            columns.each(case, &mut |place, value| {
                if let Some(at) = own.iter().position(|name| *name == names[place]) {
                    cells[at] = text(value).into_owned();
                }
            });
            cells.join("|")
        };
        let shown: Vec<String> = run.cases.iter().map(cells).collect();
        let expected = ["2||1|5||4||killed", "2|3|1|5||4||killed", "2||2||1 2 3||x|killed", "2||3|7||6||killed"];
        assert_eq!(shown, expected);
        let number = |name: &str| names.iter().position(|other| other == name).map(|place| counted[place]);
        assert_eq!(["id", "rate.ci95_high", "rate.ci95"].map(number), [Some(4), Some(3), Some(1)]);
    }
}
