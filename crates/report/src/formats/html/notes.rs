//! The end of a record's part of the page: what the numbers rest on. Plan, machine, versions, environment, method, command.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::CaseLine;

use crate::document::html::{html, inline, prose};
use crate::document::{Block, Words};
use crate::escape::{one_line, xml as escape};
use crate::number::{bytes, count};
use crate::page::{cases_without_result, caveats, command_again, method, sensors, summary};
use crate::study::{Operation, section};
use crate::{Run, words::damage, words::expected, words::imported, words::labels, words::placement, words::traffic};

/// Values of a parameter that are listed; of more, the ends.
const LISTED: usize = 8;

/// Sections, each with its title and its body as HTML; empty ones are left out.
pub(super) fn sections(run: &Run, operations: &[Operation]) -> Vec<(&'static str, String)> {
    let of = |blocks: Vec<Block>| html(&blocks);
    let all = vec![
        ("Communication of a job", of(traffic::table(run))),
        ("Expected figures", of(expected::table(run))),
        ("Summary by configuration", of(summary(operations))),
        ("Cases that need attention", of(cases_without_result(run))),
        ("Damaged lines", of(damage::list(run))),
        ("Caveats", of(caveats(run))),
        ("Imported file", of(imported::blocks(run))),
        ("Machine", machine(run)),
        ("Placement", of(placement::blocks(run))),
        ("Plan", plan(run)),
        ("Versions and environment", versions(run)),
        ("Method", of(method(run))),
        ("Run it again", again(run)),
    ];
    all.into_iter().filter(|(_, body)| !body.is_empty()).collect()
}

fn facts(pairs: impl IntoIterator<Item = (String, String)>) -> String {
    let shown = pairs.into_iter().filter(|(_, value)| !value.trim().is_empty());
    let rows: String =
        shown.map(|(name, value)| format!("<dt>{}</dt><dd>{value}</dd>", escape(&one_line(&name)))).collect();
    if rows.is_empty() { String::new() } else { format!("<dl class=\"facts\">{rows}</dl>") }
}

fn machine(run: &Run) -> String {
    let line = |name: &str, value: &str| (name.to_owned(), prose(value));
    let mut pairs = vec![
        line("Machine", &run.machine),
        line("Sensors", &sensors(run)),
        line("Limits", &run.profiles.join("; ")),
        line("Merged from", &run.merged.join("; ")),
        line("Imported", &imported::line(run)),
        line("Record", &run.notes.join("; ")),
    ];
    pairs.extend(labels::facts(&run.labels).map(|(name, value)| line(name, &value)));
    facts(pairs)
}

/// What was measured: for each section its cases, and the parameters that have several values.
fn plan(run: &Run) -> String {
    let mut values: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    let mut sizes: BTreeMap<(&str, &str), BTreeSet<u64>> = BTreeMap::new();
    // The name of each section, the number of its cases, and the last of them.
    let mut numbers: Vec<(&str, usize, &CaseLine)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for case in &run.cases {
        let name = section(case, run.benchmarks.iter().find(|declared| declared.name == case.benchmark));
        let place = *places.entry(name).or_insert(numbers.len());
        let last = match numbers.get_mut(place) {
            Some((_, number, last)) => {
                *number += 1;
                Some(std::mem::replace(last, case))
            }
            None => {
                numbers.push((name, 1, case));
                None
            }
        };
        for (place, (parameter, value)) in case.parameters.iter().enumerate() {
            let known = last.and_then(|last| last.parameters.iter().nth(place));
            // Equal values of a record are one in memory: most were looked at in the case before.
            if known.is_some_and(|(other, known)| std::ptr::eq(known, value) && other == parameter) {
                continue;
            }
            match value.as_u64() {
                Some(number) => drop(sizes.entry((name, parameter)).or_default().insert(number)),
                None => drop(values.entry((name, parameter)).or_default().insert(one_line(&view::plain(value)))),
            }
        }
    }
    let described = |(name, number, _): &(&str, usize, &CaseLine)| {
        let words = of_section(&values, name).filter(|(_, values)| values.len() > 1);
        let words = words.map(|(parameter, values)| format!("{parameter} {}", listed(values.iter().cloned())));
        let whole = of_section(&sizes, name).filter(|(_, values)| values.len() > 1);
        let whole = whole.map(|(parameter, values)| {
            let text = |value: &u64| if parameter == "bytes" { bytes(*value) } else { value.to_string() };
            format!("{parameter} {}", listed(values.iter().map(text)))
        });
        let parts: Vec<String> = [count(*number, "case", "cases")].into_iter().chain(whole).chain(words).collect();
        ((*name).to_owned(), escape(&one_line(&parts.join("; "))))
    };
    facts(numbers.iter().map(described))
}

/// The entries of a section, by parameter.
fn of_section<'v, V>(
    all: &'v BTreeMap<(&'v str, &'v str), V>,
    name: &'v str,
) -> impl Iterator<Item = (&'v str, &'v V)> {
    let from = all.range((name, "")..);
    from.take_while(move |((of, _), _)| *of == name).map(|((_, parameter), values)| (*parameter, values))
}

fn listed(values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    match values.as_slice() {
        [first, .., last] if values.len() > LISTED => format!("{first} to {last} ({} values)", values.len()),
        few => few.join(", "),
    }
}

fn versions(run: &Run) -> String {
    let backend = |state: &record::BackendState| {
        let parts = [state.version.as_deref(), state.path.as_deref(), state.why.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let ready = if state.ready { "ready, " } else { "missing: " };
        let words = format!(
            "{}{}",
            if parts.is_empty() { ready.trim_end_matches([',', ':', ' ']) } else { ready },
            parts.join(", ")
        );
        (format!("backend {}", state.name), inline(&Words::prose(&words)))
    };
    let program = ("program".to_owned(), escape(&one_line(&run.program)));
    let pairs = std::iter::once(program)
        .chain(run.versions.iter().map(|(name, value)| (name.clone(), escape(&one_line(value)))))
        .chain(run.backends.iter().map(backend))
        .chain(
            run.environment
                .iter()
                .map(|(name, value)| (name.clone(), format!("<code>{}</code>", escape(&one_line(value))))),
        );
    facts(pairs)
}

fn again(run: &Run) -> String {
    let command = html(&command_again(run));
    if command.is_empty() {
        return command;
    }
    format!("{command}<button type=\"button\" data-copy hidden>Copy the command</button>")
}
