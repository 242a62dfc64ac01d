//! The tables of a section, as its benchmark declares them: a row for each measured or predicted case, or for those side by
//! side.

use std::collections::HashMap;

use record::show::{Column, Format, Show, Table as Declared};
use record::{CaseLine, Caveat};
use terms::{Named as _, Status};
use view::{Pivot, shown};

use crate::document::{Align, Block, Table, Words, code};
use crate::number::{NONE, list};
use crate::study::{Configuration, Measured, Operation};

/// The tables of a section with what stands around each, the main one first.
pub(crate) fn tables(operation: &Operation) -> Vec<Vec<Block>> {
    let plain = Show::default();
    let show = operation.declared.map_or(&plain, |declared| &declared.show);
    let rows = rows(operation);
    let tables = show.tables.iter().enumerate();
    let tables = tables.map(|(index, table)| one(operation, table, &rows, index == 0));
    tables.filter(|blocks| !blocks.is_empty()).collect()
}

type Case<'o> = (&'o Configuration<'o>, &'o CaseLine);

/// Measured and predicted cases by configuration, sizes ascending.
fn rows<'o>(operation: &'o Operation<'o>) -> Vec<Case<'o>> {
    let of = |configuration: &'o Configuration<'o>| {
        let mut cases: Vec<Case> = configuration.cases.iter().map(|case| (configuration, *case)).collect();
        cases.retain(|(_, case)| case.time_s.is_some() || is_predicted(case));
        cases.sort_by_key(|(_, case)| case.bytes);
        cases
    };
    operation.configurations.iter().flat_map(of).collect()
}

/// The rows of one table: a case each, or those that differ in the table's pivot side by side.
struct Rows<'o> {
    /// What each place of a row belongs to; empty where a row is one case.
    labels: Vec<String>,
    /// The parameter that they are values of; empty where a row is one case.
    pivot: &'o str,
    rows: Vec<Vec<Option<Case<'o>>>>,
}

impl<'o> Rows<'o> {
    fn new(operation: &'o Operation, declared: &'o Declared, cases: &[Case<'o>]) -> Self {
        let lines: Vec<&CaseLine> = cases.iter().map(|(_, line)| *line).collect();
        let pivot = Some(&declared.pivot).filter(|pivot| !pivot.is_empty());
        let Some(pivot) = pivot.and_then(|pivot| Pivot::new(pivot, &lines)) else {
            return Self { labels: Vec::new(), pivot: "", rows: cases.iter().map(|case| vec![Some(*case)]).collect() };
        };
        let of: HashMap<*const CaseLine, Case> = cases.iter().map(|case| (std::ptr::from_ref(case.1), *case)).collect();
        let case = |line: Option<&CaseLine>| of.get(&std::ptr::from_ref(line?)).copied();
        let label = |value| view::label_of(operation.declared, &declared.pivot, &view::plain(value));
        Self {
            labels: pivot.values.into_iter().map(label).collect(),
            pivot: &declared.pivot,
            rows: pivot.rows.into_iter().map(|row| row.into_iter().map(case).collect()).collect(),
        }
    }
}

/// A column of the page: declared, or one that every section has.
enum Cell<'d> {
    /// Of this place of a row; None: of all.
    Declared(&'d Column, Option<usize>),
    Backend,
    Variant,
    Caveats,
}

/// The declared columns, with what tells the section's configurations apart behind the ranks.
fn columns<'d>(declared: &'d Declared, places: usize, main: bool) -> Vec<Cell<'d>> {
    let each = |column: &&Column| column.each && places > 0;
    let first = declared.columns.iter().position(|column| each(&column)).unwrap_or(declared.columns.len());
    let (before, behind) = declared.columns.split_at(first);
    let mut columns: Vec<Cell> = before.iter().map(|column| Cell::Declared(column, None)).collect();
    for place in 0..places {
        columns.extend(behind.iter().filter(each).map(|column| Cell::Declared(column, Some(place))));
    }
    columns.extend(behind.iter().filter(|column| !each(column)).map(|column| Cell::Declared(column, None)));
    let ranks = |cell: &Cell| matches!(cell, Cell::Declared(column, _) if column.source == "ranks");
    let behind = columns.iter().position(ranks).map_or(0, |place| place + 1);
    columns.splice(behind..behind, [Cell::Backend, Cell::Variant]);
    columns.extend(main.then_some(Cell::Caveats));
    columns
}

/// Whether cells hold text from the data, and not numbers alone.
fn has_words(column: &Column) -> bool {
    matches!(column.format, Format::Word | Format::Switch) || !column.word.is_empty()
}

fn title(cell: &Cell, labels: &[String]) -> (String, Align) {
    match cell {
        Cell::Declared(column, place) => {
            let label = place.and_then(|place| labels.get(place)).map_or("", String::as_str);
            let words = [label, &column.title, &column.unit];
            let title = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            let left = has_words(column) || column.format == Format::FirstAndLast;
            (title, if left { Align::Left } else { Align::Right })
        }
        Cell::Backend => ("backend".to_owned(), Align::Left),
        Cell::Variant => ("variant".to_owned(), Align::Left),
        Cell::Caveats => ("caveats".to_owned(), Align::Left),
    }
}

fn one(operation: &Operation, declared: &Declared, cases: &[Case], main: bool) -> Vec<Block> {
    let found: Vec<&Column> = declared.columns.iter().filter(|column| !is_parameter(cases, column)).collect();
    let tells = |case: &CaseLine| found.iter().any(|column| shown(case, column).is_some());
    let cases: Vec<Case> = cases.iter().filter(|(_, case)| main || tells(case)).copied().collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let shared = if main { shared(&cases) } else { Vec::new() };
    let rows = Rows::new(operation, declared, &cases);
    let columns = columns(declared, rows.labels.len(), main);
    let titles: Vec<(String, Align)> = columns.iter().map(|cell| title(cell, &rows.labels)).collect();
    let mut table = Table::new(titles);
    // What columns say needs no second place.
    let sources = declared.columns.iter().map(|column| column.source.as_str());
    let elsewhere: Vec<&str> = sources.chain(declared.covers.iter().map(String::as_str)).chain([rows.pivot]).collect();
    let varies = operation.configurations.iter().any(|other| other.backend != operation.configurations[0].backend);
    for row in &rows.rows {
        let Some((configuration, first)) = row.iter().flatten().next() else { continue };
        let cell = |cell: &Cell| match cell {
            Cell::Declared(column, place) => {
                let case = place.map_or(Some(*first), |place| Some(row[place]?.1));
                let is_found = found.iter().any(|found| std::ptr::eq(*found, *column));
                case.and_then(|case| value(case, column, is_found)).unwrap_or_else(|| NONE.to_owned())
            }
            Cell::Backend if varies => or_none(&configuration.backend),
            Cell::Backend => NONE.to_owned(),
            Cell::Variant => or_none(&configuration.variant_without(&elsewhere)),
            Cell::Caveats => caveats(row, &rows.labels, &shared),
        };
        table.row(columns.iter().map(cell));
    }
    let lifted = |place: usize| matches!(&columns[place], Cell::Declared(column, _) if !column.lifted.is_empty());
    let kept = |place: usize| matches!(&columns[place], Cell::Caveats);
    let none = Words::from(NONE);
    let table = table.without(|place, cells| {
        let empty = cells.iter().all(|cell| **cell == none);
        empty && !kept(place) || lifted(place) && cells.iter().all(|cell| *cell == cells[0])
    });
    let title = (!declared.title.is_empty()).then(|| format!("{}:", declared.title).into());
    let note = (!declared.note.is_empty()).then(|| Words::prose(&declared.note));
    let shared: Vec<String> = shared.iter().map(|caveat| code(caveat.name())).collect();
    let shared = (!shared.is_empty()).then(|| format!("Every row also carries {}.", list(&shared)).into());
    let behind = note.into_iter().chain(shared).map(Block::Paragraph);
    title.map(Block::Paragraph).into_iter().chain([Block::Table(table)]).chain(behind).collect()
}

/// Whether a case's cell in a column may have a value: what is wrong has no time and no rate.
pub(crate) fn is_told(case: &CaseLine, column: &Column, is_found: bool) -> bool {
    !is_found || column.source == "wrong" || Measured::from_case(case).is_some() || is_predicted(case)
}

/// Whether a case did not run here, and its benchmark said what it knows without a run.
fn is_predicted(case: &CaseLine) -> bool {
    case.status == Status::Skipped && !case.metrics.is_empty()
}

/// The text of a declared column's cell.
fn value(case: &CaseLine, column: &Column, is_found: bool) -> Option<String> {
    shown(case, column).filter(|_| is_told(case, column, is_found))
}

/// The caveats of a row that not all rows have; of several cases, those that one alone carries behind its label.
fn caveats(row: &[Option<Case>], labels: &[String], shared: &[Caveat]) -> String {
    let all: Vec<(usize, &CaseLine)> =
        row.iter().enumerate().filter_map(|(place, case)| Some((place, (*case)?.1))).collect();
    let names = |case: &CaseLine, wanted: &dyn Fn(&Caveat) -> bool| {
        let own = case.caveats.iter().filter(|caveat| !shared.contains(caveat) && wanted(caveat));
        own.map(|caveat| caveat.name()).collect::<Vec<_>>().join(", ")
    };
    let common = |caveat: &Caveat| all.iter().all(|(_, case)| case.caveats.contains(caveat));
    let mut parts: Vec<String> = all.first().map(|(_, case)| names(case, &common)).into_iter().collect();
    for (place, case) in &all {
        let own = names(case, &|caveat| !common(caveat));
        let label = labels.get(*place).map_or_else(String::new, Clone::clone);
        parts.push(if own.is_empty() { own } else { format!("{label}: {own}") });
    }
    if all.iter().any(|(_, case)| is_predicted(case)) {
        parts.insert(0, Status::Skipped.name().to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// Whether a column tells what was asked for, not what was found.
fn is_parameter(rows: &[Case], column: &Column) -> bool {
    is_parameter_of(&rows.iter().map(|(_, case)| *case).collect::<Vec<_>>(), column)
}

/// The same of case lines.
pub(crate) fn is_parameter_of(cases: &[&CaseLine], column: &Column) -> bool {
    matches!(column.source.as_str(), "ranks" | "bytes" | "dtype" | "mode" | "device")
        || cases.iter().any(|case| case.parameters.contains_key(&column.source))
}

/// Caveats that all of several rows carry.
fn shared(rows: &[Case]) -> Vec<Caveat> {
    let everywhere = |caveat: &&Caveat| rows.len() > 2 && rows.iter().all(|(_, case)| case.caveats.contains(caveat));
    Caveat::ALL.iter().filter(everywhere).copied().collect()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
}
