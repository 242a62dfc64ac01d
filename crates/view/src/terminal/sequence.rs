//! Escape sequences of this program, and what a terminal gets of a text.
//!
//! A text holds a sequence behind a mark: two private characters that are drawn at random when the program starts, so that
//! text of a record, a log or a library cannot have it. Only [`output`] turns marks into escapes.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

use terms::text::{is_invisible, without_commands};

/// What begins a sequence within a text.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let drawn = RandomState::new().hash_one(0);
        // Plane 16 is for private use, but for its last two characters.
        let private = |bits: u64| char::from_u32(0x10_0000 + (bits & 0xFFFF) as u32 % 0xFFFE).unwrap_or('\u{10_0000}');
        [private(drawn), private(drawn >> 16)].into_iter().collect()
    })
}

/// Sets a style: the numbers of `ESC [ ... m`.
pub(super) fn style(numbers: &str) -> String {
    format!("{}{numbers}m", mark())
}

/// Moves the cursor to the begin of a line so many lines above, and clears all from there on.
pub fn clear_above(lines: usize) -> String {
    let mark = mark();
    if lines == 0 { format!("{mark}\r{mark}J") } else { format!("{mark}\r{mark}{lines}A{mark}J") }
}

/// Bytes of the sequence at the begin of a text; 0 where there is none.
fn sequence(text: &str) -> usize {
    let Some(code) = text.strip_prefix(mark()) else { return 0 };
    let numbers = code.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    mark().len() + numbers + usize::from(numbers < code.len())
}

/// A row that fits the terminal: a wrapped one would be two lines, and drawn in the wrong place. Escape sequences take no
/// columns.
pub fn cut(row: &str, columns: usize) -> String {
    let (mut text, mut used, mut rest) = (String::new(), 0, row);
    while let Some(symbol) = rest.chars().next() {
        let sequence = sequence(rest);
        let (taken, room) = if sequence > 0 { (sequence, true) } else { (symbol.len_utf8(), used + 1 < columns) };
        used += usize::from(sequence == 0 && room);
        text.push_str(if room { &rest[..taken] } else { "" });
        rest = &rest[taken..];
    }
    text
}

/// What a stream gets: sequences of this program as such, and nothing that data brought to command a terminal or a CI system.
/// Other control characters than line breaks and tabs, and characters that turn the direction of text, become U+FFFD.
pub fn output(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let own = sequence(rest);
        if own > 0 {
            let code = &rest[mark().len()..own];
            shown.push_str(if code == "\r" { "" } else { "\u{1b}[" });
            shown.push_str(code);
            rest = &rest[own..];
            continue;
        }
        match character {
            '\n' | '\t' => shown.push(character),
            other if other.is_control() || is_invisible(other) => shown.push('\u{FFFD}'),
            other => shown.push(other),
        }
        rest = &rest[character.len_utf8()..];
    }
    if !shown.contains("::") && !shown.contains("##") {
        return shown;
    }
    shown.split_inclusive('\n').map(|line| without_commands(line.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Style;
    use super::*;

    #[test]
    fn output_has_the_sequences_of_this_program_and_no_others() {
        let own = format!("{}{} x\n\ty\n{}", clear_above(2), Style::Error.paint("error:"), clear_above(0));
        assert_eq!(output(&own), "\r\u{1b}[2A\u{1b}[J\u{1b}[1;31merror:\u{1b}[0m x\n\ty\n\r\u{1b}[J");
        let foreign = "a\u{1b}]0;title\u{7}b\u{1b}[31mc\u{1b}[2J\r\u{202E}d\u{FDEB}\n  ::error::e\n::warning f=1::g\nh ##[group]\n";
        let safe = output(foreign);
        assert!(
            safe.starts_with("a\u{FFFD}]0;title\u{FFFD}b\u{FFFD}[31mc\u{FFFD}[2J\u{FFFD}\u{FFFD}d\u{FFFD}\n"),
            "{safe:?}"
        );
        assert!(safe.ends_with("\n  : :error::e\n: :warning f=1::g\nh # #[group]\n"), "{safe:?}");
        assert_eq!(output("::1\nstd::x\n"), "::1\nstd::x\n");
        // A mark without a sequence, at the end.
        assert_eq!(output(mark()), "\u{1b}[");
    }

    #[test]
    fn rows_are_cut_at_the_edge_and_keep_their_colours() {
        let bold = |text| Style::Bold.paint(text);
        assert_eq!(cut(&bold("abcdef"), 4), bold("abc"));
        assert_eq!(cut("abc", 80), "abc");
    }
}
