//! JSON inside of a script element: compact, and without a character that could end the element.

use std::fmt;

use terms::outside::is_stand_in;

use crate::escape::one_line;
use crate::markup::{Json, Language, Literal, language, markup};

/// The inside of a string. `<` is escaped, so that no `</script>` or `<!--` can occur, and what JavaScript takes for the end
/// of a line.
impl Language for language::Json {
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut begin = 0;
        for (at, character) in text.char_indices() {
            let is_number = matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') || character.is_control();
            if !is_number && !matches!(character, '"' | '\\') && !is_stand_in(character) {
                continue;
            }
            to.write_str(&text[begin..at])?;
            begin = at + character.len_utf8();
            match character {
                '"' => to.write_str("\\\"")?,
                '\\' => to.write_str("\\\\")?,
                _ if is_number => write!(to, "\\u{:04x}", character as u32)?,
                // It stands for a control character of the record.
                _ => to.write_str("\u{FFFD}")?,
            }
        }
        to.write_str(&text[begin..])
    }
}

/// A text.
pub(super) fn text(value: &str) -> Json {
    markup!(Json, "\"{}\"", value)
}

/// A text from data: in one line, and without characters that change its direction.
pub(super) fn line(value: &str) -> Json {
    text(&one_line(value))
}

/// No value.
pub(super) fn null() -> Json {
    Literal("null").into()
}

/// 1 or 0.
pub(super) fn flag(value: bool) -> Json {
    Literal(if value { "1" } else { "0" }).into()
}

/// A number with at most `digits` significant digits; null where it is none.
pub(super) fn rounded(value: f64, digits: usize) -> Json {
    if !value.is_finite() {
        return null();
    }
    markup!(Json, "{}", shortest(value, digits))
}

fn shortest(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        let whole = format!("{value:.0}");
        if whole.trim_start_matches('-').len() <= digits {
            return whole;
        }
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    // Parsing gives the nearest number, and printing it the shortest text of that.
    let rounded: f64 = scientific.parse().unwrap_or(value);
    let (plain, short) = (format!("{rounded}"), format!("{rounded:e}"));
    if plain.len() <= short.len() { plain } else { short }
}

/// A whole number, exactly.
pub(super) fn whole(value: u64) -> Json {
    markup!(Json, "{}", value)
}

/// Items in brackets.
pub(super) fn array(items: impl IntoIterator<Item = Json>) -> Json {
    let mut out = Json::new();
    out.literal("[");
    for (index, item) in items.into_iter().enumerate() {
        out.literal(if index > 0 { "," } else { "" });
        out += item;
    }
    out.literal("]");
    out
}

/// Members in braces; names are ours.
pub(super) fn object(members: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    let members = members.into_iter().map(|(name, value)| markup!(Json, "\"{}\":{}", name, value));
    markup!(Json, "{{{}}}", Json::joined(members, ","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_end_the_script() {
        let hostile = "</script><!-- \" \\ \n \u{2028} é &amp;";
        let written = text(hostile).into_string();
        assert!(!written.contains(['<', '>', '&', '\n', '\u{2028}']), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), hostile);
    }

    #[test]
    fn numbers_are_short_and_near() {
        for (value, digits, shown) in [
            (1.5e-5, 5, "1.5e-5"),
            (0.123_456_789, 4, "0.1235"),
            (1_048_576.0, 16, "1048576"),
            (28.949_999_9, 4, "28.95"),
            (f64::NAN, 4, "null"),
            (0.0, 4, "0"),
            (-2.0, 4, "-2"),
        ] {
            assert_eq!(rounded(value, digits).as_str(), shown);
        }
        assert_eq!(object([("a", array([text("x"), whole(3)]))]).as_str(), r#"{"a":["x",3]}"#);
    }
}
