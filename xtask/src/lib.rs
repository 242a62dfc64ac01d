//! Chores of this repository, run as `cargo xtask COMMAND`. Not part of any product; knows the repository, never Rankmark.
//!
//! * `test`: the steps of `cargo xtask test`. `ledger` keeps what passed, failed and was skipped; `stream`, `counts`, `install`,
//!   `packages` and `times` serve them.
//! * `tidy`: checks that no compiler makes.
//! * `runs` is what chores share that run the program many times. Those that measure how often it is right are a package of their own,
//!   [experiments](../experiments/src/main.rs), which is only built when one of them is asked for.
//! * `browser` checks HTML reports. `site` makes the documentation site.
//! * `launchers` runs each command under each launcher, and writes the table of docs/explanation/launchers.md.
//! * `gpu_check` runs the GPU checks on a machine that has one.
//! * `scale` compares what commands take of large plans, records, traces and logs with what is promised.
//! * `dist` makes wheels and tarballs, `ptx` the text of the GPU kernels.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal: printing is its output")]
#![expect(clippy::disallowed_methods, reason = "a tool for the terminal reads its arguments and variables")]

mod browser;
mod counts;
mod deny;
mod dist;
mod gpu_check;
mod gpu_model;
mod install;
mod launchers;
mod ledger;
mod packages;
mod ptx;
mod python;
pub mod runs;
pub mod scale;
mod site;
#[cfg(test)]
#[path = "../../tests/skip.rs"]
mod skip;
mod stream;
mod test;
mod tidy;
mod times;
mod wheels;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--gate | --full] [--no-install] [--package NAME [--dependents] [PART OF A TEST'S NAME]...]...
        format, tidy, ruff and mypy, tests, doc tests, cargo-deny; a failing step stops none of the later ones.
        --gate        also clippy and docs; with PyTorch and more MPI libraries, which it installs once below the target
                      folder (five gigabytes)
        --full        also the heavy tests and the loom models (same as RANKMARK_TEST_FULL=1)
        --no-install  never installs the optional parts that tests use
        --package     only this crate, with clippy and docs; may be repeated
        --dependents  also the crates that use it
  tidy  crate edges, circles of modules, module docs, file lengths, who may print, exit, read the environment, use unsafe, and the like
  experiments
        lists the chores that measure how often the program is right, and how fast it is: figures, coverage, equal-runs, compare-rates
        and others; each runs as `cargo xtask NAME`
  browser [--no-install]
        HTML reports in Chromium: charts, tables, zoom, print, dark, without JavaScript, and axe-core; leaves pictures
  site [--no-install]
        the documentation site of docs/, by mdBook, and whether its links lead somewhere
  gpu-check [--minutes N] [--python PATH] [--program PATH] [--out DIR] [--only NAME,...] [--nccl-tests PATH] [--sanitizer PATH]
            [--model PATH]
        commands on a GPU, and whether each answers as it must, the most fundamental first; PATH of --python has torch
        --minutes N  all of it takes no longer (default: 8); the table says what was left out
        --only  only checks with one of these in their names
  gpu-model [--gpu NAME] [--model NAME] [--batch N] [--sequence N] [--precision WORD] [--logits-multiple N]
            [--attention cudnn|own]
        what a training step should take on a GPU that is not here, by kind of kernel, and what that rests on
  scale [--small] [--only PART OF A NAME]
        what commands take of large plans, records, traces and logs on this machine, and how it grows, against what is promised
        --small  small inputs and the build of the tests, as in the gate: no speed is judged
  dist [--out DIR] [--own] [--again] [--system DIR]...
        wheels and tarballs to hand out, for each target into DIR (default: dist); tries those that run on this machine, here and
        on bare systems: Debian, and each root folder of --system, of which one has the oldest glibc
        --own    only for the processor of this machine
        --again  builds all files twice, in different folders, and compares their bytes
  dist --crates
        whether crates.io would take every package, and whether each builds from what is in it
  ptx [--check]
        the PTX text of the kernels in crates/device, made again from their source by a compiler from PyPI
  launchers [--only PART OF A NAME] [--program PATH] [--torch FOLDER] [--records DIR]
        each command under each launcher, on two nodes of namespaces with a real Slurm: a result, a sentence, or a hole, which fails;
        without --only it writes the table of docs/explanation/launchers.md; FOLDER has torchrun and python; needs root

The last line of `test` is `N passed, N failed, N skipped`. Exit code 0: nothing failed; 1: something did; 2: wrong usage.";

/// False where something failed; an error where the options are wrong.
type Chore = fn(&Path, &[&str]) -> Result<bool, String>;

/// Chores with options.
const CHORES: [(&str, Chore); 7] = [
    ("test", test::run),
    ("gpu-check", gpu_check::run),
    ("gpu-model", gpu_model::run),
    ("dist", dist::run),
    ("ptx", ptx::run),
    ("scale", scale::run),
    ("launchers", launchers::run),
];

/// Chores of the package `experiments`.
pub const EXPERIMENTS: [&str; 10] = [
    "coverage",
    "equal-runs",
    "interleave-rates",
    "compare-rates",
    "diagnosis-rates",
    "job-kinds",
    "job-files",
    "job-rates",
    "prediction-rates",
    "figures",
];

/// Does what the command line says, and gives the exit status.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    match words.as_slice() {
        ["tidy"] => passed(tidy::run(&root)),
        ["browser"] => passed(browser::run(&root, true)),
        ["browser", "--no-install"] => passed(browser::run(&root, false)),
        ["site"] => passed(site::run(&root, true)),
        ["site", "--no-install"] => passed(site::run(&root, false)),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["experiments"] => experiments(&root, &[]),
        [name, ..] if EXPERIMENTS.contains(name) => experiments(&root, &words),
        [] => wrong_usage("which command?"),
        [name, options @ ..] => match CHORES.iter().find(|(chore, _)| chore == name) {
            Some((_, run)) => run(&root, options).map_or_else(|problem| wrong_usage(&problem), passed),
            None => wrong_usage(&format!("unknown command or option: `{name}`")),
        },
    }
}

/// Builds and runs the package of experiments, whose exit status is that of the chore.
fn experiments(root: &Path, words: &[&str]) -> ExitCode {
    let mut command = runs::cargo(root, &["run", "--quiet", "--package", "experiments", "--"]);
    match command.args(words).status() {
        Ok(ended) => ended.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => wrong_usage(&format!("cargo cannot be started: {error}")),
    }
}

fn passed(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wrong_usage(problem: &str) -> ExitCode {
    eprintln!("error: {problem}\n\n{USAGE}");
    ExitCode::from(2)
}

/// The repository: the parent of this package, as cargo says it at run time. The compile-time value would be that of
/// another clone where two clones share one target directory, as on CI.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.and_then(|package| package.parent().map(PathBuf::from)).unwrap_or_else(|| PathBuf::from("."))
}
