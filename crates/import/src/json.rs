//! JSON that is damaged: which line, and what was expected there.

use serde::de::{DeserializeOwned, IgnoredAny};
use terms::{Error, outside};

use crate::{Source, tree};

/// The JSON of a file.
pub(crate) fn parsed<T: DeserializeOwned>(source: &Source) -> Result<T, Error> {
    record::from_json(source.text()).map_err(|error| syntax(source, &error))
}

/// The values of a file that has one behind the other, as some tools write a line each.
pub(crate) fn parsed_values<T: DeserializeOwned>(source: &Source) -> Result<Vec<T>, Error> {
    let text = outside::json(source.text().as_bytes());
    let values = serde_json::Deserializer::from_slice(&text).into_iter();
    values.collect::<Result<_, _>>().map_err(|error| syntax(source, &error))
}

/// Where JSON is damaged, and what was expected there.
pub(crate) fn syntax(source: &Source, error: &serde_json::Error) -> Error {
    if !error.is_eof() {
        let hint = "JSON does not support `inf` and `nan`: remove these entries, or measure them again";
        return source.error(error.line(), "this is not JSON").cause(error.to_string()).hint(hint);
    }
    let text = error.to_string();
    let expected = [("list", "`,` or `]`"), ("object", "`,` or `}`"), ("string", "the end of a text")];
    let expected = expected.iter().find(|(word, _)| text.contains(word)).map_or("a value", |(_, expected)| expected);
    let last = source.text().trim_end().lines().count().max(1);
    source
        .error(last, format!("the JSON is cut off here: expected {expected}, but the file ends"))
        .hint("a program that was killed leaves a file without its end: copy the file again, or measure again")
}

/// What is wrong with a file of JSON that no format recognises; None where it is none, or nothing is.
pub(crate) fn fault(source: &Source) -> Option<Error> {
    let mut letters = source.text().trim_start().chars().filter(|letter| !letter.is_whitespace());
    let begins = match (letters.next()?, letters.next()) {
        ('{', second) => second.is_none_or(|second| matches!(second, '"' | '}' | '/' | '#')),
        ('[', second) => second.is_none_or(|second| matches!(second, '{' | '[' | '"' | ']')),
        _ => false,
    };
    if !begins {
        return None;
    }
    let error = values(source.text()).err()?;
    if error.is_eof() {
        return Some(syntax(source, &error));
    }
    values(&tree::without_comments(source.text())).err().map(|error| syntax(source, &error))
}

/// Reads one value, or one behind the other, as some tools write a line each.
fn values(text: &str) -> Result<(), serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>().try_for_each(|value| value.map(drop))
}
