//! One scalar's text to the canonical value of its kind.

use serde_json::Value;
use terms::{Bandwidth, Bytes, Error, Field, Kind, Ratio, Seconds, normalize, suggestion};

use super::source::{At, shown};
use super::tree::{PlanNode, Tree};
use super::{limits, other_words};

/// The canonical value of a text: bytes as an integer, seconds, bytes per second and shares as numbers, words in their
/// one spelling.
pub(crate) fn canonical(field: &Field, text: &str, quoted: bool) -> Result<Value, Error> {
    let name = field.name;
    match field.kind {
        Kind::Whole(..) | Kind::Bool if quoted => {
            Err(Error::new(format!("`{name}` must be {}, not a text", wants(field))).hint("remove the quotes"))
        }
        Kind::Whole(low, high) => whole(field, text, low, high),
        Kind::Bool => match normalize(text).as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(Error::new(format!("`{name}` must be true or false, not `{}`", shown(text)))),
        },
        Kind::Bytes => quantity(field, text, |Bytes(bytes)| Some(bytes.into())),
        Kind::Seconds => quantity(field, text, |Seconds(seconds)| canonical_number(seconds)),
        Kind::Bandwidth => quantity(field, text, |Bandwidth(bytes)| canonical_number(bytes)),
        Kind::Ratio => quantity(field, text, |Ratio(share)| canonical_number(share)),
        Kind::Word(words) => word(field, text, &words()),
        Kind::Choice(variants) => {
            let tree = Tree::Scalar { text: text.to_owned(), quoted };
            let items = super::choice::items(field, variants, &PlanNode { at: At::default(), tree });
            let first = items.map_err(|(_, fault)| fault)?.into_iter().next();
            first.map(|item| item.value).ok_or_else(|| Error::new(format!("`{name}` has no value")))
        }
        Kind::Text | Kind::Texts if text.len() > limits::SCALAR => {
            Err(Error::new(format!("`{name}` is a text of {} bytes; at most {}", text.len(), limits::SCALAR)))
        }
        Kind::Text | Kind::Texts => Ok(Value::String(text.to_owned())),
    }
}

/// What a field takes, in words.
pub(crate) fn wants(field: &Field) -> String {
    match field.kind {
        Kind::Whole(low, u64::MAX) => format!("a whole number from {low} up"),
        Kind::Whole(low, high) => format!("a whole number from {low} to {high}"),
        Kind::Bytes => "a number of bytes (64KiB, 100MB or 4096)".to_owned(),
        Kind::Seconds => "a duration (5us, 20ms or 60s)".to_owned(),
        Kind::Bandwidth => "a bandwidth (10GB/s or 100Gbit/s)".to_owned(),
        Kind::Ratio => "a share (2% or 0.02)".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Word(words) => format!("one of {}", words().join(", ")),
        Kind::Choice(variants) => {
            let names: Vec<&str> = variants.iter().map(|variant| variant.name).collect();
            format!("one of {}, with options as in `NAME:option=value`", names.join(", "))
        }
        Kind::Text => "a text".to_owned(),
        Kind::Texts => "a text or a list of texts".to_owned(),
    }
}

fn whole(field: &Field, text: &str, low: u64, high: u64) -> Result<Value, Error> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value.into()),
        _ if is_number => Err(Error::new(format!("`{}` must be {}, not {}", field.name, wants(field), shown(text)))),
        _ => Err(Error::new(format!("`{}` must be {}, not `{}`", field.name, wants(field), shown(text)))),
    }
}

fn quantity<T>(field: &Field, text: &str, value: impl Fn(T) -> Option<Value>) -> Result<Value, Error>
where
    T: std::str::FromStr<Err = terms::ParseQuantityError>,
{
    let parsed = text.parse::<T>().map_err(|error| not_a_quantity(field, &error))?;
    value(parsed).ok_or_else(|| Error::new(format!("`{}`: {} is too large", field.name, shown(text))))
}

/// The refusal of a text that is not the quantity that a field takes.
pub(super) fn not_a_quantity(field: &Field, error: &terms::ParseQuantityError) -> Error {
    let refusal = Error::new(format!("`{}`: {}", field.name, error.what()));
    error.hint().into_iter().fold(refusal, Error::hint)
}

/// A finite number; whole ones as integers, so that a value has one spelling in the record and one identity.
pub(crate) fn canonical_number(value: f64) -> Option<Value> {
    // Up to here every whole f64 is an exact integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        v if v.fract() == 0.0 && (0.0..=EXACT).contains(&v) => Some(Value::from(v as u64)),
        v if v.is_finite() => Some(Value::from(v)),
        _ => None,
    }
}

fn word(field: &Field, text: &str, words: &[&'static str]) -> Result<Value, Error> {
    if let Some(word) = other_words::meant(text, words) {
        return Ok(Value::from(word));
    }
    let hint = other_words::hint(text, words).unwrap_or_else(|| suggestion(text, words.iter().copied()));
    Err(Error::new(format!("`{}` does not take `{}`", field.name, shown(text))).hint(hint))
}
