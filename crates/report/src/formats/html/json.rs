//! JSON inside of a script element: compact, and without a character that could end the element.

use std::fmt::Write as _;

use crate::escape::one_line;

/// A text. `<` is escaped, so that no `</script>` or `<!--` can occur, and what JavaScript takes for the end of a line.
pub(super) fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text from data: in one line, and without characters that change its direction.
pub(super) fn line(value: &str) -> String {
    text(&one_line(value))
}

/// A number with at most `digits` significant digits; null where it is none.
pub(super) fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "null".to_owned();
    }
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
pub(super) fn whole(value: u64) -> String {
    value.to_string()
}

/// Items in brackets.
pub(super) fn array<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let mut out = String::from("[");
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(item.as_ref());
    }
    out.push(']');
    out
}

/// Members in braces; names are ours.
pub(super) fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_end_the_script() {
        let hostile = "</script><!-- \" \\ \n \u{2028} é &amp;";
        let written = text(hostile);
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
            assert_eq!(number(value, digits), shown);
        }
        assert_eq!(object(&[("a", array([text("x"), whole(3)]))]), r#"{"a":["x",3]}"#);
    }
}
