//! How far the printed intervals hold on this machine: equal runs of one plan, each interval compared with the other runs.
//!
//! Not part of CI: it takes about fifteen minutes and measures the machine, not the code. docs/appendix/method.md shows a
//! table.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stats::RunMedian;

use crate::cases;
use xtask::runs::{Given, equal_runs, head, printed, program};

/// Runs of the proof.
const RUNS: usize = 40;

/// One case of one run.
struct RunCase {
    name: String,
    run: RunMedian,
    printed: Option<[f64; 2]>,
}

/// Runs the plan and prints the table. False where a run failed.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let given = Given::read(words, "--runs N, --from N, --records DIR")?;
    // The first run that counts: a machine that changed in between is two machines.
    let (runs, first) = (given.number("--runs", 4, RUNS)?, given.number("--from", 0, 0)?);
    let measured = measure(root, first..first + runs, &given.records("coverage"));
    Ok(printed(measured.map(|runs| table(&runs))))
}

fn measure(root: &Path, runs: std::ops::Range<usize>, folder: &Path) -> Result<Vec<Vec<RunCase>>, String> {
    let program = program(root, None)?;
    let records = equal_runs(folder, runs, None, || {
        let mut command = Command::new(&program);
        command.arg("run").arg(root.join("examples/coverage.yaml")).args(["--quiet", "--output-dir"]);
        command
    })?;
    records.iter().map(|record| read(record)).collect()
}

/// Each case of a record that was measured.
fn read(record: &Path) -> Result<Vec<RunCase>, String> {
    let seen = |line: &Value| {
        let time = &line["time_s"];
        let run = RunMedian { median: time["median"].as_f64()?, again: cases::ends(time, "ci95_again") };
        Some(RunCase { name: name(line), run, printed: cases::ends(time, "ci95") })
    };
    Ok(cases::read(record)?.iter().filter_map(seen).collect())
}

fn name(line: &Value) -> String {
    let text = |name: &str| line["parameters"][name].as_str().unwrap_or_default().to_owned();
    let bytes = line["bytes"].as_u64().map_or(String::new(), |bytes| format!(" {}", cases::bytes(bytes)));
    let private = if text("buffers") == "private" { ", private" } else { "" };
    let what = if text("op").is_empty() { text("model") } else { text("op") };
    format!("{what}{bytes}, {} ranks{private}", line["ranks"])
}

/// How one case fared over all runs.
struct Fared {
    printed: f64,
    again: f64,
    without: f64,
    excluded: f64,
    all_excluded: f64,
    /// Mean half width of each interval, the median half width of the second, and 1.96 standard deviations of run
    /// medians, all relative to the median of runs.
    widths: [f64; 3],
    spread: f64,
}

fn fared(runs: &[&RunCase]) -> Fared {
    let medians: Vec<f64> = runs.iter().map(|seen| seen.run.median).collect();
    let others = |own: usize| {
        let rest: Vec<f64> = medians.iter().enumerate().filter(|(at, _)| *at != own).map(|(_, m)| *m).collect();
        stats::median(&rest)
    };
    let holds = |ends: Option<[f64; 2]>, truth: f64| ends.is_some_and(|[low, high]| low <= truth && truth <= high);
    let count = |of: &dyn Fn(usize) -> bool| (0..runs.len()).filter(|at| of(*at)).count() as f64;
    let known = count(&|at| runs[at].run.again.is_some());
    let excludes = |a: &RunCase, b: &RunCase| {
        let ends = stats::run_ratio(a.run, b.run).and_then(|ratio| ratio.ends);
        ends.map(|[low, high]| low > 1.0 || high < 1.0)
    };
    let share = |pairs: Vec<Option<bool>>| {
        let excluded: Vec<bool> = pairs.into_iter().flatten().collect();
        excluded.iter().filter(|is_excluded| **is_excluded).count() as f64 / excluded.len().max(1) as f64
    };
    let disjoint = runs.chunks_exact(2).map(|pair| excludes(pair[0], pair[1])).collect();
    let pairs = (0..runs.len()).flat_map(|a| (a + 1..runs.len()).map(move |b| (a, b)));
    let all = pairs.map(|(a, b)| excludes(runs[a], runs[b])).collect();
    let middle = stats::median(&medians);
    let halves = |of: &dyn Fn(&RunCase) -> Option<[f64; 2]>| -> Vec<f64> {
        runs.iter().filter_map(|seen| Some(stats::relative_half_width(of(seen)?, middle))).collect()
    };
    let average = |widths: &[f64]| widths.iter().sum::<f64>() / widths.len().max(1) as f64;
    let (printed, again) = (halves(&|seen| seen.printed), halves(&|seen| seen.run.again));
    let mean = medians.iter().sum::<f64>() / medians.len() as f64;
    let variance = medians.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (medians.len() as f64 - 1.0);
    Fared {
        printed: count(&|at| holds(runs[at].printed, others(at))) / runs.len() as f64,
        again: count(&|at| holds(runs[at].run.again, others(at))) / known.max(1.0),
        without: 1.0 - known / runs.len() as f64,
        excluded: share(disjoint),
        all_excluded: share(all),
        widths: [average(&printed), average(&again), stats::median(&again)],
        spread: 1.96 * variance.sqrt() / middle,
    }
}

fn table(runs: &[Vec<RunCase>]) -> String {
    let columns = "| case | `ci95` holds the other runs' median | `ci95_again` holds it | has none | \
                   ratio excludes 1: disjoint pairs | all pairs | mean half width `ci95` | `ci95_again` | \
                   its median half width | 1.96 sd of run medians |";
    let mut text = format!("{} equal runs of examples/coverage.yaml\n\n{}", runs.len(), head(columns));
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let fine = |share: f64| format!("{:.1} %", 100.0 * share);
    for place in 0..runs.first().map_or(0, Vec::len) {
        let of: Vec<&RunCase> = runs.iter().filter_map(|run| run.get(place)).collect();
        let fared = fared(&of);
        let cells = [
            of[0].name.clone(),
            percent(fared.printed),
            percent(fared.again),
            percent(fared.without),
            percent(fared.excluded),
            percent(fared.all_excluded),
            fine(fared.widths[0]),
            fine(fared.widths[1]),
            fine(fared.widths[2]),
            fine(fared.spread),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(median: f64, half: f64) -> RunCase {
        let ends = Some([median * (1.0 - half), median * (1.0 + half)]);
        RunCase { name: "x".to_owned(), run: RunMedian { median, again: ends }, printed: ends }
    }

    #[test]
    fn intervals_that_are_too_narrow_are_seen() {
        let medians = [1.0, 1.1, 0.9, 1.05, 0.95, 1.1, 0.9, 1.0];
        let of = |half: f64| {
            let runs: Vec<RunCase> = medians.iter().map(|median| seen(*median, half)).collect();
            fared(&runs.iter().collect::<Vec<_>>())
        };
        let (narrow, wide) = (of(0.01), of(0.2));
        assert!(narrow.printed < 0.5 && narrow.excluded > 0.5, "{} {}", narrow.printed, narrow.excluded);
        assert_eq!((wide.printed, wide.again, wide.excluded, wide.without), (1.0, 1.0, 0.0, 0.0));
        assert!(wide.widths[0] > wide.spread, "{} {}", wide.widths[0], wide.spread);
    }
}
