//! Text from data, made fit for a line, for a terminal and for a log.
//!
//! A record may be somebody else's. What stands in it must not begin a line, move a cursor, turn the direction of text, or
//! be a command to the program that reads a log.

use crate::outside;

/// White space, control characters and invisible ones as single spaces. A word that a CI system would take for a command
/// (`::error::`, `##[error]`, `##vso[...]`) gets a space inside.
pub fn one_line(text: &str) -> String {
    if is_one_line(text) {
        return text.to_owned();
    }
    let shown: String = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    shown.split_whitespace().map(disarmed).collect::<Vec<_>>().join(" ")
}

/// [`one_line`] of a text that nobody else needs.
pub fn into_one_line(text: String) -> String {
    if is_one_line(&text) { text } else { one_line(&text) }
}

/// Whether nothing of a text has to change; most texts are such.
fn is_one_line(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !is_invisible(c) && (c == ' ' || !c.is_whitespace());
    let is_spaced = text.starts_with(' ') || text.ends_with(' ') || text.contains("  ");
    !is_spaced && text.chars().all(plain) && !text.contains("::") && !text.contains("##")
}

/// Characters that change the direction of text or hide in it, so that a name cannot pretend to be another, and stand-ins of
/// control characters ([`crate::outside`]).
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FDD0}'..='\u{FDEF}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}'
    )
}

/// A word that is not a command to a CI system. GitHub looks for `::NAME::` where a line begins, and a word may begin one once
/// the text is wrapped; `##[` and `##vso[` count anywhere.
fn disarmed(word: &str) -> String {
    let word = word.replace("##[", "# #[").replace("##vso[", "# #vso[");
    let is_command = word.strip_prefix("::").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
    if is_command { format!(": :{}", &word[2..]) } else { word }
}

/// JSON that a terminal and a CI system show as text: what they would obey is written by its number. The value stays.
pub fn harmless_json(json: &str) -> String {
    let json = outside::original_json(json);
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\n' => safe.push('\n'),
            other if other.is_control() || is_invisible(other) => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    safe.push_str(&format!("\\u{unit:04x}"));
                }
            }
            other => safe.push(other),
        }
    }
    safe.replace("##[", "\\u0023#[").replace("##vso[", "\\u0023#vso[")
}

/// A line of output without a command to a CI system.
pub fn without_commands(line: String) -> String {
    if !line.contains("::") && !line.contains("##") {
        return line;
    }
    let line = line.replace("##[", "# #[").replace("##vso[", "# #vso[");
    let begin = line.len() - line.trim_start().len();
    let command = line[begin..].strip_prefix("::");
    let named = command.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()) && rest.contains("::"));
    if named { format!("{}: :{}", &line[..begin], &line[begin + 2..]) } else { line }
}

/// With a capital letter and a full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map_or(String::new(), |letter| letter.to_uppercase().collect());
    let rest = letters.as_str();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{rest}{stop}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        assert_eq!(one_line("all_reduce 64 KiB"), "all_reduce 64 KiB");
        assert_eq!(one_line(" a\r\n::error file=x::no\tb "), "a : :error file=x::no b");
        assert_eq!(one_line("x ##[error]y ##vso[task.x]z"), "x # #[error]y # #vso[task.x]z");
        assert_eq!(one_line("a\u{202E}b\u{61C}c\u{1b}[31md\u{9b}e\u{E0041}"), "a b c [31md e");
        assert_eq!(one_line("std::vector ::1 ## a"), "std::vector ::1 ## a", "no command");
    }

    #[test]
    fn json_keeps_its_values() {
        let value = serde_json::json!({"a": "x\u{202E}y\u{E0041}\u{9b}##[error] ##vso[a]"});
        let safe = harmless_json(&format!("{value}\n"));
        assert!(!safe.contains('\u{202E}') && !safe.contains('\u{9b}') && !safe.contains("##"), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
    }
}
