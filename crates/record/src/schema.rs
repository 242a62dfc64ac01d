//! JSON Schemas (draft 2020-12) of plans and records, made from the declared fields and metrics, so that an editor
//! completes and checks a plan and others can read a record.
//!
//! They accept what this program writes, and plans in their usual spelling: that hyphens stand for underscores, and
//! any nesting of field names, is forgiven by the reader and not said here. Combinations (a root among the ranks) are
//! for the reader to judge.

use serde_json::{Map, Value, json};

use crate::plan::limits;
use crate::{About, Basis, Caveat, SCHEMA, WorldUse};
use terms::{Field, Kind, Mode, Named, Role, Status};

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
    let parameters: Map<String, Value> = fields.map(|field| (field.name.to_owned(), item(field))).collect();
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

/// The schema of one object of a record: a case line, a line of samples, or the run file.
pub fn record(benchmarks: &[&'static About]) -> Value {
    json!({
        "$schema": DRAFT,
        "title": "Rankmark record",
        "description": "A line of cases.jsonl, a line of samples.jsonl, or run.json.",
        "anyOf": [{"$ref": "#/$defs/case_line"}, {"$ref": "#/$defs/sample_line"}, {"$ref": "#/$defs/run"}],
        "$defs": {
            "case_line": case_line(benchmarks),
            "sample_line": sample_line(),
            "run": run(),
        },
    })
}

fn case(about: &About) -> Value {
    let mut properties = Map::new();
    properties.insert("benchmark".to_owned(), json!({"const": about.name, "description": about.doc}));
    let zipped: Map<String, Value> = about
        .all_fields()
        .map(|field| (field.name.to_owned(), json!({"type": "array", "minItems": 1, "items": item(field)})))
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

/// The fields of a benchmark, and groups of them (`pace: {bandwidth, latency}`).
fn fields(about: &About) -> Map<String, Value> {
    let mut properties: Map<String, Value> =
        about.all_fields().map(|field| (field.name.to_owned(), values(field))).collect();
    for field in about.all_fields() {
        let Some((group, _)) = field.name.split_once('_') else { continue };
        let members: Map<String, Value> = about
            .all_fields()
            .filter_map(|member| Some((member.name.strip_prefix(group)?.strip_prefix('_')?.to_owned(), values(member))))
            .collect();
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

fn case_line(benchmarks: &[&'static About]) -> Value {
    let number = json!({"type": "number"});
    let count = json!({"type": "integer", "minimum": 0});
    let text = json!({"type": "string"});
    let percentiles = ["median", "mean", "p05", "p50", "p95", "p99", "min", "max"];
    let mut time: Map<String, Value> = percentiles.iter().map(|name| ((*name).to_owned(), number.clone())).collect();
    let interval = json!({"type": "array", "items": number, "minItems": 2, "maxItems": 2});
    time.insert("ci95".to_owned(), interval.clone());
    time.insert("ci95_again".to_owned(), interval.clone());
    let mut properties = json!({
        "schema": {"const": SCHEMA},
        "id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
        "benchmark": {"enum": benchmarks.iter().map(|about| about.name).collect::<Vec<_>>()},
        "parameters": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        "status": {"enum": Status::names()},
        "reason": text,
        "ranks": {"type": "integer", "minimum": 1},
        "hosts": {"type": "integer", "minimum": 2},
        "pair_hosts": {"type": "integer", "minimum": 1, "maximum": 2},
        "runtime": text,
        "backend": text,
        "device": text,
        "dtype": text,
        "mode": {"enum": Mode::names()},
        "bytes": count,
        "bytes_requested": count,
        "samples": count,
        "calls_per_sample": count,
        "time_s": {"type": "object", "required": ["median"], "properties": time},
        "per_rank_median_s": {"type": "array", "items": number},
        "clocks": {"type": "array", "items": {
            "description": "clocks of the other hosts against that of rank 0's",
            "type": "object",
            "required": ["host"],
            "additionalProperties": false,
            "properties": {
                "host": text,
                "offset_ns": {"type": "integer"},
                "drift_ppm": number,
                "residual_ns": number,
                "why": text,
            },
        }},
        "starts_apart_s": number,
        "slow_rank": count,
        "slow_rank_wait_s": number,
        "launch_s": number,
        "device_s": {"type": "object", "additionalProperties": number},
        "library_bytes": count,
        "levels": {"type": "array", "items": {
            "description": "a level of speed that the machine was at: the median of its trials, their number, and their share",
            "type": "object",
            "required": ["median_s", "trials", "share"],
            "additionalProperties": false,
            "properties": {"median_s": number, "trials": count, "share": number},
        }},
        "roofline": {"type": "object"},
        "wrong": count,
        "wrong_elements": {"type": "array", "items": {
            "type": "object",
            "required": ["rank", "index", "expected", "got"],
            "properties": {"rank": count, "index": count, "expected": text, "got": text},
        }},
        "gates_missed": {"type": "array", "items": text},
        "caveats": {"type": "array", "items": {"enum": Caveat::names()}},
        "simulated": {"type": "boolean"},
        "run": run_identity(),
        "line": {"description": "its number among the lines of the run", "type": "integer", "minimum": 1},
        "crc32": checksum(),
    });
    properties["sensors"] = json!({
        "type": "object",
        "properties": {
            "temperature_c": number, "clock_mhz": number, "power_w": number, "utilization": number,
            "devices": {"type": "array", "items": {
                "type": "object",
                "required": ["device"],
                "properties": {
                    "device": count, "temperature_c": number, "clock_mhz": number, "power_w": number,
                    "utilization": number, "memory_bytes": number,
                },
            }},
        },
    });
    properties["trials"] = count.clone();
    properties["span_s"] = number.clone();
    properties["worlds"] = json!({"enum": WorldUse::names()});
    properties["trial_median_s"] = json!({"type": "array", "items": number});
    properties["trial_round"] = json!({"type": "array", "items": count});
    properties["state"] = json!({"description": "the state of the machine that these times are of", "type": "string"});
    properties["states"] = crate::state::case_states();
    properties["limit"] = json!({
        "description": "time of the memory traffic that a call cannot avoid, and its share of the call's time",
        "type": "object",
        "required": ["variant", "time_s", "share"],
        "additionalProperties": false,
        "properties": {"variant": text, "time_s": number, "ci95": interval, "share": number, "share_ci95": interval},
    });
    for metric in benchmarks.iter().flat_map(|about| about.metrics) {
        // A metric may be a number, a list, or an object of numbers; never null, since absent ones are omitted.
        properties[metric.name] = json!({
            "description": format!("{} ({})", metric.doc, metric.unit),
            "type": ["number", "array", "object"],
        });
    }
    let required = [
        "schema",
        "id",
        "benchmark",
        "parameters",
        "status",
        "ranks",
        "runtime",
        "backend",
        "device",
        "mode",
        "caveats",
        "simulated",
    ];
    json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
}

fn sample_line() -> Value {
    json!({
        "type": "object",
        "required": ["id", "trial", "calls", "ns"],
        "additionalProperties": false,
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
            "trial": {"type": "integer", "minimum": 0},
            "round": {"type": "integer", "minimum": 0},
            "begun_s": {"description": "seconds since 1970", "type": "number"},
            "after": {"description": "the case that was visited before", "type": "string"},
            "fresh": {"description": "whether ranks were started for this round", "type": "boolean"},
            "slices": {
                "description": "samples of each slice, where the trial was interleaved with another side",
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
            },
            "calls": {"type": "integer", "minimum": 0},
            "ns": {
                "description": "[rank][sample], nanoseconds of all calls of a sample",
                "type": "array",
                "items": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            },
            "run": run_identity(),
            "crc32": checksum(),
        },
    })
}

/// The member by which a line names its run.
fn run_identity() -> Value {
    json!({"description": "the `id` of run.json", "type": "string", "pattern": "^[0-9a-f]{12}$"})
}

/// The last member of a line.
fn checksum() -> Value {
    json!({
        "description": "CRC-32 (IEEE 802.3, as zlib) of the line, or of run.json, without this member and its comma; records of earlier \
                        versions have none",
        "type": "string",
        "pattern": "^[0-9a-f]{8}$",
    })
}

fn imported() -> Value {
    json!({
        "description": "what another program measured, and where its figures stand",
        "type": "object",
        "required": ["format", "file", "sha256", "tool", "statistic"],
        "additionalProperties": false,
        "properties": {
            "format": {"type": "string"},
            "file": {"type": "string"},
            "sha256": {"type": "string"},
            "tool": {"type": "string"},
            "statistic": {"type": "string"},
            "runs": {"type": "integer", "minimum": 1},
            "facts": {"type": "object", "additionalProperties": {"type": "string"}},
            "notes": {"type": "array", "items": {"type": "string"}},
            "cut": {"type": "boolean", "description": "the end of a run is missing: it was ended, or the file is cut"},
            "omitted": {"type": "array", "items": {"type": "string"}},
        },
    })
}

fn run() -> Value {
    let objects = json!({"type": "array", "items": {"type": "object"}});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({
        "type": "object",
        "required": ["schema", "tool", "experiment", "started", "command_line", "machine", "plan", "benchmarks", "simulated"],
        "additionalProperties": false,
        "properties": {
            "schema": {"const": SCHEMA},
            "id": run_identity(),
            "tool": {
                "type": "object",
                "required": ["name", "version"],
                "properties": {"name": {"type": "string"}, "version": {"type": "string"}},
            },
            "experiment": {"type": "string"},
            "labels": {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "name": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "note": {"type": "string"},
                },
            },
            "started": {"type": "string", "format": "date-time"},
            "command_line": {"type": "array", "items": {"type": "string"}},
            "launcher": {"type": "array", "items": {"type": "string"}},
            "machine": {"type": "object"},
            "hosts": objects,
            "placement": objects,
            "versions": texts,
            "backends": objects,
            "started_by": {"type": "string"},
            "environment": texts,
            "plan": {
                "type": "object",
                "required": ["experiment", "profiling", "cases"],
                "properties": {"cases": {"type": "array", "items": {
                    "type": "object",
                    "required": ["id", "benchmark", "parameters", "settings", "world"],
                }}},
            },
            "benchmarks": objects,
            "overhead": {"type": "object", "properties": {"sample_ns": {"type": "number"}, "call_ns": {"type": "number"}}},
            "rounds": {
                "type": "object",
                "required": ["seed", "made"],
                "properties": {
                    "seed": {"type": "integer", "minimum": 0},
                    "made": {"type": "integer", "minimum": 0},
                    "correlation": {"type": "number"},
                },
            },
            "states": crate::state::machine_states(),
            "unseen_states": crate::state::machine_states(),
            "end": {
                "description": "absent while the run goes on, and where it was killed",
                "type": "object",
                "required": ["case_lines"],
                "properties": {"case_lines": {"type": "integer", "minimum": 0}},
            },
            "interleaved": {"type": "object", "required": ["sides", "threshold"]},
            "profiles": objects,
            "imported": imported(),
            "merged": objects,
            "simulated": {"type": "boolean"},
            "crc32": checksum(),
        },
    })
}
