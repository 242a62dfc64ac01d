//! A line of words, some of them code or strong.

use view::{into_one_line, one_line};

/// Begins and ends code inside of [`Words`]. [`one_line`] removes it from data.
const CODE: char = '\u{1}';
/// Begins and ends strong text.
const STRONG: char = '\u{2}';

/// Begins and ends a link, and stands between its text and its address.
const LINK: char = '\u{3}';
const TO: char = '\u{4}';

/// One line of text in which some words are code and some are strong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words(String);

/// A piece of [`Words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordPiece<'w> {
    Text(&'w str),
    Code(&'w str),
    Strong(&'w str),
    /// A text, and the path of a file next to the document.
    Link(&'w str, &'w str),
}

impl<'w> WordPiece<'w> {
    pub(crate) fn text(self) -> &'w str {
        match self {
            WordPiece::Text(text) | WordPiece::Code(text) | WordPiece::Strong(text) | WordPiece::Link(text, _) => text,
        }
    }
}

/// Text that leads to a file, by its path from the document, to stand in a `format!` that becomes [`Words`].
pub(crate) fn link(text: &str, path: &str) -> String {
    format!("{LINK}{}{TO}{}{LINK}", one_line(text), one_line(path))
}

/// Text as code, to stand in a `format!` that becomes [`Words`].
pub(crate) fn code(text: &str) -> String {
    format!("{CODE}{}{CODE}", one_line(text))
}

/// A title that this program wrote, as strong text: its words between backticks are not code in it.
pub(crate) fn strong_title(text: &str) -> String {
    strong(&text.replace('`', ""))
}

/// Text as strong, to stand in a `format!` that becomes [`Words`].
pub(crate) fn strong(text: &str) -> String {
    format!("{STRONG}{}{STRONG}", one_line(text))
}

impl Words {
    /// Text in which words between backticks are code. Where one backtick has no partner, all are text.
    pub(crate) fn prose(text: &str) -> Self {
        let parts: Vec<&str> = text.split('`').collect();
        if parts.len().is_multiple_of(2) {
            return Self::from(text);
        }
        let part = |(at, part): (usize, &&str)| match (at % 2, part.is_empty()) {
            (1, false) => code(part),
            _ => (*part).to_owned(),
        };
        Self::from(parts.iter().enumerate().map(part).collect::<String>())
    }

    /// These words behind others.
    pub(crate) fn behind(self, prefix: &str) -> Self {
        Self(format!("{prefix}{}", self.0))
    }

    /// The text with its marks, as a table keeps it.
    pub(super) fn marked(&self) -> &str {
        &self.0
    }

    /// Words again of what [`Words::marked`] gave.
    pub(super) fn from_marked(marked: &str) -> Self {
        Self(marked.to_owned())
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Pieces of the text, none of them empty.
    pub(crate) fn parts<'w>(&'w self) -> impl Iterator<Item = WordPiece<'w>> {
        let mut rest: &'w str = &self.0;
        let next = move || {
            let first = rest.chars().next()?;
            let (part, behind) = match first {
                CODE | STRONG | LINK => rest[1..].split_once(first).unwrap_or((&rest[1..], "")),
                _ => rest.split_at(rest.find([CODE, STRONG, LINK]).unwrap_or(rest.len())),
            };
            rest = behind;
            Some(match first {
                CODE => WordPiece::Code(part),
                STRONG => WordPiece::Strong(part),
                LINK => match part.split_once(TO) {
                    Some((text, path)) => WordPiece::Link(text, path),
                    None => WordPiece::Text(part),
                },
                _ => WordPiece::Text(part),
            })
        };
        std::iter::from_fn(next).filter(|part| !part.text().is_empty())
    }

    /// The text without its marks.
    pub(crate) fn plain(&self) -> String {
        self.parts().map(WordPiece::text).collect()
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        let is_mark = |c: char| [CODE, STRONG, LINK, TO].contains(&c);
        if !text.contains(is_mark) {
            return Self(into_one_line(text));
        }
        // Between marks everything is made one line; a space next to a mark stays.
        let mut line = String::with_capacity(text.len());
        for part in text.split_inclusive(is_mark) {
            let (words, mark) = match part.chars().last().filter(|last| is_mark(*last)) {
                Some(mark) => (&part[..part.len() - 1], Some(mark)),
                None => (part, None),
            };
            let space = |is_there: bool| if is_there && !words.trim().is_empty() { " " } else { "" };
            line += space(words.starts_with(char::is_whitespace));
            line += if words.trim().is_empty() && !words.is_empty() { " " } else { "" };
            line += &one_line(words);
            line += space(words.ends_with(char::is_whitespace));
            line.extend(mark);
        }
        Self(line.trim().to_owned())
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        if text.contains([CODE, STRONG, LINK]) { Self::from(text.to_owned()) } else { Self(one_line(text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(words: &Words) -> Vec<WordPiece<'_>> {
        words.parts().collect()
    }

    #[test]
    fn words_come_apart_as_they_were_put_together() {
        let words = Words::from(format!("{} at {}: got {}", strong("failed"), code("a`b"), code("")));
        assert_eq!(
            parts(&words),
            [WordPiece::Strong("failed"), WordPiece::Text(" at "), WordPiece::Code("a`b"), WordPiece::Text(": got ")]
        );
        assert_eq!(words.plain(), "failed at a`b: got ");
        assert_eq!(
            parts(&Words::prose("a `b_c` *d*")),
            [WordPiece::Text("a "), WordPiece::Code("b_c"), WordPiece::Text(" *d*")]
        );
        assert_eq!(parts(&Words::prose("one ` alone")), [WordPiece::Text("one ` alone")]);
        assert!(Words::from("").is_empty() && Words::default().parts().next().is_none());
    }

    #[test]
    fn data_stays_on_its_line_and_marks_nothing() {
        let hostile = "a\n\u{1}b\u{1}\u{2}c\u{202E} ::error:: d";
        assert_eq!(parts(&Words::from(one_line(hostile))), [WordPiece::Text("a b c : :error:: d")]);
        let forged = Words::from(format!("{}: {}", strong(hostile), code(hostile)));
        assert_eq!(parts(&forged).len(), 3, "{forged:?}");
        // A mark that data brought along styles words; it hides none, and ends no line.
        assert_eq!(Words::from("x\u{1}y\nz").plain(), "xy z");
    }
}
