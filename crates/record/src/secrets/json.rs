//! Secrets within the strings of JSON text: every string is masked, and what is not a secret keeps its bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::{command_line, is_plain};

/// JSON text, of one value or of several, without secrets in its strings. Strings that follow each other in a list are the
/// words of a command line: behind `"--password"` stands one.
pub(crate) fn masked_json(text: &[u8]) -> Cow<'_, [u8]> {
    let mut safe: Vec<u8> = Vec::new();
    let mut copied = 0;
    let mut list: Vec<Range<usize>> = Vec::new();
    let mut strings = Strings { text, at: 0 }.peekable();
    while let Some(place) = strings.next() {
        let end = place.end;
        if text[end..].trim_ascii_start().starts_with(b":") {
            // A key.
            continue;
        }
        let next = strings.peek().filter(|next| text[end..next.start].trim_ascii() == b",");
        let is_followed = next.is_some_and(|next| !text[next.end..].trim_ascii_start().starts_with(b":"));
        list.push(place);
        if is_followed {
            continue;
        }
        for (place, masked) in changes(text, &list) {
            safe.extend_from_slice(&text[copied..place.start]);
            safe.extend_from_slice(&masked);
            copied = place.end;
        }
        list.clear();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    safe.extend_from_slice(&text[copied..]);
    Cow::Owned(safe)
}

/// Strings of a list that change, with what stands in their places. One that is damaged is read as it is.
fn changes(text: &[u8], list: &[Range<usize>]) -> Vec<(Range<usize>, Vec<u8>)> {
    if list.iter().all(|place| is_plain(&text[place.clone()])) {
        return Vec::new();
    }
    let read = |place: &Range<usize>| {
        let raw = &text[place.clone()];
        let inside = || raw[1..].strip_suffix(b"\"").unwrap_or(&raw[1..]);
        serde_json::from_slice(raw).unwrap_or_else(|_| String::from_utf8_lossy(inside()).into_owned())
    };
    let words: Vec<String> = list.iter().map(read).collect();
    let safe = command_line(words.iter().cloned());
    let changed = list.iter().zip(words.iter().zip(safe)).filter(|(_, (word, safe))| *word != safe);
    changed.filter_map(|(place, (_, safe))| Some((place.clone(), serde_json::to_vec(&safe).ok()?))).collect()
}

/// Places of the strings of a JSON text, with their quotes, keys of objects too.
struct Strings<'t> {
    text: &'t [u8],
    at: usize,
}

impl Iterator for Strings<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let begin = self.at + self.text[self.at..].iter().position(|byte| *byte == b'"')?;
        let mut end = begin + 1;
        loop {
            match self.text.get(end) {
                None | Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        // The text may end within a string: a line that was cut short.
        self.at = (end + 1).min(self.text.len());
        Some(begin..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_change() {
        let text =
            br#"{"a\"b": ["--password", "PW", "x"],  "c": "redis://:PW@h", "token": "--key", "d": [1, "\u00e9"]}"#;
        let safe =
            br#"{"a\"b": ["--password", "***", "x"],  "c": "redis://:***@h", "token": "--key", "d": [1, "\u00e9"]}"#;
        assert_eq!(String::from_utf8_lossy(&masked_json(text)), String::from_utf8_lossy(safe));
        assert!(matches!(masked_json(safe), Cow::Borrowed(_)));
        let damaged = br#"{"c": "redis://:PW@h \q", "d": "--token=PW"#;
        let safe = r#"{"c": "redis://:***@h \\q", "d": "--token=***""#;
        assert_eq!(String::from_utf8_lossy(&masked_json(damaged)), safe);
    }
}
