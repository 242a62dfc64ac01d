//! Programs of the repository that time what has no command of its own, and print it.

use std::fmt::Write as _;

use super::Cargo;

/// What a program times, and its words for cargo.
type Program = (&'static str, &'static [&'static str]);

/// Loops and products of this program beside those that do nothing else.
pub(super) const MACHINE: &[Program] = &[
    ("`hardware` beside loops in C", &["bench", "--quiet", "-p", "rankmark", "--bench", "stream"]),
    ("`primitive`", &["bench", "--quiet", "-p", "primitive", "--bench", "product"]),
];

/// Readers of files, and the analysis of traces.
pub(super) const READING: &[Program] = &[
    ("a log of nccl-tests read", &["bench", "--quiet", "-p", "import", "--bench", "log"]),
    ("a trace of the PyTorch profiler read", &["bench", "--quiet", "-p", "import", "--bench", "trace"]),
    ("traces explained", &["run", "--quiet", "--release", "-p", "diagnose", "--example", "profile_time"]),
];

/// A row for each line that they print.
pub(super) fn table(cargo: &Cargo<'_>, programs: &[Program]) -> Result<String, String> {
    let mut text = String::from("| what | result | command |\n|---|---|---|\n");
    for (what, words) in programs {
        let said = cargo.says(words)?;
        let command: Vec<&str> = words.iter().copied().filter(|word| *word != "--quiet").collect();
        for line in said.lines().filter(|line| !line.trim().is_empty()) {
            let _ = writeln!(text, "| {what} | {} | `cargo {}` |", line.trim().replace('|', "/"), command.join(" "));
        }
    }
    Ok(text)
}
