//! What to train next: more ranks, then the strategies, then what overlap hides.

use std::collections::BTreeSet;

use record::CaseLine;
use view::Next;
use view::study::Operation;

use super::findings::{held, is_ours, measured, parameter, predicted, word};

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
        let gib = room(&cases)?;
        let mut next =
            Next::changing("limit", format!("{gib}GiB"), format!("the largest batch that fits {gib} GiB a rank"));
        next.changes.push(("find_max_batch".to_owned(), "true".to_owned()));
        return Some(next.keeping("model", word(first, "model")));
    }
    more_ranks(&cases, "what each of 2 ranks holds")
}

/// GiB in which a rank of any of these has room for more than it holds: the next power of two over twice of that. None where
/// nothing says what it holds.
fn room(cases: &[&CaseLine]) -> Option<u64> {
    let a_rank = |case: &&CaseLine| {
        let of_plan = predicted(case, "total").map(|bytes| bytes / f64::from(case.ranks.max(1)));
        let measured = held(case).and_then(|held| held.per_rank.into_iter().max()).map(|bytes| bytes as f64);
        measured.into_iter().chain(of_plan).reduce(f64::max)
    };
    let most = cases.iter().filter_map(a_rank).reduce(f64::max)?;
    Some(((2.0 * most / f64::from(1u32 << 30)).ceil() as u64).max(1).next_power_of_two())
}

#[cfg(test)]
mod tests {
    use record::{Case, TimeSummary};
    use serde_json::json;
    use terms::Status;

    use super::*;

    #[test]
    fn a_limit_has_room_for_what_was_held() {
        let line = |held: Option<u64>| {
            let case: Case =
                serde_json::from_value(json!({"id": "a", "benchmark": "memory", "settings": {}, "world": {},
                "parameters": {"model": "gpt2", "ranks": 2}, "caveats": [], "bytes_requested": null, "skip": null}))
                .unwrap();
            let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
            line.ranks = 2;
            line.time_s = Some(TimeSummary::default());
            if let Some(held) = held {
                let memory = json!({"measured": {"total": 2 * held, "case": held, "per_rank": [held, held]}});
                line.metrics.insert("memory", memory);
            }
            line
        };
        assert_eq!(room(&[&line(Some(100 << 20))]), Some(1));
        assert_eq!(room(&[&line(Some(3 << 30)), &line(Some(1 << 30))]), Some(8), "a model that 1 GiB does not hold");
        assert_eq!(room(&[&line(None)]), None);
    }
}
