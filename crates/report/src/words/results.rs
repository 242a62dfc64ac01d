//! The tables of a section, as its benchmark declares them: a row for each measured or predicted case, or for those side by
//! side.

use std::collections::{HashMap, HashSet};

use record::show::{Column, Format, Show, Table as Declared};
use record::{CaseLine, Caveat, SharedMap};
use terms::{Named as _, Status};
use view::{Pivot, shown};

use super::caveats::{Shared, Wording, marks};
use super::layout::{Case, Cell, Layout};
use crate::Run;
use crate::document::{Align, Block, Table, Words};
use crate::number::NONE;
use crate::study::{Measured, Operation};

/// The tables of a section with what stands around each, the main one first; cases of a pivot side by side.
pub(crate) fn tables(operation: &Operation, wording: Wording) -> Vec<Vec<Block>> {
    let plain = Show::default();
    let show = operation.declared.map_or(&plain, |declared| &declared.show);
    let rows = rows(operation);
    let tables = show.tables.iter().enumerate();
    let table = |(index, table): (usize, &Declared)| match index {
        0 => main(operation, (show, table), &rows, wording),
        _ => one(operation, table, &rows),
    };
    tables.map(table).filter(|blocks| !blocks.is_empty()).collect()
}

/// The main table of the page and what stands around it; the same for its script, which shows each case in a row.
pub(crate) fn page(operation: &Operation, wording: Wording) -> (Vec<Block>, Vec<Vec<Block>>) {
    let plain = Show::default();
    let show = operation.declared.map_or(&plain, |declared| &declared.show);
    let rows = rows(operation);
    let first = show.tables.first().map(|table| main_table(operation, (show, table), &rows, wording, false).1);
    let main = first.filter(|table| !table.is_empty()).map(Block::Table);
    let others = show.tables.iter().skip(1).map(|table| one(operation, table, &rows));
    (main.into_iter().collect(), others.filter(|blocks| !blocks.is_empty()).collect())
}

/// Measured and predicted cases by configuration, sizes ascending.
fn rows<'o>(operation: &'o Operation<'o>) -> Vec<Case<'o>> {
    let all = operation.configurations.iter();
    let mut cases: Vec<(usize, Case)> = all
        .enumerate()
        .flat_map(|(at, configuration)| configuration.cases.iter().map(move |case| (at, (configuration, *case))))
        .filter(|(_, (_, case))| case.time_s.is_some() || is_known(case))
        .collect();
    cases.sort_by_key(|(at, (_, case))| (*at, case.bytes));
    cases.into_iter().map(|(_, case)| case).collect()
}

/// The rows of one table: a case each, or those that differ in the table's pivot side by side.
struct TableRows<'o> {
    /// What each place of a row belongs to; empty where a row is one case.
    labels: Vec<String>,
    /// The parameter that they are values of; empty where a row is one case.
    pivot: &'o str,
    rows: Vec<Vec<Option<Case<'o>>>>,
}

impl<'o> TableRows<'o> {
    fn new(operation: &'o Operation, declared: &'o Declared, cases: &[Case<'o>], side_by_side: bool) -> Self {
        let lines: Vec<&CaseLine> = cases.iter().map(|(_, line)| *line).collect();
        let pivot = Some(&declared.pivot).filter(|pivot| side_by_side && !pivot.is_empty());
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

/// A column with the place of a row that it is of; None: of all.
type Placed<'d> = (Cell<'d>, Option<usize>);

/// Columns that each place has stand once for each, together where the first of them stands.
fn placed<'d>(columns: &[Cell<'d>], places: usize) -> Vec<Placed<'d>> {
    let each = |cell: &&Cell| places > 0 && matches!(cell, Cell::Declared(column, _) if column.each);
    let first = columns.iter().position(|cell| each(&cell)).unwrap_or(columns.len());
    let (before, behind) = columns.split_at(first);
    let mut all: Vec<Placed> = before.iter().map(|cell| (*cell, None)).collect();
    for place in 0..places {
        all.extend(behind.iter().filter(each).map(|cell| (*cell, Some(place))));
    }
    all.extend(behind.iter().filter(|cell| !each(cell)).map(|cell| (*cell, None)));
    all
}

/// Whether cells hold text from the data, and not numbers alone.
fn has_words(column: &Column) -> bool {
    matches!(column.format, Format::Word | Format::Switch) || !column.word.is_empty()
}

fn title((cell, place): &Placed, labels: &[String]) -> (String, Align) {
    match cell {
        Cell::Declared(column, _) => {
            let label = place.and_then(|place| labels.get(place)).map_or("", String::as_str);
            let words = [label, &column.title, &column.unit];
            let title = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            let left = has_words(column) || matches!(column.format, Format::FirstAndLast | Format::Each);
            (title, if left { Align::Left } else { Align::Right })
        }
        Cell::Backend => ("backend".to_owned(), Align::Left),
        Cell::Variant => ("variant".to_owned(), Align::Left),
        Cell::Caveats => ("caveats".to_owned(), Align::Left),
    }
}

/// The main table between what is said above and below it.
fn main(operation: &Operation, (show, declared): (&Show, &Declared), cases: &[Case], wording: Wording) -> Vec<Block> {
    let (layout, table) = main_table(operation, (show, declared), cases, wording, true);
    if table.is_empty() {
        return Vec::new();
    }
    let above =
        layout.heading().into_iter().chain(layout.caveats.sentence()).map(|text| Block::Paragraph(Words::prose(&text)));
    above.chain([Block::Table(table)]).chain(below(&layout, declared)).collect()
}

/// What stands below the main table.
pub(crate) fn below(layout: &Layout, declared: &Declared) -> Vec<Block> {
    let legend = layout.caveats.legend().map(Words::from);
    let is_shown = |column: &Column| {
        layout.shown.iter().any(|cell| matches!(cell, Cell::Declared(shown, _) if std::ptr::eq(*shown, column)))
    };
    let note = note_of(declared, is_shown);
    let note = (!note.is_empty()).then(|| Words::prose(&note));
    legend.into_iter().chain(note).map(Block::Paragraph).collect()
}

/// The note of a table without sentences that begin with the title of a column that is not shown.
fn note_of(declared: &Declared, is_shown: impl Fn(&Column) -> bool) -> String {
    let of_hidden = |sentence: &str| {
        let begin = sentence.trim_start_matches('`');
        let named = |column: &&Column| {
            begin.strip_prefix(column.title.as_str()).is_some_and(|rest| rest.starts_with(['`', ':', ' ']))
        };
        let column = declared.columns.iter().filter(named).max_by_key(|column| column.title.len());
        column.is_some_and(|column| !is_shown(column))
    };
    let sentences: String = declared.note.split_inclusive(". ").filter(|sentence| !of_hidden(sentence)).collect();
    sentences.trim_end().to_owned()
}

fn main_table<'d>(
    operation: &Operation,
    (show, declared): (&'d Show, &'d Declared),
    cases: &[Case],
    wording: Wording,
    side_by_side: bool,
) -> (Layout<'d>, Table) {
    let rows = TableRows::new(operation, declared, cases, side_by_side);
    let layout = Layout::new(operation, show, declared, rows.pivot).worded(wording);
    let columns = placed(&layout.shown, rows.labels.len());
    let mut table = Table::new(columns.iter().map(|cell| title(cell, &rows.labels)));
    let also = columns.iter().take(layout.apart).skip(1).map(|(cell, _)| cell.phrase());
    table.tell_apart(also.collect());
    for row in &rows.rows {
        let Some(first) = row.iter().flatten().next() else { continue };
        let cell = |(cell, place): &Placed| {
            if matches!(cell, Cell::Caveats) {
                return caveats(row, &rows.labels, &layout.caveats);
            }
            let case = place.map_or(Some(first), |place| row[place].as_ref());
            case.and_then(|case| layout.text(cell, case)).unwrap_or_else(|| NONE.to_owned())
        };
        table.row(columns.iter().map(cell));
    }
    (layout, table)
}

/// A further table.
fn one(operation: &Operation, declared: &Declared, cases: &[Case]) -> Vec<Block> {
    let asked = asked_for(cases.iter().map(|(_, case)| *case));
    let found: Vec<&Column> = declared.columns.iter().filter(|column| !is_parameter(&asked, column)).collect();
    // The main table has the time of each case: where there is more, a time alone says nothing new.
    let is_more = |column: &&&Column| column.source != "time_s.median" && column.format != Format::Word;
    let more: Vec<&Column> = found.iter().filter(is_more).copied().collect();
    let told = if more.is_empty() { &found } else { &more };
    let tells = |case: &CaseLine| told.iter().any(|column| shown(case, column).is_some());
    let cases: Vec<Case> = cases.iter().filter(|(_, case)| tells(case)).copied().collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let rows = TableRows::new(operation, declared, &cases, true);
    let of = |column| Cell::Declared(column, found.iter().any(|found| std::ptr::eq(*found, column)));
    let mut columns = placed(&declared.columns.iter().map(of).collect::<Vec<_>>(), rows.labels.len());
    let ranks = |(cell, _): &Placed| matches!(cell, Cell::Declared(column, _) if column.source == "ranks");
    let behind = columns.iter().position(ranks).map_or(0, |place| place + 1);
    columns.splice(behind..behind, [(Cell::Backend, None), (Cell::Variant, None)]);
    let mut table = Table::new(columns.iter().map(|cell| title(cell, &rows.labels)));
    // What columns say needs no second place.
    let sources = declared.columns.iter().flat_map(|column| column.source.split('|'));
    let elsewhere: Vec<&str> = sources.chain(declared.covers.iter().map(String::as_str)).chain([rows.pivot]).collect();
    let varies = operation.configurations.iter().any(|other| other.backend != operation.configurations[0].backend);
    for row in &rows.rows {
        let Some((configuration, first)) = row.iter().flatten().next() else { continue };
        let cell = |(cell, place): &Placed| match cell {
            Cell::Declared(column, is_found) => {
                let case = place.map_or(Some(*first), |place| Some(row[place]?.1));
                case.and_then(|case| value(case, column, *is_found)).unwrap_or_else(|| NONE.to_owned())
            }
            Cell::Backend if varies => or_none(&configuration.backend),
            Cell::Variant => or_none(&configuration.variant_without(&elsewhere)),
            Cell::Backend | Cell::Caveats => NONE.to_owned(),
        };
        table.row(columns.iter().map(cell));
    }
    let lifted = |place: usize| matches!(&columns[place].0, Cell::Declared(column, _) if !column.lifted.is_empty());
    let none = Words::from(NONE);
    let table = table.without(|place, cells| {
        cells.iter().all(|cell| *cell == none) || lifted(place) && cells.iter().all(|cell| *cell == cells[0])
    });
    let title = (!declared.title.is_empty()).then(|| format!("{}:", declared.title).into());
    let note = (!declared.note.is_empty()).then(|| Words::prose(&declared.note));
    let title = title.map(Block::Paragraph).into_iter();
    title.chain([Block::Table(table)]).chain(note.map(Block::Paragraph)).collect()
}

/// Whether a case's cell in a column may have a value: what is wrong has no time and no rate.
pub(crate) fn is_told(case: &CaseLine, column: &Column, is_found: bool) -> bool {
    !is_found || column.source == "wrong" || Measured::is_measured(case) || is_known(case)
}

/// Whether a case was answered by a plan: nothing ran.
pub(crate) fn is_planned(case: &CaseLine) -> bool {
    case.status == Status::Ok && follows_from_a_plan(case)
}

/// Whether a run shows the time of a case. Where it does not, as of memory, other programs disturb nothing that it shows.
pub(crate) fn shows_time(run: &Run, case: &CaseLine) -> bool {
    let declared = run.benchmarks.iter().find(|declared| declared.name == case.benchmark);
    declared.is_none_or(|declared| {
        let mut columns = declared.show.tables.iter().flat_map(|table| &table.columns);
        columns.any(|column| column.source == "time_s.median" && column.format == Format::Seconds)
    })
}

/// Whether nothing of a case ran because a plan answers it, whether it fits or not.
pub(crate) fn follows_from_a_plan(case: &CaseLine) -> bool {
    case.simulated && case.time_s.is_none() && !case.metrics.is_empty()
}

/// Whether something is known of a case that did not run.
pub(crate) fn is_known(case: &CaseLine) -> bool {
    is_predicted(case) || is_planned(case)
}

/// Whether a case did not run here, and its benchmark said what it knows without a run.
pub(crate) fn is_predicted(case: &CaseLine) -> bool {
    case.status == Status::Skipped && !case.metrics.is_empty()
}

/// The text of a declared column's cell.
pub(crate) fn value(case: &CaseLine, column: &Column, is_found: bool) -> Option<String> {
    shown(case, column).filter(|_| is_told(case, column, is_found))
}

/// The marks of a row, without what stands above the table; of several cases, those that one alone carries behind its label.
fn caveats(row: &[Option<Case>], labels: &[String], shared: &Shared) -> String {
    let all: Vec<(usize, &CaseLine)> =
        row.iter().enumerate().filter_map(|(place, case)| Some((place, (*case)?.1))).collect();
    let own = |case: &CaseLine, wanted: &dyn Fn(&Caveat) -> bool| {
        marks(case.caveats.iter().filter(|caveat| !shared.has(**caveat) && wanted(caveat)))
    };
    let common = |caveat: &Caveat| all.iter().all(|(_, case)| case.caveats.contains(caveat));
    let mut parts: Vec<String> = all.first().map(|(_, case)| own(case, &common)).into_iter().collect();
    for (place, case) in &all {
        let own = own(case, &|caveat| !common(caveat));
        let label = labels.get(*place).map_or_else(String::new, Clone::clone);
        parts.push(if own.is_empty() { own } else { format!("{label}: {own}") });
    }
    if all.iter().any(|(_, case)| is_predicted(case)) {
        parts.insert(0, Status::Skipped.name().to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// The names of all parameters of these cases.
pub(crate) fn asked_for<'c>(cases: impl Iterator<Item = &'c CaseLine>) -> HashSet<&'c str> {
    let mut names = HashSet::new();
    let mut last: Option<&SharedMap> = None;
    for case in cases {
        if last.is_none_or(|last| !case.parameters.has_names_of(last)) {
            names.extend(case.parameters.keys());
        }
        last = Some(&case.parameters);
    }
    names
}

/// Whether a column tells what was asked for, not what was found.
pub(crate) fn is_parameter(asked_for: &HashSet<&str>, column: &Column) -> bool {
    matches!(column.source.as_str(), "ranks" | "bytes" | "dtype" | "mode" | "device")
        || column.source.split('|').any(|source| asked_for.contains(source))
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
}
