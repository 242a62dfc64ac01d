//! What to train next: more ranks, then the strategies, then what overlap hides.

use std::collections::BTreeSet;

use record::CaseLine;
use view::Next;
use view::study::Operation;

use super::findings::{is_ours, measured, parameter, word};

/// What was trained, with what it was trained on.
fn seen<'o>(operation: &'o Operation) -> Vec<&'o CaseLine> {
    measured(operation).into_iter().map(|(_, case)| case).filter(|case| is_ours(case)).collect()
}

/// More ranks, where there was one.
fn more_ranks(cases: &[&CaseLine], tells: &str) -> Option<Next> {
    let first = cases.first()?;
    let alone = cases.iter().all(|case| case.ranks == 1);
    alone.then(|| Next::changing("ranks", "1,2", tells).keeping("model", word(first, "model")))
}

/// What one training leaves open.
pub(super) fn of_training(operation: &Operation) -> Option<Next> {
    let cases = seen(operation);
    if let Some(next) = more_ranks(&cases, "scaling efficiency of 2 ranks") {
        return Some(next);
    }
    let most = cases.iter().max_by_key(|case| case.ranks)?;
    let of_most = || cases.iter().filter(|case| case.ranks == most.ranks);
    let strategies: BTreeSet<&str> = of_most().map(|case| word(case, "strategy")).collect();
    let at = |next: Next| next.keeping("model", word(most, "model")).keeping("ranks", most.ranks.to_string());
    if strategies.len() == 1 && !strategies.contains("hybrid") {
        return Some(at(Next::changing("strategy", "data,tensor,pipeline", "which strategy is fastest")));
    }
    let overlaps = |on: bool| of_most().any(|case| parameter(case, "overlap") == Some(&on.into()));
    if overlaps(true) && !overlaps(false) {
        let mut next = Next::changing("overlap", "true,false", "how much of the communication is overlapped");
        next.changes.insert(0, ("strategy".to_owned(), "data".to_owned()));
        return Some(at(next));
    }
    None
}

/// What one look at memory leaves open.
pub(super) fn of_memory(operation: &Operation) -> Option<Next> {
    let cases = seen(operation);
    let first = cases.first()?;
    if cases.iter().all(|case| parameter(case, "limit").is_none()) {
        let next = Next::changing("limit", "1GiB", "the largest batch that fits 1 GiB a rank");
        return Some(next.keeping("model", word(first, "model")));
    }
    more_ranks(&cases, "what each of 2 ranks holds")
}
