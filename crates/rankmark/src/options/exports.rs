//! `--prometheus`, `--junit`, `--github-summary`: what a run or a record hands to other tools, in files that these name.

use std::path::PathBuf;

use clap::ValueHint;

use crate::Failure;

/// The format that is added to the summary of a CI job.
const SUMMARY: &str = "github-summary";
/// GitHub's runner names the file of a step's summary by it.
const SUMMARY_FILE: &str = "GITHUB_STEP_SUMMARY";

/// Files for other tools. The name of an option is that of the format.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct ExportOptions {
    /// also writes times and metrics for Prometheus's textfile collector there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    prometheus: Option<PathBuf>,
    /// also writes each case as a JUnit test there: failed cases and missed gates fail
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,
    /// also adds a summary to the job page of GitHub Actions (the file $GITHUB_STEP_SUMMARY)
    #[arg(long)]
    github_summary: bool,
}

/// The files that were asked for.
pub(crate) struct Exports {
    /// Format and path.
    files: Vec<(&'static dyn report::Format, PathBuf)>,
    summary: Option<PathBuf>,
}

impl ExportOptions {
    /// Looks the formats up; before a run, so that nothing is measured in vain.
    ///
    /// # Errors
    /// When there is no job page to add to.
    pub(crate) fn exports(&self) -> Result<Exports, Failure> {
        let named = [("prometheus", &self.prometheus), ("junit", &self.junit)];
        let named = named.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        let files = named.map(|(name, path)| Ok((report::format(name)?, path.clone())));
        let files = files.collect::<Result<_, Failure>>()?;
        let summary = if self.github_summary { Some(summary_file()?) } else { None };
        Ok(Exports { files, summary })
    }
}

impl Exports {
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
            report::write_file(run, *format, path)?;
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
