//! Text from data as a cell of a table of values and as a word of a shell. For languages with markup see `markup`.

use std::borrow::Cow;

use view::is_invisible;
pub(crate) use view::one_line;

/// A text as one word of a shell command.
pub fn shell(word: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '+' | '@' | '%' | ',' | '=');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// One cell of a CSV file (RFC 4180), on one line: logs show such files, too. A text that a spreadsheet would run as a formula is kept as text by a leading
/// apostrophe (OWASP "CSV injection"); numbers keep their sign.
pub(crate) fn csv(text: &str) -> Cow<'_, str> {
    let is_tame = |c: char| !c.is_control() && !is_invisible(c);
    let is_tame = text.chars().all(is_tame) && !text.contains("::") && !text.contains("##");
    let text = if is_tame { Cow::Borrowed(text) } else { Cow::Owned(one_line(text)) };
    let formula = text.starts_with(['=', '+', '-', '@']) && !is_number(&text);
    let text = if formula { Cow::Owned(format!("'{text}")) } else { text };
    if text.contains([',', '"']) || text.starts_with(' ') || text.ends_with(' ') {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        text
    }
}

/// Whether the text is a plain decimal number: Rust would also read `inf` and `nan`, which are words to a spreadsheet.
fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
        && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_and_disarms() {
        assert_eq!(csv("a,\"b\"\n"), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("a\r\n::error::b\u{1b}[2J\u{202E}"), "a : :error::b [2J");
        assert_eq!(csv("=1+1"), "'=1+1");
        assert_eq!(csv("-inf"), "'-inf");
        assert_eq!(csv("+cmd|x"), "'+cmd|x");
        assert_eq!(csv("@SUM(A1,2)"), "\"'@SUM(A1,2)\"");
        assert_eq!(csv("-1.5e-3"), "-1.5e-3");
    }
}
