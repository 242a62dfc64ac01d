//! A pull scanner of JSON. It needs a fixed buffer however large the file is, and says where a damaged file stops.
//!
//! Lenient where tools are: bare words (`NaN`), control characters in texts and a comma before a closing bracket pass.

use std::fmt;
use std::io::{ErrorKind, Read};

use terms::outside;

/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// Why a scan stopped before the end of the value that it was to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The file ends inside a value.
    Ended {
        /// Bytes that were read.
        at: u64,
    },
    /// The rest of the file cannot be read: a damaged gzip stream, or the disk.
    Unreadable {
        /// Bytes that were read.
        at: u64,
        /// What the system says.
        cause: String,
    },
    /// A byte stands where it must not.
    Unexpected {
        /// Place of the byte.
        at: u64,
        /// The byte.
        found: u8,
        /// What was expected there.
        expected: &'static str,
    },
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { at } => write!(f, "the file ends too early, after {at} bytes of JSON"),
            Self::Unreadable { at, cause } => write!(f, "the file cannot be read after {at} bytes of JSON: {cause}"),
            Self::Unexpected { at, found, expected } => {
                write!(f, "this is not JSON: byte {at} is `{}`, expected {expected}", found.escape_ascii())
            }
        }
    }
}

/// Where a value is kept, and how many bytes of it at most.
pub(super) struct Keep<'a> {
    into: &'a mut Vec<u8>,
    left: usize,
}

impl<'a> Keep<'a> {
    /// Keeps up to `most` bytes; the rest of a longer value is dropped.
    pub(super) fn new(into: &'a mut Vec<u8>, most: usize) -> Self {
        Self { into, left: most }
    }

    fn push(&mut self, bytes: &[u8]) {
        let taken = bytes.len().min(self.left);
        self.into.extend_from_slice(&bytes[..taken]);
        self.left -= taken;
    }

    /// Bytes of a text, with stand-ins for control characters.
    fn push_text(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(u8::is_ascii_control) {
            match part.split_last() {
                Some((last, before)) if *last < b' ' => {
                    self.push(before);
                    self.push_character(char::from(*last));
                }
                _ => self.push(part),
            }
        }
    }

    fn push_character(&mut self, character: char) {
        self.push(outside::character(character).encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Reads JSON from front to back.
pub(super) struct Scanner<R> {
    input: R,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    passed: u64,
    /// Whether the input came to its end without a fault.
    is_over: bool,
}

impl<R: Read> Scanner<R> {
    /// A scanner at the beginning of a text.
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: vec![0; BUFFER].into_boxed_slice(), at: 0, end: 0, passed: 0, is_over: false }
    }

    /// Bytes that were passed.
    pub(super) fn offset(&self) -> u64 {
        self.passed + self.at as u64
    }

    fn fill(&mut self) -> Result<(), Stop> {
        self.passed += self.end as u64;
        (self.at, self.end) = (0, 0);
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(0) => {
                    self.is_over = true;
                    return Err(Stop::Ended { at: self.passed });
                }
                Ok(read) => {
                    self.end = read.min(self.buffer.len());
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(Stop::Ended { at: self.passed }),
                Err(error) => return Err(Stop::Unreadable { at: self.passed, cause: error.to_string() }),
            }
        }
    }

    /// Reads to the end of the input, which may find that a packed file is cut or damaged.
    pub(super) fn drain(&mut self) -> Result<(), Stop> {
        loop {
            match self.fill() {
                // Nothing more came, and the input has no fault.
                Err(Stop::Ended { .. }) if self.is_over => return Ok(()),
                other => other?,
            }
        }
    }

    /// The next byte, which is not consumed.
    fn next(&mut self) -> Result<u8, Stop> {
        if self.at == self.end {
            self.fill()?;
        }
        Ok(self.buffer[self.at])
    }

    fn take(&mut self) -> Result<u8, Stop> {
        let byte = self.next()?;
        self.at += 1;
        Ok(byte)
    }

    /// The first byte of the next value or delimiter.
    pub(super) fn peek(&mut self) -> Result<u8, Stop> {
        loop {
            let byte = self.next()?;
            if !byte.is_ascii_whitespace() {
                return Ok(byte);
            }
            self.at += 1;
        }
    }

    fn unexpected(&self, found: u8, expected: &'static str) -> Stop {
        Stop::Unexpected { at: self.offset(), found, expected }
    }

    /// Passes a delimiter.
    pub(super) fn enter(&mut self, delimiter: u8, expected: &'static str) -> Result<(), Stop> {
        let found = self.peek()?;
        if found != delimiter {
            return Err(self.unexpected(found, expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Passes a byte order mark, where the text has one.
    pub(super) fn byte_order_mark(&mut self) -> Result<(), Stop> {
        for byte in [0xef, 0xbb, 0xbf] {
            if self.next()? != byte {
                break;
            }
            self.at += 1;
        }
        Ok(())
    }

    /// The next key of an object that was entered, without its colon; false at the object's end.
    pub(super) fn key(&mut self, first: &mut bool, key: &mut Vec<u8>) -> Result<bool, Stop> {
        if !self.another(first, b'}', "`,` or `}`")? {
            return Ok(false);
        }
        key.clear();
        self.text(Some(Keep::new(key, 256)))?;
        self.enter(b':', "`:`")?;
        Ok(true)
    }

    /// Whether an array that was entered has another item, which is then next.
    pub(super) fn item(&mut self, first: &mut bool) -> Result<bool, Stop> {
        self.another(first, b']', "`,` or `]`")
    }

    fn another(&mut self, first: &mut bool, closing: u8, expected: &'static str) -> Result<bool, Stop> {
        let mut found = self.peek()?;
        if found == b',' && !*first {
            self.at += 1;
            found = self.peek()?;
        } else if found != closing && !*first {
            return Err(self.unexpected(found, expected));
        }
        *first = false;
        if found == closing {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Passes a value of any kind and depth. What is kept of a text is its characters; of all others, their JSON.
    pub(super) fn value(&mut self, keep: Option<Keep<'_>>) -> Result<(), Stop> {
        match self.peek()? {
            b'"' => self.text(keep),
            b'{' | b'[' => self.nested(keep),
            found @ (b',' | b'}' | b']' | b':') => Err(self.unexpected(found, "a value")),
            _ => self.word(keep),
        }
    }

    /// A number, `true`, `false`, `null`, or what a tool wrote there instead.
    fn word(&mut self, mut keep: Option<Keep<'_>>) -> Result<(), Stop> {
        loop {
            self.next()?;
            let rest = &self.buffer[self.at..self.end];
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b'"') || byte.is_ascii_whitespace();
            let end = rest.iter().position(is_end);
            let taken = end.unwrap_or(rest.len());
            if let Some(keep) = &mut keep {
                keep.push_text(&rest[..taken]);
            }
            self.at += taken;
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn text(&mut self, mut keep: Option<Keep<'_>>) -> Result<(), Stop> {
        self.enter(b'"', "a text")?;
        loop {
            self.next()?;
            let rest = &self.buffer[self.at..self.end];
            let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let taken = end.unwrap_or(rest.len());
            if let Some(keep) = &mut keep {
                keep.push_text(&rest[..taken]);
            }
            let found = end.map(|end| rest[end]);
            self.at += taken + usize::from(found.is_some());
            match found {
                None => {}
                Some(b'"') => return Ok(()),
                Some(_) => self.escape(&mut keep)?,
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, keep: &mut Option<Keep<'_>>) -> Result<(), Stop> {
        let mut push = |character: char| {
            if let Some(keep) = keep {
                keep.push_character(character);
            }
        };
        let mut high = None;
        loop {
            let mark = self.take()?;
            let unit = if mark == b'u' { Some(self.hexadecimal()?) } else { None };
            let pair = high.zip(unit).and_then(|(high, unit)| char::decode_utf16([high, unit]).next()?.ok());
            if let Some(pair) = pair {
                push(pair);
                return Ok(());
            }
            if high.take().is_some() {
                push(char::REPLACEMENT_CHARACTER);
            }
            match unit {
                None => push(single(mark)),
                Some(unit @ 0xd800..0xdc00) if self.next()? == b'\\' => {
                    self.at += 1;
                    high = Some(unit);
                    continue;
                }
                Some(unit) => push(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER)),
            }
            return Ok(());
        }
    }

    /// Four hexadecimal digits; fewer are those that are there.
    fn hexadecimal(&mut self) -> Result<u16, Stop> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.next()?).to_digit(16) else { break };
            self.at += 1;
            unit = unit << 4 | digit as u16;
        }
        Ok(unit)
    }

    /// An object or array: brackets are counted, so depth needs no memory.
    fn nested(&mut self, mut keep: Option<Keep<'_>>) -> Result<(), Stop> {
        let (mut depth, mut in_text, mut escaped) = (0_u64, false, false);
        loop {
            self.next()?;
            let rest = &self.buffer[self.at..self.end];
            let end = if escaped {
                Some(0)
            } else if in_text {
                rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))
            } else {
                rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
            };
            let taken = end.map_or(rest.len(), |end| end + 1);
            if let Some(keep) = &mut keep {
                keep.push(&rest[..taken]);
            }
            let found = end.map(|end| rest[end]);
            self.at += taken;
            match found {
                None => {}
                Some(_) if escaped => escaped = false,
                Some(b'\\') => escaped = true,
                Some(b'"') => in_text = !in_text,
                Some(b'{' | b'[') => depth += 1,
                Some(_) => depth = depth.saturating_sub(1),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

/// The character of an escape of one character; an unknown escape is that character.
fn single(mark: u8) -> char {
    match mark {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        other if other.is_ascii() => char::from(other),
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, so that every value crosses the end of a buffer.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            into[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn fields(text: &str) -> Result<Vec<(String, String)>, Stop> {
        let mut scanner = Scanner::new(Slowly(text.as_bytes()));
        let (mut key, mut first, mut fields) = (Vec::new(), true, Vec::new());
        scanner.enter(b'{', "an object")?;
        while scanner.key(&mut first, &mut key)? {
            let mut value = Vec::new();
            scanner.value(Some(Keep::new(&mut value, 40)))?;
            fields.push((String::from_utf8_lossy(&key).into_owned(), String::from_utf8_lossy(&value).into_owned()));
        }
        Ok(fields)
    }

    #[test]
    fn values_of_every_kind_are_passed_and_kept() {
        let text =
            r#" {"a": -1.5e3, "b" : [{"x]": "}\"]"}, []], "c":"q\"\u00e9\ud83d\ude00\n\/", "d":NaN ,"e":null,} "#;
        let read = fields(text).unwrap();
        let values: Vec<&str> = read.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["-1.5e3", r#"[{"x]": "}\"]"}, []]"#, "q\"é😀\u{FDDA}/", "NaN", "null"]);
        assert_eq!(read[4].0, "e");
    }

    #[test]
    fn odd_escapes_are_characters() {
        let read = fields(r#"{"a": "\ud83dx\ud83d\n\ud83d\u0041\udc00\q\u12"}"#).unwrap();
        assert_eq!(read[0].1, "\u{fffd}x\u{fffd}\u{fdda}\u{fffd}A\u{fffd}q\u{fde2}");
    }

    #[test]
    fn a_long_value_is_cut_and_passed() {
        let read = fields(&format!(r#"{{"a": "{}", "b": 1}}"#, "x".repeat(100))).unwrap();
        assert_eq!((read[0].1.len(), read[1].1.as_str()), (40, "1"));
    }

    #[test]
    fn depth_needs_no_stack() {
        let deep = format!(r#"{{"a": {}{}}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert_eq!(fields(&deep).unwrap().len(), 1);
    }

    #[test]
    fn an_end_and_an_odd_byte_are_told_apart() {
        for text in ["{", r#"{"a"#, r#"{"a": [1, "#, r#"{"a": 1"#, r#"{"a": "\u12"#] {
            assert!(matches!(fields(text), Err(Stop::Ended { .. })), "{text}");
        }
        let odd = fields(r#"{"a" 1}"#).unwrap_err();
        assert_eq!(odd.to_string(), "this is not JSON: byte 5 is `1`, expected `:`");
        assert!(matches!(fields(r#"{"a": 1 "b": 2}"#), Err(Stop::Unexpected { .. })));
    }
}
