//! Equal runs of three sizes of `all_reduce` on this machine: whether they agree, over all trials and in states of the machine.
//!
//! Not part of CI: it takes ten minutes and measures the machine. docs/appendix/method.md shows a table.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::cases;
use xtask::runs::{self, Given, compared, count, head, printed, program, smallest_changes};

/// Runs of the proof.
const RUNS: usize = 8;
/// Clocks that differ by less are the same.
const SAME_CLOCK: f64 = 0.02;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MedianInterval {
    median: f64,
    ends: Option<[f64; 2]>,
}

/// One case of one run.
#[derive(Clone, Debug)]
struct RunCase {
    name: String,
    /// Over all trials, whatever the machine's state.
    all: MedianInterval,
    /// The interval that the row has.
    row: MedianInterval,
    /// The row's median with the interval that an equal run soon after is expected in.
    again: MedianInterval,
    /// The row's share of the limit, which was measured in the same rounds.
    share: Option<MedianInterval>,
    /// The state that the row's trials are of.
    state: Option<String>,
    /// The clock's canary in that state.
    clock: Option<f64>,
}

/// Runs and prints the table. False where a run failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--runs N, --records DIR")?;
    let measured = measured(root, given.number("--runs", 2, RUNS)?, &given.records("equal-runs"));
    Ok(printed(measured.map(|(runs, verdicts)| table(&runs, &verdicts))))
}

fn measured(root: &Path, runs: usize, folder: &Path) -> Result<(Vec<Vec<RunCase>>, Vec<Value>), String> {
    let program = program(root, None)?;
    let records = runs::equal_runs(folder, 0..runs, None, || {
        let mut command = Command::new(&program);
        command.args(["comm", "all_reduce", "--ranks", "2", "--bytes", "1KiB,1MiB,16MiB", "--quiet", "--output-dir"]);
        command
    })?;
    let seen = records.iter().map(|record| read(record)).collect::<Result<Vec<_>, _>>()?;
    let mut verdicts = Vec::new();
    for (a, b) in pairs(runs) {
        let mut command = Command::new(&program);
        verdicts.extend(compared(command.arg("compare").args([&records[a], &records[b]]).arg("--json"))?);
    }
    Ok((seen, verdicts))
}

fn pairs(runs: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..runs).flat_map(move |a| (a + 1..runs).map(move |b| (a, b)))
}

/// Each case of a record, with the medians of all its trials.
fn read(record: &Path) -> Result<Vec<RunCase>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", record.display());
    let text = |name: &str| std::fs::read_to_string(record.join(name)).map_err(|error| failed(&error));
    let run: Value = serde_json::from_str(&text("run.json")?).map_err(|error| failed(&error))?;
    let mut trials: HashMap<String, Vec<f64>> = HashMap::new();
    for line in text("samples.jsonl")?.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| failed(&error))?;
        let (Some(id), Some(median)) = (line["id"].as_str(), trial(&line)) else { continue };
        trials.entry(id.to_owned()).or_default().push(median);
    }
    let seen = |line: &Value| {
        let (time, limit) = (&line["time_s"], &line["limit"]);
        let medians = trials.get(line["id"].as_str()?)?;
        Some(RunCase {
            name: format!("all_reduce {}", cases::bytes(line["bytes"].as_u64()?)),
            all: MedianInterval { median: stats::median(medians), ends: stats::sign_interval(medians) },
            row: MedianInterval { median: time["median"].as_f64()?, ends: cases::ends(time, "ci95") },
            again: MedianInterval { median: time["median"].as_f64()?, ends: cases::ends(time, "ci95_again") },
            share: limit["share"]
                .as_f64()
                .map(|median| MedianInterval { median, ends: cases::ends(limit, "share_ci95") }),
            state: state(&run, line).and_then(|state| state["name"].as_str()).map(str::to_owned),
            clock: clock(state(&run, line)),
        })
    };
    Ok(cases::read(record)?.iter().filter_map(seen).collect())
}

/// Seconds of the median sample of a trial: of each sample the slowest rank counts.
fn trial(line: &Value) -> Option<f64> {
    let ranks: Vec<&Vec<Value>> = line["ns"].as_array()?.iter().filter_map(Value::as_array).collect();
    let samples = ranks.iter().map(|rank| rank.len()).min()?;
    let slowest = |at: usize| ranks.iter().filter_map(|rank| rank[at].as_f64()).fold(0.0, f64::max);
    let times: Vec<f64> = (0..samples).map(slowest).collect();
    (!times.is_empty()).then(|| stats::median(&times) / 1e9 / line["calls"].as_f64().unwrap_or(1.0))
}

/// The state of a row: the one that it names, or the only one of its run.
fn state<'r>(run: &'r Value, line: &Value) -> Option<&'r Value> {
    let states = run["states"].as_array()?;
    states.iter().find(|state| line["state"].is_null() || state["name"] == line["state"])
}

fn clock(state: Option<&Value>) -> Option<f64> {
    state?["canaries"].as_array()?.iter().find(|level| level["canary"] == "clock_ns")?["median"].as_f64()
}

/// How often equal runs disagree: rows with an interval that misses the median of the other runs, and pairs of disjoint intervals.
/// `alike` says which runs count as equal.
fn agreement(
    runs: &[Vec<RunCase>],
    of: fn(&RunCase) -> Option<MedianInterval>,
    alike: fn(&RunCase, &RunCase) -> bool,
) -> [String; 2] {
    let (mut held, mut rows, mut disjoint, mut all) = (0, 0, 0, 0);
    for case in 0..runs.first().map_or(0, Vec::len) {
        let seen: Vec<&RunCase> = runs.iter().filter_map(|run| run.get(case)).collect();
        for at in 0..seen.len() {
            let Some(([low, high], others)) = interval_and_others(&seen, at, of, alike) else { continue };
            rows += 1;
            held += usize::from((low..=high).contains(&others));
        }
        for (a, b) in pairs(seen.len()).filter(|(a, b)| alike(seen[*a], seen[*b])) {
            let ends = |at: usize| of(seen[at]).and_then(|found| found.ends);
            let Some((a, b)) = ends(a).zip(ends(b)) else { continue };
            all += 1;
            disjoint += usize::from(a[1] < b[0] || b[1] < a[0]);
        }
    }
    let share =
        |part: usize, whole: usize| format!("{part} of {whole} ({:.0} %)", 100.0 * part as f64 / whole.max(1) as f64);
    [share(held, rows), share(disjoint, all)]
}

/// The interval of a run's case, and the median of the other runs that are alike.
fn interval_and_others(
    seen: &[&RunCase],
    at: usize,
    of: fn(&RunCase) -> Option<MedianInterval>,
    alike: fn(&RunCase, &RunCase) -> bool,
) -> Option<([f64; 2], f64)> {
    let others = seen.iter().enumerate().filter(|(other, other_case)| *other != at && alike(seen[at], other_case));
    let medians: Vec<f64> = others.filter_map(|(_, other)| of(other)).map(|other| other.median).collect();
    of(seen[at])?.ends.filter(|_| !medians.is_empty()).map(|ends| (ends, stats::median(&medians)))
}

/// The rows whose interval misses the median of the other runs in the same state, one a line.
fn misses(runs: &[Vec<RunCase>]) -> String {
    let mut text = String::new();
    for case in 0..runs.first().map_or(0, Vec::len) {
        let seen: Vec<&RunCase> = runs.iter().filter_map(|run| run.get(case)).collect();
        for (at, own) in seen.iter().enumerate() {
            let found = interval_and_others(&seen, at, |seen| Some(seen.row), same_state);
            let Some(([low, high], others)) = found.filter(|([low, high], other)| !(low..=high).contains(&other))
            else {
                continue;
            };
            let state = own.state.as_deref().unwrap_or("no state");
            let [low, high, others] = [low, high, others].map(|seconds| 1e6 * seconds);
            text += &format!("| {} | {} | {state} | {low:.4} to {high:.4} us | {others:.4} us |\n", at + 1, own.name);
        }
    }
    if text.is_empty() { text } else { head("| run | case | state | interval | median of the others |") + &text }
}

fn same_state(a: &RunCase, b: &RunCase) -> bool {
    a.state == b.state
}

fn same_clock(a: &RunCase, b: &RunCase) -> bool {
    same_state(a, b) && same_clocks(a, b)
}

fn same_clocks(a: &RunCase, b: &RunCase) -> bool {
    a.clock.zip(b.clock).is_some_and(|(a, b)| (a / b).ln().abs() < SAME_CLOCK)
}

fn table(runs: &[Vec<RunCase>], verdicts: &[Value]) -> String {
    let head = head("| | interval holds the median of the others | disjoint pairs |");
    let mut text = format!("{} equal runs\n\n{head}", runs.len());
    let any = |_: &RunCase, _: &RunCase| true;
    for (name, [held, disjoint]) in [
        ("all trials", agreement(runs, |seen| Some(seen.all), any)),
        ("trials of the row's state, all runs", agreement(runs, |seen| Some(seen.row), any)),
        ("trials of the row's state, runs in the same state", agreement(runs, |seen| Some(seen.row), same_state)),
        ("the same, with the same clock", agreement(runs, |seen| Some(seen.row), same_clock)),
        ("the same state, `ci95_again`", agreement(runs, |seen| Some(seen.again), same_state)),
        ("share of the limit, the same state", agreement(runs, |seen| seen.share, same_state)),
        ("share of the limit, all runs", agreement(runs, |seen| seen.share, any)),
    ] {
        text += &format!("| {name} | {held} | {disjoint} |\n");
    }
    let reasons = |word: &str| verdicts.iter().filter(|case| case["reason"] == word).count();
    let smallest = smallest_changes(verdicts);
    text += &format!(
        "\n`compare` of all pairs: {} of {} better or worse; {} in another state, {} with another clock.",
        count(verdicts, "better") + count(verdicts, "worse"),
        verdicts.len(),
        reasons("other_state"),
        reasons("other_clock")
    );
    if !smallest.is_empty() {
        let ordered = stats::sorted(&smallest);
        text += &format!(
            " Smallest change that would show: {:.0} % (median), {:.0} to {:.0} %.",
            100.0 * stats::median(&smallest),
            100.0 * ordered[0],
            100.0 * ordered[ordered.len() - 1]
        );
    }
    text += "\n\nIntervals that miss the median of the other runs in the same state:\n\n";
    text += &misses(runs);
    text.push('\n');
    for run in runs {
        let of = |seen: &RunCase| {
            let state = seen.state.as_ref().map_or(String::new(), |state| format!(" ({state})"));
            format!("{} {:.4} us{state}", seen.name, 1e6 * seen.row.median)
        };
        let clock =
            run.first().and_then(|seen| seen.clock).map_or(String::new(), |clock| format!(", clock {clock:.0} ns"));
        text += &format!("* {}{clock}\n", run.iter().map(of).collect::<Vec<_>>().join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(median: f64, clock: f64) -> RunCase {
        let known = MedianInterval { median, ends: Some([0.99 * median, 1.01 * median]) };
        RunCase {
            name: "x".to_owned(),
            all: known,
            row: known,
            again: known,
            share: None,
            state: None,
            clock: Some(clock),
        }
    }

    #[test]
    fn runs_with_another_clock_are_no_equal_runs() {
        let runs = [(1.0, 100.0), (1.005, 100.0), (1.1, 107.0), (1.102, 107.0)];
        let runs: Vec<Vec<RunCase>> = runs.iter().map(|(median, clock)| vec![seen(*median, *clock)]).collect();
        let any = |_: &RunCase, _: &RunCase| true;
        assert_eq!(agreement(&runs, |seen| Some(seen.row), any), ["0 of 4 (0 %)", "4 of 6 (67 %)"]);
        assert_eq!(agreement(&runs, |seen| Some(seen.row), same_clock), ["4 of 4 (100 %)", "0 of 2 (0 %)"]);
    }

    #[test]
    fn runs_in_another_state_are_not_equal_runs() {
        let run = |median: f64, state: &str| vec![RunCase { state: Some(state.to_owned()), ..seen(median, 100.0) }];
        let runs = [run(1.0, "near"), run(1.005, "near"), run(4.0, "far"), run(4.01, "far"), run(5.0, "far")];
        assert_eq!(agreement(&runs, |seen| Some(seen.row), same_state), ["2 of 5 (40 %)", "2 of 4 (50 %)"]);
        assert!(misses(&runs).contains("| 5 | x | far | "), "{}", misses(&runs));
        assert_eq!(misses(&runs).lines().count(), 2 + 3, "rows below the head");
    }

    #[test]
    fn a_row_without_a_share_counts_to_no_share() {
        let share = |median: f64| Some(MedianInterval { median, ends: Some([median - 0.01, median + 0.01]) });
        let run = |share| vec![RunCase { share, ..seen(1.0, 100.0) }];
        let runs = [run(share(0.9)), run(None), run(share(0.905)), run(share(0.95))];
        assert_eq!(agreement(&runs, |seen| seen.share, same_state), ["0 of 3 (0 %)", "2 of 3 (67 %)"]);
    }

    #[test]
    fn a_trial_is_the_median_of_its_slowest_ranks() {
        let line = serde_json::json!({"id": "x", "calls": 2, "ns": [[10, 40, 30], [20, 20, 20]]});
        assert!((trial(&line).unwrap() - 15e-9).abs() < 1e-18, "of 20, 40 and 30");
    }
}
