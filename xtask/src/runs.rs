//! What the chores share that run the program many times: their options, the program, records that are made once, the JSON
//! lines that a command prints, and tables.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::test::target;

pub use crate::test::cargo;

/// Options of a chore, each with its value.
pub struct Given<'w>(Vec<(&'w str, &'w str)>);

impl<'w> Given<'w> {
    /// Reads words. `valid`: all options, each with a word for its value, as in `--runs N, --records DIR`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(words: &[&'w str], valid: &str) -> Result<Self, String> {
        let mut given = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if !valid.split(", ").any(|one| one.split(' ').next() == Some(word)) {
                return Err(format!("unknown option `{word}`; valid options: {valid}"));
            }
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            given.push((*word, *value));
        }
        Ok(Self(given))
    }

    /// The value of an option.
    pub fn text(&self, name: &str) -> Option<&'w str> {
        self.0.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }

    /// A path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// A whole number from `least` on.
    pub fn number(&self, name: &str, least: usize, default: usize) -> Result<usize, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| format!("{name} takes a number from {least} on"))
    }

    /// The folder of the records of a chore. Records that are there are taken, so that an experiment can go on.
    pub fn records(&self, chore: &str) -> PathBuf {
        let folder = self.path("--records").unwrap_or_else(|| std::env::temp_dir().join(format!("rankmark-{chore}")));
        // Some commands run in another folder.
        std::path::absolute(&folder).unwrap_or(folder)
    }
}

/// Prints what a chore found, or why it failed. False where it failed.
pub fn printed(found: Result<String, String>) -> bool {
    found.map(|text| print!("{text}")).map_err(|why| eprintln!("error: {why}")).is_ok()
}

/// Builds parts of the repository for release.
pub fn build(root: &Path, words: &[&str]) -> Result<(), String> {
    ends_well(cargo(root, &["build", "--quiet", "--release", "--locked"]).args(words))
}

/// Builds parts of the repository as tests do.
pub fn build_for_tests(root: &Path, words: &[&str]) -> Result<(), String> {
    ends_well(cargo(root, &["build", "--quiet", "--locked"]).args(words))
}

/// The program that was given, or the one that a release builds, which is made.
pub fn program(root: &Path, given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    build(root, &["-p", "rankmark"])?;
    Ok(target(root).join("release/rankmark"))
}

/// Runs a command for what it does.
fn ends_well(command: &mut Command) -> Result<(), String> {
    let ended = command.stdout(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    if ended.success() { Ok(()) } else { Err(format!("{command:?} ended with {ended}")) }
}

/// Makes a record, unless it is complete. `command` takes its folder as the last word. Returns whether it was made.
pub fn record(folder: &Path, command: &mut Command) -> Result<bool, String> {
    if folder.join("report.md").exists() {
        return Ok(false);
    }
    // What a run that was ended left is not an equal run.
    cleared(folder)?;
    ends_well(command.arg(folder)).map(|()| true)
}

/// The path of a folder that is not there any more.
pub fn cleared(folder: &Path) -> Result<&Path, String> {
    match folder.exists() {
        true => {
            std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display())).map(|()| folder)
        }
        false => Ok(folder),
    }
}

/// The records of equal runs, as [`record`] makes them. None is begun after `minutes`.
pub fn equal_runs(
    folder: &Path,
    numbers: Range<usize>,
    minutes: Option<usize>,
    command: impl Fn() -> Command,
) -> Result<Vec<PathBuf>, String> {
    let (begun, end) = (Instant::now(), numbers.end);
    let mut records = Vec::new();
    for number in numbers {
        let place = folder.join(format!("run-{number:03}"));
        if is_late(begun, minutes) && !place.join("report.md").exists() {
            eprintln!("the time is over: {number} of {end} runs");
            break;
        }
        if record(&place, &mut command())? {
            eprintln!("run {} of {end}, {:.0} s", number + 1, begun.elapsed().as_secs_f64());
        }
        records.push(place);
    }
    Ok(records)
}

/// Whether so many minutes have passed.
pub fn is_late(begun: Instant, minutes: Option<usize>) -> bool {
    minutes.is_some_and(|minutes| begun.elapsed() > Duration::from_secs(60 * minutes as u64))
}

/// The JSON lines that a command prints, which must end with one of these codes.
pub fn said(command: &mut Command, codes: &[i32]) -> Result<Vec<Value>, String> {
    let ended = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !ended.status.code().is_some_and(|code| codes.contains(&code)) {
        return Err(format!("{command:?}: {}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr)));
    }
    // A job may print lines of its own.
    Ok(String::from_utf8_lossy(&ended.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The profile that a command prints.
pub fn profile(command: &mut Command) -> Result<Value, String> {
    let mut lines = said(command, &[0])?.into_iter();
    lines.find(|line| line["kind"] == "profile").ok_or_else(|| format!("{command:?} printed no profile"))
}

/// The exit codes of a comparison: same or better, worse, cannot tell.
pub const COMPARED: [i32; 3] = [0, 1, 3];

/// The cases that a comparison of records prints.
pub fn compared(command: &mut Command) -> Result<Vec<Value>, String> {
    let mut lines = said(command, &COMPARED)?;
    lines.retain(|line| line["kind"] == "case");
    Ok(lines)
}

/// How many cases have this verdict.
pub fn count(cases: &[Value], verdict: &str) -> usize {
    cases.iter().filter(|case| case["verdict"] == verdict).count()
}

/// The smallest change that each case would show.
pub fn smallest_changes(cases: &[Value]) -> Vec<f64> {
    cases.iter().filter_map(|case| case["smallest_change"].as_f64()).collect()
}

/// The head of a table: `| a | b |`, and the line below.
pub fn head(columns: &str) -> String {
    format!("{columns}\n|{}\n", "---|".repeat(columns.matches('|').count() - 1))
}

/// The median of shares, in percent.
pub fn median_percent(shares: &[f64]) -> String {
    if shares.is_empty() { "-".to_owned() } else { format!("{:.1}%", 100.0 * stats::median(shares)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused() {
        let valid = "--runs N, --records DIR";
        let given = Given::read(&["--runs", "3", "--records", "/x", "--runs", "4"], valid).unwrap();
        assert_eq!((given.number("--runs", 2, 8), given.number("--minutes", 1, 20)), (Ok(4), Ok(20)));
        assert_eq!(given.number("--runs", 5, 8), Err("--runs takes a number from 5 on".to_owned()));
        assert_eq!(given.records("x"), Path::new("/x"));
        let refused = |words: &[&str]| Given::read(words, valid).err();
        assert_eq!(refused(&["--runs"]).as_deref(), Some("`--runs` needs a value"));
        let unknown = "unknown option `N`; valid options: --runs N, --records DIR";
        assert_eq!(refused(&["N", "3"]).as_deref(), Some(unknown));
    }

    #[test]
    fn records_are_made_once_and_remains_are_not_taken() {
        let folder = std::env::temp_dir().join(format!("xtask-experiments-{}", std::process::id()));
        let command = || {
            let mut command = Command::new("sh");
            command.args(["-c", "mkdir $0 && touch $0/report.md"]);
            command
        };
        std::fs::create_dir_all(folder.join("run-001")).unwrap();
        let records = equal_runs(&folder, 0..2, None, command).unwrap();
        assert_eq!(records, [0, 1].map(|number| folder.join(format!("run-{number:03}"))));
        assert_eq!(equal_runs(&folder, 0..3, Some(0), command), Ok(records.clone()), "none is begun after the time");
        assert_eq!(record(&records[0], &mut Command::new("false")), Ok(false), "it is there");
        assert!(record(&folder.join("other"), &mut Command::new("false")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn json_is_found_between_lines_of_a_job() {
        let printed = |code: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("echo step 1; echo '{{\"kind\": \"profile\", \"n\": 7}}'; exit {code}")]);
            profile(&mut command)
        };
        assert_eq!(printed("0").map(|profile| profile["n"].clone()), Ok(Value::from(7)));
        assert!(printed("1").is_err() && profile(&mut Command::new("true")).is_err());
    }

    #[test]
    fn a_head_has_a_line_below_each_column() {
        assert_eq!(head("| a | b |"), "| a | b |\n|---|---|\n");
        assert_eq!((median_percent(&[0.01, 0.03]), median_percent(&[])), ("2.0%".to_owned(), "-".to_owned()));
    }
}
