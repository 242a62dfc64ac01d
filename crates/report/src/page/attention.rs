//! Cases that ended without a result, or with one that needs attention.

use std::collections::HashMap;

use record::{CaseLine, Caveat, WrongElement};
use terms::{Named as _, Status};

use crate::Run;
use crate::document::{Block, Item, Words, code, strong};
use crate::escape::one_line;
use crate::number::{list, thousands};
use crate::words::names::described;

/// Cases of one reason that are named; more are counted.
const NAMED: usize = 3;
/// Wrong elements of them that are shown.
const ELEMENTS: usize = 4;

/// Failed, skipped and not run, with reasons, and how to run just these.
pub(crate) fn cases_without_result(run: &Run) -> Vec<Block> {
    let groups = by_reason(run);
    let mut items: Vec<Item> = groups.iter().map(group).collect();
    for case in run.cases.iter().filter(|case| case.caveats.contains(&Caveat::Restarted)) {
        let reason = case.reason.as_deref().unwrap_or_default();
        items.push(Words::prose(&format!("{} {}: {reason}", strong("restarted"), described(case))).into());
    }
    for case in run.cases.iter().filter(|case| case.status == Status::Ok && !case.gates_missed.is_empty()) {
        let missed = case.gates_missed.join("; ");
        items.push(format!("{} {}: {missed}", strong("gate missed"), described(case)).into());
    }
    let unwell: Vec<&CaseLine> = groups.iter().flat_map(|group| group.cases.iter().copied()).collect();
    let again = run.again(&unwell).filter(|_| !groups.is_empty()).map(|command| {
        let what = if run.imported.is_empty() { "Run just these again" } else { "Measure the same here" };
        Block::Paragraph(format!("{what}: {}", code(&command)).into())
    });
    let items = (!items.is_empty()).then_some(Block::List(items));
    items.into_iter().chain(again).collect()
}

/// Cases that ended the same way for the same reason.
struct EndedAlike<'r> {
    ending: &'static str,
    reason: String,
    cases: Vec<&'r CaseLine>,
}

fn by_reason(run: &Run) -> Vec<EndedAlike<'_>> {
    let mut groups: Vec<EndedAlike> = Vec::new();
    let mut places: HashMap<(&str, String), usize> = HashMap::new();
    for case in run.cases.iter().filter(|case| case.status != Status::Ok || case.lacks_trials()) {
        let (ending, unknown) = match case.status {
            Status::Ok => (Caveat::Preliminary.name(), Caveat::Preliminary.explanation()),
            other => (other.name(), "no reason was recorded"),
        };
        let reason = case.reason.as_deref().map(one_line).filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| unknown.to_owned());
        let place = *places.entry((ending, reason.clone())).or_insert(groups.len());
        if place == groups.len() {
            groups.push(EndedAlike { ending, reason, cases: Vec::new() });
        }
        groups[place].cases.push(case);
    }
    groups
}

fn group(EndedAlike { ending, reason, cases }: &EndedAlike) -> Item {
    let mut names: Vec<String> = cases.iter().take(NAMED).map(|case| described(case)).collect();
    if cases.len() > NAMED {
        names.push(format!("{} more", thousands((cases.len() - NAMED) as i64)));
    }
    let words = Words::prose(&format!("{} {}: {reason}", strong(&ending.replace('_', " ")), list(&names)));
    let wrong = cases.iter().flat_map(|case| &case.wrong_elements).take(ELEMENTS);
    Item { words, below: wrong.map(wrong_element).collect() }
}

fn wrong_element(wrong: &WrongElement) -> Words {
    let (expected, got) = (code(&wrong.expected), code(&wrong.got));
    format!("rank {}, element {}: expected {expected}, got {got}", wrong.rank, wrong.index).into()
}
