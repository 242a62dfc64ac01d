//! Breaks text into lines.

use std::ops::Range;

use super::super::words::{WordPiece, Words};
use super::fonts::{self, Face, Glyph};

/// What a piece of text is to a reader who hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    Strong,
    Code,
}

/// Text of one face and one role.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextSpan<'t> {
    pub(super) text: &'t str,
    pub(super) face: Face,
    pub(super) role: Role,
}

/// A piece of a line: glyphs of one face.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GlyphPiece {
    /// From where the line begins.
    pub(super) x: f64,
    pub(super) face: Face,
    /// The span that it comes from.
    pub(super) span: usize,
    pub(super) text: String,
}

/// A line of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TextLine {
    pub(super) pieces: Vec<GlyphPiece>,
    /// Without the spaces at its end.
    pub(super) width: f64,
}

/// A character in its place.
struct PlacedCharacter {
    character: char,
    glyph: Glyph,
    span: usize,
}

/// Room that rounding takes, in parts of the size.
const SLACK: f64 = 1e-6;

/// The words as spans; `face` is that of plain text.
pub(super) fn spans(words: &Words, face: Face) -> Vec<TextSpan<'_>> {
    let span = |part| match part {
        WordPiece::Text(text) | WordPiece::Link(text, _) => TextSpan { text, face, role: Role::Plain },
        WordPiece::Strong(text) => TextSpan { text, face: Face::Bold, role: Role::Strong },
        WordPiece::Code(text) => TextSpan { text, face: Face::Mono, role: Role::Code },
    };
    words.parts().map(span).collect()
}

/// Plain text as a span.
pub(super) fn plain(text: &str, face: Face) -> [TextSpan<'_>; 1] {
    [TextSpan { text, face, role: Role::Plain }]
}

/// The lines of a text of this size, at least one; those after the first are narrower by `hang`.
pub(super) fn broken(spans: &[TextSpan], size: f64, width: f64, hang: f64) -> Vec<TextLine> {
    let units = units(spans);
    let mut lines = Vec::new();
    let mut start = 0;
    while lines.is_empty() || start < units.len() {
        let room = if lines.is_empty() { width } else { width - hang };
        let end = start + end_of_line(&units[start..], room / size);
        lines.push(line(&units[start..end], size));
        start = end;
    }
    lines
}

/// How wide a text of size 1 is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    /// On one line.
    pub(super) line: f64,
    /// Longest word of the text.
    pub(super) word: f64,
    /// The longest part of a word that ends in a mark.
    pub(super) part: f64,
}

impl Measure {
    /// What holds either text.
    pub(super) fn max(self, other: Self) -> Self {
        let Self { line, word, part } = other;
        Self { line: self.line.max(line), word: self.word.max(word), part: self.part.max(part) }
    }
}

/// How wide a text is.
pub(super) fn measure(spans: &[TextSpan]) -> Measure {
    let (mut all, mut now) = (Measure::default(), Measure::default());
    for PlacedCharacter { character, glyph, .. } in units(spans) {
        now.line += glyph.advance;
        now.word = if character == ' ' { 0.0 } else { now.word + glyph.advance };
        now.part = if character == ' ' { 0.0 } else { now.part + glyph.advance };
        all = all.max(now);
        now.part = if is_mark(character) { 0.0 } else { now.part };
    }
    all
}

/// The text on one line, cut with an ellipsis where it is wider.
pub(super) fn fitted(text: &str, face: Face, size: f64, width: f64) -> String {
    if measure(&plain(text, face)).line * size <= width {
        return text.to_owned();
    }
    let mut room = width / size - fonts::glyph(face, '…').advance;
    let kept = text.chars().filter(|character| !fonts::is_unseen(*character)).take_while(|character| {
        room -= fonts::glyph(face, *character).advance;
        room >= 0.0
    });
    format!("{}…", kept.collect::<String>().trim_end())
}

fn units(spans: &[TextSpan]) -> Vec<PlacedCharacter> {
    let of = |(span, TextSpan { text, face, .. }): (usize, &TextSpan)| {
        let face = *face;
        let seen = text.chars().filter(|character| !fonts::is_unseen(*character));
        seen.map(move |character| PlacedCharacter { character, glyph: fonts::glyph(face, character), span })
            .collect::<Vec<_>>()
    };
    spans.iter().enumerate().flat_map(of).collect()
}

/// How many characters stand on a line with this much room: whole words, with the spaces behind them. A word that no
/// line holds breaks behind a mark in it, or else anywhere; at least one character stands on a line.
fn end_of_line(units: &[PlacedCharacter], room: f64) -> usize {
    let mut used = 0.0;
    let (mut word, mut mark) = (0, 0);
    for (at, unit) in units.iter().enumerate() {
        used += unit.glyph.advance;
        if unit.character == ' ' {
            // Spaces at the end of a line take no room.
            word = at + 1;
        } else if used > room + SLACK {
            let breaks_inside = mark > word && !fits(&units[word..], room);
            return match (word, mark) {
                (_, mark) if breaks_inside && (word > 0 || mark > at / 3) => mark,
                (0, _) => at.max(1),
                (word, _) => word,
            };
        }
        if is_mark(unit.character) {
            mark = at + 1;
        }
    }
    units.len()
}

/// Whether a long word may break behind it.
fn is_mark(character: char) -> bool {
    matches!(character, '_' | '/' | '.' | '-' | ',')
}

/// Whether a line holds the first word.
fn fits(units: &[PlacedCharacter], room: f64) -> bool {
    let mut used = 0.0;
    let is_within = |unit: &PlacedCharacter| {
        used += unit.glyph.advance;
        used <= room + SLACK
    };
    units.iter().take_while(|unit| unit.character != ' ').all(is_within)
}

fn line(units: &[PlacedCharacter], size: f64) -> TextLine {
    let mut line = TextLine::default();
    let mut x = 0.0;
    for PlacedCharacter { character, glyph, span } in units {
        let is_next = |piece: &GlyphPiece| piece.face != glyph.face || piece.span != *span;
        if line.pieces.last().is_none_or(is_next) {
            line.pieces.push(GlyphPiece { x, face: glyph.face, span: *span, text: String::new() });
        }
        if let Some(piece) = line.pieces.last_mut() {
            piece.text.push(*character);
        }
        x += glyph.advance * size;
        line.width = if *character == ' ' { line.width } else { x };
    }
    line
}

/// Lines in groups of at most `most`, of about the same size.
pub(super) fn groups(lines: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let most = most.max(1);
    (0..lines.div_ceil(most)).map(move |group| group * most..((group + 1) * most).min(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, width: f64) -> Vec<String> {
        let lines = broken(&plain(text, Face::Regular), 10.0, width, 0.0);
        assert!(lines.iter().all(|line| line.width <= width + 0.1 || line.pieces[0].text.chars().count() == 1));
        lines.iter().map(|line| line.pieces.iter().map(|piece| piece.text.as_str()).collect()).collect()
    }

    #[test]
    fn words_stay_whole_where_a_line_holds_them() {
        assert_eq!(set("one two three", 1000.0), ["one two three"]);
        assert_eq!(set("one two three", 45.0), ["one two ", "three"]);
        assert_eq!(set("a-b c-d e-f", 22.0), ["a-b ", "c-d ", "e-f"]);
        assert_eq!(set("", 45.0), [""]);
    }

    #[test]
    fn a_long_word_breaks_at_a_mark_or_anywhere() {
        assert_eq!(set("all_reduce_of_everything", 62.0), ["all_reduce_", "of_everything"]);
        assert_eq!(set("at all_reduce_of_everything", 75.0), ["at all_reduce_", "of_everything"]);
        assert_eq!(set("mmmmmm", 20.0), ["mm", "mm", "mm"]);
        assert_eq!(set("mm", 1.0), ["m", "m"]);
        assert_eq!(set("\u{200B}\u{FE0F}", 1.0), [""]);
    }

    #[test]
    fn pieces_have_one_face_each() {
        let words = Words::from(format!("a {} ─", super::super::super::code("b")));
        let lines = broken(&spans(&words, Face::Regular), 10.0, 100.0, 0.0);
        let faces: Vec<(Face, usize, &str)> =
            lines[0].pieces.iter().map(|piece| (piece.face, piece.span, piece.text.as_str())).collect();
        let expected = [(Face::Regular, 0, "a "), (Face::Mono, 1, "b"), (Face::Regular, 2, " "), (Face::Mono, 2, "─")];
        assert_eq!(faces, expected);
    }

    #[test]
    fn text_is_cut_to_fit() {
        let cut = fitted("a very long title indeed", Face::Regular, 10.0, 60.0);
        assert!(cut.ends_with('…') && measure(&plain(&cut, Face::Regular)).line * 10.0 <= 60.0, "{cut}");
        assert_eq!(fitted("short", Face::Regular, 10.0, 60.0), "short");
    }
}
