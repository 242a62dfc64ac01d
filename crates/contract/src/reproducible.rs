//! Whether results are the same bits: comparisons over ranks, calls and trials of a case, and with other cases of a run.

use std::collections::HashMap;

use record::CaseLine;
use record::found::{REPRODUCIBLE, REPRODUCIBLE_SHARE};
use record::reproducible::{Bits, Comparison, Difference, Reproducible};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::benchmark::Relations;
use crate::bits::compared;

/// What a rank noted of the results of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noted {
    /// The first one; None where the rank gets none.
    pub bits: Option<Bits>,
    /// How many were compared, the first one among them.
    pub results: u64,
    /// The first later result that differs from an earlier one of this rank: its number, from 1, and how.
    pub calls: Option<(u64, Difference)>,
    /// Whether the first one was compared with that of rank 0.
    pub with_rank_0: bool,
    /// How they differ.
    pub ranks: Option<Difference>,
}

impl Noted {
    /// What was noted, as details of a rank.
    pub fn write(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            // Plain data with text keys always can be written.
            _ => Map::new(),
        }
    }

    /// What a rank noted in its details; None where it noted no result.
    pub fn read(details: &Map<String, Value>) -> Option<Self> {
        serde_json::from_value(Value::Object(details.clone())).ok().filter(|noted: &Self| noted.results > 0)
    }
}

fn comparison(varied: &str, from: String, to: String, difference: Option<Difference>) -> Comparison {
    Comparison { varied: varied.to_owned(), from, to, difference }
}

/// The comparisons within a case, from what its ranks noted in each trial: `[trial][rank]`. None where nothing was compared.
pub fn within(unit: &str, computed: bool, trials: &[Vec<Option<Noted>>]) -> Option<Reproducible> {
    let trials: Vec<&Vec<Option<Noted>>> = trials.iter().filter(|trial| trial.iter().any(Option::is_some)).collect();
    let most = |trial: &Vec<Option<Noted>>| trial.iter().flatten().map(|noted| noted.results).max().unwrap_or(0);
    let results: u64 = trials.iter().map(|trial| most(trial)).sum();
    let ranks = trials.iter().flat_map(|trial| trial.iter()).flatten().any(|noted| noted.with_rank_0);
    let ranks = if ranks { trials.iter().map(|trial| trial.len()).max().unwrap_or(1) } else { 1 };
    let mut within = Vec::new();
    if ranks > 1 {
        within.push(over_ranks(&trials));
    }
    if results > trials.len() as u64 {
        within.push(over_calls(&trials));
    }
    within.extend(over_trials(&trials));
    let bits = trials.first().and_then(|trial| trial.iter().flatten().find_map(|noted| noted.bits.clone()));
    let found = Reproducible {
        unit: unit.to_owned(),
        results,
        trials: trials.len() as u64,
        ranks: ranks as u32,
        computed,
        within,
        across: Vec::new(),
        bits,
    };
    found.share().is_some().then_some(found)
}

/// Each rank that noted something, with its number, over all trials.
fn noted<'n>(trials: &[&'n Vec<Option<Noted>>]) -> Vec<(usize, usize, &'n Noted)> {
    let of = |(number, trial): (usize, &&'n Vec<Option<Noted>>)| {
        let ranks = trial.iter().enumerate();
        ranks.filter_map(|(rank, noted)| Some((number, rank, noted.as_ref()?))).collect::<Vec<_>>()
    };
    trials.iter().enumerate().flat_map(of).collect()
}

fn over_ranks(trials: &[&Vec<Option<Noted>>]) -> Comparison {
    let found = noted(trials).into_iter().find_map(|(_, rank, noted)| Some((rank, noted.ranks.clone()?)));
    let (to, difference) = found.map_or(("others".to_owned(), None), |(rank, by)| (format!("rank {rank}"), Some(by)));
    comparison("ranks", "rank 0".to_owned(), to, difference)
}

fn over_calls(trials: &[&Vec<Option<Noted>>]) -> Comparison {
    let found = noted(trials).into_iter().find_map(|(_, rank, noted)| Some((rank, noted.calls.clone()?)));
    let (to, difference) = match found {
        Some((rank, (number, by))) => (format!("call {number} of rank {rank}"), Some(by)),
        None => ("others".to_owned(), None),
    };
    comparison("calls", "call 1".to_owned(), to, difference)
}

/// Each rank's first result of a trial with that of its first trial; None where no rank has two.
fn over_trials(trials: &[&Vec<Option<Noted>>]) -> Option<Comparison> {
    let mut any = false;
    let first = |rank: usize| trials.first()?.get(rank)?.as_ref()?.bits.as_ref();
    for (trial, rank, noted) in noted(trials).into_iter().filter(|(trial, ..)| *trial > 0) {
        let (Some(one), Some(other)) = (first(rank), noted.bits.as_ref()) else { continue };
        match compared(one, other) {
            Some(Some(difference)) => {
                let to = format!("trial {} on rank {rank}", trial + 1);
                return Some(comparison("trials", "trial 1".to_owned(), to, Some(difference)));
            }
            Some(None) => any = true,
            None => {}
        }
    }
    any.then(|| comparison("trials", "trial 1".to_owned(), "others".to_owned(), None))
}

/// Puts what is known into a case's metrics.
pub fn put(metrics: &mut impl Extend<(String, Value)>, found: Reproducible) {
    if let Some(share) = found.share() {
        REPRODUCIBLE_SHARE.put(metrics, share);
    }
    REPRODUCIBLE.put(metrics, found);
}

/// Parameters that follow from the runtime unless the user gives them: each runtime has its own backends, interpreter,
/// binding and memory.
const OF_RUNTIME: &[&str] = &["runtime", "backend", "python", "bind", "buffers"];

/// Compares each case with the one before it that differs in one parameter alone, or in the runtime with what follows from
/// it. Parameters of `fixed` say what is computed: cases that differ in them have different results. Where the runtime is one
/// of them, cases of two runtimes are not compared.
pub fn relations<'a>(all: &[&'a CaseLine], fixed: &'static [&'static str]) -> Relations<'a> {
    let is_computed = |line: &&&CaseLine| REPRODUCIBLE.of(line).is_some_and(|found| found.computed);
    let lines: Vec<&'a CaseLine> = all.iter().filter(is_computed).copied().collect();
    let mut before: HashMap<&'a str, Vec<(String, &'a CaseLine)>> = HashMap::new();
    for name in varied(&lines, fixed) {
        let mut alike: HashMap<String, Vec<&'a CaseLine>> = HashMap::new();
        for line in &lines {
            let others = alike.entry(key(line, &name, fixed)).or_default();
            if let Some(previous) = others.iter().rev().find(|other| differ_in(other, line, &name)) {
                before.entry(&line.id).or_default().push((name.clone(), previous));
            }
            others.push(line);
        }
    }
    Box::new(move |line| of_line(line, before.get(line.id.as_str())).unwrap_or_default())
}

/// Parameters with more than one value, the absence of one among them, in the order of the lines.
fn varied(lines: &[&CaseLine], fixed: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in lines.iter().flat_map(|line| line.parameters.iter()) {
        if !fixed.contains(&name) && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    let first = |name: &str| lines.first().and_then(|line| line.parameters.get(name));
    names.retain(|name| lines.iter().any(|line| line.parameters.get(name) != first(name)));
    names
}

/// Whether the name is that of the runtime or the backend: of two runtimes, all that follows from them may differ.
fn chooses_runtime(name: &str) -> bool {
    ["runtime", "backend"].contains(&name)
}

/// All parameters but this one, and those that may follow from it. A value is JSON, so no text in it can look like the
/// next parameter.
fn key(line: &CaseLine, apart: &str, fixed: &[&str]) -> String {
    let follows = |name: &str| OF_RUNTIME.contains(&name) && (apart, name) != ("runtime", "backend");
    let is_apart = |name: &str| name == apart || chooses_runtime(apart) && !fixed.contains(&"runtime") && follows(name);
    line.parameters
        .iter()
        .filter(|(name, _)| !is_apart(name))
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect()
}

/// Whether two cases of equal keys differ in this parameter, and in no other that does not follow from it.
fn differ_in(from: &CaseLine, to: &CaseLine, name: &str) -> bool {
    let differs = |name: &str| from.parameters.get(name) != to.parameters.get(name);
    let follows = || differs("runtime") || !OF_RUNTIME.iter().any(|other| *other != name && differs(other));
    differs(name) && (!chooses_runtime(name) || follows())
}

fn of_line(line: &CaseLine, before: Option<&Vec<(String, &CaseLine)>>) -> Option<Map<String, Value>> {
    let mut found = REPRODUCIBLE.of(line)?;
    let own = found.bits.clone()?;
    let compare = |(name, other): &(String, &CaseLine)| {
        let bits = REPRODUCIBLE.of(other)?.bits?;
        let value = |of: &CaseLine| of.parameters.get(name).map_or_else(|| "the default".to_owned(), view::plain);
        Some(comparison(name, value(other), value(line), compared(&bits, &own)?))
    };
    found.across = before.into_iter().flatten().filter_map(compare).collect();
    let mut metrics = Map::new();
    put(&mut metrics, found);
    Some(metrics)
}

#[cfg(test)]
mod tests {
    use record::Case;
    use serde_json::json;
    use terms::{Dtype, Status};

    use super::*;
    use crate::bits::in_short;

    fn result(change: usize) -> Bits {
        let mut values = vec![1.0f32; 4096];
        values[change] += f32::EPSILON;
        in_short(Dtype::F32, &values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>())
    }

    fn noted(change: usize) -> Option<Noted> {
        Some(Noted { bits: Some(result(change)), results: 4, with_rank_0: true, ..Noted::default() })
    }

    #[test]
    fn what_was_compared_is_counted_and_the_first_difference_named() {
        let same = within("element", true, &[vec![noted(0), noted(0)], vec![noted(0), noted(0)]]).unwrap();
        assert_eq!((same.results, same.trials, same.ranks, same.share()), (8, 2, 2, Some(1.0)));
        let names: Vec<&str> = same.within.iter().map(|one| one.varied.as_str()).collect();
        assert_eq!(names, ["ranks", "calls", "trials"]);

        let other = within("element", true, &[vec![noted(0), noted(0)], vec![noted(0), noted(5)]]).unwrap();
        assert_eq!(other.share(), Some(2.0 / 3.0));
        let found = &other.within[2];
        assert_eq!(found.to, "trial 2 on rank 1");
        assert_eq!(found.difference.as_ref().unwrap().first, 0, "one has it at 0, the other at 5");

        let apart = Difference { first: 7, end: 8, ..Difference::default() };
        let rank = noted(0).map(|noted| Noted { ranks: Some(apart.clone()), ..noted });
        let found = within("element", true, &[vec![noted(0), noted(0), rank]]).unwrap();
        assert_eq!((found.within[0].to.as_str(), found.share()), ("rank 2", Some(0.5)));
        let call = noted(0).map(|noted| Noted { calls: Some((3, apart)), ..noted });
        let found = within("element", true, &[vec![noted(0), call]]).unwrap();
        assert_eq!(found.within[1].to, "call 3 of rank 1");
    }

    #[test]
    fn one_result_is_compared_with_nothing() {
        let alone = Noted { bits: Some(result(0)), results: 1, ..Noted::default() };
        assert_eq!(within("element", true, &[vec![Some(alone), None]]), None);
        assert_eq!(within("element", true, &[vec![None, None]]), None);
        assert_eq!(within("element", true, &[]), None);
    }

    fn line(parameters: Value, change: usize) -> CaseLine {
        let case = json!({"id": parameters.to_string(), "benchmark": "b", "parameters": parameters, "settings": {},
            "world": {}, "caveats": [], "bytes_requested": null, "skip": null});
        let case: Case = serde_json::from_value(case).unwrap();
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        put(&mut line.metrics, within("element", true, &[vec![noted(change), noted(change)]]).unwrap());
        line
    }

    #[test]
    fn backends_of_two_runtimes_are_compared_with_what_follows_from_them() {
        let shm = |bytes: u64| json!({"backend": "shm", "bytes": bytes, "buffers": "registered", "bind": "core"});
        let gloo = |bytes: u64| json!({"runtime": "pytorch", "backend": "gloo", "bytes": bytes, "buffers": "private", "bind": "none"});
        let mpi = json!({"backend": "mpi", "bytes": 8, "buffers": "private", "bind": "core"});
        let lines = [line(shm(8), 0), line(gloo(8), 3), line(gloo(64), 0), line(mpi, 0)];
        let all: Vec<&CaseLine> = lines.iter().collect();
        let related = relations(&all, &[]);
        let across = |number: usize| {
            let line = CaseLine { metrics: related(&lines[number]).into(), ..lines[number].clone() };
            let all = REPRODUCIBLE.of(&line).unwrap().across;
            all.into_iter().map(|one| (one.varied, one.from, one.to, one.difference.is_some())).collect::<Vec<_>>()
        };
        let row =
            |varied: &str, from: &str, to: &str, differs| (varied.to_owned(), from.to_owned(), to.to_owned(), differs);
        assert_eq!(across(1), [row("backend", "shm", "gloo", true)]);
        let apart = relations(&all, &["runtime"])(&lines[1]);
        assert_eq!(apart["same_bits"]["across"], json!([]), "each runtime has its own kernels");
        assert_eq!(across(2), [row("bytes", "8", "64", true)], "shm had another size");
        assert_eq!(
            across(3),
            [row("backend", "gloo", "mpi", true)],
            "not shm: its buffers are others, and its runtime the same"
        );
    }

    #[test]
    fn cases_that_differ_in_one_parameter_are_compared() {
        let lines = [
            line(json!({"seed": 1, "bytes": 1024, "in_place": true}), 0),
            line(json!({"seed": 1, "bytes": 1024, "in_place": false}), 4000),
            line(json!({"seed": 1, "bytes": 4096, "in_place": true}), 0),
            line(json!({"seed": 2, "bytes": 1024, "in_place": true}), 9),
        ];
        let all: Vec<&CaseLine> = lines.iter().collect();
        let related = relations(&all, &["seed"]);
        let across = |number: usize| {
            let line = CaseLine { metrics: related(&lines[number]).into(), ..lines[number].clone() };
            REPRODUCIBLE.of(&line).unwrap().across
        };
        assert!(across(0).is_empty() && across(3).is_empty());
        let form = &across(1)[0];
        assert_eq!((form.varied.as_str(), form.from.as_str(), form.to.as_str()), ("in_place", "true", "false"));
        assert_eq!(form.difference.as_ref().unwrap().first, 0);
        let size = &across(2)[0];
        assert_eq!((size.varied.as_str(), size.to.as_str(), &size.difference), ("bytes", "4096", &None));
        // A line that was related before is related once.
        let again = CaseLine { metrics: related(&lines[1]).into(), ..lines[1].clone() };
        let again = relations(&all, &["seed"])(&again);
        assert_eq!(again["same_bits"]["across"].as_array().unwrap().len(), 1);
        let share = again["reproducible_share"].as_f64().unwrap();
        assert!((share - 2.0 / 3.0).abs() < 1e-12, "ranks and calls are the same, the form is not: {share}");
    }
}
