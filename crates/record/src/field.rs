//! Declared fields and metrics: each benchmark says what it takes and gives, and plan checking, command-line flags,
//! JSON Schema and help are made from that.

use crate::Case;

/// What values a field takes. Every kind reads the same text in a plan and in a flag.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in this range (inclusive).
    Whole(u64, u64),
    /// A number of bytes: `64KiB`; a list may hold ranges `8..1GiB*2`, a plan also `{from, to, factor}`.
    Bytes,
    /// A duration: `5us`. Kept in seconds.
    Seconds,
    /// A bandwidth: `10GB/s`. Kept in bytes per second.
    Bandwidth,
    /// A share: `2%`. Kept as a fraction.
    Ratio,
    /// `true` or `false`.
    Bool,
    /// One of these words (in this spelling; hyphens, underscores and case are forgiven).
    Word(fn() -> Vec<&'static str>),
    /// Any text, such as a path.
    Text,
    /// Texts that repeat and never multiply: all of them belong to one case (`inject`, `expect`, `env`).
    Texts,
}

/// Where a field's value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Always among the case's parameters: part of its identity.
    Always,
    /// Among the parameters when it differs from its default.
    WhenSet,
    /// Among the case's settings: how long to sample, not what is measured. Not part of the identity.
    Setting,
}

/// A declared field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its one spelling, with underscores (the flag has hyphens).
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value when it is not given, as text; None: it is absent then.
    pub default: Option<&'static str>,
    /// For help ("bytes", "s"); empty where the kind says it.
    pub unit: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// Where the value is kept.
    pub shown: Shown,
    /// Whether cases that differ in it need different rank processes.
    pub world: bool,
    /// Whether it says how something is done and not what: cases that differ in nothing else, their worlds aside, are held
    /// against each other.
    pub how: bool,
}

/// Whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Larger values are better.
    Higher,
    /// Smaller values are better.
    Lower,
}

/// A declared metric of a case line.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its key in the case line.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// One line for help and reports.
    pub doc: &'static str,
}

/// What is wrong with a combination of values, and which field to point at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field whose position is shown.
    pub field: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

/// What a benchmark says of itself.
#[derive(Clone, Copy)]
pub struct About {
    /// Its one spelling.
    pub name: &'static str,
    /// One line for help.
    pub doc: &'static str,
    /// The fields that it takes, in the order of the record.
    pub fields: &'static [&'static [Field]],
    /// The metrics that its case lines may hold.
    pub metrics: &'static [Metric],
    /// Checks one resolved combination. It may remove parameters that mean nothing in it, round sizes down (with the
    /// caveat), or mark the case to be skipped; it never replaces a value that the user gave.
    pub check: fn(&mut Case) -> Result<(), Problem>,
}

impl About {
    /// All fields, in the order of the record.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().flat_map(|group| group.iter())
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let wanted = terms::normalize(name);
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == wanted);
        let wanted = synonym.map_or(wanted.as_str(), |(_, name)| *name);
        self.all_fields().find(|field| field.name == wanted)
    }
}

/// Other spellings of fields.
pub const SYNONYMS: &[(&str, &str)] = &[("launches", "trials")];

/// Keys of a case that are no fields.
const RESERVED: [&str; 2] = ["benchmark", "zip"];

impl About {
    /// What is wrong with the declaration itself, for the test that walks the table of benchmarks: names that are given
    /// twice or misspelt, defaults that their own kind refuses, metrics that would hide a key of the case line.
    pub fn faults(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut names = std::collections::HashSet::new();
        for field in self.all_fields() {
            let name = field.name;
            if terms::normalize(name) != name || name.is_empty() || RESERVED.contains(&name) || !names.insert(name) {
                found.push(format!("field `{name}`: reserved, misspelt or given twice"));
            }
            if let Some(Err(cause)) = field.default.map(|default| field.read(default)) {
                found.push(format!("field `{name}`: its default is wrong: {cause}"));
            }
        }
        let line = crate::schema::record(&[]);
        let taken = &line["$defs"]["case_line"]["properties"];
        for metric in self.metrics {
            if taken.get(metric.name).is_some() || !names.insert(metric.name) {
                found.push(format!("metric `{}`: hides a key of the case line, a field or a metric", metric.name));
            }
        }
        found
    }
}

impl Field {
    /// The canonical value of a text, as plans and flags are read.
    ///
    /// # Errors
    /// What the kind does not take.
    pub fn read(&self, text: &str) -> Result<serde_json::Value, String> {
        crate::plan::canonical(self, text, false).map_err(|fault| fault.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_declaration_is_noticed() {
        const fn field(name: &'static str, kind: Kind, default: Option<&'static str>) -> Field {
            Field { name, kind, default, unit: "", doc: "", shown: Shown::Always, world: false, how: false }
        }
        const FIELDS: &[Field] = &[
            field("ranks", Kind::Whole(1, 4), Some("5")),
            field("zip", Kind::Bool, None),
            field("in-place", Kind::Bool, Some("true")),
            field("bytes", Kind::Bytes, Some("1KiB")),
            field("bytes", Kind::Bytes, None),
        ];
        const METRICS: &[Metric] = &[
            Metric { name: "busbw_gbs", unit: "GB/s", better: Better::Higher, doc: "" },
            Metric { name: "time_s", unit: "s", better: Better::Lower, doc: "" },
        ];
        let about = About { name: "x", doc: "", fields: &[FIELDS], metrics: METRICS, check: |_| Ok(()) };
        let faults = about.faults();
        let named: Vec<&str> = faults.iter().filter_map(|fault| fault.split('`').nth(1)).collect();
        assert_eq!(named, ["ranks", "zip", "in-place", "bytes", "time_s"], "{faults:?}");
    }
}
