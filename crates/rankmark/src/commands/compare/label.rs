//! What compared cases are called: what tells each from the others, and its size and ranks in any case.

use std::collections::{BTreeMap, BTreeSet};

use diagnose::compare::{Compared, Comparison};
use record::{CaseLine, Declared, Record};
use view::{label_of, plain};

/// Parameters that a name always has.
const ALWAYS: [&str; 3] = ["model", "bytes", "ranks"];

/// Names of the cases of one comparison.
pub(super) struct Labels<'r> {
    record: &'r Record,
    /// By section, the parameters in which its cases differ.
    varying: BTreeMap<String, BTreeSet<String>>,
}

impl<'r> Labels<'r> {
    pub(super) fn new(record: &'r Record, comparison: &Comparison) -> Self {
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
        Self { record, varying }
    }

    /// `all_reduce 64 KiB, 2 ranks`, and in what the compared cases differ.
    pub(super) fn label(&self, case: &Compared) -> String {
        let changes = case.changes.iter().map(|change| {
            let value = |value: &Option<serde_json::Value>| value.as_ref().map_or("-".to_owned(), plain);
            format!("{} {} -> {}", change.field, value(&change.base), value(&change.new))
        });
        let name = std::iter::once(self.line(case.base)).chain(changes).collect::<Vec<_>>().join(", ");
        view::one_line(&name)
    }

    /// The same of a case without a partner.
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
