//! Names of cases: as short as they can be and still differ.

use std::collections::HashMap;

use diagnose::history::{History, RunCase, Series};
use record::Declared;
use serde_json::Value;

/// A name for each series of a history. No two are equal: where words do not tell cases apart, the beginnings of their
/// identities do.
pub(crate) fn case_names(history: &History, declared: &[Declared]) -> Vec<String> {
    let mut names = worded(history, declared);
    let mut times: HashMap<String, usize> = HashMap::new();
    names.iter().for_each(|name| *times.entry(name.clone()).or_default() += 1);
    for (name, series) in names.iter_mut().zip(&history.series) {
        if times[name] > 1 {
            let id: String = series.latest.id.chars().take(ID_DIGITS).collect();
            name.push_str(&format!(", case {id}"));
        }
    }
    names
}

/// So many digits of an identity are unlikely to be those of another case with the same words.
const ID_DIGITS: usize = 8;

/// Names by what cases differ in.
fn worded(history: &History, declared: &[Declared]) -> Vec<String> {
    let shorts: Vec<String> = history.series.iter().map(|series| short(&series.latest)).collect();
    let mut alike: HashMap<(&str, &str), Alike> = HashMap::new();
    for (series, short) in history.series.iter().zip(&shorts) {
        alike.entry((&series.latest.benchmark, short)).or_default().add(&series.latest);
    }
    let name = |(series, short): (&Series, &String)| {
        let case = &series.latest;
        let declared = declared.iter().find(|declared| *declared.name == *case.benchmark);
        let alike = &alike[&(&*case.benchmark, short.as_str())];
        let differing = case.parameters.iter().filter(|(name, _)| alike.differ_in(name));
        let extra = differing.map(|(name, value)| view::label_of(declared, name, &view::plain(value)));
        let state = series.state.iter().map(|state| format!(" ({state})"));
        let parts: Vec<String> = std::iter::once(short.clone()).chain(extra).collect();
        view::one_line(&format!("{}{}", parts.join(", "), state.collect::<String>()))
    };
    history.series.iter().zip(&shorts).map(name).collect()
}

/// `all_reduce 64 KiB, 2 ranks, shm`.
fn short(case: &RunCase) -> String {
    let text = |name: &str| case.parameters.get(name).and_then(Value::as_str);
    let what = case.parameters.values().next().and_then(Value::as_str).unwrap_or(&case.benchmark);
    let backend = match (text("runtime"), text("backend")) {
        (Some("pytorch"), Some(backend)) => format!("pytorch/{backend}"),
        (_, Some(backend)) => backend.to_owned(),
        _ => String::new(),
    };
    view::study::named(what, case.bytes, case.ranks, &backend)
}

/// Cases of the same short name.
#[derive(Default)]
struct Alike<'c> {
    number: usize,
    /// The first value of each parameter, how many cases have it, and whether one of them has another.
    parameters: HashMap<&'c str, (String, usize, bool)>,
}

impl<'c> Alike<'c> {
    fn add(&mut self, case: &'c RunCase) {
        self.number += 1;
        for (name, value) in &case.parameters {
            let value = view::plain(value);
            let (first, number, differs) = self.parameters.entry(name).or_insert_with(|| (value.clone(), 0, false));
            *number += 1;
            *differs |= *first != value;
        }
    }

    /// Whether they differ in a parameter. One without a value is like one that lacks it.
    fn differ_in(&self, name: &str) -> bool {
        const TOLD: [&str; 4] = ["ranks", "bytes", "backend", "runtime"];
        let known = self.parameters.get(name).filter(|_| !TOLD.contains(&name));
        known.is_some_and(|(first, number, differs)| *differs || *number < self.number && !first.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use diagnose::history::StateOfSeries;
    use record::SharedMap;
    use serde_json::json;

    use super::*;

    fn case(parameters: Value) -> RunCase {
        RunCase {
            id: "".into(),
            benchmark: "collective".into(),
            parameters: parameters.as_object().cloned().unwrap_or_default().into(),
            ranks: 2,
            bytes: Some(1024),
            median_s: 1.0,
            ci95: None,
            printed: None,
            state: None,
            in_others: Vec::new(),
            settings: SharedMap::default(),
        }
    }

    #[test]
    fn names_tell_what_cases_differ_in() {
        let series = |parameters| Series {
            latest: case(parameters),
            state: None,
            points: Vec::new(),
            noise: None,
            changes: Vec::new(),
        };
        let mut series = vec![
            series(json!({"op": "all_reduce", "backend": "shm", "dtype": "f32", "seed": 1})),
            series(json!({"op": "all_reduce", "backend": "shm", "dtype": "bf16", "seed": 1})),
            series(json!({"op": "all_reduce", "backend": "sim", "dtype": "f32", "seed": 2})),
            series(json!({"op": "broadcast", "backend": "shm", "dtype": "f32"})),
            series(json!({"op": "broadcast", "backend": "shm", "dtype": "f32", "extra": "x"})),
            series(json!({"op": "barrier", "backend": "shm", "extra": ""})),
            series(json!({"op": "barrier", "backend": "shm"})),
        ];
        series[5].latest.id = "0123456789ab".into();
        series[6].latest.id = "ba9876543210".into();
        series[3].state = Some(StateOfSeries::Named("far cores".to_owned()));
        let history = History { machine: String::new(), runs: Vec::new(), series, changes: Vec::new() };
        let expected = [
            "all_reduce 1 KiB, 2 ranks, shm, f32",
            "all_reduce 1 KiB, 2 ranks, shm, bf16",
            "all_reduce 1 KiB, 2 ranks, sim",
            "broadcast 1 KiB, 2 ranks, shm (far cores)",
            "broadcast 1 KiB, 2 ranks, shm, x",
            "barrier 1 KiB, 2 ranks, shm, case 01234567",
            "barrier 1 KiB, 2 ranks, shm, case ba987654",
        ];
        let declared: Vec<Declared> = benchmarks::abouts().into_iter().map(Declared::of).collect();
        let names = case_names(&history, &declared);
        assert_eq!(names, expected);
    }
}
