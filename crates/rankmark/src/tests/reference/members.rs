//! The members of a record's files, from their JSON Schema.

use serde_json::{Map, Value};

use super::Part;
use super::markdown::{cell, code, table};
use crate::commands::schema;

const DEPTH: usize = 1;

/// The three objects that files consist of, and what else these hold.
pub(super) fn parts() -> Vec<Part> {
    let schema = schema::of_records();
    let types = schema["$defs"].as_object().expect("it defines types");
    let whole = ["case_line", "sample_line", "run"];
    let others: String = types
        .iter()
        .filter(|(name, of)| !whole.contains(&name.as_str()) && has_members(of))
        .map(|(name, of)| format!("### {name}\n\n{}\n", described(of) + &members(of, types)))
        .collect();
    let part = |name: &'static str| (name, members(&types[name], types));
    vec![part("run"), part("case_line"), part("sample_line"), ("types", others)]
}

fn described(of: &Value) -> String {
    of["description"].as_str().map(|text| format!("{}\n\n", cell(text, DEPTH))).unwrap_or_default()
}

fn has_members(of: &Value) -> bool {
    of["properties"].is_object()
}

fn members(of: &Value, types: &Map<String, Value>) -> String {
    let required: Vec<&str> = of["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows = of["properties"].as_object().into_iter().flatten().map(|(name, member)| {
        let always = if required.contains(&name.as_str()) { "always" } else { "" };
        let text = cell(member["description"].as_str().unwrap_or_default(), DEPTH);
        vec![code(name), kind(member, types), always.to_owned(), text]
    });
    table(&["member", "type", "present", "meaning"], rows)
}

/// `integer`, `list of number`, a link to another type.
fn kind(member: &Value, types: &Map<String, Value>) -> String {
    if let Some(name) = member["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        let of = &types[name];
        // What is one of some words is said on the spot.
        return if has_members(of) { format!("[{name}](#{})", name.to_lowercase()) } else { kind(of, types) };
    }
    if let Some(word) = member["const"].as_str() {
        return format!("`{word}`");
    }
    if let Some(words) = member["enum"].as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    if let Some(kinds) = member["anyOf"].as_array().or(member["oneOf"].as_array()) {
        let kinds: Vec<String> = kinds.iter().map(|one| kind(one, types)).filter(|kind| kind != "anything").collect();
        return if kinds.is_empty() { "anything".to_owned() } else { kinds.join(" or ") };
    }
    let name = match &member["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => return "anything".to_owned(),
    };
    match name.as_str() {
        "array" => format!("list of {}", kind(&member["items"], types)),
        "object" if member["additionalProperties"].is_object() => {
            format!("object of {}", kind(&member["additionalProperties"], types))
        }
        _ => name,
    }
}
