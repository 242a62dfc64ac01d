//! Native training on the GPU: losses beside those of the CPU, and steps beside torch's.
//!
//! `golden` compares losses; `beside` compares times. On an H100 with torch 2.11 all of it takes about 7.5 minutes by estimate:
//! 65 s of losses, 265 s of GPT-2 in three rounds (torch.compile takes most of that), 110 s of the other models.

mod beside;
mod golden;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{execute, keep};

/// Past this no command begins. With the checks of `native_training` the machine is held for less than nine minutes.
const BUDGET: Duration = Duration::from_secs(430);

/// What commands run with.
pub(super) struct Training<'a> {
    root: &'a Path,
    program: &'a Path,
    python: &'a Path,
    out: &'a Path,
    begun: Instant,
}

/// What became of a case, as far as it is of use.
#[derive(Debug, Clone, PartialEq)]
enum Row {
    Ok(Box<Value>),
    /// With the reason. Fails nothing.
    Skipped(String),
    Failed(String),
}

impl Row {
    /// Of the line of a case that is to run on this device.
    fn of(line: &Value, device: &str) -> Self {
        let reason = || {
            let words = line["reason"].as_str().unwrap_or("no reason is said");
            words.replace('|', "\\|").replace('\n', " ")
        };
        match line["status"].as_str() {
            Some("ok") if line["device"] == device => Self::Ok(Box::new(line.clone())),
            Some("ok") => Self::Failed(format!("device {}, not {device}", line["device"])),
            Some("skipped") => Self::Skipped(reason()),
            Some(status) => Self::Failed(format!("{status}: {}", reason())),
            None => Self::Failed("no status".to_owned()),
        }
    }
}

impl<'a> Training<'a> {
    pub(super) fn new(root: &'a Path, (program, python): (&'a Path, &'a Path), out: &'a Path) -> Self {
        Self { root, program, python, out, begun: Instant::now() }
    }

    /// Both tables. False where something failed or had no time.
    ///
    /// # Errors
    /// What could not be run or kept.
    pub(super) fn table(&self) -> Result<(String, bool), String> {
        let (losses, same) = golden::table(self)?;
        let (times, ran) = beside::table(self)?;
        let took = self.begun.elapsed().as_secs_f64();
        Ok((format!("{losses}{times}\nTraining took {took:.0} s.\n"), same && ran))
    }

    /// The case lines of `rankmark train` with these words; `python` is replaced.
    ///
    /// # Errors
    /// No time is left; the command printed no case: with its last words.
    fn lines(&self, name: &str, words: &str) -> Result<Vec<Value>, String> {
        if self.begun.elapsed() > BUDGET {
            return Err(format!("left out: {} s are over", BUDGET.as_secs()));
        }
        let python = self.python.display().to_string();
        let mut all = vec![self.program.display().to_string(), "train".to_owned()];
        all.extend(
            words.split_whitespace().map(|word| if word == "python" { python.clone() } else { word.to_owned() }),
        );
        let record = self.out.join("records").join(name);
        // Of an earlier run.
        if record.is_dir() {
            std::fs::remove_dir_all(&record).map_err(|error| format!("{}: {error}", record.display()))?;
        }
        let record = record.display().to_string();
        all.extend(["--ranks", "1", "--json", "--output-dir"].map(str::to_owned));
        all.push(record);
        let ended = execute(self.root, &all)?;
        keep(&self.out.join(format!("{name}.txt")), &all, &ended)?;
        eprintln!("{name}: {:.1} s", ended.took.as_secs_f64());
        let parsed = ended.standard.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = parsed.filter(|line| line["status"].is_string()).collect();
        if ended.code.is_none() {
            return Err(format!("it had not ended after {:.0} s", ended.took.as_secs_f64()));
        }
        if lines.is_empty() {
            let last = ended.errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed no case");
            return Err(last.replace('|', "\\|"));
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_skipped_is_told_from_what_failed() {
        let line = json!({"status": "skipped", "reason": "native ranks have no convolutions"});
        assert_eq!(Row::of(&line, "cuda"), Row::Skipped("native ranks have no convolutions".to_owned()));
        let line = json!({"status": "failed", "reason": "a | b"});
        assert_eq!(Row::of(&line, "cuda"), Row::Failed("failed: a \\| b".to_owned()));
        assert!(matches!(Row::of(&json!({"status": "ok", "device": "cuda"}), "cuda"), Row::Ok(_)));
        assert!(
            matches!(Row::of(&json!({"status": "ok", "device": "cpu"}), "cuda"), Row::Failed(_)),
            "on the device that was asked for"
        );
    }
}
