//! The command that a user most likely types next: the last lines of a command that leaves something to go on with.

use std::path::Path;

use view::terminal::command;

use super::run::line_width;

/// The line, and below it what the command does. Words are quoted already.
pub(super) fn quoted(words: &[String], does: &str) -> String {
    format!("{}\n         # {does}\n", command("next     ", words, line_width()))
}

/// The line for words that are not quoted yet, and below it what the command does.
pub(crate) fn next(words: &[&str], does: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| report::shell(word)).collect();
    quoted(&words, does)
}

/// The pages of these records, opened in a browser.
pub(crate) fn next_report(directories: &[&Path], does: &str) -> String {
    let directories: Vec<String> = directories.iter().map(|directory| directory.display().to_string()).collect();
    let words: Vec<&str> =
        ["rankmark", "report"].into_iter().chain(directories.iter().map(String::as_str)).chain(["--open"]).collect();
    next(&words, does)
}
