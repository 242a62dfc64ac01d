//! How a record's text is written, as compact JSON with one spelling for each number, and how JSON from outside is read.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, Serializer};
use terms::outside;

use crate::secrets::masked_json;

/// The version of its form that a file or a line states.
#[derive(Deserialize)]
pub(crate) struct StatedSchema {
    pub(crate) schema: u32,
}

/// Numbers as Rust writes them (`0.81`, `1.5e-5` below 1e-4, `1e16` from there up), the shortest text that reads back to
/// the same bits. serde_json's own spelling has changed between its versions, and identities are made of this text.
struct RustNumbers;

impl Formatter for RustNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value:?}")
    }
}

/// The one text of a value.
///
/// # Errors
/// When the value cannot be JSON (a map with keys that are not texts).
pub fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, RustNumbers))?;
    String::from_utf8(text).map(written).map_err(serde::ser::Error::custom)
}

/// Writes a value in lines, indented, as `run.json` is, and without secrets: each caller masks what it knows to come from
/// outside, and here nothing is forgotten.
///
/// # Errors
/// What `to` reports, and when the value cannot be JSON.
pub(crate) fn to_pretty_json(to: &mut dyn io::Write, value: &impl Serialize) -> io::Result<()> {
    let mut lines = WrittenLines { to, lines: Vec::new(), begin: 0 };
    serde_json::to_writer_pretty(&mut lines, value)?;
    lines.end()
}

/// Passes lines of JSON on as they leave the program. A string is always within one line; those of a list go together, because
/// they may be the words of a command line.
struct WrittenLines<'w> {
    to: &'w mut dyn io::Write,
    lines: Vec<u8>,
    /// Where the last of them begins.
    begin: usize,
}

/// Bytes of a list that are held, at most.
const MOST_TOGETHER: usize = 1 << 20;

/// Whether another string of the same list may follow this line.
fn is_of_list(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_text = line.starts_with(b"\"") && !line.windows(3).any(|three| three == b"\": ");
    is_text || line.ends_with(b"[")
}

impl WrittenLines<'_> {
    fn end(&mut self) -> io::Result<()> {
        self.begin = 0;
        let lines = String::from_utf8(std::mem::take(&mut self.lines)).map(written).map_err(io::Error::other)?;
        self.to.write_all(&masked_json(lines.as_bytes()))
    }
}

impl io::Write for WrittenLines<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.lines.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let last = std::mem::replace(&mut self.begin, self.lines.len());
                if !is_of_list(&self.lines[last..]) || self.lines.len() > MOST_TOGETHER {
                    self.end()?;
                }
            }
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// JSON as it leaves the program. Controls that JSON leaves as they are (U+007F to U+009F) are escaped, because terminals obey
/// some of them. They stand in strings only.
fn written(json: String) -> String {
    let json = match outside::original_json(&json) {
        std::borrow::Cow::Owned(original) => original,
        std::borrow::Cow::Borrowed(_) => json,
    };
    let is_obeyed = |c: char| ('\u{7f}'..='\u{9f}').contains(&c);
    if !json.contains(is_obeyed) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match is_obeyed(c) {
            true => escaped += &format!("\\u{:04x}", u32::from(c)),
            false => escaped.push(c),
        }
    }
    escaped
}

/// The value of JSON from outside: of a record, a trace, another program. Control characters of its strings are stand-ins
/// ([`outside`]).
///
/// # Errors
/// When the text is not JSON of this type.
pub fn from_json<T: DeserializeOwned>(text: impl AsRef<[u8]>) -> serde_json::Result<T> {
    serde_json::from_slice(&outside::json(text.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_spelling() {
        let numbers = [0.81, 1.5e-5, 1.4e-4, 0.0, 69.9, 2_170_000.0, 1e16, 5e-324, f64::MAX];
        let text = to_json(&numbers).unwrap();
        assert_eq!(text, "[0.81,1.5e-5,0.00014,0.0,69.9,2170000.0,1e16,5e-324,1.7976931348623157e308]");
        assert_eq!(serde_json::from_str::<[f64; 9]>(&text).unwrap(), numbers);
        assert_eq!(to_json(&f64::NAN).unwrap(), "null");
    }

    #[test]
    fn controls_that_json_permits_are_escaped() {
        let text = to_json(&["a\u{7f}b\u{9b}2Jc"]).unwrap();
        assert_eq!(text, r#"["a\u007fb\u009b2Jc"]"#);
        assert_eq!(from_json::<[String; 1]>(text).unwrap(), ["a\u{7f}b\u{9b}2Jc"]);
    }

    #[test]
    fn text_from_outside_comes_back_as_it_was() {
        let text = r#"{"a\u001b[2J":"b\u000ac\u0009d"}"#;
        let value: serde_json::Value = from_json(text).unwrap();
        let (key, value_of) = value.as_object().unwrap().iter().next().unwrap();
        let shown = format!("{key}{value_of}");
        assert!(!shown.contains(|c: char| c.is_control()) && !shown.contains('\\'), "{shown:?}");
        assert_eq!(to_json(&value).unwrap(), text);
        let mut pretty = Vec::new();
        to_pretty_json(&mut pretty, &value).unwrap();
        assert_eq!(
            pretty,
            format!(
                "{}\n",
                r#"{
  "a\u001b[2J": "b\u000ac\u0009d"
}"#
            )
            .trim_end()
            .as_bytes()
        );
    }
}
