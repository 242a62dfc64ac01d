//! What GPUs do, on a machine that has one: commands of the product on the GPU, and what each must answer. Writes one file for
//! each command and a table of all.
//!
//! Not part of CI: it needs a GPU and a Python with torch.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::experiments::{Given, printed, program};

mod checks;
mod peer;
mod products;
mod training;

use checks::{CHECKS, Check, Expected};
use training::Training;

/// Past this a command is ended. The longest, all primitives, takes about a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// What was asked for.
struct Options {
    python: PathBuf,
    /// None: the release build, which is made.
    program: Option<PathBuf>,
    out: PathBuf,
    /// all_reduce_perf of nccl-tests, to measure beside native ranks.
    nccl_tests: Option<PathBuf>,
    /// Whether products are measured beside torch's.
    products: bool,
    /// Whether training is compared: its losses with the CPU's, its steps with torch's.
    training: bool,
    /// Only checks with one of these in their names.
    only: Vec<String>,
}

impl Options {
    fn read(root: &Path, words: &[&str]) -> Result<Self, String> {
        let known = "--python PATH, --program PATH, --out DIR, --only NAME,..., --nccl-tests PATH, --products yes, --training yes";
        let given = Given::read(words, known)?;
        Ok(Self {
            python: given.path("--python").unwrap_or_else(|| PathBuf::from("python3")),
            program: given.path("--program"),
            out: given.path("--out").unwrap_or_else(|| root.join("results/gpu-check")),
            nccl_tests: given.path("--nccl-tests"),
            products: given.text("--products").is_some_and(|said| said == "yes"),
            training: given.text("--training").is_some_and(|said| said == "yes"),
            only: given.text("--only").map(|names| names.split(',').map(str::to_owned).collect()).unwrap_or_default(),
        })
    }

    fn wants(&self, check: &Check) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| check.name.contains(part.as_str()))
    }
}

/// What a command did.
struct Ended {
    /// None: it was ended because it took too long, or by a signal.
    code: Option<i32>,
    standard: String,
    errors: String,
    took: Duration,
}

/// Runs the checks and prints the table. False where one did not answer as it must.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let options = Options::read(root, words)?;
    let mut passed = false;
    let table = table(root, &options).map(|(text, all)| {
        passed = all;
        text
    });
    Ok(printed(table) && passed)
}

fn table(root: &Path, options: &Options) -> Result<(String, bool), String> {
    let device = device()?;
    let program = program(root, options.program.as_deref())?;
    let out = &options.out;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut text = format!("{device}\n\n| check | command | answer | seconds |\n|---|---|---|---|\n");
    let mut failed = 0_usize;
    let wanted: Vec<&Check> = CHECKS.iter().filter(|check| options.wants(check)).collect();
    for check in &wanted {
        let words = check.words(&program, &options.python, out);
        let ended = execute(root, &words)?;
        let answer = check.answer(&ended);
        let said = match &answer {
            Ok(said) => said.clone(),
            Err(why) => {
                failed += 1;
                format!("**failed**: {why}")
            }
        };
        eprintln!("{}: {said} ({:.1} s)", check.name, ended.took.as_secs_f64());
        let said = said.replace('|', "\\|");
        let _ = writeln!(text, "| {} | `{}` | {said} | {:.1} |", check.name, check.command, ended.took.as_secs_f64());
        keep(&out.join(format!("{}.txt", check.name)), &words, &ended)?;
    }
    let _ = writeln!(text, "\n{} checks, {failed} failed", wanted.len());
    if let Some(peer) = &options.nccl_tests {
        text += &peer::table(&program, peer, out)?;
    }
    if options.products {
        text += &products::table(root, (&program, &options.python), out)?;
    }
    let mut passed = failed == 0 && !wanted.is_empty();
    if options.training {
        let (tables, right) = Training::new(root, (&program, &options.python), out).table()?;
        text += &tables;
        passed &= right;
    }
    let path = out.join("checks.md");
    std::fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((text, passed))
}

/// Name and driver of the first GPU.
fn device() -> Result<String, String> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--query-gpu=name,driver_version", "--format=csv,noheader"]);
    let ended = command.output().map_err(|error| format!("no GPU can be found: nvidia-smi: {error}"))?;
    let text = String::from_utf8_lossy(&ended.stdout);
    match text.lines().next() {
        Some(line) if ended.status.success() => Ok(line.trim().to_owned()),
        _ => Err(format!("no GPU can be found: nvidia-smi ended with {}", ended.status)),
    }
}

/// Runs a command to its end, or to the limit. Its output goes to files, so that it never waits for a reader.
fn execute(root: &Path, words: &[String]) -> Result<Ended, String> {
    let (first, rest) = words.split_first().ok_or("a check has no command")?;
    let place = std::env::temp_dir().join(format!("rankmark-gpu-check-{}", std::process::id()));
    let (standard, errors) = (place.with_extension("out"), place.with_extension("err"));
    let open = |path: &Path| std::fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let begun = Instant::now();
    let mut child = Command::new(first)
        .args(rest)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(open(&standard)?)
        .stderr(open(&errors)?)
        .spawn()
        .map_err(|error| format!("{first}: {error}"))?;
    let code = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status.code();
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let took = begun.elapsed();
    let text = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Ended { code, standard: text(&standard), errors: text(&errors), took })
}

fn keep(path: &Path, words: &[String], ended: &Ended) -> Result<(), String> {
    let Ended { code, standard, errors, .. } = ended;
    let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let text = format!("$ {}\nexit code: {code}\n\n{standard}\n\n{errors}", words.join(" "));
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Check {
    /// The command with its placeholders filled in. Records go below `out`.
    fn words(&self, program: &Path, python: &Path, out: &Path) -> Vec<String> {
        let record = out.join("records").join(self.name).display().to_string();
        let fill = |word: &str| match word {
            "rankmark" => vec![program.display().to_string()],
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
    fn answer(&self, ended: &Ended) -> Result<String, String> {
        if ended.code != Some(self.code) {
            let code = ended.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            let last = ended.errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!("exit code {code}, not {}: {last}", self.code));
        }
        let lines: Vec<Value> = ended.standard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        match self.expected {
            Expected::Right(least) => right(&lines, least, &[]),
            Expected::RightWithout(least, optional) => right(&lines, least, optional),
            Expected::Wrong => wrong(&lines),
            Expected::Says(words) => says(&format!("{}\n{}", ended.standard, ended.errors), words),
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

/// A planted wrong element was found.
fn wrong(lines: &[Value]) -> Result<String, String> {
    let found = lines.iter().filter_map(|line| line["wrong"].as_u64()).find(|wrong| *wrong > 0);
    found
        .map(|wrong| format!("{wrong} wrong, as planted"))
        .ok_or_else(|| "the planted element was not found".to_owned())
}

/// All of these words stand in the text.
fn says(text: &str, words: &[&str]) -> Result<String, String> {
    match words.iter().find(|word| !text.contains(**word)) {
        Some(word) => Err(format!("it does not say \"{word}\"")),
        None => {
            let line = text.lines().find(|line| words.first().is_some_and(|word| line.contains(word)));
            Ok(line.unwrap_or_default().trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        assert!(wrong(&[case("ok", "cuda", 0)]).is_err());
        assert!(wrong(&[case("wrong", "cuda", 1)]).is_ok());
    }

    #[test]
    fn exit_code_and_words_must_both_be_right() {
        let check = Check { name: "a", command: "rankmark comm", code: 2, expected: Expected::Says(&["GPU", "share"]) };
        assert!(check.answer(&ended(2, "", "ranks share a GPU")).is_ok());
        assert!(check.answer(&ended(0, "", "ranks share a GPU")).is_err());
        assert!(check.answer(&ended(2, "", "ranks share")).is_err());
        let late = Ended { code: None, ..ended(0, "", "") };
        assert!(check.answer(&late).is_err());
    }

    #[test]
    fn placeholders_are_filled() {
        let check = Check { name: "a", command: "torchrun job.py --record", code: 0, expected: Expected::Wrong };
        let words = check.words(Path::new("/r"), Path::new("/p"), Path::new("/out"));
        assert_eq!(words, ["/p", "-m", "torch.distributed.run", "job.py", "--output-dir", "/out/records/a"]);
    }

    #[test]
    fn names_are_files_and_jobs_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
        for check in CHECKS {
            assert!(check.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", check.name);
            for word in check.command.split_whitespace().filter(|word| word.starts_with("xtask/")) {
                assert!(root.join(word).is_file(), "{word}");
            }
        }
    }
}
