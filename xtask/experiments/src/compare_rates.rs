//! How often `rankmark compare` finds a difference between equal runs of this machine: real runs of ten small cases, in
//! disjoint pairs, and the later half of them against a baseline of the first eight.
//!
//! Not part of CI: it measures the machine. It is bounded: no run begins after `--minutes`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::runs::{Given, compared, count, equal_runs, head, median_percent, printed, program, said, smallest_changes};

/// What every run measures: ten cases of microseconds.
const CASES: [&str; 6] = ["comm", "all_reduce,all_gather", "--ranks", "2", "--bytes", "1KiB,4KiB,16KiB,64KiB,256KiB"];
/// Thirteen short trials of each, over nine seconds: a case that spans less than eight is preliminary, and its run fails.
const SAMPLING: [&str; 6] = ["--trials", "13", "--max-seconds", "0.2s", "--spacing", "0.75s"];
/// Runs of the baseline.
const BASELINE: usize = 8;

/// Makes the runs, compares them, and prints the table. False where something failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--pairs N, --minutes N, --records DIR")?;
    let (pairs, minutes) = (given.number("--pairs", 1, 40)?, given.number("--minutes", 1, 20)?);
    Ok(printed(rates(root, (pairs, minutes), &given.records("compare-rates"))))
}

fn rates(root: &Path, (pairs, minutes): (usize, usize), folder: &Path) -> Result<String, String> {
    let program = program(root, None)?;
    let runs = equal_runs(folder, 0..2 * pairs, Some(minutes), || {
        let mut command = Command::new(&program);
        command.args(CASES).args(SAMPLING).args(["--quiet", "--output-dir"]);
        command
    })?;
    let rankmark = |words: &[&str], records: &[PathBuf]| {
        let mut command = Command::new(&program);
        command.current_dir(folder).args(words).args(records);
        command
    };
    let mut alone = VerdictCounts::default();
    for pair in runs.chunks_exact(2) {
        alone.add(&compared(&mut rankmark(&["compare", "--json"], pair))?);
    }
    let mut known = VerdictCounts::default();
    let (baseline, later) = runs.split_at(runs.len().min(BASELINE));
    if baseline.len() == BASELINE && !later.is_empty() {
        said(&mut rankmark(&["baseline", "save", "rates", "--replace"], baseline), &[0])?;
        // At 1.5 times the smallest change that the first comparison prints.
        let check = ["baseline", "check", "rates", "--json"];
        let first = compared(&mut rankmark(&check, &later[..1]))?;
        let smallest = smallest_changes(&first).into_iter().fold(0.0, f64::max);
        let threshold = format!("{:.4}", (1.5 * smallest).clamp(0.001, 9.0));
        for run in later.chunks(1) {
            known.add(&compared(rankmark(&check, run).args(["--threshold", &threshold]))?);
        }
    }
    Ok(table(&alone, &known))
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
    fn add(&mut self, cases: &[Value]) {
        self.comparisons += 1;
        self.any_false += usize::from(count(cases, "better") + count(cases, "worse") > 0);
        self.cases += cases.len();
        self.same += count(cases, "same");
        self.smallest.extend(smallest_changes(cases));
    }
}

fn table(alone: &VerdictCounts, known: &VerdictCounts) -> String {
    let mut text =
        head("| compared | comparisons | with any false verdict | cases that are the same | median smallest change |");
    for (name, counts) in [("two single runs", alone), ("a run with a baseline of eight", known)] {
        let VerdictCounts { comparisons, any_false, cases, same, smallest } = counts;
        let same = if *cases == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * *same as f64 / *cases as f64) };
        text += &format!("| {name} | {comparisons} | {any_false} | {same} | {} |\n", median_percent(smallest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_comparison_with_any_difference_counts_once() {
        let case = |verdict: &str| json!({"verdict": verdict, "smallest_change": 0.04});
        let mut counts = VerdictCounts::default();
        counts.add(&[case("same"), case("worse"), case("better")]);
        counts.add(&[case("same"), case("cannot tell")]);
        assert_eq!((counts.comparisons, counts.any_false, counts.cases, counts.same), (2, 1, 5, 2));
        assert!(table(&counts, &VerdictCounts::default()).contains("| two single runs | 2 | 1 | 40.0% | 4.0% |"));
    }
}
