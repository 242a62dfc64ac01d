//! Which cases of two records are compared with each other, by the roles of their fields.
//!
//! Cases are matched in steps, each with what the one before left. First equal identities, then equal parameters except those
//! of sampling, then equal ones except injected faults. Last the same workload in the same world, if one case alone is left on
//! each side: two implementations. The differences of a pair are reported.

use std::collections::{BTreeMap, HashMap};

use record::{CaseLine, Declared, INJECTED, Record, Roles, workload};
use serde_json::Value;
use terms::Role;

/// A parameter in which two compared cases differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The field.
    pub field: String,
    /// Its value in the base; None where that has none.
    pub base: Option<Value>,
    /// Its value in the new record.
    pub new: Option<Value>,
}

/// Two cases that are compared.
#[derive(Clone, Debug)]
pub(super) struct Pair<'r> {
    /// Of the base.
    pub base: &'r CaseLine,
    /// Of the new record.
    pub new: &'r CaseLine,
    /// What they differ in; empty where it is one case.
    pub changes: Vec<Change>,
}

/// Why a case has no partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lone {
    /// The other record has nothing with its workload and world.
    NothingAlike,
    /// The other record has several cases of its workload: the fields in which they differ.
    Several(Vec<String>),
}

/// A case without a partner.
#[derive(Clone, Debug)]
pub struct Unmatched<'r> {
    /// The case.
    pub line: &'r CaseLine,
    /// Why.
    pub why: Lone,
}

/// The pairs of two records, in the order of the base, and what is left on each side.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching<'r> {
    /// Pairs.
    pub pairs: Vec<Pair<'r>>,
    /// Of the base.
    pub only_base: Vec<Unmatched<'r>>,
    /// Of the new record.
    pub only_new: Vec<Unmatched<'r>>,
}

/// What a field decides where nobody declared it: the workload, so that nothing is compared by mistake.
fn role(declared: Option<&Declared>, field: &str) -> Role {
    declared.map_or(Role::Workload, |declared| declared.role(field))
}

pub(crate) fn declared<'r>(record: &'r Record, line: &CaseLine) -> Option<&'r Declared> {
    record.file.benchmarks.iter().find(|declared| declared.name == line.benchmark)
}

/// Candidates that are looked at to say in what a case without a partner differs: records may hold a million alike.
const MOST_CANDIDATES: usize = 20;

/// A benchmark with values of its fields, as a key.
type Key = (String, String);

fn key<'p>(line: &CaseLine, values: impl IntoIterator<Item = (&'p str, &'p Value)>) -> Key {
    let sorted: BTreeMap<&str, &Value> = values.into_iter().collect();
    (line.benchmark.clone(), record::to_json(&sorted).unwrap_or_default())
}

/// What a case is, without how it was sampled. A field that only a newer version has counts for nothing at its default.
pub(crate) fn identity(line: &CaseLine, own: Option<&Declared>, other: Option<&Declared>) -> Key {
    identity_without(line, own, other, "")
}

/// The same without one parameter.
fn identity_without(line: &CaseLine, own: Option<&Declared>, other: Option<&Declared>, left_out: &str) -> Key {
    let counts = |(name, value): &(&str, &Value)| {
        let is_new = other.is_some_and(|other| other.field(name).is_none());
        let default = own.and_then(|own| own.field(name)?.default.as_deref());
        *name != left_out && role(own, name) != Role::Sampling && !(is_new && default == Some(plain(value).as_str()))
    };
    key(line, line.parameters.iter().filter(counts))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Finds the pairs.
pub(super) fn matching<'r>(base: &'r Record, new: &'r Record) -> Matching<'r> {
    let mut partner: Vec<Option<usize>> = vec![None; base.cases.len()];
    let mut taken = vec![false; new.cases.len()];
    let ids: HashMap<&str, usize> = new.cases.iter().enumerate().map(|(at, line)| (line.id.as_str(), at)).collect();
    for (at, line) in base.cases.iter().enumerate() {
        let found = ids.get(line.id.as_str()).filter(|found| new.cases[**found].benchmark == line.benchmark);
        if let Some(found) = found {
            (partner[at], taken[*found]) = (Some(*found), true);
        }
    }
    for step in [Step::Parameters, Step::WithoutFaults, Step::Workload] {
        by_key(&mut partner, &mut taken, base, new, step);
    }
    let mut matching = Matching::default();
    let mut left = Vec::new();
    for (line, partner) in base.cases.iter().zip(&partner) {
        match partner {
            Some(partner) => matching.pairs.push(pair(line, &new.cases[*partner], base)),
            None => left.push(line),
        }
    }
    matching.only_base = lone(left, base, new);
    matching.only_new =
        lone(new.cases.iter().zip(taken).filter(|(_, taken)| !taken).map(|(line, _)| line).collect(), new, base);
    matching
}

/// What cases must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// All parameters but those of sampling.
    Parameters,
    /// All of these but injected faults.
    WithoutFaults,
    /// The workload; then one case alone on each side.
    Workload,
}

/// Cases left over on both sides with equal keys: in their order, or where the step is the workload, single ones.
fn by_key(partner: &mut [Option<usize>], taken: &mut [bool], base: &Record, new: &Record, step: Step) {
    let alone = step == Step::Workload;
    let key_of = |line: &CaseLine, own: &Record, other: &Record| match step {
        Step::Workload => workload_key(line, own),
        Step::Parameters => identity(line, declared(own, line), declared(other, line)),
        Step::WithoutFaults => identity_without(line, declared(own, line), declared(other, line), INJECTED),
    };
    let mut open: HashMap<Key, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for (at, line) in base.cases.iter().enumerate().filter(|(at, _)| partner[*at].is_none()) {
        open.entry(key_of(line, base, new)).or_default().0.push(at);
    }
    for (at, line) in new.cases.iter().enumerate().filter(|(at, _)| !taken[*at]) {
        open.entry(key_of(line, new, base)).or_default().1.push(at);
    }
    for (bases, news) in open.into_values().filter(|(bases, news)| !alone || (bases.len(), news.len()) == (1, 1)) {
        for (base, new) in bases.into_iter().zip(news) {
            (partner[base], taken[new]) = (Some(new), true);
        }
    }
}

fn workload_key(line: &CaseLine, record: &Record) -> Key {
    match declared(record, line) {
        Some(declared) => key(line, workload(&line.parameters, declared)),
        None => identity(line, None, None),
    }
}

fn pair<'r>(base: &'r CaseLine, new: &'r CaseLine, record: &Record) -> Pair<'r> {
    let declared = declared(record, base);
    let is_named = |change: &Change| role(declared, &change.field) != Role::Sampling;
    Pair { base, new, changes: changes(base, new).into_iter().filter(is_named).collect() }
}

fn changes(base: &CaseLine, new: &CaseLine) -> Vec<Change> {
    let mut names: Vec<&str> = base.parameters.keys().collect();
    names.extend(new.parameters.keys().filter(|name| !base.parameters.contains_key(name)));
    let change = |name: &str| Change {
        field: name.to_owned(),
        base: base.parameters.get(name).cloned(),
        new: new.parameters.get(name).cloned(),
    };
    names.into_iter().map(change).filter(|change| change.base != change.new).collect()
}

/// Cases without a partner, each with the reason.
fn lone<'r>(lines: Vec<&'r CaseLine>, own: &Record, other: &Record) -> Vec<Unmatched<'r>> {
    if lines.is_empty() {
        return Vec::new();
    }
    let mut alike: HashMap<Key, Vec<&CaseLine>> = HashMap::new();
    for candidate in &other.cases {
        alike.entry(workload_key(candidate, other)).or_default().push(candidate);
    }
    let why = |line: &CaseLine| {
        let Some(candidates) = alike.get(&workload_key(line, own)) else { return Lone::NothingAlike };
        let mut fields: Vec<String> = Vec::new();
        for change in candidates.iter().take(MOST_CANDIDATES).flat_map(|candidate| changes(line, candidate)) {
            if !fields.contains(&change.field) {
                fields.push(change.field);
            }
        }
        Lone::Several(fields)
    };
    lines.into_iter().map(|line| Unmatched { line, why: why(line) }).collect()
}
