//! Values of fields in headings and labels.

use record::Declared;
use serde_json::Value;

/// A parameter's value as it is written in a plan.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A field's value as labels write it. The field declares the form; the default is a word alone, a switch as the field's
/// name, a number with the field's name. Always one line.
pub fn label_of(declared: Option<&Declared>, name: &str, value: &str) -> String {
    crate::one_line(&declared_label(declared, name, value))
}

fn declared_label(declared: Option<&Declared>, name: &str, value: &str) -> String {
    let field = declared.and_then(|declared| declared.field(name));
    let label = field.map_or("", |field| field.label.as_str());
    if let Some((on, off)) = label.split_once('|') {
        return if value == "true" { on } else { off }.to_owned();
    }
    let shown = quantity(field.map_or("", |field| field.kind.as_str()), value);
    if label.contains("{}") {
        return label.replace("{}", shown.as_deref().unwrap_or(value));
    }
    match value {
        "true" => name.replace('_', " "),
        "false" => format!("no {}", name.replace('_', " ")),
        number if number.parse::<f64>().is_ok() => {
            format!("{} {}", name.replace('_', " "), shown.as_deref().unwrap_or(number))
        }
        word => word.to_owned(),
    }
}

/// A value of a kind that has a unit, with that unit; None of other kinds.
fn quantity(kind: &str, value: &str) -> Option<String> {
    let number: f64 = value.parse().ok()?;
    match kind {
        "bytes" => value.parse().ok().map(crate::number::bytes),
        "seconds" => Some(crate::number::seconds(number)),
        "bandwidth" => Some(crate::number::bandwidth(number / 1e9)),
        _ => None,
    }
}
