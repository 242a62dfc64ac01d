//! Headings of the live table: what the rows below have in common.

use std::sync::LazyLock;

use record::show::{Column, Format, Show, Table};
use record::{CaseLine, Declared};

/// The table that a terminal shows of a benchmark.
pub(super) fn main_table(declared: Option<&Declared>) -> &Table {
    static PLAIN: LazyLock<Show> = LazyLock::new(Show::default);
    let tables = declared.map_or(&PLAIN.tables, |declared| &declared.show.tables);
    tables.first().unwrap_or(&PLAIN.tables[0])
}

/// The parts of a heading, the value of a pivot among them.
pub(super) fn parts(line: &CaseLine, declared: Option<&Declared>) -> Vec<String> {
    let table = main_table(declared);
    // What would be lifted out of a column is a part like the others.
    let lifted = table.columns.iter().filter(|column| !column.lifted.is_empty());
    let lifted =
        lifted.filter_map(|column| Some(view::one_line(&column.lifted.replace("{}", &view::shown(line, column)?))));
    text(line, declared, false).split("  ").map(str::to_owned).chain(lifted).collect()
}

/// What a group of rows has in common. Rows with equal headings stand under one.
pub fn heading(line: &CaseLine, declared: Option<&Declared>) -> String {
    text(line, declared, true)
}

/// The heading, with the value of the table's pivot or without.
fn text(line: &CaseLine, declared: Option<&Declared>, pivots: bool) -> String {
    let table = main_table(declared);
    // A field with its own column is not part of a heading.
    let has_own_place =
        |name: &str| stands_apart(table, name) || pivots && table.pivot == name || is_quiet(declared, name);
    let parameters = line.parameters.iter().filter(|(name, _)| !has_own_place(name));
    let mut labels = parameters.map(|(name, value)| view::label_of(declared, name, &view::plain(value)));
    let mut parts = vec![view::one_line(&line.benchmark)];
    let section = declared.map_or("", |declared| declared.show.section.as_str());
    parts.extend(labels.next().filter(|_| !section.is_empty()));
    parts.push(view::one_line(&view::study::backend(line)));
    let device = Some(&line.device).filter(|device| !["", "cpu"].contains(&device.as_str()));
    parts.extend(device.map(|device| view::one_line(device)));
    // A switch that is off is worth no word, unless it declares one.
    parts.extend(labels.filter(|label| !label.starts_with("no ")));
    parts.extend((line.mode != terms::Mode::Streaming).then(|| line.mode.to_string()));
    parts.extend(view::study::cache(line).map(str::to_owned));
    parts.extend(line.pair_hosts.or(line.hosts).map(|hosts| match hosts {
        1 => "within a host".to_owned(),
        hosts => format!("across {hosts} hosts"),
    }));
    if line.simulated {
        parts.push("SIMULATED: computed, not measured".to_owned());
    }
    parts.join("  ")
}

/// What these rows differ in of the fields that are shown only there, for each row: `seed 2`.
pub(super) fn quiet_parts(lines: &[&CaseLine], declared: Option<&Declared>) -> Vec<Vec<String>> {
    let table = main_table(declared);
    let Some(first) = lines.first() else { return Vec::new() };
    let differs = |name: &str| lines.iter().any(|line| line.parameters.get(name) != first.parameters.get(name));
    let of = |line: &&CaseLine| {
        let shown = line.parameters.iter().filter(|(name, _)| {
            is_quiet(declared, name) && !stands_apart(table, name) && table.pivot != **name && differs(name)
        });
        shown.map(|(name, value)| view::label_of(declared, name, &view::plain(value))).collect()
    };
    lines.iter().map(of).collect()
}

/// Whether a field is shown only where two cases differ in it.
fn is_quiet(declared: Option<&Declared>, name: &str) -> bool {
    declared.and_then(|declared| declared.field(name)).is_some_and(|field| field.label == "quiet")
}

/// Whether a field has a place of its own: a column, or one that every heading has.
fn stands_apart(table: &Table, name: &str) -> bool {
    table.columns.iter().any(|column| column.source == name)
        || table.covers.iter().any(|covered| covered == name)
        || line_repeats(name)
}

/// Parameters that have their own place in a heading, whatever the benchmark.
fn line_repeats(name: &str) -> bool {
    matches!(name, "ranks" | "runtime" | "backend" | "device" | "bytes" | "mode" | "cache")
}

/// The heading of these rows, which have an equal one: with the value of the table's pivot where they agree in it, and with
/// what stands in it instead of in a column.
pub fn whole_heading(declared: Option<&Declared>, lines: &[&CaseLine]) -> String {
    let table = main_table(declared);
    let of = |line: &&CaseLine| line.parameters.get(&table.pivot).cloned();
    let pivots = lines.iter().any(|line| of(line) != lines.first().and_then(of));
    let mut parts: Vec<String> = lines.first().map(|line| text(line, declared, pivots)).into_iter().collect();
    parts.extend(lifted(table, lines).1);
    parts.join("  ")
}

/// The columns that these rows have, and what stands in the heading instead of a column.
pub(super) fn lifted<'d>(table: &'d Table, lines: &[&CaseLine]) -> (Vec<&'d Column>, Vec<String>) {
    let (mut columns, mut lifted): (Vec<&Column>, Vec<String>) = Default::default();
    for column in &table.columns {
        let cells = || lines.iter().filter_map(|line| view::shown(line, column));
        // A parameter that some rows do not have (the schedule of a pipeline) would be said of them, too.
        let has = |line: &&&CaseLine| line.parameters.contains_key(&column.source);
        let common = !lines.iter().any(|line| has(&line)) || lines.iter().all(|line| has(&line));
        match cells().next() {
            Some(first) if !column.lifted.is_empty() && common && cells().all(|cell| cell == first) => {
                lifted.push(view::one_line(&column.lifted.replace("{}", &first)));
            }
            // An interval comes with later trials: its column would come into a table that somebody reads.
            None if column.format != Format::Precision
                && !["time_s.median", "wrong"].contains(&column.source.as_str()) => {}
            _ => columns.push(column),
        }
    }
    (columns, lifted)
}

/// A heading in lines of so many columns, broken between its parts.
pub(super) fn folded(heading: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in heading.split("  ") {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + part.chars().count() <= width => {
                line.push_str("  ");
                line.push_str(part);
            }
            _ => lines.push(if lines.is_empty() { part.to_owned() } else { format!("  {part}") }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use terms::Status;

    use super::*;

    #[test]
    fn headings_say_whether_caches_are_warm() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        assert!(heading(&line, Some(&declared())).contains("  cache-warm"), "{}", heading(&line, Some(&declared())));
        line.parameters.insert("cache", "cold".into());
        assert!(
            heading(&line, Some(&declared())).contains("  cache-cold")
                && !heading(&line, Some(&declared())).contains("cache="),
            "{}",
            heading(&line, Some(&declared()))
        );
        line.mode = terms::Mode::Isolated;
        assert!(!heading(&line, Some(&declared())).contains("cache-"), "{}", heading(&line, Some(&declared())));
    }

    fn declared() -> Declared {
        Declared::of(benchmarks::abouts()[0])
    }

    #[test]
    fn strategies_of_training_stand_in_one_table() {
        let about = benchmarks::benchmark("training").unwrap().about();
        let flags = [("strategy", "data,tensor,pipeline"), ("ranks", "2")];
        let cases = record::plan::from_flags(about, &flags, &[]).unwrap().cases;
        let declared = Declared::of(about);
        let headings: std::collections::BTreeSet<String> =
            cases.iter().map(|case| heading(&CaseLine::unmeasured(case, Status::Ok, ""), Some(&declared))).collect();
        assert_eq!((cases.len(), headings.len()), (3, 1), "{headings:?}");
        let lines: Vec<CaseLine> = cases.iter().map(|case| CaseLine::unmeasured(case, Status::Ok, "")).collect();
        let schedule = |line: &&CaseLine| line.parameters.get("schedule").is_some();
        let pipeline: Vec<&CaseLine> = lines.iter().filter(schedule).collect();
        let whole = |lines: &[&CaseLine]| whole_heading(Some(&declared), lines);
        assert!(whole(&pipeline).contains("1f1b"), "all of them have it: {}", whole(&pipeline));
        let all: Vec<&CaseLine> = lines.iter().collect();
        assert!(!whole(&all).contains("1f1b"), "one of them has it: {}", whole(&all));
    }
}
