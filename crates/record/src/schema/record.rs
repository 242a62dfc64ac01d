//! The schema of records. It is derived from the types that are written, so a new member needs no change here.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::DRAFT;
use super::words::HEX_12;
use crate::found::{
    CHECKED, DEVICE_S, LAUNCH_S, LEVELS, LIBRARY_BYTES, PATH, RANK_S, ROOFLINE, SENSORS, SLOW_RANK, SLOW_RANK_WAIT_S,
};
use crate::{About, CaseLine, CaseSamples, Key, Metric, RunFile, Shape};

/// The schema of one object of a record: a case line, a line of samples, or the run file.
pub fn record(benchmarks: &[&'static About]) -> Value {
    let mut types = types();
    let mut add = |name: &str, member: &str, schema: Value| types[name]["properties"][member] = schema;
    for metric in benchmarks.iter().flat_map(|about| about.metrics) {
        // Never null: an absent metric is omitted.
        let kind = if metric.shape == Shape::Word { json!("string") } else { json!(["number", "array", "object"]) };
        add("case_line", metric.name, json!({"description": described(metric), "type": kind}));
    }
    let names: Vec<&str> = benchmarks.iter().map(|about| about.name).collect();
    add("case_line", "benchmark", json!({"description": "The benchmark's name.", "enum": names}));
    // What the store adds to each line.
    let description = "The line's number within the run.";
    add("case_line", "line", json!({"description": description, "type": "integer", "minimum": 1}));
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
        "description": "CRC-32 (IEEE 802.3, as in zlib) of the line, or of run.json, without this member and its \
                        comma; records of earlier versions have none",
        "type": "string",
        "pattern": "^[0-9a-f]{8}$",
    })
}

/// The types that are written, by name. A member is required only if the reader needs it, because older records lack
/// others. It may be null only if the writer writes null.
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
    add_metric(&CHECKED, &mut types);
    add_metric(&LEVELS, &mut types);
    add_metric(&SLOW_RANK, &mut types);
    add_metric(&SLOW_RANK_WAIT_S, &mut types);
    add_metric(&LAUNCH_S, &mut types);
    add_metric(&PATH, &mut types);
    add_metric(&RANK_S, &mut types);
    add_metric(&DEVICE_S, &mut types);
    add_metric(&LIBRARY_BYTES, &mut types);
    add_metric(&SENSORS, &mut types);
    add_metric(&ROOFLINE, &mut types);
    types.take_definitions(true)
}

/// Adds a metric that a run may find for a case of any benchmark.
fn add_metric<T: JsonSchema>(key: &Key<T>, types: &mut SchemaGenerator) {
    let mut schema = types.subschema_for::<T>();
    schema.insert("description".to_owned(), described(&key.metric()).into());
    types.definitions_mut()["case_line"]["properties"][key.name()] = schema.into();
}

fn required(schema: &Value) -> Vec<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Removes null from the values that a member may have.
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

/// Removes `format`, which names Rust's number types, and line breaks in descriptions.
fn simplify(schema: &mut Schema) {
    if schema.get("format").is_some_and(|format| format != "date-time") {
        schema.remove("format");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}
