//! What sets sides apart besides their results, and runs of one side that are to be equal.

use diagnose::compare::{Comparison, Mixed, Topic};
use terms::Named;
use view::number::count;

use super::label::Labels;
use terminal::wrap;

/// Differences that are listed.
const MOST_LISTED: usize = 12;
/// Values of a fact in which equal runs differ.
const MOST_VALUES: usize = 4;
/// Characters of a value that differs.
const LONGEST: usize = 60;

/// What differs apart from results, by topic.
pub(super) fn differences(comparison: &Comparison, labels: &Labels, width: usize) -> String {
    let alike = labels.alike();
    if comparison.differences.is_empty() && alike.is_empty() {
        let known = report::nothing_differs(comparison.imported);
        return format!("{}\n", wrap(known, width));
    }
    let mut text = "what differs\n".to_owned();
    let mut put = |line: &str| {
        text += &format!("  {}\n", wrap(line, width.saturating_sub(2)).replace('\n', "\n    "));
    };
    alike.iter().for_each(|change| put(&format!("all cases {}: {} -> {}", change.name, change.base, change.new)));
    for topic in Topic::ALL {
        let of_topic: Vec<_> = comparison.differences.iter().filter(|difference| difference.topic == *topic).collect();
        for difference in of_topic.iter().take(MOST_LISTED) {
            let both: Vec<&str> =
                [&difference.base, &difference.new].into_iter().flatten().map(String::as_str).collect();
            let short = |value: &Option<String>| value.as_deref().map_or("-".to_owned(), |value| part(value, &both));
            let name = view::one_line(&difference.name);
            put(&format!("{} {name}: {} -> {}", topic.name(), short(&difference.base), short(&difference.new)));
        }
        if of_topic.len() > MOST_LISTED {
            put(&format!("... and {} more", of_topic.len() - MOST_LISTED));
        }
    }
    text
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
            "WARNING: the runs of the {side} are not equal, and what they differ in counts as noise: {}.",
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
