//! The options of comparisons: of records, and of sides that are measured now.

use std::path::PathBuf;

use clap::ValueHint;

use crate::options::{LabelOptions, Output, RunOptions, Whole};

/// Options of commands that do nothing but compare.
#[derive(clap::Args)]
#[group(skip)]
pub(in crate::commands) struct Outputs {
    /// a folder of equal runs, which tell the noise between runs (five or more)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(super) history: Option<PathBuf>,
    /// writes the verdicts as JUnit XML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(super) junit: Option<PathBuf>,
    /// prints every case (default: the 40 that matter most)
    #[arg(long)]
    pub(super) all: bool,
    /// prints one JSON object for each case, and one for the summary
    #[arg(long)]
    pub(super) json: bool,
}

/// The options of an interleaved comparison.
#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Interleave {
    /// measures both sides now, in A B B A slices of two living worlds, until each case is decided
    #[arg(long)]
    pub(super) interleave: bool,
    /// a variable in the environment of A's ranks; repeats
    #[arg(long, value_name = "NAME=VALUE", requires = "interleave")]
    pub(super) env_a: Vec<String>,
    /// a variable in the environment of B's ranks; repeats
    #[arg(long, value_name = "NAME=VALUE", requires = "interleave")]
    pub(super) env_b: Vec<String>,
    /// sets a field of every case of A; repeats
    #[arg(long, value_name = "FIELD=VALUE", requires = "interleave")]
    pub(super) set_a: Vec<String>,
    /// sets a field of every case of B; repeats
    #[arg(long, value_name = "FIELD=VALUE", requires = "interleave")]
    pub(super) set_b: Vec<String>,
    /// sets a field of every case of both sides; repeats
    #[arg(long, value_name = "FIELD=VALUE", requires = "interleave")]
    pub(super) set: Vec<String>,
    /// B's ranks are this build of Rankmark; its control protocol must be the same
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, requires = "interleave")]
    pub(super) binary_b: Option<PathBuf>,
    /// most time of a case, both sides and the start of ranks included
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "interleave")]
    pub(super) max_seconds: terms::Seconds,
    /// ends the whole comparison after this time, with the pairs made by then
    #[arg(long, value_name = "TIME", requires = "interleave")]
    pub(super) budget: Option<terms::Seconds>,
    /// directory of the record (default: results/TIME-EXPERIMENT)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) output_dir: Option<PathBuf>,
    /// prints errors only
    #[arg(long, short, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// prints more: caveats in full
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    labels: LabelOptions,
}

impl Interleave {
    /// Options that only a comparison has that measures, and whether they were given. Clap knows those without a meaning
    /// elsewhere.
    pub(super) fn given(&self) -> Vec<(&'static str, bool)> {
        self.labels.given().into_iter().chain([("verbose", self.verbose)]).collect()
    }

    /// What was asked, as options of a run.
    pub(super) fn run_options(&self, json: bool) -> RunOptions {
        let Self { output_dir, quiet, verbose, .. } = self;
        let output = Output { output_dir: output_dir.clone(), json, quiet: *quiet, verbose: *verbose, dry_run: false };
        RunOptions { output, whole: Whole::labelled(self.labels.clone()), ..RunOptions::default() }
    }
}
