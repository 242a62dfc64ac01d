//! How a text is escaped for each language, and what may stand where.

use std::borrow::Cow;
use std::fmt;

use record::file::{FileName, FileStem};
use terms::outside::is_stand_in;
use view::{is_invisible, one_line};

use super::{ADDRESS, Css, Language, Literal, Markdown, Markup, Part, Svg, TAG, TEXT, VALUE, language};

/// Characters that are not shown, and may do something: control characters, those that stand for the control characters of a
/// record, invisible ones, and those that XML 1.0 forbids.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control() || is_stand_in(c) || is_invisible(c) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
}

/// Writes a text with another one for some of its characters. `instead` gets each character and the one before it.
fn replaced(
    text: &str,
    to: &mut fmt::Formatter<'_>,
    instead: impl Fn(char, char) -> Option<&'static str>,
) -> fmt::Result {
    let (mut begin, mut before) = (0, ' ');
    for (at, character) in text.char_indices() {
        if let Some(instead) = instead(character, std::mem::replace(&mut before, character)) {
            to.write_str(&text[begin..at])?;
            to.write_str(instead)?;
            begin = at + character.len_utf8();
        }
    }
    to.write_str(&text[begin..])
}

/// A character as character data or in an attribute value of XML; None where it stays.
fn xml(character: char, before: char) -> Option<&'static str> {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' => None,
        // `##[error]` is a command to CI systems, which show such files, too.
        '#' if before == '#' => Some("&#35;"),
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        '\n' | '\t' | '\r' => Some(" "),
        hidden if is_hidden(hidden) => Some("\u{FFFD}"),
        _ => None,
    }
}

impl Language for language::Html {
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        replaced(text, to, xml)
    }
}

impl Language for language::Svg {
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        replaced(text, to, xml)
    }
}

impl Language for language::Tag {
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        replaced(text, to, xml)
    }
}

/// Lines of a message stay apart.
impl Language for language::Junit {
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        replaced(text, to, |character, before| match character {
            '\n' => Some("&#10;"),
            '\r' => Some("&#13;"),
            '\t' => Some("&#9;"),
            '\'' => None,
            other => xml(other, before),
        })
    }
}

impl Language for language::Markdown {
    fn escape(text: &str, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&inert(&one_line(text), false))
    }
}

impl Markdown {
    /// A piece of a line that has been made one line, without markup. `begins`: it may begin a line.
    pub(crate) fn push_inert(&mut self, text: &str, begins: bool) {
        self.text.push_str(&inert(text, begins));
    }

    /// Text as code: a fence of backticks longer than any run inside.
    pub(crate) fn push_code(&mut self, text: &str) {
        let text = one_line(text);
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest + 1);
        let space = if longest == 0 && !text.is_empty() { "" } else { " " };
        self.text.extend([&fence, space, &text, space, &fence]);
    }

    /// A command as a block of code. Inside a fence only the fence itself is markup.
    pub(crate) fn push_command(&mut self, command: &str) {
        let lines = command.replace("```", "` ` `");
        let shown = |c| if c != '\n' && is_hidden(c) { ' ' } else { c };
        self.text.push_str("```sh\n");
        self.text.extend(lines.chars().map(shown));
        self.text.push_str("\n```\n");
    }

    /// Adds so many of a character: the sign of a heading, a rule, or room.
    pub(crate) fn push_times(&mut self, sign: Sign, number: usize) {
        self.text.extend(std::iter::repeat_n(sign as u8 as char, number));
    }

    /// Adds room at a place before the end.
    pub(crate) fn indent(&mut self, begin: usize, room: usize) {
        self.text.insert_str(begin, &" ".repeat(room));
    }
}

/// What is written several times.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Sign {
    Heading = b'#',
    Rule = b'-',
    Space = b' ',
}

/// One line of text as Markdown (GitHub's dialect) without markup. `begins`: it may begin a line.
fn inert(text: &str, begins: bool) -> Cow<'_, str> {
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
            hidden if is_hidden(hidden) => escaped.push(' '),
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

/// What is escaped as text.
macro_rules! texts {
    ($($type:ty),*) => {$(
        impl<L: Language> Part<L, TEXT> for $type {
            fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                L::escape(self.as_ref(), to)
            }
        }

        impl<L: Language> Part<L, VALUE> for $type {
            fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                L::escape(self.as_ref(), to)
            }
        }
    )*};
}

texts!(str, String, Cow<'_, str>, FileStem, FileName);

/// Types whose texts have no sign that means anything in any of the languages, such as numbers.
macro_rules! words {
    ($($type:ty),*) => {$(
        impl<L> $crate::markup::Part<L, { $crate::markup::TEXT }> for $type {
            fn write(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, to)
            }
        }

        impl<L> $crate::markup::Part<L, { $crate::markup::VALUE }> for $type {
            fn write(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, to)
            }
        }
    )*};
}

words!(u8, u32, u64, usize, f64);

pub(crate) use words;

impl<L, const PLACE: u8> Part<L, PLACE> for Literal {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.0)
    }
}

impl<L> Part<L, TEXT> for Markup<L> {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl Svg {
    /// A style sheet as an element.
    pub(crate) fn styled(rules: &Css) -> Self {
        let mut out = Self::from(Literal("<style>"));
        out.text.push_str(rules.as_str());
        out.literal("</style>");
        out
    }
}

/// Pictures stand in pages.
impl Part<language::Html, TEXT> for Markup<language::Svg> {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl<L> Part<L, TAG> for Markup<language::Tag> {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

/// Letters, digits, `_` and `-`: no address of its own, and a part of one.
impl Part<language::Markdown, ADDRESS> for FileStem {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.as_str())
    }
}

impl<L, const PLACE: u8, P: Part<L, PLACE> + ?Sized> Part<L, PLACE> for &P {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).write(to)
    }
}

impl<L, const PLACE: u8, P: Part<L, PLACE>> Part<L, PLACE> for Option<P> {
    fn write(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().map_or(Ok(()), |part| part.write(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::markup;

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
        assert_eq!(markdown("a\n# b"), "a # b");
        for (text, shown) in [("a`b``c", "``` a`b``c ```"), ("x", "`x`"), ("", "`  `")] {
            let mut code = Markdown::new();
            code.push_code(text);
            assert_eq!(code.as_str(), shown);
        }
    }

    #[test]
    fn xml_has_no_markup_left() {
        let shown = |text: &str| markup!(Svg, "{}", text).into_string();
        assert_eq!(shown("<a b='c'>&\u{1}"), "&lt;a b=&#39;c&#39;&gt;&amp;\u{FFFD}");
        assert_eq!(shown("##[error]###"), "#&#35;[error]#&#35;&#35;");
        assert_eq!(shown("a\n\u{202E}\u{FDEB}\u{FFFF}é"), "a \u{FFFD}\u{FFFD}\u{FFFD}é");
    }
}
