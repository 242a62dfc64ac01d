//! Programs of the repository that time what has no command of its own, and print it.

use std::path::Path;

use xtask::runs::cargo;

/// Words for cargo, and what the table says that the program prints.
type Program = (&'static [&'static str], &'static str);

/// Loops and products of this program, and others that do nothing else.
pub(super) const MACHINE: &[Program] = &[
    (
        &["bench", "--quiet", "-p", "rankmark", "--bench", "stream"],
        "Memory bandwidth of `hardware` divided by that of the same loops in C. Above 1, `hardware` moves more.",
    ),
    (
        &["bench", "--quiet", "-p", "rankmark-primitive", "--bench", "product"],
        "Time of `compute_only` divided by that of the bare product, with one thread, in f32.",
    ),
];

/// Readers of files, and the analysis of traces.
pub(super) const READING: &[Program] = &[
    (&["bench", "--quiet", "-p", "rankmark-import", "--bench", "log"], "A log of nccl-tests is read."),
    (&["bench", "--quiet", "-p", "rankmark-import", "--bench", "trace"], "A trace of the PyTorch profiler is read."),
    (&["run", "--quiet", "--release", "-p", "rankmark-diagnose", "--example", "profile_time"], "Traces are explained."),
];

/// Each program's command and its table.
pub(super) fn tables(root: &Path, programs: &[Program]) -> Result<String, String> {
    let mut parts = Vec::new();
    for (words, sentence) in programs {
        let command: Vec<&str> = words.iter().copied().filter(|word| *word != "--quiet").collect();
        parts.push(format!("`cargo {}`\n\n{sentence}\n\n{}", command.join(" "), table(&said(root, words)?)?));
    }
    Ok(parts.join("\n"))
}

/// What a program of the repository prints.
fn said(root: &Path, words: &[&str]) -> Result<String, String> {
    let ended = cargo(root, words).output().map_err(|error| error.to_string())?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(format!("`cargo {}` ended with {}", words.join(" "), ended.status)),
    }
}

/// The table that a program printed.
fn table(said: &str) -> Result<String, String> {
    let rows: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match rows.len() > 2 && rows.iter().all(|row| row.starts_with('|') && row.ends_with('|')) {
        true => Ok(rows.iter().map(|row| format!("{row}\n")).collect()),
        false => Err(format!("not a table: {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_a_table_or_refused() {
        assert_eq!(table("| a |\n|---|\n\n| 1 |\n").unwrap(), "| a |\n|---|\n| 1 |\n");
        for wrong in ["", "| a |\n|---|\n", "| a |\n|---|\nstream: skipped, there is no C compiler `cc`\n"] {
            assert!(table(wrong).is_err(), "{wrong}");
        }
    }
}
