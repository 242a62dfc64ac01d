//! Text from data, made fit for a line and for the name of a file.

/// White space and control characters as single spaces.
pub fn one_line(text: &str) -> String {
    let shown: String = text.chars().map(|c| if c.is_control() || is_invisible(c) { ' ' } else { c }).collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Characters that change the direction of text or hide in it, so that a name cannot pretend to be another.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

/// A file name's stem from a name in the data: letters, digits, `_` and `-`, at most 48.
pub fn file_stem(text: &str) -> String {
    let stem: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(48).collect();
    // A leading dash would read as an option in a shell.
    let stem = stem.trim_matches('-');
    if stem.is_empty() { "chart".to_owned() } else { stem.to_owned() }
}
