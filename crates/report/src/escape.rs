//! Text from data is made harmless here, once for each language that it is put into.

use std::borrow::Cow;

use view::is_invisible;
pub(crate) use view::one_line;

/// One line of text as Markdown (GitHub's dialect) without markup. `begins`: it may begin a line.
pub(crate) fn inert(text: &str, begins: bool) -> Cow<'_, str> {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || c == b' ' || !begins && PLAIN_INSIDE.contains(&c);
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let characters: Vec<char> = text.chars().collect();
    let mut escaped = String::with_capacity(text.len() + 8);
    for (index, &character) in characters.iter().enumerate() {
        let first = begins && index == 0;
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // Without a `<` before it, `>` is markup only where a line begins (a quotation).
            '>' if first => escaped.push_str("&gt;"),
            // Inside a word an underscore is not emphasis, and `all_reduce` should stay readable as plain text.
            '_' if between_letters(&characters, index) => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => {
                escaped.push('\\');
                escaped.push(character);
            }
            // At the start of a line these begin headings, lists and rules.
            '#' | '+' | '-' | '=' | '!' if first => {
                escaped.push('\\');
                escaped.push(character);
            }
            // `1. x` would begin a numbered list, and `1.5` does not.
            '.' | ')'
                if begins
                    && index > 0
                    && characters.get(index + 1).is_none_or(|next| next.is_whitespace())
                    && characters[..index].iter().all(char::is_ascii_digit) =>
            {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// Besides letters and digits, what numbers with units consist of. It may be markup only where a line begins.
const PLAIN_INSIDE: &[u8] = b".,:;+-=%()/";

fn between_letters(characters: &[char], index: usize) -> bool {
    let letter = |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(|c| c.is_alphanumeric());
    letter(index.checked_sub(1)) && letter(Some(index + 1))
}

/// Text as Markdown code: a fence of backticks longer than any run inside.
pub(crate) fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 && !text.is_empty() { format!("`{text}`") } else { format!("{fence} {text} {fence}") }
}

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

/// Text as XML character data or attribute value. Characters that XML 1.0 forbids become U+FFFD.
pub(crate) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    for character in text.chars() {
        let doubled = std::mem::replace(&mut before, character) == character;
        match character {
            // `##[error]` is a command to CI systems, which show such files, too.
            '#' if doubled => escaped.push_str("&#35;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' | '\r' => escaped.push(' '),
            c if c.is_control() || is_invisible(c) || matches!(c, '\u{FFFE}' | '\u{FFFF}') => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
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
    fn markdown_is_inert_and_readable() {
        let markdown = |text: &str| inert(text, true).into_owned();
        assert_eq!(markdown("all_reduce"), "all_reduce");
        assert_eq!(markdown("_a_ *b* |c|"), "\\_a\\_ \\*b\\* \\|c\\|");
        assert_eq!(markdown("<script>&x"), "&lt;script>&amp;x");
        assert_eq!(markdown("# no"), "\\# no");
        assert_eq!(markdown("> no"), "&gt; no");
        assert_eq!(markdown("1. no"), "1\\. no");
        assert_eq!(markdown("1.5 ms"), "1.5 ms");
        assert_eq!(inert("- # 1.", false), "- # 1.");
        assert_eq!(code("a`b``c"), "``` a`b``c ```");
        assert_eq!(code("x"), "`x`");
    }

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

    #[test]
    fn xml_has_no_markup_left() {
        assert_eq!(xml("<a b='c'>&\u{1}"), "&lt;a b=&#39;c&#39;&gt;&amp;\u{FFFD}");
    }
}
