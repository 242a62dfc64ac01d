//! Whether a command answered as it must.

use serde_json::Value;

use super::Run;
use super::checks::{Check, Expected};
use super::execute::Ended;

impl Check {
    /// The command with its placeholders filled in. Records go below `out`.
    pub(super) fn words(&self, run: &Run<'_>) -> Vec<String> {
        let record = run.record(self.name).display().to_string();
        let (program, python) = (run.program, run.python);
        let fill = |word: &str| match word {
            "rankmark" => vec![program.display().to_string()],
            "compute-sanitizer" => vec![run.sanitizer.display().to_string()],
            "python" => vec![python.display().to_string()],
            "torchrun" => vec![python.display().to_string(), "-m".to_owned(), "torch.distributed.run".to_owned()],
            "--record" => vec!["--output-dir".to_owned(), record.clone()],
            other => vec![other.to_owned()],
        };
        self.command.split_whitespace().flat_map(fill).collect()
    }

    /// What the command said, in short.
    ///
    /// # Errors
    /// It did not answer as it must: how.
    pub(super) fn answer(&self, ended: &Ended) -> Result<String, String> {
        if ended.code != Some(self.code) {
            return Err(match ended.code {
                Some(code) => format!("exit code {code}, not {}: {}", self.code, ended.last_words()),
                None => ended.late(),
            });
        }
        let lines: Vec<Value> = ended.standard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        match self.expected {
            Expected::Right(least) => right(&lines, least, &[]),
            Expected::RightWithout(least, optional) => right(&lines, least, optional),
            Expected::Wrong => wrong(&lines),
            Expected::Says(words) => says(&format!("{}\n{}", ended.standard, ended.errors), words),
            Expected::Joined(precision) => joined(&lines, precision),
            Expected::Profile(judge) => {
                let profile = lines.iter().find(|line| line["kind"] == "profile");
                profile.ok_or_else(|| "it printed no profile".to_owned()).and_then(judge)
            }
        }
    }
}

/// Each case ran on the GPU and was right; at least so many. Those of optional libraries may be skipped.
fn right(lines: &[Value], least: usize, optional: &[&str]) -> Result<String, String> {
    let may_lack = |line: &Value| {
        let name = line["parameters"].to_string();
        line["status"] == "skipped" && optional.iter().any(|library| name.contains(library))
    };
    let cases: Vec<&Value> = lines.iter().filter(|line| line["status"].is_string() && !may_lack(line)).collect();
    for case in &cases {
        let name = case["parameters"].to_string();
        if case["status"] != "ok" {
            return Err(format!("{}: {name}", case["status"]));
        }
        if case["device"] != "cuda" {
            return Err(format!("device {}: {name}", case["device"]));
        }
        if case["wrong"].as_u64().is_some_and(|wrong| wrong > 0) {
            return Err(format!("{} wrong elements: {name}", case["wrong"]));
        }
    }
    if cases.len() < least {
        return Err(format!("{} cases, not {least}", cases.len()));
    }
    Ok(format!("{} cases, all right", cases.len()))
}

/// Products of this training computed other operations at once.
fn joined(lines: &[Value], precision: &str) -> Result<String, String> {
    right(lines, 1, &[])?;
    let case = lines.iter().find(|line| line["parameters"]["precision"] == precision);
    let said = case.and_then(|line| line["conditions"]["joined_products"].as_str());
    said.map(str::to_owned).ok_or_else(|| "no product was joined with another operation".to_owned())
}

/// A planted wrong element was found.
fn wrong(lines: &[Value]) -> Result<String, String> {
    let found = lines.iter().filter_map(|line| line["wrong"].as_u64()).find(|wrong| *wrong > 0);
    found
        .map(|wrong| format!("{wrong} wrong, as planted"))
        .ok_or_else(|| "the planted element was not found".to_owned())
}

/// All of these words stand in the text. compute-sanitizer may print a summary for each process: each must be the one that is asked for.
fn says(text: &str, words: &[&str]) -> Result<String, String> {
    for word in words.iter().copied() {
        let head = word.split_once("SUMMARY: ").map(|(tool, _)| format!("{tool}SUMMARY: "));
        let other = head.and_then(|head| text.lines().find(|line| line.contains(&head) && !line.contains(word)));
        if let Some(line) = other {
            return Err(line.trim().to_owned());
        }
        if !text.contains(word) {
            return Err(format!("it does not say \"{word}\""));
        }
    }
    let line = text.lines().find(|line| words.first().is_some_and(|word| line.contains(word)));
    Ok(line.unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;
    use crate::gpu_check::checks::{all, check};

    fn ended(code: i32, standard: &str, errors: &str) -> Ended {
        Ended { code: Some(code), standard: standard.to_owned(), errors: errors.to_owned(), took: Duration::ZERO }
    }

    #[test]
    fn a_case_that_is_wrong_or_on_the_cpu_fails_its_check() {
        let case = |status: &str, device: &str, wrong: u64| json!({"status": status, "device": device, "wrong": wrong, "parameters": {"op": "reduce"}});
        assert!(right(&[case("ok", "cuda", 0)], 1, &[]).is_ok());
        for bad in [case("ok", "cpu", 0), case("ok", "cuda", 1), case("failed", "cuda", 0)] {
            assert!(right(&[case("ok", "cuda", 0), bad], 1, &[]).is_err());
        }
        assert!(right(&[case("ok", "cuda", 0)], 2, &[]).is_err());
        let skipped = case("skipped", "cuda", 0);
        assert!(right(&[case("ok", "cuda", 0), skipped.clone()], 1, &["jax"]).is_err());
        assert!(right(&[case("ok", "cuda", 0), skipped], 1, &["reduce"]).is_ok());
        let mut joins = case("ok", "cuda", 0);
        assert!(joined(&[joins.clone()], "bf16").is_err());
        joins["parameters"]["precision"] = "bf16".into();
        joins["conditions"]["joined_products"] = "2 GELU".into();
        assert_eq!(joined(&[joins.clone()], "bf16").as_deref(), Ok("2 GELU"));
        assert!(joined(&[joins], "f16").is_err());
        assert!(wrong(&[case("ok", "cuda", 0)]).is_err());
        assert!(wrong(&[case("wrong", "cuda", 1)]).is_ok());
    }

    #[test]
    fn exit_code_and_words_must_both_be_right() {
        let check = check("a", 2, Expected::Says(&["GPU", "share"]), "rankmark comm");
        assert!(check.answer(&ended(2, "", "ranks share a GPU")).is_ok());
        assert!(check.answer(&ended(0, "", "ranks share a GPU")).is_err());
        assert!(check.answer(&ended(2, "", "ranks share")).is_err());
        let late = Ended { code: None, ..ended(0, "", "") };
        assert!(check.answer(&late).unwrap_err().starts_with("it had not ended after 0 s"));
    }

    /// The coordinator has no GPU: its summary is clean whatever a rank's says.
    #[test]
    fn a_summary_of_any_process_fails_its_check() {
        let words = &["RACECHECK SUMMARY: 0 hazards displayed"];
        let [clean, found] = ["0 hazards displayed (0 errors, 0 warnings)", "1 hazard displayed (1 error, 0 warnings)"]
            .map(|said| format!("========= RACECHECK SUMMARY: {said}\n"));
        assert!(says(&clean, words).is_ok() && says(&format!("{clean}{clean}"), words).is_ok());
        assert_eq!(says(&format!("{clean}{found}"), words), Err(found.trim().to_owned()));
        assert_eq!(says("", words), Err("it does not say \"RACECHECK SUMMARY: 0 hazards displayed\"".to_owned()));
    }

    #[test]
    fn placeholders_are_filled() {
        let check = check("a", 0, Expected::Wrong, "torchrun job.py --record");
        let [root, program, python, out] = ["/", "/r", "/p", "/out"].map(Path::new);
        let run = Run {
            root,
            program,
            python,
            sanitizer: Path::new("/s"),
            peer: None,
            out,
            end: Instant::now(),
            limit: Duration::ZERO.into(),
        };
        let words = check.words(&run);
        assert_eq!(words, ["/p", "-m", "torch.distributed.run", "job.py", "--output-dir", "/out/records/a"]);
    }

    #[test]
    fn names_are_files_and_jobs_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut names: Vec<&str> = all().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
        for check in all() {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(check.name.bytes().all(is_plain), "{}", check.name);
            for word in check.command.split_whitespace().filter(|word| word.starts_with("xtask/")) {
                assert!(root.join(word).is_file(), "{word}");
            }
        }
    }
}
