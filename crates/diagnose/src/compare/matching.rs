//! Which cases of two records are compared with each other, by the roles of their fields.
//!
//! Cases are matched in steps, each with what the one before left. First equal identities, then equal parameters except those
//! of sampling, then equal ones except injected faults. Last the same workload in the same world, if one case alone is left on
//! each side: two implementations. The differences of a pair are reported.

use std::collections::{BTreeMap, HashMap, HashSet};

use record::{CaseLine, Declared, INJECTED, Record, Roles, workload};
use serde_json::Value;
use terms::Role;

/// A parameter in which two compared cases differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The field.
    pub field: String,
    /// Value of the field in the base; None where the base has none.
    pub base: Option<Value>,
    /// Value of the field in the new record.
    pub new: Option<Value>,
}

/// A case with the record that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'r> {
    pub(super) record: &'r Record,
    pub(super) line: &'r CaseLine,
}

impl<'r> Held<'r> {
    /// The value of the parameter that another case has under this name. One of the two records may have an earlier name for it.
    fn value_of(self, name: &str, other: Held<'_>) -> Option<&'r Value> {
        let renamed = || {
            let [own, its] = [declared(self.record, self.line), declared(other.record, other.line)];
            let is_same = |(known, _): &(&str, &Value)| own.first_name(known) == its.first_name(name);
            self.line.parameters.iter().find(is_same).map(|(_, value)| value)
        };
        self.line.parameters.get(name).or_else(renamed)
    }
}

/// The cases of equal runs, by date: those of the latest, then those that only an earlier one has, such as other operations of an
/// archive.
pub(super) fn held<'r>(runs: &[&'r Record]) -> Vec<Held<'r>> {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut all = Vec::new();
    for record in runs.iter().rev().copied() {
        for line in &record.cases {
            if seen.insert(&line.id) {
                all.push(Held { record, line });
            }
        }
    }
    all
}

/// Two cases that are compared.
#[derive(Clone, Debug)]
pub(super) struct Pair<'r> {
    /// Case line of the base.
    pub base: &'r CaseLine,
    /// Case line of the new record.
    pub new: &'r CaseLine,
    /// The records that have them.
    pub of: [&'r Record; 2],
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
    /// Cases of the base without a partner.
    pub only_base: Vec<Unmatched<'r>>,
    /// Cases of the new record without a partner.
    pub only_new: Vec<Unmatched<'r>>,
}

pub(crate) fn declared<'r>(record: &'r Record, line: &CaseLine) -> Option<&'r Declared> {
    record.file.benchmarks.iter().find(|declared| declared.name == line.benchmark)
}

/// Candidates that are looked at to say in what a case without a partner differs: records may hold a million alike.
const MOST_CANDIDATES: usize = 20;

/// A benchmark with values of its fields, as a key.
type CaseKey = (String, String);

/// `values` have the first names of fields.
fn key<'p>(line: &CaseLine, values: impl IntoIterator<Item = (&'p str, &'p Value)>) -> CaseKey {
    let sorted: BTreeMap<&str, &Value> = values.into_iter().collect();
    (line.benchmark.clone(), record::to_json(&sorted).unwrap_or_default())
}

/// What a case is, without how it was sampled. A field that only a newer version has counts for nothing at its default.
pub(crate) fn identity(line: &CaseLine, own: Option<&Declared>, other: Option<&Declared>) -> CaseKey {
    identity_without(line, own, other, "")
}

/// What a case is, without how it was sampled and without one parameter.
pub(crate) fn identity_without(
    line: &CaseLine,
    own: Option<&Declared>,
    other: Option<&Declared>,
    left_out: &str,
) -> CaseKey {
    let counts = |(name, value): &(&str, &Value)| {
        let is_new = other.is_some_and(|other| other.field(name).is_none());
        let default = own.and_then(|own| own.field(name)?.default.as_deref());
        *name != left_out && own.role(name) != Role::Sampling && !(is_new && default == Some(plain(value).as_str()))
    };
    key(line, line.parameters.iter().map(|(name, value)| (own.first_name(name), value)).filter(counts))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Finds the pairs.
pub(super) fn matching<'r>(base: &[Held<'r>], new: &[Held<'r>]) -> Matching<'r> {
    let mut partner: Vec<Option<usize>> = vec![None; base.len()];
    let mut taken = vec![false; new.len()];
    let ids: HashMap<&str, usize> = new.iter().enumerate().map(|(at, held)| (held.line.id.as_str(), at)).collect();
    for (at, Held { line, .. }) in base.iter().enumerate() {
        let found = ids.get(line.id.as_str()).filter(|found| new[**found].line.benchmark == line.benchmark);
        if let Some(found) = found {
            (partner[at], taken[*found]) = (Some(*found), true);
        }
    }
    for step in [MatchStep::Parameters, MatchStep::WithoutFaults, MatchStep::Workload] {
        by_key(&mut partner, &mut taken, base, new, step);
    }
    let mut matching = Matching::default();
    let mut left = Vec::new();
    for (held, partner) in base.iter().zip(&partner) {
        match partner {
            Some(partner) => matching.pairs.push(pair(*held, new[*partner])),
            None => left.push(*held),
        }
    }
    matching.only_base = lone(left, new);
    matching.only_new = lone(new.iter().zip(taken).filter(|(_, taken)| !taken).map(|(held, _)| *held).collect(), base);
    matching
}

/// What cases must have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MatchStep {
    /// All parameters but those of sampling.
    Parameters,
    /// All of these but injected faults.
    WithoutFaults,
    /// The workload; then one case alone on each side.
    Workload,
}

/// Cases left over on both sides with equal keys: in their order, or where the step is the workload, single ones.
fn by_key(partner: &mut [Option<usize>], taken: &mut [bool], base: &[Held], new: &[Held], step: MatchStep) {
    let alone = step == MatchStep::Workload;
    let [Some(first_base), Some(first_new)] = [base.first(), new.first()] else { return };
    let key_of = |Held { line, record }: &Held, other: &Record| match step {
        MatchStep::Workload => workload_key(line, record),
        MatchStep::Parameters => identity(line, declared(record, line), declared(other, line)),
        MatchStep::WithoutFaults => identity_without(line, declared(record, line), declared(other, line), INJECTED),
    };
    let mut open: HashMap<CaseKey, (Vec<usize>, Vec<usize>)> = HashMap::new();
    for (at, held) in base.iter().enumerate().filter(|(at, _)| partner[*at].is_none()) {
        open.entry(key_of(held, first_new.record)).or_default().0.push(at);
    }
    for (at, held) in new.iter().enumerate().filter(|(at, _)| !taken[*at]) {
        open.entry(key_of(held, first_base.record)).or_default().1.push(at);
    }
    for (bases, news) in open.into_values().filter(|(bases, news)| !alone || (bases.len(), news.len()) == (1, 1)) {
        for (base, new) in bases.into_iter().zip(news) {
            (partner[base], taken[new]) = (Some(new), true);
        }
    }
}

fn workload_key(line: &CaseLine, record: &Record) -> CaseKey {
    match declared(record, line) {
        Some(declared) => key(line, workload(&line.parameters, declared)),
        None => identity(line, None, None),
    }
}

fn pair<'r>(base: Held<'r>, new: Held<'r>) -> Pair<'r> {
    let declared = declared(base.record, base.line);
    let is_named = |change: &Change| declared.role(&change.field) != Role::Sampling;
    let changes = changes(base, new).into_iter().filter(is_named).collect();
    Pair { base: base.line, new: new.line, of: [base.record, new.record], changes }
}

/// The parameters in which two cases differ, by their names in the base where it has them.
fn changes(base: Held<'_>, new: Held<'_>) -> Vec<Change> {
    let of_base = base.line.parameters.iter().map(|(name, value)| Change {
        field: name.to_owned(),
        base: Some(value.clone()),
        new: new.value_of(name, base).cloned(),
    });
    let of_new = new.line.parameters.iter().filter(|(name, _)| base.value_of(name, new).is_none());
    let of_new = of_new.map(|(name, value)| Change { field: name.to_owned(), base: None, new: Some(value.clone()) });
    of_base.chain(of_new).filter(|change| change.base != change.new).collect()
}

/// Cases without a partner, each with the reason.
fn lone<'r>(own: Vec<Held<'r>>, other: &[Held]) -> Vec<Unmatched<'r>> {
    if own.is_empty() {
        return Vec::new();
    }
    let mut alike: HashMap<CaseKey, Vec<Held<'_>>> = HashMap::new();
    for held in other {
        alike.entry(workload_key(held.line, held.record)).or_default().push(*held);
    }
    let why = |held: &Held| {
        let Some(candidates) = alike.get(&workload_key(held.line, held.record)) else { return Lone::NothingAlike };
        let mut fields: Vec<String> = Vec::new();
        for change in candidates.iter().take(MOST_CANDIDATES).flat_map(|candidate| changes(*held, *candidate)) {
            if !fields.contains(&change.field) {
                fields.push(change.field);
            }
        }
        Lone::Several(fields)
    };
    own.into_iter().map(|held| Unmatched { line: held.line, why: why(&held) }).collect()
}
