//! Native training on the GPU: losses beside those of the CPU, and steps beside torch's.
//!
//! `golden` compares losses; `beside` compares times. On an H100 with torch 2.11 all of it takes about 7.5 minutes by estimate:
//! 65 s of losses, 265 s of GPT-2 in three rounds (torch.compile takes most of that), 110 s of the other models.

pub(super) mod beside;
pub(super) mod golden;

use serde_json::Value;

use super::Run;

/// What commands run with, and the times that were found so far.
pub(super) struct Training<'a> {
    run: &'a Run<'a>,
    found: beside::Found,
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
    /// The row of a case's line that is to run on this device.
    fn of(line: &Value, device: &str) -> Self {
        let reason = || line["reason"].as_str().unwrap_or("no reason is said").to_owned();
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
    /// `model`: what a step of GPT-2 should take, by kind of kernel.
    pub(super) fn new(run: &'a Run<'a>, model: Result<Value, String>) -> Self {
        Self { run, found: beside::Found::new(model) }
    }

    /// Tables of the times; nothing where none was measured.
    pub(super) fn text(&self) -> String {
        self.found.text()
    }

    /// The case lines of `rankmark train` with these words; `python` is replaced.
    ///
    /// # Errors
    /// The command could not start, did not end, or printed no case: with its last words.
    fn lines(&self, name: &str, words: &str) -> Result<Vec<Value>, String> {
        let python = self.run.python.display().to_string();
        let mut all = vec![self.run.program.display().to_string(), "train".to_owned()];
        all.extend(
            words.split_whitespace().map(|word| if word == "python" { python.clone() } else { word.to_owned() }),
        );
        all.extend(["--ranks", "1", "--json", "--output-dir"].map(str::to_owned));
        all.push(self.run.record(name).display().to_string());
        let ended = self.run.execute(name, &all)?;
        let parsed = ended.standard.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = parsed.filter(|line| line["status"].is_string()).collect();
        if ended.code.is_none() {
            return Err(ended.late());
        }
        if lines.is_empty() {
            return Err(format!("it printed no case: {}", ended.last_words()));
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
        assert_eq!(Row::of(&line, "cuda"), Row::Failed("failed: a | b".to_owned()));
        assert!(matches!(Row::of(&json!({"status": "ok", "device": "cuda"}), "cuda"), Row::Ok(_)));
        assert!(
            matches!(Row::of(&json!({"status": "ok", "device": "cpu"}), "cuda"), Row::Failed(_)),
            "on the device that was asked for"
        );
    }
}
