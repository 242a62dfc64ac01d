//! Rows of the live table: one case a row, one heading for each kind of case.

use std::sync::LazyLock;

use record::show::{Column, Format, Show, Table};
use record::{CaseLine, Caveat, Declared};
use serde_json::Value;
use terms::Status;

use super::text::wrap;

/// Remarks below a row begin here, under the first column's end.
const INDENT: usize = 11;

/// A column as it is printed: declared, with the room that its cells take.
struct Printed<'d> {
    column: &'d Column,
    width: usize,
}

/// Room that cells of a format take, so that a table does not jump while its rows improve.
fn room(format: Format) -> usize {
    match format {
        Format::Bytes | Format::Seconds => 9,
        Format::Number => 7,
        Format::Share | Format::Precision | Format::Change => 6,
        Format::Count | Format::Word | Format::Switch | Format::FirstAndLast => 5,
    }
}

/// The table that a terminal shows of a benchmark.
fn main_table(declared: Option<&Declared>) -> &Table {
    static PLAIN: LazyLock<Show> = LazyLock::new(Show::default);
    let tables = declared.map_or(&PLAIN.tables, |declared| &declared.show.tables);
    tables.first().unwrap_or(&PLAIN.tables[0])
}

/// What a group of rows has in common: its heading. Rows with equal headings stand under one.
pub(crate) fn heading(line: &CaseLine, declared: Option<&Declared>) -> String {
    let table = main_table(declared);
    // What stands in a column of its own is no heading.
    let told = |name: &str| {
        table.columns.iter().any(|column| column.source == name)
            || table.covers.iter().any(|covered| covered == name)
            || line_repeats(name)
            || declared.and_then(|declared| declared.field(name)).is_some_and(|field| field.label == "quiet")
    };
    let parameters = line.parameters.iter().filter(|(name, _)| !told(name));
    let mut labels = parameters.map(|(name, value)| view::label_of(declared, name, &view::plain(value)));
    let mut parts = vec![line.benchmark.clone()];
    let section = declared.map_or("", |declared| declared.show.section.as_str());
    parts.extend(labels.next().filter(|_| !section.is_empty()));
    parts.push(view::study::backend(line));
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

/// Parameters that have their own place in a heading, whatever the benchmark.
fn line_repeats(name: &str) -> bool {
    matches!(name, "ranks" | "runtime" | "backend" | "device" | "bytes" | "mode" | "cache")
}

/// The lines of one group of rows: heading, titles, units, and a row for each case, in at most `width` columns. Where a
/// row has no room for its remarks, they stand below it.
pub(super) fn group(heading: &str, declared: Option<&Declared>, lines: &[&CaseLine], width: usize) -> Vec<String> {
    let (columns, _) = layout(main_table(declared), lines, width);
    let heading = whole_heading(heading, declared, lines);
    let mut text = vec![String::new()];
    text.extend(folded(&heading, width).into_iter().map(|part| format!("\u{1b}[1m{part}\u{1b}[0m")));
    let over = |word: fn(&Column) -> &str| {
        let cells: Vec<String> =
            columns.iter().map(|printed| format!("{:>1$}", word(printed.column), printed.width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let (titles, units) = (over(|column| &column.title), over(|column| &column.unit));
    text.push(format!("\u{1b}[2m{titles}\u{1b}[0m"));
    if !units.is_empty() {
        text.push(format!("\u{1b}[2m{units}\u{1b}[0m"));
    }
    for line in lines {
        let rows = row(&columns, line, width);
        let failed = line.status == Status::Failed;
        text.extend(rows.into_iter().map(|row| if failed { format!("\u{1b}[31m{row}\u{1b}[0m") } else { row }));
    }
    text
}

/// A heading with what stands in it instead of in a column.
pub(crate) fn whole_heading(heading: &str, declared: Option<&Declared>, lines: &[&CaseLine]) -> String {
    let (_, lifted) = layout(main_table(declared), lines, usize::MAX / 2);
    if lifted.is_empty() { heading.to_owned() } else { format!("{heading}  {}", lifted.join("  ")) }
}

fn cell(column: &Column, line: &CaseLine) -> String {
    view::shown(line, column).unwrap_or_else(|| view::number::NONE.to_owned())
}

/// The columns that these rows have, and what stands in the heading instead of a column.
fn layout<'d>(table: &'d Table, lines: &[&CaseLine], width: usize) -> (Vec<Printed<'d>>, Vec<String>) {
    let (mut columns, mut lifted): (Vec<Printed>, Vec<String>) = Default::default();
    for column in &table.columns {
        let cells = || lines.iter().map(|line| cell(column, line)).filter(|cell| cell != view::number::NONE);
        let first = cells().next();
        match first {
            Some(first) if !column.lifted.is_empty() && cells().all(|cell| cell == first) => {
                lifted.push(column.lifted.replace("{}", &first));
            }
            None if !column.lifted.is_empty() || column.gives_way > 0 => {}
            _ => {
                let words = [column.title.chars().count(), column.unit.chars().count(), room(column.format)];
                let width = cells().map(|cell| cell.chars().count()).chain(words).max().unwrap_or(0);
                columns.push(Printed { column, width });
            }
        }
    }
    let wide = |columns: &[Printed]| columns.iter().map(|printed| printed.width + 2).sum::<usize>() > width + 2;
    while wide(&columns) {
        let most = columns.iter().map(|printed| printed.column.gives_way).max().unwrap_or(0);
        match columns.iter().rposition(|printed| most > 0 && printed.column.gives_way == most) {
            Some(place) => drop(columns.remove(place)),
            None => break,
        }
    }
    (columns, lifted)
}

/// A heading in lines of so many columns, broken between its parts.
fn folded(heading: &str, width: usize) -> Vec<String> {
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

/// A caveat in the words of a table.
fn words(caveat: Caveat) -> String {
    match caveat {
        Caveat::CiAboveTarget => "CI above target".to_owned(),
        other => other.to_string().replace('_', " "),
    }
}

/// One row, with caveats as words at its end. These stand on a line of their own where the row would be too long.
fn row(columns: &[Printed], line: &CaseLine, width: usize) -> Vec<String> {
    let cells: Vec<String> =
        columns.iter().map(|printed| format!("{:>1$}", cell(printed.column, line), printed.width)).collect();
    let (cells, remarks) = (cells.join("  "), remarks(line));
    if remarks.is_empty() {
        return vec![cells];
    }
    if cells.chars().count() + 2 + remarks.chars().count() <= width {
        return vec![format!("{cells}  {remarks}")];
    }
    let below = wrap(&remarks, width.saturating_sub(INDENT).max(20));
    std::iter::once(cells).chain(below.lines().map(|line| format!("{:INDENT$}{line}", ""))).collect()
}

/// Status, missed gates and caveats.
fn remarks(line: &CaseLine) -> String {
    let mut remarks: Vec<String> = Vec::new();
    if line.status != Status::Ok {
        remarks.push(line.status.to_string().to_uppercase());
    }
    if !line.gates_missed.is_empty() {
        remarks.push("GATE".to_owned());
    }
    let caveat = |caveat: &Caveat| match (caveat, line.metrics.get("slow_rank").and_then(Value::as_u64)) {
        (Caveat::SlowRank, Some(rank)) => format!("slow rank {rank}"),
        _ => words(*caveat),
    };
    let caveats = line.caveats.iter().map(caveat).collect::<Vec<_>>().join(", ");
    remarks.extend((!caveats.is_empty()).then_some(caveats));
    remarks.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_say_whether_caches_are_warm() {
        let case = record::plan::from_flags(benchmarks::abouts()[0], &[], &[]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        assert!(heading(&line, Some(&declared())).contains("  cache-warm"), "{}", heading(&line, Some(&declared())));
        line.parameters.insert("cache".into(), "cold".into());
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

    fn line(dtype: &str, bytes: u64) -> CaseLine {
        let case = record::plan::from_flags(benchmarks::abouts()[0], &[], &[]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        (line.dtype, line.bytes) = (Some(dtype.to_owned()), Some(bytes));
        line.metrics.insert("count".into(), (bytes / 4).into());
        line
    }

    /// Without colours.
    fn plain(lines: &[CaseLine], width: usize) -> Vec<String> {
        let lines: Vec<&CaseLine> = lines.iter().collect();
        let text = group("collective  all_reduce", Some(&declared()), &lines, width).join("\n");
        let text = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"].iter().fold(text, |text, code| text.replace(code, ""));
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_the_same_in_all_rows_stands_in_the_heading() {
        let same = plain(&[line("f32", 1024), line("f32", 2048)], 100);
        assert_eq!(same[0], "collective  all_reduce  f32  sum");
        assert!(!same[1].contains("type") && !same[1].contains("op"), "{}", same[1]);
        let both = plain(&[line("f32", 1024), line("f64", 1024)], 100);
        assert!(both[0].ends_with("all_reduce  sum") && both[1].contains("type"), "{both:?}");
    }

    #[test]
    fn strategies_of_training_stand_in_one_table() {
        let about = benchmarks::benchmark("training").unwrap().about();
        let flags = [("strategy", "data,tensor,pipeline"), ("ranks", "2")];
        let flags = flags.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let cases = record::plan::from_flags(about, &flags, &[]).unwrap().cases;
        let declared = Declared::of(about);
        let headings: std::collections::BTreeSet<String> =
            cases.iter().map(|case| heading(&CaseLine::unmeasured(case, Status::Ok, ""), Some(&declared))).collect();
        assert_eq!((cases.len(), headings.len()), (3, 1), "{headings:?}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut noisy = line("f32", 1 << 30);
        noisy.caveats = vec![Caveat::Oversubscribed, Caveat::CiAboveTarget, Caveat::WarmUpNotConverged, Caveat::Noisy];
        for width in [60, 80, 100, 160] {
            let text = plain(&[line("f32", 1024), noisy.clone()], width);
            assert!(text.iter().all(|line| line.chars().count() <= width), "{width}: {text:#?}");
            assert!(text.iter().any(|line| line.contains("oversubscribed")), "{width}: {text:#?}");
        }
        let (narrow, wide) = (plain(&[line("f32", 1024)], 60), plain(&[line("f32", 1024)], 160));
        assert!(!narrow[1].contains("count") && wide[1].contains("count"), "{narrow:?} {wide:?}");
        assert!(narrow[1].contains("busbw") && narrow[1].contains("wrong"), "{narrow:?}");
    }
}
