//! What is wrong with what a benchmark declares.

use std::collections::HashSet;

use terms::{Field, Kind};

use crate::{About, SHARED_FIELDS, read_value};

/// Keys of a case that are not fields.
const RESERVED: [&str; 2] = ["benchmark", "zip"];

impl About {
    /// What is wrong with the declaration itself, for the test that walks the table of benchmarks: names that are given
    /// twice or misspelt, defaults that their own kind refuses, metrics that would hide a key of the case line.
    pub fn faults(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut names = HashSet::new();
        for field in self.all_fields() {
            found.extend(faults_of(field, &mut names));
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

/// What is wrong with a field. `names` are those that others have.
fn faults_of(field: &Field, names: &mut HashSet<&'static str>) -> Vec<String> {
    let mut found = Vec::new();
    for name in field.names() {
        let is_other = RESERVED.contains(&name) || crate::SYNONYMS.iter().any(|(other, _)| *other == name);
        if terms::normalize(name) != name || name.is_empty() || is_other || !names.insert(name) {
            found.push(format!("field `{name}`: reserved, misspelt or given twice"));
        }
        // Functions that know no declaration read such a field.
        if SHARED_FIELDS.contains(&field.name) && !SHARED_FIELDS.contains(&name) {
            found.push(format!("field `{name}`: `shared_fields.rs` does not read this earlier name"));
        }
    }
    let name = field.name;
    if let Kind::Choice(variants) = field.kind
        && let Some(option) = variants.iter().flat_map(|one| one.options).find(|option| !option.was.is_empty())
    {
        found.push(format!("option `{}` of `{name}`: an option of a choice has one name", option.name));
    }
    if let Some(Err(cause)) = field.default.map(|default| read_value(field, default)) {
        found.push(format!("field `{name}`: its default is wrong: {cause}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, Metric};

    #[test]
    fn a_wrong_declaration_is_noticed() {
        const fn field(name: &'static str, kind: Kind, default: Option<&'static str>) -> Field {
            Field::new(kind, default, "").named(name)
        }
        const FIELDS: &[Field] = &[
            field("ranks", Kind::Whole(1, 4), Some("5")),
            field("zip", Kind::Bool, None),
            field("in-place", Kind::Bool, Some("true")),
            field("bytes", Kind::Bytes, Some("1KiB")),
            field("bytes", Kind::Bytes, None),
            field("size", Kind::Bytes, None).was(&["bytes"]),
            field("threads", Kind::Bool, None).was(&["cores"]),
            field("root", Kind::Bool, None).was(&["pattern", "origin"]),
        ];
        const METRICS: &[Metric] =
            &[Metric::new("busbw_gbs", "GB/s", Better::Higher, ""), Metric::new("time_s", "s", Better::Lower, "")];
        let show = crate::show::Show::default;
        let about = About {
            name: "x",
            doc: "",
            fields: &[|| FIELDS],
            metrics: METRICS,
            check: |_| Ok(()),
            command: None,
            show,
        };
        let faults = about.faults();
        let named: Vec<&str> = faults.iter().filter_map(|fault| fault.split('`').nth(1)).collect();
        assert_eq!(named, ["ranks", "zip", "in-place", "bytes", "bytes", "cores", "pattern", "time_s"], "{faults:?}");
    }
}
