//! JSON Schemas (draft 2020-12) of plans and records, so that an editor completes and checks a plan and others can read a
//! record. That of plans is made from the declared fields; that of records from the types that are written, and the declared
//! metrics.
//!
//! They accept what this program writes, and plans in their usual spelling: that hyphens stand for underscores, and
//! any nesting of field names, is forgiven by the reader and not said here. Combinations (a root among the ranks) are
//! for the reader to judge.

use serde_json::{Map, Value, json};

use crate::plan::limits;
use crate::{About, Basis};
use terms::{Field, Kind, Named, Role};

mod record;
pub(crate) mod words;

pub use record::record;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a plan over these benchmarks.
pub fn plan(benchmarks: &[&'static About]) -> Value {
    let cases: Vec<Value> = benchmarks.iter().map(|about| case(about)).collect();
    let mut defaults = Map::new();
    for about in benchmarks {
        for (name, schema) in fields(about) {
            // One name may mean different words to different benchmarks: a default has to suit one of them.
            match defaults.get_mut(&name) {
                None => drop(defaults.insert(name, schema)),
                Some(other) if *other == schema => {}
                Some(other) => *other = json!({"anyOf": [other.take(), schema]}),
            }
        }
    }
    json!({
        "$schema": DRAFT,
        "title": "Rankmark plan",
        "type": "object",
        "required": ["experiment", "cases"],
        "additionalProperties": false,
        "properties": {
            "experiment": {
                "description": "The run's name, also its directory's.",
                "type": "string",
                "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
            },
            "profiling": {
                "type": "object",
                "additionalProperties": false,
                "properties": {"enabled": {"type": "boolean", "default": false}},
            },
            "defaults": {
                "description": "Values for every case that gives none itself, if its benchmark has the field.",
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": defaults,
            },
            "cases": {
                "description": "Lists multiply, in written order, the last field fastest.",
                "type": "array",
                "minItems": 1,
                "items": {"anyOf": cases},
            },
            "expected": {
                "description": "Figures that the hardware is expected to reach, for reports.",
                "type": ["array", "null"],
                "maxItems": limits::EXPECTED,
                "items": {"anyOf": benchmarks.iter().map(|about| expected(about)).collect::<Vec<_>>()},
            },
        },
    })
}

/// An expected figure of a benchmark.
fn expected(about: &About) -> Value {
    let metrics: Vec<&str> =
        about.metrics.iter().filter(|one| one.shape.is_number()).map(|metric| metric.name).collect();
    let fields = about.all_fields().filter(|field| field.role != Role::Sampling);
    let parameters: Map<String, Value> = fields.flat_map(|field| by_names(field, item(field))).collect();
    json!({
        "type": "object",
        "required": ["benchmark", "metric", "value", "basis", "source"],
        "additionalProperties": false,
        "properties": {
            "benchmark": {"const": about.name, "description": about.doc},
            "where": {
                "description": "Parameters that a case must have, one value each.",
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": parameters,
            },
            "metric": {"enum": metrics},
            "value": {"description": "In the metric's unit.", "type": "number", "exclusiveMinimum": 0},
            "basis": {"enum": Basis::names()},
            "source": {"description": "Where the figure was read.", "type": "string", "minLength": 1},
        },
    })
}

fn case(about: &About) -> Value {
    let mut properties = Map::new();
    properties.insert("benchmark".to_owned(), json!({"const": about.name, "description": about.doc}));
    let zipped: Map<String, Value> = about
        .all_fields()
        .flat_map(|field| by_names(field, json!({"type": "array", "minItems": 1, "items": item(field)})))
        .collect();
    properties.insert(
        "zip".to_owned(),
        json!({
            "description": "Lists of equal length that advance together.",
            "type": "object",
            "additionalProperties": false,
            "properties": zipped,
        }),
    );
    properties.extend(fields(about));
    json!({"type": "object", "required": ["benchmark"], "additionalProperties": false, "properties": properties})
}

/// A field as a property, under each of its names. An earlier name is marked as one.
fn by_names(field: &Field, schema: Value) -> impl Iterator<Item = (String, Value)> + use<> {
    let name = field.name;
    field.names().map(move |known| {
        let mut schema = schema.clone();
        if let Some(schema) = schema.as_object_mut().filter(|_| known != name) {
            schema.insert("deprecated".to_owned(), true.into());
        }
        (known.to_owned(), schema)
    })
}

/// The fields of a benchmark, and groups of them (`pace: {bandwidth, latency}`).
fn fields(about: &About) -> Map<String, Value> {
    let mut properties: Map<String, Value> =
        about.all_fields().flat_map(|field| by_names(field, values(field))).collect();
    let names: Vec<(&str, &Field)> =
        about.all_fields().flat_map(|field| field.names().map(move |name| (name, field))).collect();
    for (name, _) in &names {
        let Some((group, _)) = name.split_once('_') else { continue };
        let members = names.iter().filter_map(|(member, field)| {
            Some((member.strip_prefix(group)?.strip_prefix('_')?.to_owned(), values(field)))
        });
        let members: Map<String, Value> = members.collect();
        // A group of one is nobody's spelling.
        if members.len() > 1 && !properties.contains_key(group) {
            properties.insert(
                group.to_owned(),
                json!({"type": "object", "additionalProperties": false, "properties": members}),
            );
        }
    }
    properties
}

/// A field's value or list of values.
fn values(field: &Field) -> Value {
    let one = item(field);
    let most = match (field.kind, field.role) {
        (Kind::Texts, _) => limits::TEXTS,
        (_, Role::Sampling) => 1,
        _ => limits::CASES,
    };
    let mut schema = json!({"anyOf": [one.clone(), {"type": "array", "minItems": 1, "maxItems": most, "items": one}]});
    let unit = if field.unit.is_empty() { String::new() } else { format!(" ({})", field.unit) };
    schema["description"] = format!("{}{unit}", field.doc).into();
    if let Some(default) = field.default {
        schema["default"] = default_of(field, default);
    }
    schema
}

/// The declared default as JSON; its text where it is a quantity with a unit, which is how a plan spells it.
fn default_of(field: &Field, text: &str) -> Value {
    match field.kind {
        Kind::Whole(..) | Kind::Bool => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

/// One value of a field.
fn item(field: &Field) -> Value {
    let quantity = |form: &str| json!({"type": ["number", "string"], "minimum": 0, "description": form});
    match field.kind {
        Kind::Whole(low, u64::MAX) => json!({"type": "integer", "minimum": low}),
        Kind::Whole(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Kind::Bytes => json!({"anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "description": "64KiB, 100MB, or a range: 8..1GiB*2"},
            {
                "type": "object",
                "required": ["from", "to"],
                "additionalProperties": false,
                "properties": {
                    "from": {"type": ["integer", "string"], "minimum": 1},
                    "to": {"type": ["integer", "string"], "minimum": 1},
                    "factor": {"type": "integer", "minimum": 2, "default": 2},
                },
            },
        ]}),
        Kind::Seconds => quantity("5us, 20ms, 60s; a bare number is seconds"),
        Kind::Bandwidth => json!({"type": "string", "description": "10GB/s, 100Gbit/s"}),
        Kind::Ratio => quantity("2% or 0.02"),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Word(words) => json!({"enum": words()}),
        Kind::Choice(variants) => json!({"anyOf": [
            {"type": "string", "description": "NAME, or NAME:option=value,..."},
            {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": false,
                "properties": variants.iter().map(|one| (one.name.to_owned(), options(one))).collect::<Map<_, _>>(),
            },
        ]}),
        Kind::Text | Kind::Texts => json!({"type": ["string", "number", "boolean"], "maxLength": limits::SCALAR}),
    }
}

/// The options of a variant, each a value or a list.
fn options(variant: &terms::Variant) -> Value {
    let properties: Map<String, Value> =
        variant.options.iter().map(|option| (option.name.to_owned(), values(option))).collect();
    json!({
        "type": ["object", "null"],
        "description": variant.doc,
        "additionalProperties": false,
        "properties": properties,
    })
}
