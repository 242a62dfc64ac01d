//! Experiments with Rankmark: how often its answers are right on a real machine, and how fast it is. Each takes minutes to hours and
//! prints a table, or writes a page of docs/appendix. `cargo xtask NAME` runs one.
//!
//! * `coverage` tests the intervals on a real machine, `equal_runs` its states, `compare_rates` comparisons, `interleave_rates`
//!   interleaved comparisons.
//! * `diagnosis_rates`, `job_rates`, `job_kinds` and `job_files` test what `rankmark profile` says of jobs.
//! * `prediction_rates` tests predictions.
//! * `figures` writes docs/appendix/performance.md. `coverage` and `figures` read `cases`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal: printing is its output")]
#![expect(clippy::disallowed_methods, reason = "a tool for the terminal reads its arguments and variables")]

mod cases;
mod compare_rates;
mod coverage;
mod diagnosis_rates;
mod equal_runs;
mod figures;
mod interleave_rates;
mod job_files;
mod job_kinds;
mod job_rates;
mod prediction_rates;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask NAME

  coverage [--runs N] [--from N] [--records DIR]
        equal runs of examples/coverage.yaml on this machine: how far the printed intervals hold
        (docs/appendix/method.md); --from leaves out earlier ones
  equal-runs [--runs N] [--records DIR]
        equal runs of three cases: whether they agree, over all trials and in states of the machine
        (docs/appendix/method.md)
  interleave-rates [--tries N] [--planted N] [--seconds S] [--program PATH] [--records DIR]
        how often `compare --interleave` is wrong with equal sides, and finds its own smallest change (docs/appendix/comparisons.md)
  diagnosis-rates [--runs N] [--minutes N] [--records DIR]
        how often `rankmark profile` names the right slow rank, and how often one where none is (docs/appendix/diagnosis.md)
  job-kinds [--runs N] [--only PART OF A KIND] [--python PATH] [--program PATH]
        what is said of PyTorch jobs of many kinds with a planted fault, and without it: right, silent or wrong; needs torch
  job-files --folder DIR [--runs N] [--controls N] [--only PART OF A NAME] [--python PATH] [--program PATH]
        the same of the jobs in the files of DIR/jobs and DIR/jobs4, which also hang, crash and restart
  job-rates [--runs N] [--python PATH] [--program PATH]
        the same of PyTorch jobs with one more exchange in each step (docs/appendix/diagnosis.md); needs torch
  prediction-rates [--part PART] [--cases N] [--seed N] [--profile FILE] [--program PATH] [--records DIR]
        how far off `rankmark predict` is on this machine: schedules, models, overlap, collectives, choice (docs/appendix/prediction.md)
  compare-rates [--pairs N] [--minutes N] [--records DIR]
        equal runs of ten small cases on this machine: how often `rankmark compare` finds a difference (docs/appendix/comparisons.md)
  figures [--python PATH] [--records DIR]
        runs every command of docs/appendix/performance.md and writes that page; PATH is a Python with torch

Exit code 0: it ran; 1: it could not; 2: wrong usage.";

/// False where something failed; an error where the options are wrong.
type Experiment = fn(&Path, &[&str]) -> Result<bool, String>;

const ALL: [(&str, Experiment); 10] = [
    ("coverage", coverage::run),
    ("equal-runs", equal_runs::run),
    ("interleave-rates", interleave_rates::run),
    ("compare-rates", compare_rates::run),
    ("diagnosis-rates", diagnosis_rates::run),
    ("job-kinds", job_kinds::run),
    ("job-files", job_files::run),
    ("job-rates", job_rates::run),
    ("prediction-rates", prediction_rates::run),
    ("figures", figures::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [name, options @ ..] = words.as_slice() else {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    };
    let found = ALL.iter().find(|(known, _)| known == name);
    match found.ok_or_else(|| format!("unknown experiment `{name}`")).and_then(|(_, run)| run(&root(), options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The repository, two folders above this package, as cargo says it at run time.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.and_then(|package| package.ancestors().nth(2).map(PathBuf::from)).unwrap_or_else(|| PathBuf::from("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chores_of_the_repository_know_each_experiment() {
        assert_eq!(ALL.map(|(name, _)| name), xtask::EXPERIMENTS);
        for name in xtask::EXPERIMENTS {
            assert!(USAGE.contains(&format!("\n  {name} ")), "{name}");
        }
    }
}
