//! What compared cases are called: what tells each from the others, and its size and ranks in any case.

use std::collections::{BTreeMap, BTreeSet};

use diagnose::compare::{Change, Compared, Comparison};
use record::{CaseLine, Declared, Record};
use view::{label_of, plain};

/// Parameters that a name always has.
const ALWAYS: [&str; 3] = ["model", "bytes", "ranks"];

/// Names of the cases of one comparison.
pub struct Labels<'r> {
    record: &'r Record,
    /// By section, the parameters in which its cases differ.
    varying: BTreeMap<String, BTreeSet<String>>,
    /// What all compared cases differ in alike: it is said once.
    alike: &'r [Change],
}

/// A field in which all compared cases differ alike.
pub(super) struct Alike {
    pub(super) name: String,
    pub(super) base: String,
    pub(super) new: String,
}

/// A value of a field, as it is said.
fn said(value: Option<&serde_json::Value>) -> String {
    value.map_or("not set".to_owned(), |value| view::one_line(&plain(value)))
}

impl<'r> Labels<'r> {
    /// Names by what the compared cases differ in; the fields are those that the record declares.
    pub fn new(record: &'r Record, comparison: &'r Comparison) -> Self {
        let changes = comparison.cases.first().map_or(&[][..], |first| &first.changes);
        let alike = comparison.cases.len() > 1 && comparison.cases.iter().all(|case| case.changes == changes);
        let lines = comparison.cases.iter().map(|case| case.base);
        let lines = lines.chain(comparison.only_base.iter().map(|case| case.line));
        let lines: Vec<&CaseLine> = lines.chain(comparison.only_new.iter().map(|case| case.line)).collect();
        let mut first: BTreeMap<&str, &CaseLine> = BTreeMap::new();
        let mut varying: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines {
            let section = section(record, line);
            let other = *first.entry(section).or_insert(line);
            let names = line.parameters.keys().chain(other.parameters.keys());
            let differ =
                names.filter(|name| line.parameters.get(name) != other.parameters.get(name)).map(str::to_owned);
            varying.entry(section.to_owned()).or_default().extend(differ);
        }
        Self { record, varying, alike: if alike { changes } else { &[] } }
    }

    /// What all cases differ in alike.
    pub(super) fn alike(&self) -> Vec<Alike> {
        let one = |change: &Change| Alike {
            name: view::one_line(&change.field),
            base: said(change.base.as_ref()),
            new: said(change.new.as_ref()),
        };
        self.alike.iter().map(one).collect()
    }

    /// `all_reduce 64 KiB, 2 ranks`, and in what the compared cases differ.
    pub fn label(&self, case: &Compared) -> String {
        let own = case.changes.iter().filter(|_| self.alike.is_empty());
        let changes = own
            .map(|change| format!("{} {} -> {}", change.field, said(change.base.as_ref()), said(change.new.as_ref())));
        let name = std::iter::once(self.line(case.base)).chain(changes).collect::<Vec<_>>().join(", ");
        view::one_line(&name)
    }

    /// The name of a case without a partner.
    pub(super) fn line(&self, line: &CaseLine) -> String {
        let (declared, section) = (declared(self.record, line), section(self.record, line));
        let varies = |name: &str| self.varying.get(section).is_some_and(|names| names.contains(name));
        let named = |name: &str| ALWAYS.contains(&name) || varies(name);
        let of_section = declared.map_or("", |declared| declared.show.section.as_str());
        let parts = line.parameters.iter().filter(|(name, _)| named(name) && *name != of_section);
        // Sizes and ranks first: that is what a case is known by.
        let place = |name: &str| ALWAYS.iter().position(|always| *always == name).unwrap_or(ALWAYS.len());
        let mut parts: Vec<_> = parts.collect();
        parts.sort_by_key(|(name, _)| place(name));
        let words: Vec<String> = parts
            .into_iter()
            .map(|(name, value)| match name {
                "bytes" => value.as_u64().map_or_else(|| plain(value), view::number::bytes),
                "ranks" if plain(value) == "1" => "1 rank".to_owned(),
                "ranks" => format!("{} ranks", plain(value)),
                _ => label_of(declared, name, &plain(value)),
            })
            .collect();
        view::one_line(&format!("{section} {}", words.join(", ")))
    }
}

fn declared<'r>(record: &'r Record, line: &CaseLine) -> Option<&'r Declared> {
    view::study::declaration(&record.file.benchmarks, &line.benchmark)
}

fn section<'l>(record: &Record, line: &'l CaseLine) -> &'l str {
    view::study::section(line, declared(record, line))
}
