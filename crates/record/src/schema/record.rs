//! The schema of records: derived from the types that are written, so that a new member is described without another line.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use terms::Named;

use super::DRAFT;
use crate::found::{LAUNCH_S, LEVELS, ROOFLINE, SENSORS, SLOW_RANK, SLOW_RANK_WAIT_S};
use crate::{About, CaseLine, CaseSamples, Key, Metric, RunFile};

/// The pattern of identities of cases and runs.
pub(crate) const HEX_12: &str = "^[0-9a-f]{12}$";

/// A word of a closed set, in the schema.
pub(crate) struct Words<T>(PhantomData<T>);

impl<T: Named> JsonSchema for Words<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::KIND.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": T::names()})
    }
}

/// The value of a parameter, in the schema.
pub(crate) struct Scalar;

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number", "boolean"]})
    }
}

/// The metrics that runs find of any case, in the schema.
pub(crate) struct FoundMetrics;

impl JsonSchema for FoundMetrics {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "found metrics".into()
    }

    fn json_schema(types: &mut SchemaGenerator) -> Schema {
        let mut members = Map::new();
        found(&LEVELS, &mut members, types);
        found(&SLOW_RANK, &mut members, types);
        found(&SLOW_RANK_WAIT_S, &mut members, types);
        found(&LAUNCH_S, &mut members, types);
        found(&SENSORS, &mut members, types);
        found(&ROOFLINE, &mut members, types);
        json_schema!({"properties": members})
    }
}

fn found<T: JsonSchema>(key: &Key<T>, members: &mut Map<String, Value>, types: &mut SchemaGenerator) {
    let mut schema = types.subschema_for::<T>();
    schema.insert("description".to_owned(), described(&key.metric()).into());
    members.insert(key.name().to_owned(), schema.into());
}

/// The schema of one object of a record: a case line, a line of samples, or the run file.
pub fn record(benchmarks: &[&'static About]) -> Value {
    let mut types = types();
    let mut add = |name: &str, member: &str, schema: Value| types[name]["properties"][member] = schema;
    for metric in benchmarks.iter().flat_map(|about| about.metrics) {
        // Never null, since absent ones are omitted.
        let any = json!({"description": described(metric), "type": ["number", "string", "array", "object"]});
        add("case_line", metric.name, any);
    }
    let names: Vec<&str> = benchmarks.iter().map(|about| about.name).collect();
    add("case_line", "benchmark", json!({"description": "The benchmark's name.", "enum": names}));
    // What the store adds to each line.
    let number = "Its number among the lines of the run.";
    add("case_line", "line", json!({"description": number, "type": "integer", "minimum": 1}));
    for line in ["case_line", "sample_line"] {
        add(line, "run", json!({"description": "The `id` of run.json.", "type": "string", "pattern": HEX_12}));
    }
    for sealed in ["case_line", "sample_line", "run"] {
        add(sealed, "crc32", checksum());
    }
    json!({
        "$schema": DRAFT,
        "title": "Rankmark record",
        "description": "A line of cases.jsonl, a line of samples.jsonl, or run.json.",
        "anyOf": [{"$ref": "#/$defs/case_line"}, {"$ref": "#/$defs/sample_line"}, {"$ref": "#/$defs/run"}],
        "$defs": types,
    })
}

fn described(metric: &Metric) -> String {
    let unit = if metric.unit.is_empty() { String::new() } else { format!(" ({})", metric.unit) };
    format!("{}{unit}", metric.doc)
}

/// The last member of a line, and of the run file.
fn checksum() -> Value {
    json!({
        "description": "CRC-32 (IEEE 802.3, as zlib) of the line, or of run.json, without this member and its comma; records of earlier \
                        versions have none",
        "type": "string",
        "pattern": "^[0-9a-f]{8}$",
    })
}

/// The types that are written, by name. A member is required where the reader needs it: older records lack others. It may be
/// null only where the writer writes a null.
fn types() -> Map<String, Value> {
    let written = types_of(SchemaSettings::draft2020_12().for_serialize());
    let mut types = types_of(SchemaSettings::draft2020_12().for_deserialize());
    for (name, schema) in &mut types {
        let always = required(&written[name]);
        for (member, schema) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            if !always.contains(&member.as_str()) {
                refuse_null(schema);
            }
        }
    }
    types
}

fn types_of(settings: SchemaSettings) -> Map<String, Value> {
    let mut types = settings.with_transform(RecursiveTransform(simplify)).into_generator();
    <(CaseLine, CaseSamples, RunFile)>::json_schema(&mut types);
    types.take_definitions(true)
}

fn required(schema: &Value) -> Vec<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Takes null from the values that a member may have.
fn refuse_null(member: &mut Value) {
    for keyword in ["type", "enum", "anyOf"] {
        if let Some(values) = member.get_mut(keyword).and_then(Value::as_array_mut) {
            values.retain(|value| !value.is_null() && value != "null" && *value != json!({"type": "null"}));
        }
    }
    if let Some([Value::String(only)]) = member["type"].as_array().map(Vec::as_slice) {
        member["type"] = only.clone().into();
    }
    if let Some([Value::Object(only)]) = member["anyOf"].as_array().map(Vec::as_slice) {
        let only = only.clone();
        let member = member.as_object_mut().expect("it has a member");
        member.remove("anyOf");
        member.extend(only);
    }
}

/// Leaves out the names that Rust has for numbers, and the line breaks of descriptions.
fn simplify(schema: &mut Schema) {
    if schema.get("format").is_some_and(|format| format != "date-time") {
        schema.remove("format");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
