//! Names of files from names in the data.

/// A file name's stem from a name in the data: letters, digits, `_` and `-`, at most 48.
pub fn file_stem(text: &str) -> String {
    let stem: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(48).collect();
    // A leading dash would read as an option in a shell.
    let stem = stem.trim_matches('-');
    if stem.is_empty() { "chart".to_owned() } else { stem.to_owned() }
}
