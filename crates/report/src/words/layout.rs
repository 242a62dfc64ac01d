//! How the main table of a section stands: what tells rows apart, then time, interval, rate and wrong elements, then the rest.
//! What all rows have in common is said once above it.

use std::collections::HashMap;

use record::CaseLine;
use record::show::{Column, Format, Show, Table as Declared};
use terms::Status;

use super::caveats::{Shared, Wording};
use super::results::{asked_for, is_known, is_parameter, is_predicted, value};
use crate::number::NONE;
use crate::study::{Configuration, Operation};

/// A case with its configuration.
pub(crate) type Case<'o> = (&'o Configuration<'o>, &'o CaseLine);

/// A column of the page: declared, or one that every section has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'d> {
    /// The second member: whether it tells what was found, not what was asked for.
    Declared(&'d Column, bool),
    Backend,
    Variant,
    Caveats,
}

impl Cell<'_> {
    /// Whether its cells hold words.
    pub(crate) fn is_word(&self) -> bool {
        match self {
            Cell::Declared(column, _) => matches!(column.format, Format::Word | Format::Switch),
            _ => true,
        }
    }

    /// How a value reads where no title stands above it: `{} ranks`.
    pub(crate) fn phrase(&self) -> String {
        match self {
            Cell::Declared(column, _) if !column.lifted.is_empty() => column.lifted.clone(),
            Cell::Declared(column, _) if column.source == "ranks" => "{} ranks".to_owned(),
            Cell::Declared(column, _) if matches!(column.format, Format::Word | Format::Bytes) => "{}".to_owned(),
            Cell::Declared(column, _) => format!("{} {{}} {}", column.title, column.unit).trim_end().to_owned(),
            _ => "{}".to_owned(),
        }
    }

    /// How a value reads where it is said of all rows: a word has its title before it, unless it declares another form.
    fn sentence(&self) -> String {
        match self {
            Cell::Declared(column, _) if column.lifted.is_empty() && column.format == Format::Word => {
                format!("{} {{}}", column.title)
            }
            _ => self.phrase(),
        }
    }
}

/// A phrase with a value in it: `1 rank`.
pub(crate) fn filled(phrase: &str, text: &str) -> String {
    match phrase {
        "{} ranks" if text == "1" => "1 rank".to_owned(),
        _ => phrase.replace("{}", text),
    }
}

/// The columns of a main table.
pub(crate) struct Layout<'d> {
    /// Columns that are shown, in order.
    pub(crate) shown: Vec<Cell<'d>>,
    /// How many of them, from the first, tell rows apart.
    pub(crate) apart: usize,
    /// How many behind these are its time, interval, rate and wrong elements.
    first: usize,
    /// Columns whose values stand above the table, or in another column.
    pub(crate) hidden: Vec<Cell<'d>>,
    /// What all rows have in common, where the section's heading does not say it.
    pub(crate) same: Vec<String>,
    /// The caveats of the rows.
    pub(crate) caveats: Shared,
    /// Fields that need no place in the variant.
    elsewhere: Vec<String>,
    several_backends: bool,
}

impl<'d> Layout<'d> {
    /// The layout of a section's cases; `pivot` is the parameter whose values stand side by side, or empty.
    pub(crate) fn new(operation: &Operation, show: &'d Show, declared: &'d Declared, pivot: &str) -> Self {
        let all = operation.configurations.iter();
        let cases: Vec<Case> = all.flat_map(|own| own.cases.iter().map(move |case| (own, *case))).collect();
        let lines: Vec<&CaseLine> = cases.iter().map(|(_, case)| *case).collect();
        let rows: Vec<&CaseLine> =
            lines.iter().filter(|case| case.time_s.is_some() || is_known(case)).copied().collect();
        let sources = declared.columns.iter().flat_map(|column| column.source.split('|')).map(str::to_owned);
        let first = &operation.configurations[..operation.configurations.len().min(1)];
        let mut layout = Self {
            shown: Vec::new(),
            apart: 0,
            first: 0,
            hidden: Vec::new(),
            same: Vec::new(),
            caveats: Shared::of_rows(&rows),
            elsewhere: sources.chain(declared.covers.iter().cloned()).chain([pivot.to_owned()]).collect(),
            several_backends: operation.configurations.iter().any(|other| other.backend != first[0].backend),
        };
        let is_time = |column: &Column| column.source == "time_s.median" && column.format == Format::Seconds;
        let timed = declared.columns.iter().position(is_time).unwrap_or(0);
        let asked = asked_for(lines.iter().copied());
        let of = |column| Cell::Declared(column, !is_parameter(&asked, column));
        let columns = declared.columns.iter().map(of).enumerate();
        // What stands before the time says which case a row is of, even if it is not a parameter.
        let (given, found): (Vec<_>, Vec<_>) =
            columns.partition(|(place, cell)| *place < timed || matches!(cell, Cell::Declared(_, false)));
        let mut given: Vec<Cell> = given.into_iter().map(|(_, cell)| cell).collect();
        let is_ranks = |cell: &Cell| matches!(cell, Cell::Declared(column, _) if column.source == "ranks");
        let behind = given.iter().position(is_ranks).map_or(0, |place| place + 1);
        given.splice(behind..behind, [Cell::Backend, Cell::Variant]);
        let spoken: Vec<&str> = operation.constants.split(", ").collect();
        let mut rest = layout.tell_apart(&given, &cases, &spoken);

        let mut found: Vec<Cell> = found.into_iter().map(|(_, cell)| cell).collect();
        found.retain(|cell| cases.iter().any(|case| layout.text(cell, case).is_some()));
        let is = |cell: &Cell, wanted: &dyn Fn(&Column) -> bool| matches!(cell, Cell::Declared(c, _) if wanted(c));
        let rate = rate(show, &found);
        let firsts: [&dyn Fn(&Column) -> bool; 4] = [
            &is_time,
            &|column| column.format == Format::Precision,
            &|column| Some(column.source.as_str()) == rate.as_deref(),
            &|column| column.source == "wrong",
        ];
        for wanted in firsts {
            if let Some(place) = found.iter().position(|cell| is(cell, wanted)) {
                layout.shown.push(found.remove(place));
                layout.first += 1;
            }
        }
        let marked = layout.caveats.has_marks() || lines.iter().any(|case| is_predicted(case));
        if marked { &mut layout.shown } else { &mut layout.hidden }.push(Cell::Caveats);
        for cell in found {
            // A word that is the same in all rows is said of all.
            match Some(&cell).filter(|cell| cell.is_word()).and_then(|cell| layout.constant(cell, &cases)) {
                Some(text) => layout.lift(cell, &text, &spoken),
                None => layout.shown.push(cell),
            }
        }
        layout.shown.append(&mut rest);
        layout
    }

    /// Says caveats in these words.
    pub(crate) fn worded(mut self, wording: Wording) -> Self {
        self.caveats = self.caveats.worded(wording);
        self
    }

    /// Puts the columns that tell rows apart first, and returns those that are shown behind the numbers.
    fn tell_apart(&mut self, given: &[Cell<'d>], cases: &[Case], spoken: &[&str]) -> Vec<Cell<'d>> {
        let mut rest = Vec::new();
        let mut chosen: Vec<(bool, Vec<Option<String>>)> = Vec::new();
        for cell in given {
            if let Some(text) = self.constant(cell, cases) {
                self.lift(*cell, &text, spoken);
                continue;
            }
            let texts = self.texts(cell, cases);
            if texts.iter().all(Option::is_none) {
                continue;
            }
            if cases.len() == 1 && self.apart == 1 {
                rest.push(*cell);
                continue;
            }
            match chosen.iter().find(|(_, other)| repeats(other, &texts)) {
                Some((true, _)) if cell.is_word() => self.hidden.push(*cell),
                Some(_) => rest.push(*cell),
                None => {
                    self.shown.push(*cell);
                    self.apart += 1;
                    chosen.push((cell.is_word(), texts));
                }
            }
        }
        rest
    }

    /// The texts of a column. Backend and variant are those of a configuration, and its cases follow one another.
    fn texts(&self, cell: &Cell, cases: &[Case]) -> Vec<Option<String>> {
        let mut texts: Vec<Option<String>> = Vec::with_capacity(cases.len());
        for (place, case) in cases.iter().enumerate() {
            let same = place > 0 && std::ptr::eq(cases[place - 1].0, case.0) && !matches!(cell, Cell::Declared(..));
            texts.push(if same { texts[place - 1].clone() } else { self.text(cell, case) });
        }
        texts
    }

    /// The value that all of several rows have.
    fn constant(&self, cell: &Cell, cases: &[Case]) -> Option<String> {
        let first = self.text(cell, cases.first().filter(|_| cases.len() > 1)?)?;
        cases.iter().all(|case| self.text(cell, case).as_ref() == Some(&first)).then_some(first)
    }

    fn lift(&mut self, cell: Cell<'d>, text: &str, spoken: &[&str]) {
        let said = filled(&cell.sentence(), text);
        let known = |other: &str| other == said || other == text;
        if !spoken.iter().any(|other| known(other)) {
            self.same.push(said);
        }
        self.hidden.push(cell);
    }

    /// The text of a cell; None where it has no value. Caveats are of several cases.
    pub(crate) fn text(&self, cell: &Cell, (configuration, case): &Case) -> Option<String> {
        let text = match cell {
            Cell::Declared(column, found) => value(case, column, *found)?,
            Cell::Backend if !self.several_backends => return None,
            Cell::Backend => configuration.backend.clone(),
            Cell::Variant => {
                configuration.variant_without(&self.elsewhere.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Cell::Caveats => return None,
        };
        (!text.is_empty() && text != NONE).then_some(text)
    }

    /// What stands above the table.
    pub(crate) fn heading(&self) -> Option<String> {
        (!self.same.is_empty()).then(|| format!("All rows: {}", self.same.join(", ")))
    }

    /// The numbers of the only row of a section, in a line.
    pub(crate) fn in_a_line(&self, case: &Case) -> String {
        if case.1.status != Status::Ok && !is_predicted(case.1) {
            return case.1.status.to_string().replace('_', " ");
        }
        let text = |cell: &Cell| Some((cell.phrase(), self.text(cell, case)?));
        let (apart, numbers) = self.shown.split_at(self.apart);
        let apart: Vec<String> = apart.iter().filter_map(text).map(|(phrase, text)| filled(&phrase, &text)).collect();
        let mut line = String::new();
        for cell in numbers.iter().take(self.first) {
            let (Cell::Declared(column, _), Some((phrase, text))) = (cell, text(cell)) else { continue };
            let joint = if line.is_empty() { "" } else { ", " };
            line += &match (column.format, column.source.as_str()) {
                (Format::Precision, _) => format!(" ± {text}"),
                (_, "time_s.median") => format!("{joint}{text}"),
                _ => format!("{joint}{}", filled(&phrase, &text)),
            };
        }
        let joint = if apart.is_empty() || line.is_empty() { "" } else { ": " };
        let caveats: Vec<String> = case.1.caveats.iter().map(|caveat| self.caveats.words(*caveat)).collect();
        let caveats = if caveats.is_empty() { String::new() } else { format!(" ({})", caveats.join(", ")) };
        format!("{}{joint}{line}{caveats}", apart.join(", "))
    }
}

/// The source of the benchmark's main rate, of those that have a value here.
fn rate(show: &Show, found: &[Cell]) -> Option<String> {
    let sources =
        || found.iter().filter_map(|cell| if let Cell::Declared(column, _) = cell { Some(column) } else { None });
    let of = |name: &String| {
        let inside = format!("{name}.");
        sources().find(|column| column.source == *name || column.source.starts_with(&inside))
    };
    show.headline.iter().find_map(of).map(|column| column.source.clone())
}

/// Whether each value of one column stands beside one value of the other alone.
fn repeats(one: &[Option<String>], other: &[Option<String>]) -> bool {
    let (mut there, mut back) = (HashMap::new(), HashMap::new());
    one.iter().zip(other).all(|(a, b)| *there.entry(a).or_insert(b) == b && *back.entry(b).or_insert(a) == a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_repeats_another_where_each_value_has_one_partner() {
        let texts = |words: &[&str]| words.iter().map(|word| Some((*word).to_owned())).collect::<Vec<_>>();
        let sizes = texts(&["1 KiB", "2 KiB", "1 KiB"]);
        assert!(repeats(&sizes, &texts(&["256", "512", "256"])));
        assert!(!repeats(&sizes, &texts(&["256", "256", "256"])), "two sizes, one count");
        assert!(!repeats(&sizes, &texts(&["256", "512", "128"])), "one size, two counts");
        assert_eq!(filled("{} ranks", "1"), "1 rank");
        assert_eq!(filled("m {}", "64"), "m 64");
    }
}
