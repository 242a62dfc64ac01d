//! The record of a stranger: every member that the schema knows, and any text wherever the reader takes one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use report::Run;
use serde_json::{Map, Value, json};

use crate::data;

/// The files of a record, parsed.
#[derive(Clone)]
pub(crate) struct Stranger {
    run: Value,
    cases: Vec<Value>,
    explained: Value,
}

impl Stranger {
    /// A record in which each member is there that a record may have.
    pub(crate) fn new() -> Self {
        let mut explained = data::explained();
        let mut lines = data::three_by_twenty().cases;
        lines.truncate(44);
        lines.retain(|line| line.bytes.is_none_or(|bytes| bytes.trailing_zeros().is_multiple_of(4)));
        lines.extend(explained.cases.iter().cloned());
        lines.iter_mut().zip(1..).for_each(|(line, number): (_, u32)| line.id = format!("{number:012x}"));
        if let (Some(of), Some(line)) = (&mut explained.explained, lines.iter().rfind(|line| line.ranks == 4)) {
            of.cases[0].case.clone_from(&line.id);
        }
        lines[1].status = terms::Status::Failed;
        lines[1].reason = Some("2 wrong elements".into());
        let used: BTreeSet<&str> = lines.iter().map(|line| line.benchmark.as_str()).collect();
        let declared: Vec<_> = explained.benchmarks.iter().filter(|one| used.contains(one.name.as_str())).collect();
        let about = json!({"schema": 1, "tool": {"name": "rankmark", "version": "0.1.0"}, "experiment": "sweep",
            "started": "2026-11-20T10:15:00Z", "command_line": ["rankmark", "run", "my plan.yaml"], "simulated": false,
            "plan": {"experiment": "sweep", "profiling": false, "cases": []}, "benchmarks": declared});
        let schema = record::schema::record(&benchmarks::abouts());
        let filled = |kind: &str, mut value: Value| {
            fill(&mut value, &schema["$defs"][kind], &schema["$defs"], 0);
            for sealed in ["crc32", "run", "line", "id"] {
                // What the store adds, and a run without an identity takes all lines.
                if kind == "run" || sealed != "id" {
                    value.as_object_mut().unwrap().remove(sealed);
                }
            }
            value
        };
        // Members that say what else a record is: each line would be another one's.
        let mut run = filled("run", about);
        run["end"] = json!({"case_lines": lines.len()});
        let cases = lines.iter().enumerate().map(|(at, line)| match at {
            // One of each kind is enough: each member has one place in a report.
            0 | 1 => filled("case_line", json!(line)),
            _ => json!(line),
        });
        let cases = cases.collect();
        Self { run, cases, explained: json!(explained.explained) }
    }

    /// The texts and the names of members of a record.
    pub(crate) fn texts(&self) -> BTreeSet<String> {
        let mut texts = BTreeSet::new();
        let mut note = |text: &str| {
            texts.insert(text.to_owned());
        };
        self.parts().for_each(|part| each(part, &mut note));
        texts
    }

    fn parts(&self) -> impl Iterator<Item = &Value> {
        [&self.run, &self.explained].into_iter().chain(&self.cases)
    }

    /// The record with other texts: equal ones stay equal.
    pub(crate) fn with(&self, texts: &BTreeMap<String, String>) -> Self {
        let changed = |value: &Value| replaced(value, texts);
        Self {
            run: changed(&self.run),
            cases: self.cases.iter().map(changed).collect(),
            explained: changed(&self.explained),
        }
    }

    pub(crate) fn write(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        let lines: String = self.cases.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(directory.join("cases.jsonl"), lines).unwrap();
        std::fs::write(directory.join("run.json"), self.run.to_string()).unwrap();
        std::fs::write(directory.join("profile.json"), self.explained.to_string()).unwrap();
    }

    /// The record as a report reads it, whatever it leaves out.
    pub(crate) fn read_any(&self, directory: &Path) -> Run {
        self.write(directory);
        Run::read(directory, benchmarks::VIEWS).unwrap()
    }

    /// The record as a report reads it; None where the reader refuses it, or leaves out a part of it.
    pub(crate) fn read(&self, directory: &Path) -> Option<Run> {
        self.write(directory);
        let run = Run::read(directory, benchmarks::VIEWS).ok()?;
        let is_whole = run.cases.len() == self.cases.len() && run.explained.is_some() && run.damaged.is_empty();
        is_whole.then_some(run)
    }

    /// The record, and the texts in it that the reader takes any text for.
    pub(crate) fn with_free_texts() -> &'static (Self, Vec<String>) {
        static FOUND: OnceLock<(Stranger, Vec<String>)> = OnceLock::new();
        FOUND.get_or_init(|| {
            let (stranger, folder) = (Self::new(), tempfile::tempdir().unwrap());
            let free = stranger.free(folder.path());
            (stranger, free)
        })
    }

    /// The record with this text as each member of this name.
    pub(crate) fn with_member(&self, name: &str, text: &str) -> Self {
        let mut other = self.clone();
        let parts = [&mut other.run, &mut other.explained].into_iter().chain(&mut other.cases);
        let found: usize = parts.map(|part| set(part, name, text)).sum();
        assert!(found > 0, "no {name}");
        other
    }

    fn free(&self, directory: &Path) -> Vec<String> {
        self.write(directory);
        let run = Run::read(directory, benchmarks::VIEWS).unwrap();
        assert_eq!((run.cases.len(), run.damaged.len()), (self.cases.len(), 0), "{:?}", run.notes);
        // Names of members and words of closed sets are not texts of data.
        let mut fixed = BTreeSet::new();
        closed(&record::schema::record(&benchmarks::abouts()), &mut fixed);
        let all: Vec<String> = self.texts().difference(&fixed).cloned().collect();
        let mut free = Vec::new();
        self.halve(&all, directory, &mut free);
        free
    }

    /// Halves lists until the reader takes all of one, or there is one text left.
    fn halve(&self, texts: &[String], directory: &Path, free: &mut Vec<String>) {
        let other = texts.iter().map(|text| (text.clone(), format!("{text} x"))).collect();
        if self.with(&other).read(directory).is_some() {
            free.extend_from_slice(texts);
        } else if texts.len() > 1 {
            let (first, rest) = texts.split_at(texts.len() / 2);
            self.halve(first, directory, free);
            self.halve(rest, directory, free);
        }
    }
}

/// Adds members that are not there, as the schema describes them.
fn fill(value: &mut Value, schema: &Value, types: &Value, depth: usize) {
    let schema = resolved(schema, types);
    if let (Value::Object(members), Some(known)) = (&mut *value, schema["properties"].as_object()) {
        for (name, schema) in known {
            match members.get_mut(name) {
                Some(member) => fill(member, schema, types, depth + 1),
                None if depth < 6 => drop(members.insert(name.clone(), made(name, schema, types, depth + 1))),
                None => {}
            }
        }
    }
}

fn resolved<'s>(schema: &'s Value, types: &'s Value) -> &'s Value {
    let of = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    let of = of.map_or(schema, |name| &types[name]);
    match of["anyOf"].as_array().or_else(|| of["oneOf"].as_array()).and_then(|any| any.first()) {
        Some(first) => resolved(first, types),
        None if of["$ref"].is_string() => resolved(of, types),
        None => of,
    }
}

/// A value of a schema; a text has the name of its member in it.
fn made(name: &str, schema: &Value, types: &Value, depth: usize) -> Value {
    let schema = resolved(schema, types);
    if let Some(only) = schema.get("const").or_else(|| schema["enum"].as_array().and_then(|values| values.first())) {
        return only.clone();
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => kind.as_str().into_iter().collect(),
    };
    let item = |number: usize| match schema["prefixItems"].as_array().and_then(|items| items.get(number)) {
        Some(item) => made(name, item, types, depth + 1),
        None => made(name, &schema["items"], types, depth + 1),
    };
    match kinds.first().copied() {
        Some("string") if schema["format"] == "date-time" => json!("2026-11-20T10:15:00Z"),
        Some("string") if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("[0-9a-f]{12}")) => {
            json!("0123456789ab")
        }
        Some("string") => json!(format!("a {name}")),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(1),
        Some("array") if depth < 8 => {
            let number = schema["minItems"].as_u64().unwrap_or(1).max(1) as usize;
            (0..number).map(item).collect()
        }
        Some("object") if depth < 8 => {
            let mut members = Map::new();
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                members.insert(name.clone(), made(name, schema, types, depth + 1));
            }
            if schema["additionalProperties"].is_object() {
                let name = format!("a {name}");
                members.insert(name.clone(), made(&name, &schema["additionalProperties"], types, depth + 1));
            }
            Value::Object(members)
        }
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!(null),
    }
}

fn each(value: &Value, note: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => note(text),
        Value::Array(items) => items.iter().for_each(|item| each(item, note)),
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            note(name);
            each(member, note);
        }),
        _ => {}
    }
}

fn set(value: &mut Value, name: &str, text: &str) -> usize {
    match value {
        Value::Array(items) => items.iter_mut().map(|item| set(item, name, text)).sum(),
        Value::Object(members) => members
            .iter_mut()
            .map(|(own, member)| match member {
                Value::String(member) if own == name => {
                    text.clone_into(member);
                    1
                }
                other => set(other, name, text),
            })
            .sum(),
        _ => 0,
    }
}

/// The names of members that a schema knows, and the words that it lists.
fn closed(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| closed(item, words)),
        Value::Object(members) => {
            words.extend(
                members.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.keys().cloned()),
            );
            let listed = members.get("enum").and_then(Value::as_array).into_iter().flatten();
            words.extend(listed.chain(members.get("const")).filter_map(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| closed(member, words));
        }
        _ => {}
    }
}

fn replaced(value: &Value, texts: &BTreeMap<String, String>) -> Value {
    let other = |text: &String| texts.get(text).unwrap_or(text).clone();
    match value {
        Value::String(text) => Value::String(other(text)),
        Value::Array(items) => items.iter().map(|item| replaced(item, texts)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (other(name), replaced(member, texts))).collect())
        }
        plain => plain.clone(),
    }
}
