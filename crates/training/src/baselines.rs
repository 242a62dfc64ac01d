//! Cases that a training plan needs in addition to those written: the case without communication, without which nobody
//! knows what overlap could hide. Also the order in which each case finds those that it is compared with.

use std::collections::{HashMap, HashSet};

use record::{About, Case, Plan};
use serde_json::Value;

fn flag(case: &Case, name: &str) -> Option<bool> {
    case.parameters.get(name).and_then(Value::as_bool)
}

fn communicates(case: &Case) -> bool {
    flag(case, "communicate") != Some(false)
}

/// The case with these values.
fn with(case: &Case, about: &About, values: &[(&str, bool)]) -> Case {
    let mut other = case.clone();
    for (name, value) in values {
        // Where it has been or, like a field that was never given, behind the one that it belongs to.
        match other.parameters.get_mut(name) {
            Some(known) => *known = Value::Bool(*value),
            None => {
                let place = other.parameters.keys().position(|known| known == "overlap").map_or(0, |place| place + 1);
                other.parameters.shift_insert(place, (*name).to_owned(), Value::Bool(*value));
            }
        }
    }
    other.identify(about);
    other
}

/// Adds cases without communication where overlap is on in one case and off in its twin, and brings fewer ranks before
/// more, no communication before communication, and no overlap before overlap. What stays is in its order.
pub(super) fn complete(plan: &mut Plan, about: &About) {
    // PyTorch's ranks have no such switch, so that nothing is compared with it.
    let ours = |case: &Case| case.benchmark == about.name && !contract::is_pytorch(case);
    let places: Vec<usize> = (0..plan.cases.len()).filter(|place| ours(&plan.cases[*place])).collect();
    let mut cases: Vec<Case> = places.iter().map(|place| plan.cases[*place].clone()).collect();
    let mut known: HashSet<String> = cases.iter().map(|case| case.id.clone()).collect();
    let mut added = Vec::new();
    for case in cases.iter().filter(|case| flag(case, "overlap") == Some(true) && communicates(case)) {
        if known.contains(&with(case, about, &[("overlap", false)]).id) {
            let without = with(case, about, &[("overlap", false), ("communicate", false)]);
            if known.insert(without.id.clone()) {
                added.push(without);
            }
        }
    }
    if !added.is_empty() {
        let noun = if added.len() == 1 { "case" } else { "cases" };
        plan.notes.push(format!(
            "{} {noun} without communication added, to measure how much communication overlaps",
            added.len()
        ));
    }
    cases.extend(added);
    // Into the places of before; those that were added follow the last.
    let mut sorted = in_order(cases, about).into_iter();
    for (place, case) in places.iter().zip(&mut sorted) {
        plan.cases[*place] = case;
    }
    let after = places.last().map_or(0, |place| place + 1);
    plan.cases.splice(after..after, sorted);
}

/// Twins together, where the first of them stood.
fn in_order(cases: Vec<Case>, about: &About) -> Vec<Case> {
    let mut groups: HashMap<String, usize> = HashMap::new();
    let keyed = |case: Case| {
        let next = groups.len();
        let group = *groups.entry(with(&case, about, &[("overlap", true), ("communicate", true)]).id).or_insert(next);
        ((case.ranks(), group, communicates(&case), flag(&case, "overlap") == Some(true)), case)
    };
    let mut keyed: Vec<_> = cases.into_iter().map(keyed).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, case)| case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::about::TRAINING;

    fn case(ranks: u64, overlap: bool) -> Case {
        let text = format!(r#"{{"model": "mlp", "ranks": {ranks}, "overlap": {overlap}, "seed": 1}}"#);
        let mut case = Case::new("training", serde_json::from_str(&text).unwrap());
        case.identify(&TRAINING);
        case
    }

    fn completed(cases: Vec<Case>) -> Plan {
        let mut plan = Plan {
            experiment: "x".to_owned(),
            profiling: false,
            cases,
            notes: Vec::new(),
            expected: Vec::new(),
            read_as: None,
            source_text: String::new(),
        };
        complete(&mut plan, &TRAINING);
        plan
    }

    #[test]
    fn the_third_time_is_added_where_the_other_two_are_asked_for() {
        let plan = completed(vec![case(2, true), case(2, false)]);
        let planned: Vec<(bool, bool)> =
            plan.cases.iter().map(|case| (flag(case, "overlap") == Some(true), communicates(case))).collect();
        assert_eq!(planned, [(false, false), (false, true), (true, true)]);
        assert_eq!(plan.notes.len(), 1);
        let mut ids: Vec<&str> = plan.cases.iter().map(|case| case.id.as_str()).collect();
        ids.dedup();
        assert_eq!(ids.len(), 3);
        // Completing is idempotent: a resumed record has the same plan.
        assert_eq!(completed(plan.cases.clone()).cases, plan.cases);
        assert_eq!(completed(vec![case(2, true)]).cases.len(), 1);
    }

    #[test]
    fn twins_stay_together() {
        let mut other = case(2, true);
        other.parameters.insert("model", "gpt2".into());
        other.identify(&TRAINING);
        let plan = completed(vec![case(2, true), other.clone(), case(2, false)]);
        assert_eq!(plan.cases.iter().position(|case| case.id == other.id), Some(3));
    }

    /// Processor time of this thread, which other processes do not change, in nanoseconds.
    fn processor_ns() -> u64 {
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        schedstat.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    fn time_grows_with_cases_and_not_with_their_square() {
        let cost = |seeds: u64| {
            let seeded = |seed: u64, overlap: bool| {
                let mut case = case(2, overlap);
                case.parameters.insert("seed", seed.into());
                case.identify(&TRAINING);
                case
            };
            let cases = (0..seeds).flat_map(|seed| [seeded(seed, true), seeded(seed, false)]).collect();
            let begin = processor_ns();
            assert_eq!(completed(cases).cases.len() as u64, 3 * seeds);
            processor_ns() - begin
        };
        let (few, many) = (cost(250).min(cost(250)), cost(2_000).min(cost(2_000)));
        assert!(many < 24 * few, "8 times as many cases take {many} ns instead of {few} ns");
    }

    #[test]
    fn fewer_ranks_come_first_and_other_benchmarks_stay() {
        let other = Case { benchmark: "collective".to_owned(), ..case(8, true) };
        let plan = completed(vec![case(4, true), other.clone(), case(1, true), case(2, true)]);
        assert_eq!(plan.cases.iter().map(Case::ranks).collect::<Vec<_>>(), [1, 8, 2, 4]);
        assert_eq!(plan.cases[1], other);
    }
}
