//! As much of JSON Schema 2020-12 as our schemas use. The crates that know all of it would be seventy more to build.

use serde_json::Value;

/// What is wrong with `value`; a keyword that this validator does not know is a fault, too, so that none is skipped.
pub(crate) fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(schema, schema, value, "", &mut found);
    found
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if *schema == Value::Bool(true) {
        return;
    }
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let fine = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "$defs" | "format" | "deprecated" => true,
            "$ref" => {
                let target =
                    root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).expect("the target exists");
                check(root, target, value, at, found);
                true
            }
            "anyOf" => matching(root, rule, value, at) > 0,
            "oneOf" => matching(root, rule, value, at) == 1,
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| is(value, name)),
                one => is(value, one),
            },
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > rule.as_f64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= rule.as_u64().unwrap()),
            "maxLength" => value.as_str().is_none_or(|text| text.len() as u64 <= rule.as_u64().unwrap()),
            "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().unwrap(), text)),
            "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= rule.as_u64().unwrap()),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}/{index}"), found);
                }
                true
            }
            "required" => value
                .as_object()
                .is_none_or(|map| rule.as_array().unwrap().iter().all(|name| map.contains_key(name.as_str().unwrap()))),
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    if let Some(rule) = rule.get(name) {
                        check(root, rule, value, &format!("{at}/{name}"), found);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (name, value) in value.as_object().into_iter().flatten() {
                    match rule {
                        _ if known.is_some_and(|known| known.contains_key(name)) => {}
                        Value::Bool(false) => found.push(format!("{at}/{name}: unknown")),
                        rule => check(root, rule, value, &format!("{at}/{name}"), found),
                    }
                }
                true
            }
            _ => false,
        };
        if !fine {
            found.push(format!("{at}: {keyword}"));
        }
    }
}

/// How many of these schemas a value matches.
fn matching(root: &Value, options: &Value, value: &Value, at: &str) -> usize {
    let matches = |option: &&Value| {
        let mut faults = Vec::new();
        check(root, option, value, at, &mut faults);
        faults.is_empty()
    };
    options.as_array().unwrap().iter().filter(matches).count()
}

fn is(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no such type: {other}"),
    }
}

/// The patterns that our schemas hold.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^[0-9a-f]{12}$" => text.len() == 12 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "^[0-9a-f]{8}$" => text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" => {
            (1..=64).contains(&text.len())
                && text.starts_with(|first: char| first.is_ascii_alphanumeric())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        other => panic!("no such pattern: {other}"),
    }
}
