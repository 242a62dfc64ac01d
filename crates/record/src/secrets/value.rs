//! Values whose names say that they are secret: `NAME=value`, `name: value`, `?name=value&`, `--name value`.

use std::ops::Range;

use super::name::{is_secret, is_secret_option};

/// How far a value reaches that has no quotes around it and no separator behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// To the next white space.
    Word,
    /// To the end of the line.
    Line,
}

/// Bytes that are looked back for a name, and for the quote in which it stands.
const BACK: usize = 4096;

/// Words that prose has before a colon: alone they do not name a value there.
fn is_prose(name: &str) -> bool {
    const WORDS: [&str; 12] =
        ["token", "tokens", "key", "keys", "pass", "auth", "sig", "signature", "pat", "nonce", "precondition", "creds"];
    WORDS.contains(&name.to_ascii_lowercase().as_str())
}

/// Where a text has values of secret names.
pub(super) fn named(text: &str, extent: Extent) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, separator) in text.match_indices(['=', ':']) {
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        let Some(name) = name_before(text, at) else { continue };
        let word = &text[name.clone()];
        let in_query = text[..name.start].ends_with(['?', '&']) && word.eq_ignore_ascii_case("code");
        if !in_query && !is_secret(word) {
            continue;
        }
        let is_spaced = text[name.end..at].contains(' ');
        let is_quoted = text[name.end..at].starts_with(['"', '\'', '\\']);
        if is_prose(word) && !is_quoted && (separator == ":" || is_spaced) {
            continue;
        }
        // `FOLDER/secret: not found` and `tokens.bin: too short` are about files.
        let is_file =
            word.contains('.') || word.to_ascii_lowercase().ends_with("file") || text[..name.start].ends_with('/');
        if separator == ":" && is_file && !is_quoted {
            continue;
        }
        let value = value_behind(text, &name, at, extent);
        let shown = &text[value.clone()];
        // `key://` is a scheme, and `token::x` a path.
        let is_other = separator == ":" && (shown.starts_with("//") || shown.starts_with(':'));
        let is_count = word.to_ascii_lowercase().contains("tokens") && shown.bytes().all(|byte| byte.is_ascii_digit());
        // `key=value` and `PASSWORD=...` say how it is written.
        let is_placeholder = shown.eq_ignore_ascii_case("value") || shown.bytes().all(|byte| byte == b'.');
        if !is_other && !is_count && !is_placeholder {
            found.push(value);
        }
    }
    found
}

/// The name before a separator, which may have quotes around it, or spaces behind it.
fn name_before(text: &str, at: usize) -> Option<Range<usize>> {
    let end = text[..at].trim_end_matches(' ').trim_end_matches(['"', '\'', '\\']).len();
    let begin = floor(text, end.saturating_sub(BACK));
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let length = text[begin..end].chars().rev().take_while(|c| is_of_name(*c)).count();
    (length > 0).then_some(end - length..end)
}

/// The value behind a separator.
fn value_behind(text: &str, name: &Range<usize>, at: usize, extent: Extent) -> Range<usize> {
    let line_end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    let begin = at + 1;
    let begin = begin + (text[begin..line_end].len() - text[begin..line_end].trim_start().len());
    // `Bearer x` and `Basic x` are two words.
    if text[name.clone()].to_ascii_lowercase().contains("authorization") {
        return begin..text[..line_end].trim_end().len().max(begin);
    }
    let before = &text[floor(text, name.start.saturating_sub(BACK))..name.start];
    if text.as_bytes()[at] == b'=' && is_only_options(&text[..name.start]) {
        // The whole text is this value: one that holds line breaks, too.
        return begin..text.len();
    }
    // A name with quotes of its own is a member of an object: the quote before it is its own.
    let is_member = text[name.end..at].starts_with(['"', '\'', '\\']);
    if let Some(quote) = open_quote(before).filter(|_| !is_member) {
        return begin..closing(text, begin, quote).unwrap_or(line_end);
    }
    let bare = begin + (text[begin..line_end].len() - text[begin..line_end].trim_start_matches('\\').len());
    if let Some(quote) = text[bare..line_end].chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))
        && (is_member || extent == Extent::Word)
    {
        let escaped = text[bare + 1..line_end].find(&format!("\\{quote}")).filter(|_| bare > begin);
        let end = escaped.map(|length| bare + 1 + length).or_else(|| closing(text, bare + 1, quote));
        return bare + 1..end.unwrap_or(line_end);
    }
    let until = |ends: &dyn Fn(char) -> bool| text[begin..line_end].find(ends).map_or(line_end, |end| begin + end);
    if before.ends_with("&amp;") || before.ends_with(['?', '&']) {
        return begin..until(&|c| c.is_whitespace() || matches!(c, '&' | '#' | '"' | '\'' | '`' | '<' | '>' | '\\'));
    }
    if before.trim_end().ends_with(';') {
        return begin..until(&|c| matches!(c, ';' | '"' | '\'' | '`'));
    }
    match extent {
        _ if text.as_bytes()[at] == b':' => begin..line_end,
        Extent::Line => begin..line_end,
        Extent::Word => begin..unescaped_space(text, begin, line_end),
    }
}

/// Whether nothing but names stands there: `--`, `--env=`, `NAME=`.
fn is_only_options(before: &str) -> bool {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=');
    before.is_empty() || (before.starts_with('-') || before.ends_with('=')) && before.bytes().all(is_of_names)
}

/// The quote that is open at the end of a text's last line. An apostrophe within a word opens none.
fn open_quote(before: &str) -> Option<char> {
    let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
    let mut open: Option<char> = None;
    let mut previous = ' ';
    for c in line.chars() {
        match open {
            Some(quote) if c == quote && previous != '\\' => open = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'' | '`') && !previous.is_alphanumeric() => open = Some(c),
            None => {}
        }
        previous = c;
    }
    open
}

/// The quote that closes, searched on its line.
fn closing(text: &str, from: usize, quote: char) -> Option<usize> {
    let line = &text[from..from + text[from..].find('\n').unwrap_or(text.len() - from)];
    let mut escaped = false;
    for (place, c) in line.char_indices() {
        if c == quote && !escaped {
            return Some(from + place);
        }
        escaped = c == '\\' && !escaped;
    }
    // Quotes within a quoted text are escaped all of them.
    line.find(quote).map(|place| from + place)
}

/// Where the next white space stands that no backslash is before.
fn unescaped_space(text: &str, from: usize, end: usize) -> usize {
    let is_end = |(place, _): &(usize, &str)| !text[from..from + place].ends_with('\\');
    text[from..end].match_indices(char::is_whitespace).find(is_end).map_or(end, |(place, _)| from + place)
}

/// Values behind options that say that they are secret: `--password PW` within a longer text.
pub(super) fn behind_options(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find('-').map(|place| at + place) {
        at = begin + 1;
        let before = text[..begin].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_')) {
            continue;
        }
        let end = text[begin..].find(char::is_whitespace).map_or(text.len(), |length| begin + length);
        at = end.max(at);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !text[begin..end].chars().all(is_name) || !is_secret_option(&text[begin..end]) {
            continue;
        }
        let line_end = text[end..].find('\n').map_or(text.len(), |length| end + length);
        let value = end + (text[end..line_end].len() - text[end..line_end].trim_start().len());
        match text[value..line_end].chars().next() {
            None | Some('-') => {}
            Some(quote @ ('"' | '\'')) => found.push(value + 1..closing(text, value + 1, quote).unwrap_or(line_end)),
            Some(_) => {
                let stop = unescaped_space(text, value, line_end);
                // The end of a quoted line is not part of its last word.
                found.push(value..text[value..stop].trim_end_matches(['"', '\'', '`']).len() + value);
            }
        }
    }
    found
}

/// The character boundary at or before a byte.
fn floor(text: &str, mut byte: usize) -> usize {
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}
