//! Rows of the live table: one heading for each kind of case, and below it a row for a case, or for those that stand side by
//! side.

use record::show::{Column, Format, Table};
use record::{CaseLine, Declared};
use terms::Status;
use view::Pivot;
use view::terminal::{self, Row, Side, Style};

use super::heading::{folded, lifted, main_table, quiet_parts, whole_heading};
use super::joined;
use super::remarks::remarks;
use crate::caveats::Shared;

/// Room that cells of a format take, so that a table does not jump while its rows improve.
fn room(format: Format) -> usize {
    match format {
        Format::Bytes | Format::Seconds => 9,
        Format::Number => 7,
        Format::Change => 6,
        Format::Share
        | Format::Bounded
        | Format::Precision
        | Format::Count
        | Format::Word
        | Format::Switch
        | Format::FirstAndLast
        | Format::Each => 5,
    }
}

/// Columns that what rows differ in has before others give way, and at least.
const CASE: [usize; 2] = [32, 14];

/// The rows under one heading.
struct HeadingRows<'c> {
    /// What stands above each group of columns; none where a row is one case.
    labels: Vec<String>,
    /// The cases of each row.
    rows: Vec<Vec<Option<&'c CaseLine>>>,
}

impl<'c> HeadingRows<'c> {
    /// A row for each case.
    fn single(lines: &[&'c CaseLine]) -> Self {
        Self { labels: Vec::new(), rows: lines.iter().map(|line| vec![Some(*line)]).collect() }
    }

    /// Cases that differ in the table's pivot side by side, if it has a pivot with several values.
    fn side_by_side(table: &Table, declared: Option<&Declared>, lines: &[&'c CaseLine]) -> Option<Self> {
        let Pivot { values, rows } = Pivot::new(&table.pivot, lines).filter(|_| !table.pivot.is_empty())?;
        let label = |value| view::label_of(declared, &table.pivot, &view::plain(value));
        Some(Self { labels: values.into_iter().map(label).collect(), rows })
    }
}

/// The lines of one group of rows: heading, titles, units, and its rows, in at most `width` columns. Without room
/// for cases side by side, each value has its own table.
/// What is said of all rows of the run is left out of each.
pub(super) fn group(declared: Option<&Declared>, lines: &[&CaseLine], said: &Shared, width: usize) -> Vec<String> {
    let table = main_table(declared);
    if let Some(side_by_side) = HeadingRows::side_by_side(table, declared, lines) {
        let drawn = of_rows((table, declared), lines, &side_by_side, said);
        if drawn.fits(width) {
            return under(&whole_heading(declared, lines), &drawn, width);
        }
    }
    let mut apart: Vec<Vec<&CaseLine>> = Vec::new();
    for line in lines {
        let of = |line: &CaseLine| line.parameters.get(&table.pivot).cloned();
        match apart.iter_mut().find(|members| of(members[0]) == of(line)) {
            Some(members) => members.push(line),
            None => apart.push(vec![line]),
        }
    }
    let one = |members: &Vec<&CaseLine>| {
        let drawn = of_rows((table, declared), members, &HeadingRows::single(members), said);
        under(&whole_heading(declared, members), &drawn, width)
    };
    apart.iter().flat_map(one).collect()
}

/// The lines of one table of all cases of a benchmark, whose rows begin with what is their own.
pub(super) fn joined(declared: Option<&Declared>, lines: &[&CaseLine], said: &Shared, width: usize) -> Vec<String> {
    let table = main_table(declared);
    let words = joined::words(lines, declared);
    let plain = Table {
        columns: table.columns.iter().filter(|column| column.lifted.is_empty()).cloned().collect(),
        ..Table::default()
    };
    let drawn = with_labels(&plain, lines, &HeadingRows::single(lines), said, &words.labels);
    under(&words.heading, &drawn, width)
}

/// A table below its heading.
fn under(heading: &str, table: &terminal::Table, width: usize) -> Vec<String> {
    let heading = folded(heading, width).into_iter().map(|part| Style::Bold.paint(&part));
    let left_out = table.left_out(width);
    let words = format!("no room here for {}: see the report", left_out.join(", "));
    let told = if left_out.is_empty() { String::new() } else { terminal::wrap(&words, width) };
    let told = told.lines().map(|line| Style::Dim.paint(line));
    std::iter::once(String::new()).chain(heading).chain(table.lines(width)).chain(told).collect()
}

/// The rows in the columns that their benchmark declares, behind what they differ in and no column shows.
fn of_rows(
    (table, declared): (&Table, Option<&Declared>),
    lines: &[&CaseLine],
    rows: &HeadingRows,
    said: &Shared,
) -> terminal::Table {
    let firsts: Vec<&CaseLine> = rows.rows.iter().filter_map(|cases| cases.iter().flatten().next().copied()).collect();
    let names: Vec<String> = quiet_parts(&firsts, declared).iter().map(|parts| parts.join(", ")).collect();
    let names = if names.iter().all(String::is_empty) { Vec::new() } else { names };
    with_labels(table, lines, rows, said, &names)
}

/// The rows, each behind a label where there are any.
fn with_labels(
    table: &Table,
    lines: &[&CaseLine],
    rows: &HeadingRows,
    said: &Shared,
    names: &[String],
) -> terminal::Table {
    let (columns, _) = lifted(table, lines);
    let each = |at: &usize| columns[*at].each && !rows.labels.is_empty();
    let first = (0..columns.len()).find(each).unwrap_or(columns.len());
    // Each column with the case of a row that it shows; None: what all of them have.
    let mut shown: Vec<(usize, Option<usize>)> = (0..first).map(|at| (at, None)).collect();
    for place in 0..rows.labels.len() {
        shown.extend((0..columns.len()).filter(each).map(|at| (at, Some(place))));
    }
    shown.extend((first..columns.len()).filter(|at| !each(at)).map(|at| (at, None)));
    let printed = shown.iter().map(|(at, place)| {
        let column = printed(columns[*at]);
        place.map_or(column.clone(), |place| column.in_group(place, *at))
    });
    let [preferred, fewest] = CASE;
    let named = (!names.is_empty()).then(|| terminal::Column::left("case").wraps(preferred, fewest));
    let mut drawn = terminal::Table::new(named.into_iter().chain(printed)).groups(rows.labels.iter().cloned());
    for (number, cases) in rows.rows.iter().enumerate() {
        let failed = cases.iter().flatten().any(|line| line.status == Status::Failed);
        let cells = shown.iter().map(|(at, place)| cell(columns[*at], *place, cases));
        let label = |place: usize| rows.labels.get(place).map_or("", String::as_str);
        let labelled: Vec<(&str, &CaseLine)> =
            cases.iter().enumerate().filter_map(|(place, case)| Some((label(place), (*case)?))).collect();
        let row = Row::new(names.get(number).cloned().into_iter().chain(cells)).remarks(remarks(&labelled, said));
        drawn.push(if failed { row.style(Style::Red) } else { row });
    }
    drawn
}

/// A declared column as a terminal prints it.
fn printed(column: &Column) -> terminal::Column {
    let side = if column.format == Format::Word { Side::Left } else { Side::Right };
    let printed = terminal::Column::new(view::one_line(&column.title), side).unit(view::one_line(&column.unit));
    printed.at_least(room(column.format)).gives_way(column.gives_way)
}

fn cell(column: &Column, place: Option<usize>, cases: &[Option<&CaseLine>]) -> String {
    let case = match place {
        Some(place) => cases[place],
        None => cases.iter().flatten().next().copied(),
    };
    case.and_then(|line| view::shown(line, column)).unwrap_or_else(|| view::number::NONE.to_owned())
}

#[cfg(test)]
mod tests {
    use record::{Caveat, TimeSummary};

    use super::*;

    fn declared() -> Declared {
        Declared::of(benchmarks::abouts()[0])
    }

    fn line(dtype: &str, bytes: u64) -> CaseLine {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        (line.dtype, line.bytes) = (Some(dtype.to_owned()), Some(bytes));
        line.metrics.insert("count", (bytes / 4).into());
        line
    }

    /// Without colours.
    fn plain(lines: &[CaseLine], width: usize) -> Vec<String> {
        let lines: Vec<&CaseLine> = lines.iter().collect();
        let text = terminal::output(&group(Some(&declared()), &lines, &Shared::default(), width).join("\n"));
        let text = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m"].iter().fold(text, |text, code| text.replace(code, ""));
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn what_is_the_same_in_all_rows_stands_in_the_heading() {
        let same = plain(&[line("f32", 1024), line("f32", 2048)], 100);
        assert_eq!(same[0], "collective  all_reduce  shm  in place  registered buffers  cache-warm  f32  sum");
        assert!(!same[1].contains("type") && !same[1].contains("op"), "{}", same[1]);
        let both = plain(&[line("f32", 1024), line("f64", 1024)], 100);
        assert!(both[0].ends_with("cache-warm  sum") && both[1].contains("type"), "{both:?}");
    }

    #[test]
    fn words_begin_together_and_numbers_end_together() {
        let mut long = line("bf16", 1024);
        long.dtype = Some("bfloat16".to_owned());
        let text = plain(&[line("f32", 100 << 20), long], 160);
        let at =
            |word: &str| text.iter().find_map(|line| line.find(word)).unwrap_or_else(|| panic!("{word}: {text:#?}"));
        assert_eq!((at("type"), at("f32")), (at("bfloat16"), at("bfloat16")), "{text:#?}");
        assert_eq!(at("MiB"), at("KiB"), "{text:#?}");
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
        let titles = |width| {
            let mut line = line("f32", 1024);
            line.metrics.insert("limit_share", 0.5.into());
            line.metrics.insert("busbw_gbs", 1.0.into());
            plain(&[line], width).into_iter().find(|line| line.contains("bytes ")).unwrap()
        };
        let (narrow, wide) = (titles(60), titles(160));
        assert!(!narrow.contains("count") && wide.contains("count"), "{narrow} {wide}");
        let told = |width| {
            let mut line = line("f32", 1024);
            line.metrics.insert("limit_share", 0.5.into());
            line.metrics.insert("busbw_gbs", 1.0.into());
            plain(&[line], width).pop().unwrap()
        };
        assert!(told(60).starts_with("no room here for ") && told(60).contains("count"), "{}", told(60));
        assert!(!told(160).contains("no room"), "{}", told(160));
        assert!(["±95%", "busbw", "limit", "wrong"].iter().all(|title| narrow.contains(title)), "{narrow}");
    }

    /// Cases of two sizes in place and out of place, measured.
    fn both_ways() -> Vec<CaseLine> {
        let flags = [("in_place", "true,false"), ("bytes", "64KiB,1MiB")];
        let cases = record::plan::from_flags(benchmarks::abouts()[0], &flags, &[]).unwrap().cases;
        let measured = |case: &record::Case| {
            let mut line = CaseLine::unmeasured(case, Status::Ok, "");
            let median = if case.flag("in_place") { 1e-6 } else { 2e-6 };
            let interval = Some([median * 0.99, median * 1.01]);
            line.time_s = Some(TimeSummary { median, ci95: interval, ..TimeSummary::default() });
            line.wrong = Some(0);
            for (name, value) in [("algbw_gbs", 11.5), ("busbw_gbs", 12.5), ("limit_share", 0.875)] {
                line.metrics.insert(name, value.into());
            }
            line.metrics.insert("count", 1_048_576.into());
            line
        };
        cases.iter().map(measured).collect()
    }

    #[test]
    fn both_ways_of_a_call_share_a_row_at_every_width() {
        for (width, columns) in [
            (79, "bytes  ranks  time  busbw  wrong  time  busbw  wrong"),
            (99, "bytes  ranks  time  ±95%  busbw  limit  wrong  time  ±95%  busbw  limit  wrong"),
            (
                159,
                "bytes  count  ranks  time  ±95%  algbw  busbw  limit  wrong  time  ±95%  algbw  busbw  limit  wrong",
            ),
        ] {
            let text = plain(&both_ways(), width);
            let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join("  ");
            assert!(!text[0].contains("place"), "{text:#?}");
            assert_eq!(words(&text[1].replace('-', "")), "out  of  place  in  place", "{text:#?}");
            assert_eq!(words(&text[2]), columns, "{text:#?}");
            let rows: Vec<&String> = text.iter().filter(|line| line.contains("iB")).collect();
            assert_eq!(rows.len(), 2, "a row for each size: {text:#?}");
            // Out of place on the left, as its label says.
            let (out, within) = (rows[0].find("2.00 us").unwrap(), rows[0].find("1.00 us").unwrap());
            assert!(out < within && text[1].find("out of place") < text[1].find(" in place"), "{text:#?}");
            assert!(text.iter().all(|line| line.chars().count() <= width), "{width}: {text:#?}");
        }
    }

    #[test]
    fn without_room_both_ways_have_a_table_each() {
        let narrow = plain(&both_ways(), 60);
        let headings: Vec<&String> = narrow.iter().filter(|line| line.contains("all_reduce")).collect();
        assert_eq!(headings.len(), 2, "{narrow:#?}");
        assert!(headings[0].contains("  in place") && headings[1].contains("  out of place"), "{narrow:#?}");
        assert!(narrow.iter().all(|line| line.chars().count() <= 60), "{narrow:#?}");
        // What has one form, or ran in one, stands alone at any width.
        let alone = plain(&both_ways()[..2], 159);
        assert!(alone[0].contains("  in place") && !alone[1].contains("place"), "{alone:#?}");
    }

    #[test]
    fn remarks_of_one_way_say_which() {
        let mut lines = both_ways();
        lines.iter_mut().for_each(|line| line.caveats = vec![Caveat::Noisy]);
        let within = lines.iter_mut().find(|line| line.parameters["in_place"] == true).unwrap();
        within.caveats.push(Caveat::CiAboveTarget);
        for width in [79, 159] {
            let text = plain(&lines, width).join("\n");
            assert!(text.contains("noisy; in place: CI above target"), "{text}");
        }
    }

    #[test]
    fn rows_that_differ_in_their_seed_alone_say_it() {
        let seeded = |seed: u64| {
            let mut line = line("f32", 1024);
            line.parameters.insert("seed", seed.into());
            line
        };
        let text = plain(&[seeded(1), seeded(2)], 100);
        assert!(text.iter().any(|row| row.starts_with("seed 1 ")), "{text:#?}");
        assert!(text.iter().any(|row| row.starts_with("seed 2 ")), "{text:#?}");
        assert!(!plain(&[seeded(1), seeded(1)], 100).join("").contains("seed"));
    }

    #[test]
    fn a_record_without_a_pivot_still_has_its_tables() {
        let mut declared = serde_json::to_value(declared()).unwrap();
        let table = declared["show"]["tables"][0].as_object_mut().unwrap();
        assert_eq!(table.remove("pivot"), Some("in_place".into()));
        for column in table["columns"].as_array_mut().unwrap() {
            column.as_object_mut().unwrap().remove("each").unwrap();
        }
        let older: Declared = serde_json::from_value(declared).unwrap();
        let lines = both_ways();
        let headings: std::collections::BTreeSet<String> =
            lines.iter().map(|line| super::super::heading::heading(line, Some(&older))).collect();
        assert_eq!(headings.len(), 2, "{headings:?}");
        let text = group(Some(&older), &lines[..2].iter().collect::<Vec<_>>(), &Shared::default(), 159).join("\n");
        assert!(text.contains("  in place") && text.contains("busbw"), "{text}");
    }
}
