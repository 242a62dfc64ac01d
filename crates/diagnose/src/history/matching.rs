//! Which cases of different runs are the same case: those with equal parameters, but for how they are sampled.
//!
//! A later version may declare a field that an earlier one did not know. Its cases then have another identity, and measure
//! the same thing where the field has its default.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{MachineState, known_states, likest};
use serde_json::Value;

use super::run::{KnownField, plain};
use super::{Run, RunCase, Series, SeriesPoint, StateOfSeries};

/// The series of these runs, without changes and noise. Of a machine with several states, one for each state of a case.
pub(super) fn series(runs: &[Run]) -> Vec<Series> {
    let fields = DeclaredFields::from_runs(runs);
    let names = state_names(runs);
    let mut places: HashMap<(String, Option<StateOfSeries>), usize> = HashMap::new();
    let mut all: Vec<Series> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        for case in &run.cases {
            let key = fields.key(case);
            let shown = (case.state, case.median_s, [case.ci95, case.printed]);
            let others = case.in_others.iter().map(|(state, median_s, ends)| (Some(*state), *median_s, [*ends; 2]));
            for (state, median_s, [ci95, printed]) in std::iter::once(shown).chain(others) {
                let point = SeriesPoint { run: number, median_s, ci95, printed };
                let state =
                    names.as_ref().map(|names| of_series(state.and_then(|state| names[number].get(state)?.clone())));
                let place = *places.entry((key.clone(), state.clone())).or_insert(all.len());
                match all.get_mut(place) {
                    None => all.push(Series {
                        latest: case.clone(),
                        state,
                        points: vec![point],
                        noise: None,
                        changes: Vec::new(),
                    }),
                    // Two cases of one run with one key would be two results of one date: the first stays.
                    Some(series) if series.points.last().is_some_and(|last| last.run == number) => {}
                    Some(series) => {
                        series.points.push(point);
                        series.latest = case.clone();
                    }
                }
            }
        }
    }
    all
}

fn of_series(name: Option<String>) -> StateOfSeries {
    name.map_or(StateOfSeries::Unknown, StateOfSeries::Named)
}

/// What the states of each run are called over all of them; None where they show one state.
fn state_names(runs: &[Run]) -> Option<Vec<Vec<Option<String>>>> {
    let known = known_states(runs.iter().rev().map(|run| run.states.as_slice()));
    let name = |state: &MachineState| likest(state, &known)?.name.clone();
    (known.len() > 1).then(|| runs.iter().map(|run| run.states.iter().map(name).collect()).collect())
}

/// What the runs declare of the fields of benchmarks, by benchmark.
#[derive(Default)]
struct DeclaredFields(HashMap<String, Declared>);

/// What they declare of one benchmark's.
#[derive(Default)]
struct Declared {
    /// By field: the default, where some run of the benchmark did not know the field.
    added: BTreeMap<String, String>,
    /// Fields that only say how a case is sampled.
    sampling: BTreeSet<String>,
    /// The first names of fields that were renamed.
    first_names: BTreeMap<String, String>,
}

impl Declared {
    fn first_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.first_names.get(name).map_or(name, String::as_str)
    }
}

impl DeclaredFields {
    fn from_runs(runs: &[Run]) -> Self {
        let mut declarations: BTreeMap<&str, usize> = BTreeMap::new();
        let mut known: BTreeMap<(&str, &str), (usize, Option<&String>)> = BTreeMap::new();
        let mut fields = Self::default();
        for (benchmark, declared) in runs.iter().flat_map(|run| &run.declared) {
            *declarations.entry(benchmark).or_default() += 1;
            for KnownField { name, first_name, default, sampling } in declared {
                let entry = known.entry((benchmark, first_name)).or_insert((0, default.as_ref()));
                entry.0 += 1;
                if *sampling {
                    fields.0.entry(benchmark.clone()).or_default().sampling.insert(first_name.clone());
                }
                if name != first_name {
                    let renamed = &mut fields.0.entry(benchmark.clone()).or_default().first_names;
                    renamed.insert(name.clone(), first_name.clone());
                }
            }
        }
        for ((benchmark, name), (count, default)) in known {
            if let Some(default) = default.filter(|_| count < declarations[benchmark]) {
                fields.0.entry(benchmark.to_owned()).or_default().added.insert(name.to_owned(), default.clone());
            }
        }
        fields
    }

    fn key(&self, case: &RunCase) -> String {
        let declared = self.0.get(&*case.benchmark);
        let counts = |(name, value): &(&str, &Value)| {
            declared.is_none_or(|declared| {
                !declared.sampling.contains(*name)
                    && declared.added.get(*name).is_none_or(|default| *default != plain(value))
            })
        };
        let first_name = |name| declared.map_or(name, |declared| declared.first_name(name));
        // Sorted: versions may declare fields in another order.
        let parameters: BTreeMap<&str, &Value> =
            case.parameters.iter().map(|(name, value)| (first_name(name), value)).filter(counts).collect();
        let parts: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}\n{}", case.benchmark, parts.join("\n"))
    }
}
