//! How a record's text is written: compact JSON, with one spelling for each number.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Numbers as Rust writes them (`0.81`, `1.5e-5` below 1e-4, `1e16` from there up), the shortest text that reads back to
/// the same bits. serde_json's own spelling has changed between its versions, and identities are made of this text.
struct Numbers;

impl Formatter for Numbers {
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
    value.serialize(&mut Serializer::with_formatter(&mut text, Numbers))?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
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
}
