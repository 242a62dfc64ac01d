//! The tables of a section, as its benchmark declares them: a row for each measured case.

use record::show::{Column, Format, Show, Table as Declared};
use record::{CaseLine, Caveat};
use terms::Named as _;
use view::shown;

use crate::escape::markdown as escaped;
use crate::number::{NONE, list};
use crate::study::{Configuration, Measured, Operation};
use crate::table::{Align, Table};

/// All tables of a section, the main one first.
pub(crate) fn results(operation: &Operation) -> String {
    let plain = Show::default();
    let show = operation.declared.map_or(&plain, |declared| &declared.show);
    let rows = rows(operation);
    let tables = show.tables.iter().enumerate();
    let tables = tables.map(|(index, table)| one(operation, table, &rows, index == 0));
    tables.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

type Row<'o> = (&'o Configuration<'o>, &'o CaseLine);

/// Measured cases by configuration, sizes ascending.
fn rows<'o>(operation: &'o Operation<'o>) -> Vec<Row<'o>> {
    let of = |configuration: &'o Configuration<'o>| {
        let mut cases: Vec<Row> = configuration.cases.iter().map(|case| (configuration, *case)).collect();
        cases.retain(|(_, case)| case.time_s.is_some());
        cases.sort_by_key(|(_, case)| case.bytes);
        cases
    };
    operation.configurations.iter().flat_map(of).collect()
}

/// A column of the page: declared, or one that every section has.
enum Cell<'d> {
    Declared(&'d Column),
    Backend,
    Variant,
    Caveats,
}

/// The declared columns, with what tells the section's configurations apart behind the ranks.
fn columns<'d>(declared: &'d Declared, main: bool) -> Vec<Cell<'d>> {
    let mut columns: Vec<Cell> = declared.columns.iter().map(Cell::Declared).collect();
    let behind = declared.columns.iter().position(|column| column.source == "ranks").map_or(0, |place| place + 1);
    columns.splice(behind..behind, [Cell::Backend, Cell::Variant]);
    columns.extend(main.then_some(Cell::Caveats));
    columns
}

/// Whether cells hold text from the data, and not numbers alone.
fn has_words(column: &Column) -> bool {
    matches!(column.format, Format::Word | Format::Switch) || !column.word.is_empty()
}

fn title(cell: &Cell) -> (String, Align) {
    match cell {
        Cell::Declared(column) => {
            let title = format!("{} {}", column.title, column.unit);
            let left = has_words(column) || column.format == Format::FirstAndLast;
            (title.trim().to_owned(), if left { Align::Left } else { Align::Right })
        }
        Cell::Backend => ("backend".to_owned(), Align::Left),
        Cell::Variant => ("variant".to_owned(), Align::Left),
        Cell::Caveats => ("caveats".to_owned(), Align::Left),
    }
}

fn one(operation: &Operation, declared: &Declared, rows: &[Row], main: bool) -> String {
    let found: Vec<&Column> = declared.columns.iter().filter(|column| !is_parameter(rows, column)).collect();
    let tells = |case: &CaseLine| found.iter().any(|column| shown(case, column).is_some());
    let rows: Vec<&Row> = rows.iter().filter(|(_, case)| main || tells(case)).collect();
    let shared = if main { shared(&rows) } else { Vec::new() };
    let columns = columns(declared, main);
    let titles: Vec<(String, Align)> = columns.iter().map(title).collect();
    let mut table = Table::new(titles);
    let varies = operation.configurations.iter().any(|other| other.backend != operation.configurations[0].backend);
    for (configuration, case) in rows.iter().copied() {
        let cell = |cell: &Cell| match cell {
            Cell::Declared(column) => {
                // What is wrong has no time and no rate.
                let right = Measured::of(case).is_some() || column.source == "wrong";
                let shows = right || !found.iter().any(|found| std::ptr::eq(*found, *column));
                let text = shown(case, column).filter(|_| shows);
                text.map_or_else(|| NONE.to_owned(), |text| if has_words(column) { escaped(&text) } else { text })
            }
            Cell::Backend if varies => or_none(&configuration.backend),
            Cell::Backend => NONE.to_owned(),
            Cell::Variant => or_none(&configuration.variant),
            Cell::Caveats => {
                let own = case.caveats.iter().filter(|caveat| !shared.contains(caveat));
                own.map(|caveat| caveat.name()).collect::<Vec<_>>().join(", ")
            }
        };
        table.row(columns.iter().map(cell).collect());
    }
    if rows.is_empty() {
        return String::new();
    }
    let lifted = |place: usize| matches!(&columns[place], Cell::Declared(column) if !column.lifted.is_empty());
    let kept = |place: usize| matches!(&columns[place], Cell::Caveats);
    let table = table.without(|place, cells| {
        let empty = cells.iter().all(|cell| *cell == NONE);
        empty && !kept(place) || lifted(place) && cells.iter().all(|cell| *cell == cells[0])
    });
    let mut text = if declared.title.is_empty() { String::new() } else { format!("{}:\n\n", declared.title) };
    text += &table.markdown();
    if !declared.note.is_empty() {
        text += &format!("\n{}\n", declared.note);
    }
    if !shared.is_empty() {
        let shared: Vec<String> = shared.iter().map(|caveat| format!("`{caveat}`")).collect();
        text += &format!("\nEvery row also carries {}.\n", list(&shared));
    }
    text
}

/// Whether a column tells what was asked for, not what was found.
fn is_parameter(rows: &[Row], column: &Column) -> bool {
    matches!(column.source.as_str(), "ranks" | "bytes" | "dtype" | "mode" | "device")
        || rows.iter().any(|(_, case)| case.parameters.contains_key(&column.source))
}

/// Caveats that all of several rows carry.
fn shared(rows: &[&Row]) -> Vec<Caveat> {
    let everywhere = |caveat: &&Caveat| rows.len() > 2 && rows.iter().all(|(_, case)| case.caveats.contains(caveat));
    Caveat::ALL.iter().filter(everywhere).copied().collect()
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE.to_owned() } else { escaped(text) }
}
