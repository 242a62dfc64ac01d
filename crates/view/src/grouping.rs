//! Which cases are sizes of one configuration.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use record::found::CACHE;
use record::{CaseLine, Caveat, Declared};
use serde_json::Value;

use crate::label::plain;
use crate::study::{Configuration, NamedValues, backend, cache};

/// Parameters that a case line repeats on top, and the state of the caches: they have their own places in labels.
const APART: [&str; 8] = ["bytes", "ranks", "backend", "runtime", "device", "dtype", "mode", "cache"];
/// The parameter that tells the points of a configuration apart.
const SIZE: &str = "bytes";
/// The label of a field that is shown only where two cases differ in it.
pub(crate) const QUIET: &str = "quiet";

/// What a benchmark declares of its fields, as far as it tells configurations apart.
#[derive(Default)]
pub(crate) struct GroupedFields<'d> {
    /// The field with a section for each of its values.
    section: &'d str,
    quiet: Vec<&'d str>,
    /// Fields that follow from another, unless that has the word.
    following: Vec<[&'d str; 3]>,
}

impl<'d> GroupedFields<'d> {
    pub(crate) fn of(declared: &'d Declared) -> Self {
        let quiet = declared.fields.iter().filter(|field| field.label == QUIET).map(|field| field.name.as_str());
        let following = declared.fields.iter().filter_map(|field| {
            let (other, word) = field.follows_unless.split_once('=')?;
            Some([field.name.as_str(), other, word])
        });
        Self { section: &declared.show.section, quiet: quiet.collect(), following: following.collect() }
    }

    fn is_quiet(&self, name: &str) -> bool {
        self.quiet.contains(&name)
    }

    /// Whether the size of a case is more than the place of its point.
    fn size_tells_apart(&self) -> bool {
        self.is_quiet(SIZE) || self.following.iter().any(|[_, other, _]| *other == SIZE)
    }
}

/// Words of the configurations of a section, each once.
#[derive(Default)]
struct Words(HashSet<Arc<str>>);

impl Words {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let word: Arc<str> = text.into();
        self.0.insert(Arc::clone(&word));
        word
    }
}

/// Everything but section, size, ranks and backend, in the order of the record; quiet fields last.
fn others(case: &CaseLine, declared: &GroupedFields, words: &mut Words) -> NamedValues {
    let quiet = |name: &str| declared.is_quiet(name);
    let mut fields: Vec<(Arc<str>, Arc<str>)> = Vec::new();
    let mut put = |name: &str, value: &str| fields.push((words.get(name), words.get(value)));
    if !case.device.is_empty() {
        put("device", &case.device);
    }
    if let Some(dtype) = &case.dtype {
        put("dtype", dtype);
    }
    // Those that its data pass between; of one host nothing is said unless others are near by.
    if let Some(hosts) = case.pair_hosts.or(case.hosts) {
        put("hosts", &hosts.to_string());
    }
    // What follows from the ranks would keep one rank and two apart.
    let follows = |name: &str| {
        let unless = declared.following.iter().find(|[field, ..]| *field == name);
        unless.is_some_and(|[_, other, word]| case.parameters.get(other).and_then(Value::as_str) != Some(word))
    };
    let imported = case.caveats.contains(&Caveat::Imported);
    let is_shown = |name: &str| !APART.contains(&name) && name != declared.section && !quiet(name) && !follows(name);
    let parameters = case.parameters.iter().filter(|(name, _)| is_shown(name));
    parameters.for_each(|(name, value)| put(name, &plain(value)));
    if !imported {
        put("mode", &case.mode.to_string());
        cache(case).into_iter().for_each(|cache| put("cache", cache));
    }
    let quiet = case.parameters.iter().filter(|(name, _)| quiet(name));
    quiet.for_each(|(name, value)| put(name, &plain(value)));
    fields.into()
}

/// What all sizes of a configuration have in common: ranks, backend and other fields.
type ConfigurationKey = (u32, String, NamedValues);

/// Where the configurations of a section stand.
#[derive(Default)]
pub(crate) struct ConfigurationPlaces {
    /// By what their cases have in common.
    known: HashMap<ConfigurationKey, usize>,
    words: Words,
    /// Place of the last case, if another case that differs from it in the size alone has it too.
    last: Option<usize>,
}

/// Whether two cases of a section, which differ in their size at most, certainly have one configuration. Cases that follow one
/// another mostly do, and this takes a hundredth of the time of [`others`].
fn are_alike(one: &CaseLine, other: &CaseLine) -> bool {
    let line = |case: &CaseLine| (case.ranks, case.mode, case.hosts, case.pair_hosts, case.bytes.is_some());
    let imported = |case: &CaseLine| case.caveats.contains(&Caveat::Imported);
    line(one) == line(other)
        && one.benchmark == other.benchmark
        && one.runtime == other.runtime
        && one.backend == other.backend
        && one.device == other.device
        && one.dtype == other.dtype
        && one.parameters.says_the_same_but(&other.parameters, SIZE)
        && CACHE.value(one) == CACHE.value(other)
        && imported(one) == imported(other)
}

impl ConfigurationPlaces {
    /// Puts a case of the section into its configuration, which may be a new one.
    pub(crate) fn put<'a>(
        &mut self,
        configurations: &mut Vec<Configuration<'a>>,
        case: &'a CaseLine,
        fields: &GroupedFields,
    ) {
        let is_like = |place: &usize| configurations[*place].cases.last().is_some_and(|last| are_alike(last, case));
        if let Some(place) = self.last.filter(is_like) {
            configurations[place].cases.push(case);
            return;
        }
        let place = match self.known.entry((case.ranks, backend(case), others(case, fields, &mut self.words))) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                configurations.push(unlabelled(new.key()));
                *new.insert(configurations.len() - 1)
            }
        };
        configurations[place].cases.push(case);
        self.last = Some(place).filter(|_| !fields.size_tells_apart());
    }
}

fn unlabelled<'a>((ranks, backend, others): &ConfigurationKey) -> Configuration<'a> {
    Configuration {
        label: String::new(),
        variant: String::new(),
        variant_fields: Vec::new(),
        style: 0,
        style_over_ranks: 0,
        ranks: *ranks,
        backend: backend.clone(),
        others: others.clone(),
        cases: Vec::new(),
        points: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(bytes: u64, parameters: &[(&str, Value)]) -> CaseLine {
        let line = json!({
            "schema": 1, "id": "0", "benchmark": "x", "parameters": {"op": "reduce", "bytes": bytes}, "status": "ok",
            "ranks": 4, "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "bytes": bytes,
            "caveats": [], "simulated": false,
        });
        let mut line: CaseLine = serde_json::from_value(line).unwrap();
        parameters.iter().for_each(|(name, value)| line.parameters.insert(*name, value.clone()));
        line
    }

    /// Numbers of cases in each configuration.
    fn grouped(lines: &[CaseLine], fields: &GroupedFields) -> Vec<usize> {
        let (mut places, mut configurations) = (ConfigurationPlaces::default(), Vec::new());
        lines.iter().for_each(|case| places.put(&mut configurations, case, fields));
        configurations.iter().map(|configuration| configuration.cases.len()).collect()
    }

    #[test]
    fn sizes_are_of_one_configuration_in_any_order() {
        let [a, b] = ["f32", "bf16"].map(|dtype| [1, 2, 3].map(|bytes| line(bytes, &[("x", json!(dtype))])));
        let one_by_one: Vec<CaseLine> = a.iter().chain(&b).cloned().collect();
        let in_turn: Vec<CaseLine> = a.iter().zip(&b).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        for lines in [one_by_one, in_turn] {
            assert_eq!(grouped(&lines, &GroupedFields::default()), [3, 3]);
        }
    }

    #[test]
    fn cases_that_differ_in_more_than_the_size_are_apart() {
        let base = line(1, &[]);
        let changed = |change: &dyn Fn(&mut CaseLine)| {
            let mut line = line(2, &[]);
            change(&mut line);
            line
        };
        let others: [&dyn Fn(&mut CaseLine); 9] = [
            &|line| line.ranks = 2,
            &|line| line.backend = "mpi".to_owned(),
            &|line| line.runtime = "pytorch".to_owned(),
            &|line| line.device = "cuda".to_owned(),
            &|line| line.dtype = Some("f32".to_owned()),
            &|line| line.mode = terms::Mode::Isolated,
            &|line| line.hosts = Some(2),
            &|line| line.parameters.insert("cache", json!("cold")),
            &|line| line.metrics.insert("cache", json!("cold")),
        ];
        for (number, other) in others.into_iter().enumerate() {
            assert_eq!(grouped(&[base.clone(), changed(other)], &GroupedFields::default()), [1, 1], "{number}");
        }
        assert_eq!(grouped(&[base.clone(), changed(&|_| {})], &GroupedFields::default()), [2]);
    }

    #[test]
    fn a_size_that_is_a_field_of_its_own_keeps_cases_apart() {
        let lines = [line(1, &[("x", json!(1))]), line(2, &[("x", json!(1))])];
        let quiet = GroupedFields { quiet: vec![SIZE], ..GroupedFields::default() };
        assert_eq!(grouped(&lines, &quiet), [1, 1]);
        // `x` is shown where the size is 1 alone.
        let following = GroupedFields { following: vec![["x", SIZE, "1"]], ..GroupedFields::default() };
        let words = [line(1, &[("x", json!(1)), (SIZE, json!("1"))]), line(2, &[("x", json!(1))])];
        assert_eq!(grouped(&words, &following), [1, 1]);
    }
}
