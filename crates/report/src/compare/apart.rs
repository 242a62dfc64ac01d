//! What sets sides apart besides their results, and runs of one side that are to be equal.

use diagnose::compare::{Comparison, Mixed, Topic};
use terms::Named;
use view::number::{NONE, count};

use super::labels::Labels;
use crate::document::{Block, Column, Table};

/// Differences that are listed.
const MOST_LISTED: usize = 12;
/// Values of a fact in which equal runs differ.
const MOST_VALUES: usize = 4;
/// Characters of a value that differs.
const LONGEST: usize = 60;

/// What sets other records apart from the base, apart from results, with a column for each; only fields that differ.
pub(super) fn differences(base: &str, others: &[(String, &Comparison, &Labels)]) -> Block {
    let mut fields: Vec<(String, Vec<Option<[String; 2]>>)> = Vec::new();
    for (at, (_, comparison, labels)) in others.iter().enumerate() {
        let mut put = |name: String, both: [String; 2]| {
            let place = fields.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                fields.push((name, vec![None; others.len()]));
                fields.len() - 1
            });
            fields[place].1[at] = Some(both);
        };
        labels
            .alike()
            .into_iter()
            .for_each(|change| put(format!("all cases {}", change.name), [change.base, change.new]));
        for topic in Topic::ALL {
            let of_topic = || comparison.differences.iter().filter(|difference| difference.topic == *topic);
            for difference in of_topic().take(MOST_LISTED) {
                let both = [&difference.base, &difference.new];
                let known: Vec<&str> = both.into_iter().flatten().map(String::as_str).collect();
                let short =
                    |value: &Option<String>| value.as_deref().map_or(NONE.to_owned(), |value| part(value, &known));
                put(format!("{} {}", topic.name(), difference.name), both.map(short));
            }
            let more = of_topic().count().saturating_sub(MOST_LISTED);
            if more > 0 {
                put(format!("{}: {more} more", topic.name()), ["...".to_owned(), "...".to_owned()]);
            }
        }
    }
    if fields.is_empty() {
        let is_imported = others.iter().any(|(_, comparison, _)| comparison.imported);
        let is_changed =
            others.iter().any(|(_, comparison, _)| comparison.cases.iter().any(|case| !case.changes.is_empty()));
        return Block::Paragraph(nothing_differs(is_imported, is_changed).into());
    }
    let values = std::iter::once(base).chain(others.iter().map(|(name, ..)| name.as_str()));
    let values = values.map(|name| Column::left(name).wraps(LONGEST, 16));
    let mut table = Table::new(std::iter::once(Column::left("what differs").wraps(28, 12)).chain(values));
    for (name, row) in fields {
        let first = row.iter().flatten().next().map_or(NONE.to_owned(), |[base, _]| base.clone());
        let others = row.into_iter().map(|both| both.map_or("as the base".to_owned(), |[_, new]| new));
        table.row([name, first].into_iter().chain(others).collect::<Vec<_>>());
    }
    Block::Table(table)
}

/// What is said where no difference is known. Of what another program measured, little but its figures is known.
fn nothing_differs(imported: bool, changed: bool) -> &'static str {
    if changed && !imported {
        "The machine, versions and environment are equal. The rows show how the cases differ."
    } else if imported {
        "No difference is known. Another program measured this, so anything that its file does not record may differ."
    } else {
        "Machine, plan, versions and environment are equal."
    }
}

/// Says that runs which are to be equal are not: what a side is called, and in what its runs differ.
pub(super) fn mixed(side: &str, of: &[Mixed]) -> Option<String> {
    let one = |mixed: &Mixed| {
        let all: Vec<&str> = mixed.values.iter().map(|(value, _)| value.as_str()).collect();
        let values = mixed.values.iter().take(MOST_VALUES);
        let values = values.map(|(value, runs)| format!("{} ({})", part(value, &all), count(*runs, "run", "runs")));
        let more = mixed.values.len().saturating_sub(MOST_VALUES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} {}{more}", view::one_line(&mixed.name), values.collect::<Vec<_>>().join(", "))
    };
    let all: Vec<String> = of.iter().take(MOST_LISTED).map(one).collect();
    (!all.is_empty()).then(|| {
        format!(
            "WARNING: the runs of the {side} are not equal, so their differences count as noise: {}.",
            all.join("; ")
        )
    })
}

/// A value on one line, cut where it is long.
fn cut(value: &str) -> String {
    let value = view::one_line(value);
    if value.chars().count() <= LONGEST { value } else { value.chars().take(LONGEST - 3).collect::<String>() + "..." }
}

/// What of a long value sets it apart from others: without the words at its begin and end that all have.
fn part(value: &str, all: &[&str]) -> String {
    if value.chars().count() <= LONGEST || all.len() < 2 {
        return cut(value);
    }
    let words: Vec<Vec<&str>> = all.iter().map(|value| value.split_whitespace().collect()).collect();
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    let alike = |at: usize, from_end: bool| {
        let word =
            |words: &Vec<&str>| if from_end { words[words.len() - 1 - at].to_owned() } else { words[at].to_owned() };
        words.iter().all(|other| word(other) == word(&words[0]))
    };
    let begin = (0..shortest).take_while(|at| alike(*at, false)).count();
    let end = (0..shortest - begin).take_while(|at| alike(*at, true)).count();
    // The name of an option stands before its value.
    let begin = begin.saturating_sub(1);
    let own: Vec<&str> = value.split_whitespace().collect();
    let middle = own[begin..own.len() - end].join(" ");
    let left_out = |is_cut: bool| is_cut.then(|| "...".to_owned());
    let parts: Vec<String> = left_out(begin > 0).into_iter().chain([middle]).chain(left_out(end > 0)).collect();
    cut(&parts.join(" "))
}
