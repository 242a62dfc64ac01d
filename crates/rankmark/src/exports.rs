//! `--prometheus`, `--junit`, `--github-summary`: what a run or a record hands to other tools, in files that these name.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};

use crate::Failure;

/// Options that name a file, the format that the file has, and help.
const FILES: [(&str, &str); 2] = [
    ("prometheus", "also writes times and metrics for Prometheus's textfile collector there"),
    ("junit", "also writes each case as a JUnit test there: failed cases and missed gates fail"),
];
/// The format that is added to the summary of a CI job.
const SUMMARY: &str = "github-summary";
/// GitHub's runner names the file of a step's summary by it.
const SUMMARY_FILE: &str = "GITHUB_STEP_SUMMARY";

pub(crate) fn options() -> Vec<Arg> {
    let file = |(name, help): (&'static str, &'static str)| {
        let arg = Arg::new(name).long(name).value_name("FILE").value_hint(ValueHint::FilePath);
        arg.value_parser(value_parser!(PathBuf)).help(help)
    };
    let summary = Arg::new(SUMMARY).long(SUMMARY).action(ArgAction::SetTrue);
    let summary =
        summary.help(format!("also adds a summary to the job page of GitHub Actions (the file ${SUMMARY_FILE})"));
    FILES.into_iter().map(file).chain([summary]).collect()
}

/// The files that were asked for.
pub(crate) struct Exports {
    /// Format and path.
    files: Vec<(&'static dyn report::Format, PathBuf)>,
    summary: Option<PathBuf>,
}

impl Exports {
    /// Reads the options; before a run, so that nothing is measured in vain.
    ///
    /// # Errors
    /// When there is no job page to add to.
    pub(crate) fn read(matches: &ArgMatches) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for (name, _) in FILES {
            if let Some(path) = matches.get_one::<PathBuf>(name) {
                files.push((report::format(name)?, path.clone()));
            }
        }
        let summary = if matches.get_flag(SUMMARY) { Some(summary_file()?) } else { None };
        Ok(Self { files, summary })
    }

    /// Whether there is a file that a second record would replace.
    pub(crate) fn names_a_file(&self) -> bool {
        !self.files.is_empty()
    }

    /// Writes them.
    ///
    /// # Errors
    /// When one cannot be written; the record is whole.
    pub(crate) fn write(&self, run: &report::Run) -> Result<(), Failure> {
        for (format, path) in &self.files {
            report::write_file(run, *format, path, None)?;
        }
        if let Some(path) = &self.summary {
            report::append_file(run, report::format(SUMMARY)?, path)?;
        }
        Ok(())
    }
}

fn summary_file() -> Result<PathBuf, Failure> {
    let file = std::env::var_os(SUMMARY_FILE).filter(|file| !file.is_empty());
    file.map(PathBuf::from).ok_or_else(|| {
        Failure::new(format!("`--{SUMMARY}` has nowhere to write"))
            .cause(format!("{SUMMARY_FILE} is not set: this is not a step of GitHub Actions"))
            .hint("`rankmark report DIR --format github-summary` writes summary.md into the record")
    })
}
