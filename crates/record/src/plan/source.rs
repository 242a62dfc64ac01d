//! Where a value was written, in a plan's text or in a flag, and how an error points there.

use std::fmt;

use crate::secrets::{masked, masked_lines};

/// A stretch of one source, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct At {
    /// Which source.
    pub(crate) source: u32,
    /// First byte.
    pub(crate) start: u32,
    /// One past the last byte.
    pub(crate) end: u32,
}

struct PlanSource {
    name: String,
    text: String,
    /// Where each line begins. Empty for a flag, which has no lines.
    lines: Vec<usize>,
    /// Where the value of a flag begins.
    value: usize,
}

impl PlanSource {
    /// A line without the secrets in it, which no error shows, and up to which byte it is as written.
    fn without_secrets(&self, from: usize, written: &str) -> (String, usize) {
        let line = match written.split_at_checked(self.value) {
            Some((flag, value)) if self.lines.is_empty() && from == 0 => {
                masked_lines(&format!("{flag}{}", masked(value)))
            }
            _ => masked_lines(written),
        };
        let same = written.bytes().zip(line.bytes()).take_while(|(written, shown)| written == shown).count();
        (line, same)
    }
}

/// Everything that the user wrote: one plan at most, and any number of flags.
#[derive(Default)]
pub(crate) struct Sources(Vec<PlanSource>);

/// The location that an error points at: the line as written, and which part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// The file's name, or the flag.
    pub source: String,
    /// Line and column, both from 1, the column in characters. None for a flag.
    pub position: Option<(usize, usize)>,
    /// The line, shortened around the place when it is long; control characters are replaced.
    pub excerpt: String,
    /// Characters of the excerpt before the place.
    pub caret: usize,
    /// Characters of the place, at least 1.
    pub width: usize,
}

/// Characters of a line that are shown on either side of the place.
const WINDOW: usize = 60;

/// Bytes on either side of a place in which secrets are looked for: more than the longest value and its name.
const AROUND: usize = 8192;

impl Sources {
    /// Adds a plan's text.
    pub(crate) fn add_file(&mut self, name: &str, text: &str) -> u32 {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.add(PlanSource { name: shown(name), text: text.to_owned(), lines, value: 0 })
    }

    /// Adds a flag as it would be typed; returns the source and the place of the value in it.
    pub(crate) fn add_flag(&mut self, flag: &str, separator: char, value: &str) -> At {
        let text = format!("{flag}{separator}{value}");
        let start = flag.len() as u32 + 1;
        let end = text.len() as u32;
        let value = start as usize;
        let source = self.add(PlanSource { name: shown(flag), text, lines: Vec::new(), value });
        At { source, start, end }
    }

    fn add(&mut self, source: PlanSource) -> u32 {
        self.0.push(source);
        (self.0.len() - 1) as u32
    }

    /// The text at a place.
    #[cfg(test)]
    pub(crate) fn text(&self, at: At) -> &str {
        &self.0[at.source as usize].text[at.start as usize..at.end as usize]
    }

    /// Line and excerpt of a place.
    pub(crate) fn place(&self, at: At) -> SourceLocation {
        let source = &self.0[at.source as usize];
        let start = floor(&source.text, at.start as usize);
        let end = floor(&source.text, at.end as usize).max(start);
        let number = source.lines.partition_point(|line| *line <= start);
        let begin = number.checked_sub(1).map_or(0, |index| source.lines[index]);
        // Of a line of megabytes only what is near is looked at.
        let from = floor(&source.text, start.saturating_sub(AROUND)).max(begin);
        let near = &source.text[from..floor(&source.text, start + AROUND)];
        let (line, same) =
            source.without_secrets(from, near.split('\n').next().unwrap_or_default().trim_end_matches('\r'));
        let inside = |byte: usize| floor(&line, byte.saturating_sub(from).min(same));
        let before = source.text[begin..from].chars().count();
        let column = line[..inside(start)].chars().count();
        let width = line[inside(start)..inside(end)].chars().count().max(1);
        let skip = column.saturating_sub(WINDOW);
        let excerpt = line.chars().skip(skip).take(2 * WINDOW).map(printable).collect::<String>();
        SourceLocation {
            source: source.name.clone(),
            position: (number > 0).then_some((number, before + column + 1)),
            width: width.min(excerpt.chars().count().saturating_sub(column - skip).max(1)),
            caret: column - skip,
            excerpt,
        }
    }
}

/// The nearest character boundary at or before `byte`.
fn floor(text: &str, byte: usize) -> usize {
    let mut byte = byte.min(text.len());
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// A character that can be shown on a terminal: a hostile plan must not move the cursor or reverse the text.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// A message that quotes the user, printable line by line.
pub(super) fn lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { printable(c) }).collect()
}

/// A word of the user's, fit for a message: printable and at most 64 characters.
pub(crate) fn shown(word: &str) -> String {
    let mut short: String = word.chars().take(64).map(printable).collect();
    if short.len() < word.len() && word.chars().nth(64).is_some() {
        short.push('…');
    }
    short
}

impl fmt::Display for SourceLocation {
    /// The line with carets below the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.position.map(|(line, _)| line.to_string()).unwrap_or_default();
        let margin = " ".repeat(number.len());
        writeln!(f, " {number} | {}", self.excerpt)?;
        write!(f, " {margin} | {}{}", " ".repeat(self.caret), "^".repeat(self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_stay_inside_the_line() {
        let mut sources = Sources::default();
        let text = "é: 1\r\nkey: värde x\n";
        let source = sources.add_file("plan.yaml", text);
        let start = text.find("värde").unwrap() as u32;
        let at = At { source, start, end: start + "värde".len() as u32 };
        assert_eq!(sources.text(at), "värde");
        let place = sources.place(at);
        assert_eq!((place.position, place.caret, place.width), (Some((2, 6)), 5, 5));
        assert_eq!(place.to_string(), " 2 | key: värde x\n   |      ^^^^^");
        // Past the end, and inside a character, as hostile positions might be.
        assert_eq!(sources.place(At { source, start: 999, end: 9999 }).width, 1);
        assert_eq!(sources.place(At { source, start: 1, end: 2 }).position, Some((1, 1)));
    }

    #[test]
    fn long_lines_and_control_characters_are_tamed() {
        let mut sources = Sources::default();
        let text = format!("{}\u{1b}[31mX", "a".repeat(100_000));
        let source = sources.add_file("plan.yaml", &text);
        let place = sources.place(At { source, start: 100_005, end: 100_006 });
        assert!(place.excerpt.chars().count() <= 2 * WINDOW);
        assert!(!place.excerpt.contains('\u{1b}'));
        assert_eq!(place.excerpt.chars().nth(place.caret), Some('X'));
    }
}
