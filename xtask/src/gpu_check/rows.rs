//! The table of checks: each row is on disk as soon as its check has ended.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With what it found.
    Passed(String),
    Failed(String),
    /// The check did not run, and why. Fails nothing.
    LeftOut(String),
}

/// Rows as they end.
pub(super) struct Rows {
    file: File,
    path: String,
    passed: usize,
    failed: usize,
    left_out: Vec<String>,
}

const HEAD: &str = "| stage | check | command | answer | seconds |\n|---|---|---|---|---|\n";

impl Rows {
    /// A new table below what is known of the machine.
    ///
    /// # Errors
    /// What could not be written.
    pub(super) fn new(path: &Path, machine: &str) -> Result<Self, String> {
        let shown = path.display().to_string();
        let file = File::create(path).map_err(|error| format!("{shown}: {error}"))?;
        let mut rows = Self { file, path: shown, passed: 0, failed: 0, left_out: Vec::new() };
        rows.write(&format!("{machine}\n\n{HEAD}"))?;
        Ok(rows)
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        let done = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        done.map_err(|error| format!("{}: {error}", self.path))
    }

    /// A check that has ended.
    ///
    /// # Errors
    /// What could not be written.
    pub(super) fn add(
        &mut self,
        (stage, name, command): (&str, &str, &str),
        outcome: Outcome,
        seconds: f64,
    ) -> Result<(), String> {
        let said = match outcome {
            Outcome::Passed(said) => {
                self.passed += 1;
                said
            }
            Outcome::Failed(why) => {
                self.failed += 1;
                format!("**failed**: {why}")
            }
            Outcome::LeftOut(why) => {
                self.left_out.push(name.to_owned());
                format!("left out: {why}")
            }
        };
        eprintln!("{stage}: {name}: {said} ({seconds:.1} s)");
        let said = said.replace(['\n', '\r'], " ").replace('|', "\\|");
        self.write(&format!("| {stage} | {name} | `{command}` | {said} | {seconds:.1} |\n"))
    }

    /// Ends the table. Whether something passed, and nothing failed.
    ///
    /// # Errors
    /// What could not be written.
    pub(super) fn end(mut self, further: &str) -> Result<bool, String> {
        let all = self.passed + self.failed;
        let mut last = format!("\n{all} checks, {} failed, {} left out", self.failed, self.left_out.len());
        if !self.left_out.is_empty() {
            last += &format!(" for lack of time: {}", self.left_out.join(", "));
        }
        self.write(&format!("{last}\n{further}"))?;
        Ok(self.failed == 0 && self.passed > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_on_disk_before_the_table_ends() {
        let path = std::env::temp_dir().join(format!("xtask-rows-{}.md", std::process::id()));
        let mut rows = Rows::new(&path, "an H200").unwrap();
        rows.add(("driver", "copy", "rankmark a"), Outcome::Passed("1 case | right".to_owned()), 1.0).unwrap();
        let so_far = std::fs::read_to_string(&path).unwrap();
        assert!(so_far.ends_with("| driver | copy | `rankmark a` | 1 case \\| right | 1.0 |\n"), "{so_far}");
        rows.add(("rest", "b", "b"), Outcome::Failed("no\nprogram".to_owned()), 0.0).unwrap();
        rows.add(("rest", "c", "c"), Outcome::LeftOut("time".to_owned()), 0.0).unwrap();
        assert_eq!(rows.end("more\n"), Ok(false));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("**failed**: no program") && text.ends_with("for lack of time: c\nmore\n"), "{text}");
        assert!(text.contains("2 checks, 1 failed, 1 left out"), "{text}");
    }
}
