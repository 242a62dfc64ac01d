//! How often `rankmark compare` finds a difference between equal runs of this machine: real runs of ten small cases, in
//! disjoint pairs, and the later half of them against a baseline of the first eight.
//!
//! Not part of CI: it measures the machine. It is bounded: no run begins after `--minutes`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What every run measures: ten cases of microseconds.
const CASES: [&str; 6] = ["comm", "all_reduce,all_gather", "--ranks", "2", "--bytes", "1KiB,4KiB,16KiB,64KiB,256KiB"];
/// Thirteen short trials of each, over nine seconds: a case that spans less than eight is preliminary, and its run fails.
const SAMPLING: [&str; 6] = ["--trials", "13", "--max-seconds", "0.2s", "--spacing", "0.75s"];
/// Runs of the baseline.
const BASELINE: usize = 8;

/// What `cargo xtask compare-rates` was asked for.
pub(crate) struct Options {
    pairs: usize,
    minutes: u64,
    folder: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `compare-rates`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { pairs: 40, minutes: 20, folder: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
            let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
            match *word {
                "--pairs" => options.pairs = number(value()?).ok_or("--pairs takes a number from 1 on")?,
                "--minutes" => options.minutes = number(value()?).ok_or("--minutes takes a number from 1 on")? as u64,
                "--records" => options.folder = Some(PathBuf::from(value()?)),
                other => {
                    let valid = "--pairs N, --minutes N, --records DIR";
                    return Err(format!("unknown option `{other}`; valid options: {valid}"));
                }
            }
        }
        Ok(options)
    }
}

/// Makes the runs, compares them, and prints the table. False where something failed.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    let folder = options.folder.clone().unwrap_or_else(|| std::env::temp_dir().join("rankmark-compare-rates"));
    match rates(root, options, &folder) {
        Ok(table) => {
            print!("{table}");
            true
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

fn rates(root: &Path, options: &Options, folder: &Path) -> Result<String, String> {
    let program = built(root)?;
    let begun = Instant::now();
    let limit = Duration::from_secs(60 * options.minutes);
    let mut runs = Vec::new();
    for number in 0..2 * options.pairs {
        let record = folder.join(format!("run-{number:03}"));
        if !record.join("report.md").exists() {
            if begun.elapsed() > limit {
                eprintln!("{} minutes are over: {} of {} runs", options.minutes, runs.len(), 2 * options.pairs);
                break;
            }
            measure(&program, &record)?;
            eprintln!("run {} of {}, {:.0} s", number + 1, 2 * options.pairs, begun.elapsed().as_secs_f64());
        }
        runs.push(record);
    }
    let name = |record: &PathBuf| record.display().to_string();
    let mut alone = VerdictCounts::default();
    for pair in runs.chunks_exact(2) {
        alone.add(&objects_of(&program, folder, &["compare", &name(&pair[0]), &name(&pair[1]), "--json"])?);
    }
    let mut known = VerdictCounts::default();
    let (baseline, later) = runs.split_at(runs.len().min(BASELINE));
    if baseline.len() == BASELINE && !later.is_empty() {
        let mut save = vec!["baseline".to_owned(), "save".to_owned(), "rates".to_owned(), "--replace".to_owned()];
        save.extend(baseline.iter().map(name));
        let words: Vec<&str> = save.iter().map(String::as_str).collect();
        output(&program, folder, &words)?;
        // At 1.5 times the smallest change that the first comparison prints.
        let first = objects_of(&program, folder, &["baseline", "check", "rates", &name(&later[0]), "--json"])?;
        let smallest = cases(&first).filter_map(|case| case["smallest_change"].as_f64()).fold(0.0f64, f64::max);
        let threshold = format!("{:.4}", (1.5 * smallest).clamp(0.001, 9.0));
        for run in later {
            let words = ["baseline", "check", "rates", &name(run), "--json", "--threshold", &threshold];
            known.add(&objects_of(&program, folder, &words)?);
        }
    }
    Ok(table(&alone, &known))
}

/// The program, as a release builds it.
pub(crate) fn built(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--quiet", "--release", "--locked", "-p", "rankmark"]);
    let ended = command.status().map_err(|error| error.to_string())?;
    if !ended.success() {
        return Err(format!("building ended with {ended}"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join("rankmark"))
}

fn measure(program: &Path, record: &Path) -> Result<(), String> {
    // What a run that was ended left is not an equal run.
    if record.exists() {
        std::fs::remove_dir_all(record).map_err(|error| format!("{}: {error}", record.display()))?;
    }
    let mut command = Command::new(program);
    command.args(CASES).args(SAMPLING).args(["--quiet", "--output-dir"]).arg(record);
    let ended = command.status().map_err(|error| error.to_string())?;
    if ended.success() { Ok(()) } else { Err(format!("a run ended with {ended}; its record is {}", record.display())) }
}

/// Standard output of the program in this folder.
fn output(program: &Path, folder: &Path, words: &[&str]) -> Result<String, String> {
    let ended = Command::new(program).current_dir(folder).args(words).output().map_err(|error| error.to_string())?;
    match ended.status.code() {
        Some(0 | 1 | 3) => String::from_utf8(ended.stdout).map_err(|error| error.to_string()),
        _ => Err(format!("`rankmark {}`: {}", words.join(" "), String::from_utf8_lossy(&ended.stderr))),
    }
}

/// The objects of a comparison.
fn objects_of(program: &Path, folder: &Path, words: &[&str]) -> Result<Vec<Value>, String> {
    let text = output(program, folder, words)?;
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect()
}

fn cases(lines: &[Value]) -> impl Iterator<Item = &Value> {
    lines.iter().filter(|line| line["kind"] == "case")
}

/// Verdicts of comparisons of equal runs, counted.
#[derive(Default)]
struct VerdictCounts {
    comparisons: usize,
    any_false: usize,
    cases: usize,
    same: usize,
    smallest: Vec<f64>,
}

impl VerdictCounts {
    fn add(&mut self, lines: &[Value]) {
        let of = |verdict: &str| cases(lines).filter(|case| case["verdict"] == verdict).count();
        self.comparisons += 1;
        self.any_false += usize::from(of("better") + of("worse") > 0);
        self.cases += cases(lines).count();
        self.same += of("same");
        self.smallest.extend(cases(lines).filter_map(|case| case["smallest_change"].as_f64()));
    }
}

fn table(alone: &VerdictCounts, known: &VerdictCounts) -> String {
    let mut text =
        "| compared | comparisons | with any false verdict | cases that are the same | median smallest change |\n\
                    |---|---|---|---|---|\n"
            .to_owned();
    for (name, counts) in [("two single runs", alone), ("a run with a baseline of eight", known)] {
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let smallest =
            if counts.smallest.is_empty() { "-".to_owned() } else { percent(stats::median(&counts.smallest)) };
        let same = if counts.cases == 0 { "-".to_owned() } else { percent(counts.same as f64 / counts.cases as f64) };
        text += &format!("| {name} | {} | {} | {same} | {smallest} |\n", counts.comparisons, counts.any_false);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_comparison_with_any_difference_counts_once() {
        let case = |verdict: &str| json!({"kind": "case", "verdict": verdict, "smallest_change": 0.04});
        let mut counts = VerdictCounts::default();
        counts.add(&[case("same"), case("worse"), case("better"), json!({"kind": "summary", "verdict": "worse"})]);
        counts.add(&[case("same"), case("cannot tell")]);
        assert_eq!((counts.comparisons, counts.any_false, counts.cases, counts.same), (2, 1, 5, 2));
        assert!(table(&counts, &VerdictCounts::default()).contains("| two single runs | 2 | 1 | 40.0% | 4.0% |"));
        assert!(Options::read(&["--pairs", "0"]).is_err() && Options::read(&["--x"]).is_err());
        assert_eq!(Options::read(&["--pairs", "4"]).map(|options| options.pairs), Ok(4));
    }
}
