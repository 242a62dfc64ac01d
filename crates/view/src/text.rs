//! Text from data, made fit for a line and for a terminal.
//!
//! A record may be somebody else's. What stands in it must not begin a line, move a cursor, turn the direction of text, or
//! be a command to the program that reads a log.

/// White space, control characters and invisible ones as single spaces. A word that a CI system would take for a command
/// (`::error::`, `##[error]`, `##vso[...]`) gets a space inside.
pub fn one_line(text: &str) -> String {
    if is_one_line(text) {
        return text.to_owned();
    }
    let shown: String = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    shown.split_whitespace().map(disarmed).collect::<Vec<_>>().join(" ")
}

/// The same of a text that nobody else needs.
pub fn into_one_line(text: String) -> String {
    if is_one_line(&text) { text } else { one_line(&text) }
}

/// Whether nothing of a text has to change; most texts are such.
fn is_one_line(text: &str) -> bool {
    let plain = |c: char| !c.is_control() && !is_invisible(c) && (c == ' ' || !c.is_whitespace());
    let is_spaced = text.starts_with(' ') || text.ends_with(' ') || text.contains("  ");
    !is_spaced && text.chars().all(plain) && !text.contains("::") && !text.contains("##")
}

/// Characters that change the direction of text or hide in it, so that a name cannot pretend to be another.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
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

/// Output of this program without what data may have brought into it: control characters other than line breaks and the
/// escape sequences that the program itself writes, characters that turn the direction of text, and commands to a CI system.
pub fn harmless(output: &str) -> String {
    let mut safe = String::with_capacity(output.len());
    let mut rest = output;
    while let Some(character) = rest.chars().next() {
        let own = own_sequence(rest);
        if own > 0 {
            safe.push_str(&rest[..own]);
            rest = &rest[own..];
            continue;
        }
        match character {
            '\n' | '\t' | '\r' => safe.push(character),
            other if other.is_control() || is_invisible(other) => safe.push('\u{FFFD}'),
            other => safe.push(other),
        }
        rest = &rest[character.len_utf8()..];
    }
    if !safe.contains("::") && !safe.contains("##") {
        return safe;
    }
    safe.split_inclusive('\n').map(harmless_line).collect()
}

/// JSON that a terminal and a CI system show as text: what they would obey is written by its number. The value stays.
pub fn harmless_json(json: &str) -> String {
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

/// Bytes of the escape sequence at the begin of a text, where this program writes such: colours, and moves of the cursor
/// above what it drew.
fn own_sequence(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    match rest.as_bytes().get(digits) {
        Some(b'm' | b'A' | b'J') if digits <= 8 => 2 + digits + 1,
        _ => 0,
    }
}

fn harmless_line(line: &str) -> String {
    let line = line.replace("##[", "# #[").replace("##vso[", "# #vso[");
    let begin = line.len() - line.trim_start().len();
    let command = line[begin..].strip_prefix("::");
    let named = command.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()) && rest.contains("::"));
    if named { format!("{}: :{}", &line[..begin], &line[begin + 2..]) } else { line }
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

    #[test]
    fn output_keeps_its_colours_and_loses_what_data_bring() {
        let own = "\r\u{1b}[2A\u{1b}[J\u{1b}[1;31merror:\u{1b}[0m x\n\ty\n";
        assert_eq!(harmless(own), own);
        let foreign = "a\u{1b}]0;title\u{7}b\u{1b}[?25lc\u{202E}d\n  ::error::e\n::warning f=1::g\nh ##[group]\n";
        let safe = harmless(foreign);
        assert!(!safe.contains('\u{1b}') && !safe.contains('\u{7}') && !safe.contains('\u{202E}'), "{safe:?}");
        assert!(safe.ends_with("\n  : :error::e\n: :warning f=1::g\nh # #[group]\n"), "{safe:?}");
        assert_eq!(harmless("::1\nstd::x\n"), "::1\nstd::x\n");
    }
}
