//! The end of a record's part of the page: what the numbers rest on. Plan, machine, versions, environment, method, command.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::CaseLine;

use crate::document::html::{elements, inline, prose};
use crate::document::{Block, Words};
use crate::escape::one_line;
use crate::markup::{Html, html};
use crate::number::{bytes, count};
use crate::page::{cases_without_result, caveats, command_again, method, sensors, summary};
use crate::study::{Operation, section};
use crate::{
    Run, words::damage, words::expected, words::imported, words::labels, words::placement, words::price, words::traffic,
};

/// Values of a parameter that are listed; of more, the ends.
const LISTED: usize = 8;

/// Sections, each with its title and its body as HTML; empty ones are left out.
pub(super) fn sections(run: &Run, operations: &[Operation]) -> Vec<(&'static str, Html)> {
    let of = |blocks: Vec<Block>| elements(&blocks);
    let all = vec![
        ("Communication of a job", of(traffic::table(run))),
        ("Expected figures", of(expected::table(run))),
        ("Price", of(price::blocks(run))),
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

/// Names with what is said of each; None where that says nothing.
fn facts(pairs: impl IntoIterator<Item = (String, Option<Html>)>) -> Html {
    let shown = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let rows: Html = shown.map(|(name, value)| html!("<dt>{}</dt><dd>{}</dd>", one_line(&name), value)).collect();
    if rows.is_empty() { rows } else { html!("<dl class=\"facts\">{}</dl>", rows) }
}

/// What is said, unless it is empty.
fn said(text: &str, shown: impl Fn(&str) -> Html) -> Option<Html> {
    let shown = shown(text);
    (!shown.as_str().trim().is_empty()).then_some(shown)
}

fn plain(text: &str) -> Option<Html> {
    said(text, |text| html!("{}", one_line(text)))
}

fn machine(run: &Run) -> Html {
    let line = |name: &str, value: &str| (name.to_owned(), said(value, prose));
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
fn plan(run: &Run) -> Html {
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
        ((*name).to_owned(), plain(&parts.join("; ")))
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

fn versions(run: &Run) -> Html {
    let backend = |state: &record::BackendState| {
        let parts = [state.version.as_deref(), state.path.as_deref(), state.why.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let ready = if state.ready { "ready, " } else { "missing: " };
        let words = format!(
            "{}{}",
            if parts.is_empty() { ready.trim_end_matches([',', ':', ' ']) } else { ready },
            parts.join(", ")
        );
        (format!("backend {}", state.name), said(&words, |words| inline(&Words::prose(words))))
    };
    let code = |value: &str| Some(html!("<code>{}</code>", one_line(value)));
    let pairs = std::iter::once(("program".to_owned(), plain(&run.program)))
        .chain(run.versions.iter().map(|(name, value)| (name.clone(), plain(value))))
        .chain(run.backends.iter().map(backend))
        .chain(run.environment.iter().map(|(name, value)| (name.clone(), code(value))));
    facts(pairs)
}

fn again(run: &Run) -> Html {
    let mut command = elements(&command_again(run));
    if !command.is_empty() {
        command.literal("<button type=\"button\" data-copy hidden>Copy the command</button>");
    }
    command
}
