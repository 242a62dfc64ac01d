//! Every case of a section as compact data: the rows of its table, and what a row opens.

use std::collections::BTreeMap;

use record::show::{Column, Format};
use record::{CaseLine, Caveat};
use terms::{Named as _, Status};
use view::{number_at, shown, value_at};

use super::{json, pack};
use crate::markup::{Json, Literal};
use crate::number::{percent, seconds, three_digits};
use crate::study::Operation;
use crate::words::caveats::{Wording, mark};
use crate::words::layout::{Case, Cell, Layout};
use crate::words::results::is_told;

/// Significant digits of a cell: rounded to the three that are shown, it is what the exact value is rounded to.
const DIGITS: usize = 7;

/// What the samples of each case are, by identity: quantiles, or the samples themselves where these are fewer.
pub(super) type Quantiles = BTreeMap<String, Vec<f64>>;

/// A section for the script; at most `most` rows.
pub(super) fn section(operation: &Operation, layout: &Layout, quantiles: &Quantiles, most: usize) -> Json {
    let columns: Vec<(&Column, bool)> = layout.shown.iter().chain(&layout.hidden).filter_map(declared_of).collect();
    let all = operation.configurations.iter();
    let mut cases: Vec<(usize, Case)> = all
        .enumerate()
        .flat_map(|(group, configuration)| configuration.cases.iter().map(move |case| (group, (configuration, *case))))
        .collect();
    cases.sort_by_key(|(group, (_, case))| (*group, case.bytes));
    let groups = operation.configurations.iter().map(|configuration| {
        let text = |cell: Cell| {
            let of = |case: &&CaseLine| layout.text(&cell, &(configuration, *case));
            json::line(&configuration.cases.first().and_then(of).unwrap_or_default())
        };
        json::array([text(Cell::Backend), text(Cell::Variant)])
    });
    let rows = cases.iter().take(most).map(|(group, (_, case))| {
        let cells = columns.iter().map(|(column, found)| cell(case, column, *found));
        row(case, *group, json::array(cells), quantiles.get(&case.id))
    });
    let mut place = 0;
    let mut heads = Vec::new();
    for (at, cell) in layout.shown.iter().chain(&layout.hidden).enumerate() {
        heads.push(head(cell, at >= layout.shown.len(), &mut place));
    }
    let most = (0..Caveat::ALL.len()).filter(|at| layout.caveats.has(Caveat::ALL[*at]));
    json::object([
        ("n", json::line(&operation.name)),
        ("c", json::array(heads)),
        ("apart", json::whole(layout.apart as u64)),
        ("most", json::array(most.map(|at| json::whole(at as u64)))),
        ("g", json::array(groups)),
        ("r", json::array(rows)),
        ("all", json::whole(cases.len() as u64)),
    ])
}

fn declared_of<'d>(cell: &Cell<'d>) -> Option<(&'d Column, bool)> {
    if let Cell::Declared(column, found) = cell { Some((column, *found)) } else { None }
}

/// Title, unit, how it is written, the name in `cases.csv`, how a value reads without its title, whether it is not shown, and
/// the place in the cells of a row: -1 and -2 are of its group, -3 is its caveats.
fn head(cell: &Cell, hidden: bool, place: &mut u64) -> Json {
    let (title, unit, format, source, at) = match cell {
        Cell::Declared(column, _) => {
            *place += 1;
            let at = json::whole(*place - 1);
            (column.title.as_str(), column.unit.as_str(), format_of(column), column.source.as_str(), at)
        }
        Cell::Backend => ("backend", "", "word", "backend", Literal("-1").into()),
        Cell::Variant => ("variant", "", "word", "variant", Literal("-2").into()),
        Cell::Caveats => ("caveats", "", "word", "caveats", Literal("-3").into()),
    };
    let texts = [title, unit, format, source, &cell.phrase()].map(json::line);
    json::array(texts.into_iter().chain([json::flag(hidden), at]))
}

const fn format_of(column: &Column) -> &'static str {
    match column.format {
        Format::Word | Format::Switch | Format::FirstAndLast | Format::Each => "word",
        Format::Count => "count",
        Format::Number => "number",
        Format::Bytes => "bytes",
        Format::Seconds => "seconds",
        Format::Share | Format::Bounded | Format::Precision => "share",
        Format::Change => "change",
    }
}

/// A number as it is, so that it sorts; a text where the cell says more than a number.
fn cell(case: &CaseLine, column: &Column, found: bool) -> Json {
    let none = json::null;
    let Some(text) = shown(case, column).filter(|_| is_told(case, column, found)) else { return none() };
    let number = || number_at(case, &column.source);
    match column.format {
        Format::Word | Format::Switch | Format::FirstAndLast | Format::Each => json::line(&text),
        Format::Count => value_at(case, &column.source).and_then(|value| value.as_u64()).map_or_else(none, json::whole),
        Format::Precision => precision(case, column).map_or_else(none, |share| {
            let number = json::rounded(share, DIGITS);
            // Its text says no size, and the script would.
            if share > 1.0 { json::array([number, json::line(&text)]) } else { number }
        }),
        Format::Bytes => number().map_or_else(none, |bytes| json::rounded(bytes, 20)),
        _ => {
            let number = number().map_or_else(none, |value| json::rounded(value, DIGITS));
            let read = number.as_str().parse().ok().map(|value| match column.format {
                Format::Seconds => seconds(value),
                Format::Share | Format::Bounded => percent(value),
                _ => three_digits(value),
            });
            // What lies halfway between two may fall on the other side.
            let falls = column.format != Format::Change && read.is_some_and(|read| read != text);
            let more = text.contains('±') || !column.word.is_empty() || falls;
            if more { json::array([number, json::line(&text)]) } else { number }
        }
    }
}

fn precision(case: &CaseLine, column: &Column) -> Option<f64> {
    let [low, high] = view::ends(case, if column.ends.is_empty() { &column.source } else { &column.ends })?;
    Some((high - low) / 2.0 / number_at(case, &column.source).filter(|mid| *mid > 0.0)?)
}

/// `[id, group, status, cells, caveats, median, low, high, trials, quantiles, samples, ranks, reason]`; what is missing at its
/// end is left out.
fn row(case: &CaseLine, group: usize, cells: Json, quantiles: Option<&Vec<f64>>) -> Json {
    let none = || json::flag(false);
    let place = |status: Status| Status::ALL.iter().position(|other| *other == status).unwrap_or(0);
    let caveats = case.caveats.iter().map(|caveat| json::whole(caveat_place(*caveat) as u64));
    let mut parts =
        vec![json::line(&case.id), json::whole(group as u64), json::whole(place(case.status) as u64), cells];
    parts.push(json::array(caveats));
    let time = case.time_s.as_ref().filter(|time| time.median > 0.0);
    if let Some(time) = time {
        let median = time.median;
        let number = |value: f64| json::rounded(value, DIGITS);
        let ends = time.printed().map_or_else(|| [none(), none()], |(ends, _)| ends.map(number));
        parts.push(number(median));
        parts.extend(ends);
        let packed = |times: &[f64]| if times.is_empty() { none() } else { json::text(&pack::pack(times, median)) };
        parts.push(packed(&case.trial_median_s));
        parts.push(quantiles.map_or_else(none, |times| packed(times)));
        parts.push(case.samples.map_or_else(none, json::whole));
        let ranks = case.per_rank_median_s.as_deref().filter(|ranks| ranks.len() > 1 && ranks.len() <= RANKS);
        parts.push(ranks.map_or_else(none, packed));
    } else {
        parts.extend(std::iter::repeat_with(none).take(7));
    }
    let missed = case.gates_missed.iter().map(|gate| format!("gate missed: {gate}"));
    let reasons: Vec<String> = case.reason.clone().into_iter().chain(missed).collect();
    parts.push(if reasons.is_empty() { none() } else { json::line(&reasons.join("; ")) });
    while parts.last().is_some_and(|part| part.as_str() == "0") {
        parts.pop();
    }
    json::array(parts)
}

/// Medians of ranks that a row opens at most.
const RANKS: usize = 64;

/// The place of a caveat in [`vocabulary`].
fn caveat_place(caveat: Caveat) -> usize {
    Caveat::ALL.iter().position(|other| *other == caveat).unwrap_or(0)
}

/// The words that rows name by their places: statuses, and caveats with what they mean, their marks and their plain words.
pub(super) fn vocabulary(wording: Wording) -> [(&'static str, Json); 2] {
    let statuses = Status::ALL.iter().map(|status| json::text(&status.name().replace('_', " ")));
    let caveats = Caveat::ALL.iter().map(|caveat| {
        let texts = [caveat.name(), &wording.explanation(*caveat), mark(*caveat), &wording.words(*caveat)];
        json::array(texts.map(json::text))
    });
    [("status", json::array(statuses)), ("caveats", json::array(caveats))]
}
