//! Text from outside: of a record, a plan, a trace, a log.
//!
//! Such text may hold control characters: to begin a line, to move a cursor, to pretend to be output of this program. So each
//! reader turns every control character below U+0020 into its stand-in, U+FDD0 plus its code, before anything else sees the
//! text. Unicode reserves these 32 noncharacters for use within a program. From the reader on, a line break or an escape in a
//! string is this program's own. What writes JSON, computes an identity or sets a variable gives back the original.
//!
//! Rejected: a string type for each of the 300 texts of a record. Parameters and metrics are JSON values, whose strings such a
//! type does not reach.

use std::borrow::Cow;

/// The stand-in of U+0000; those of the other control characters below U+0020 follow.
const FIRST: u32 = 0xFDD0;
/// The first two of three bytes in UTF-8 of any stand-in. The last is 0x90 plus the character's code.
const LEAD: [u8; 2] = [0xEF, 0xB7];
const LAST: u8 = 0x90;
/// U+FFFD: what outside text has in the place of a stand-in, which nobody else has a use for.
const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Whether a character stands for a control character of outside text.
pub const fn is_stand_in(c: char) -> bool {
    c as u32 >= FIRST && (c as u32) < FIRST + 0x20
}

/// What a character of outside text becomes: a control character below U+0020 its stand-in; others stay.
pub const fn character(c: char) -> char {
    if is_stand_in(c) {
        return '\u{FFFD}';
    }
    match char::from_u32(FIRST + c as u32) {
        Some(stand_in) if (c as u32) < 0x20 => stand_in,
        _ => c,
    }
}

/// Plain text from outside, with stand-ins.
pub fn text(source: &str) -> Cow<'_, str> {
    if source.chars().any(|c| character(c) != c) { source.chars().map(character).collect() } else { source.into() }
}

/// Lines of plain text from outside, with stand-ins. Line breaks and tabs stay: who reads lines takes them apart by these.
pub fn lines(source: &str) -> Cow<'_, str> {
    let of_line = |c: char| if matches!(c, '\n' | '\t') { c } else { character(c) };
    if source.chars().any(|c| of_line(c) != c) { source.chars().map(of_line).collect() } else { source.into() }
}

/// The text as it was outside: for programs, files and variables, never for a person.
pub fn original(text: &str) -> Cow<'_, str> {
    let control = |c: char| char::from_u32(c as u32 - FIRST).unwrap_or(c);
    if text.contains(is_stand_in) {
        text.chars().map(|c| if is_stand_in(c) { control(c) } else { c }).collect()
    } else {
        text.into()
    }
}

/// JSON from outside: a parser that reads the result gets strings with stand-ins. JSON can have a control character in a string
/// only as an escape, so nothing else is looked for.
pub fn json(source: &[u8]) -> Cow<'_, [u8]> {
    let mut changed: Vec<u8> = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = source[at..].iter().position(|byte| *byte == b'\\' || *byte == LEAD[0]) {
        at += next;
        let (length, instead) = replaced(&source[at..]);
        if let Some(instead) = instead {
            changed.extend_from_slice(&source[copied..at]);
            changed.extend_from_slice(&instead);
            copied = at + length;
        }
        at += length;
    }
    if copied == 0 {
        return Cow::Borrowed(source);
    }
    changed.extend_from_slice(&source[copied..]);
    Cow::Owned(changed)
}

/// How many bytes the escape, or the character, at the begin of JSON has, and what stands in its place, if anything does.
fn replaced(rest: &[u8]) -> (usize, Option<[u8; 3]>) {
    let in_place = |code: u8| Some([LEAD[0], LEAD[1], LAST + code]);
    let nothing = || REPLACEMENT.try_into().ok();
    match rest {
        [b'\\', b'u', digits @ ..] => {
            let hex = digits.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
            let code = hex.and_then(|hex| u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
            match code.and_then(char::from_u32) {
                Some(c) if is_stand_in(c) => (6, nothing()),
                Some(c) if (c as u32) < 0x20 => (6, in_place(c as u8)),
                _ => (2, None),
            }
        }
        [b'\\', short, ..] => {
            let code = match short {
                b'b' => Some(8),
                b't' => Some(9),
                b'n' => Some(10),
                b'f' => Some(12),
                b'r' => Some(13),
                _ => None,
            };
            (2, code.and_then(in_place))
        }
        [a, b, LAST..=0xAF, ..] if [*a, *b] == LEAD => (3, nothing()),
        _ => (1, None),
    }
}

/// JSON that this program wrote, with escapes again where its strings have stand-ins.
pub fn original_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_stand_in) {
        return json.into();
    }
    let mut text = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if is_stand_in(c) {
            text.push_str(&format!("\\u{:04x}", c as u32 - FIRST));
        } else {
            text.push(c);
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_stand_ins_and_come_back() {
        let all: String = (0..0x80).filter_map(char::from_u32).chain("é\u{85}\u{FFFD}".chars()).collect();
        let inside = text(&all);
        assert!(inside.chars().all(|c| c as u32 >= 0x20), "{inside:?}");
        assert_eq!(original(&inside), all);
        assert!(matches!(text("all_reduce 64 KiB"), Cow::Borrowed(_)));
        assert_eq!(text("a\u{FDDA}b"), "a\u{FFFD}b", "a stand-in of somebody else is nothing");
    }

    #[test]
    fn strings_of_json_have_stand_ins() {
        let source = r#"{"a\nb": "x\u001b[2J\\n\"\t\u00e9\ufdd1\ud83d\ude00\/", "c": "\b\f\r"}"#;
        let inside = json(source.as_bytes());
        let inside = std::str::from_utf8(&inside).unwrap();
        let expected = "{\"a\u{FDDA}b\": \"x\u{FDEB}[2J\\\\n\\\"\u{FDD9}\\u00e9\u{FFFD}\\ud83d\\ude00\\/\", \
                        \"c\": \"\u{FDD8}\u{FDDC}\u{FDDD}\"}";
        assert_eq!(inside, expected);
        let back = original_json(inside);
        assert!(back.contains("\"a\\u000ab\": \"x\\u001b[2J\\\\n"), "{back}");
        // What is cut off, or not JSON at all, is left to the parser.
        for odd in ["\"\\", "\"\\u00", "\"\\u00zz\"", "\u{FDD0}"] {
            json(odd.as_bytes());
        }
        assert!(matches!(json(b"{\"a\":\"b\\\"c\"}"), Cow::Borrowed(_)));
        assert_eq!(&*json("\"\u{FDDA}\"".as_bytes()), "\"\u{FFFD}\"".as_bytes());
    }
}
