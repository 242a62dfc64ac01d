//! Several records against one base: a row for each case, a column for each record.

use std::collections::HashMap;

use diagnose::compare::Compared;
use view::number::{self, count};

use super::apart::differences;
use super::label::Labels;
use super::side::Side;
use super::sources::Source;
use super::text::{case_column, notes, sentence, value, warnings, word};
use crate::screen;
use terminal::{Column, Row, Style, Table, wrap};

pub(super) fn comparison_text(base: &Source, sides: &[Side], limit: usize) -> String {
    let width = screen::width();
    let mut text = format!("{}\n", wrap(&format!("base {}", base.shown()), width));
    for (number, side) in sides.iter().enumerate() {
        let labels = Labels::new(base.latest(), &side.comparison);
        let line = format!("{}  {}: {}", letter(number), view::one_line(&side.name), sentence(side, &labels));
        text += &format!("{}\n", wrap(&line, width).replace('\n', "\n   "));
        text += &warnings(&side.comparison, width);
    }
    text.push('\n');
    text += &table(base, sides, width, limit);
    for (number, side) in sides.iter().enumerate() {
        let labels = Labels::new(base.latest(), &side.comparison);
        let name = format!("{}  {}", letter(number), view::one_line(&side.name));
        text += &format!("\n{}\n", Style::Bold.paint(&name));
        text += &differences(&side.comparison, &labels, width);
        text += &notes(&side.comparison, &labels, width);
    }
    text
}

/// What a record is called in the table: B, C, ... Z, then by its number.
fn letter(number: usize) -> String {
    u8::try_from(number)
        .ok()
        .filter(|number| *number < 25)
        .map_or_else(|| format!("#{}", number + 2), |number| char::from(b'B' + number).to_string())
}

fn table(base: &Source, sides: &[Side], width: usize, limit: usize) -> String {
    let of_side: Vec<HashMap<&str, &Compared>> = sides
        .iter()
        .map(|side| side.comparison.cases.iter().map(|case| (case.base.id.as_str(), case)).collect())
        .collect();
    let sides_of = (0..sides.len()).map(|number| Column::right(letter(number)));
    let mut table = Table::new([case_column(), Column::right("base")].into_iter().chain(sides_of));
    let labels = Labels::new(base.latest(), &sides[0].comparison);
    let rows: Vec<&record::CaseLine> = base.latest().cases.iter().collect();
    let with_any = rows.iter().filter(|line| of_side.iter().any(|cases| cases.contains_key(line.id.as_str())));
    let total = with_any.clone().count();
    for line in with_any.take(limit) {
        let found: Vec<Option<&&Compared>> = of_side.iter().map(|cases| cases.get(line.id.as_str())).collect();
        let first = found.iter().flatten().find_map(|case| Some(value(case, case.values?[0])));
        let mut row = vec![labels.line(line), first.unwrap_or_else(|| "-".to_owned())];
        row.extend(found.iter().map(|case| match case {
            Some(case) => {
                let ratio = case.ratio.map_or(String::new(), |ratio| format!("{} ", number::ratio(ratio)));
                format!("{ratio}{}", word(case.verdict).0)
            }
            None => "-".to_owned(),
        }));
        table.push(Row::new(row));
    }
    let more = total.saturating_sub(limit);
    let rest =
        if more > 0 { format!("... and {} (--all)\n", count(more, "more case", "more cases")) } else { String::new() };
    table.lines(width).iter().map(|line| format!("{line}\n")).collect::<String>() + &rest
}
