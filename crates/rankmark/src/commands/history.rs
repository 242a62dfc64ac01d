//! `rankmark history DIR...`: the records of one machine over time: a series for each case, and the runs at which it changed.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use record::Declared;
use report::Histories;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, not_a_record, packed, screen};
use record::store::RESULTS;

/// The name of the page in a folder of records.
pub(crate) const INDEX_FILE: &str = "index.html";

/// How results changed over the runs of a machine: a series for each case, noise between runs, change points
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  rankmark history\n  rankmark history results nightly --html history.html\n  \
                  rankmark history results --machine node-b --json\n\n\
                  Change points need eight runs. Over all cases and runs together, equal runs raise a false one with a \
                  chance of at most 5%. The noise between runs needs five. Simulated runs have a part of their own; \
                  merged records are left out. Imported runs are a series by hosts, device, program and statistic.")]
pub(crate) struct History {
    /// records, or folders of them (default: results)
    #[arg(value_name = "DIR", num_args = 0.., value_hint = ValueHint::DirPath)]
    folder: Vec<PathBuf>,
    /// only machines with this text in their name: host, processor
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
    /// equal machines with different host names count as one (containers, cloud instances)
    #[arg(long)]
    any_host: bool,
    /// also write it as a page with charts and links to the reports
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Typed for History {
    const NAME: &'static str = "history";

    fn run(self, _: Entry<'_>) -> Ended {
        let folders = if self.folder.is_empty() { vec![PathBuf::from(RESULTS)] } else { self.folder };
        let folders = packed::all_opened(&folders)?;
        folders.iter().try_for_each(|folder| not_a_record::refuse_file(folder))?;
        let mut found = found(&folders, self.any_host)?;
        if let Some(wanted) = &self.machine {
            found.keep(wanted)?;
        }
        if let Some(file) = &self.html {
            let written = write_page(&found, file)?;
            screen::remark(&format!("page     {}\n", written.display()));
        }
        if self.json {
            let text = serde_json::to_string(&report::HistoryJson::new(&found.machines, &found.left_out));
            let text = text.map_err(|error| Failure::new("the history cannot be written as JSON").cause(error))?;
            return screen::print_json(&(text + "\n"));
        }
        let document = report::history(&found.title, &found.machines, &found.left_out, None);
        screen::print(&format!("{}\n{}", document.text(screen::width()), next(&found)))
    }
}

/// Writes the index page of these records into their folder.
pub(super) fn write_index(folder: &Path) -> Result<PathBuf, Failure> {
    let found = found(&[folder.to_owned()], false)?;
    write_page(&found, &folder.join(INDEX_FILE))
}

/// Writes the page to this file. Links are relative to the file's folder.
fn write_page(found: &Histories, file: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = file.file_name() else {
        return Err(Failure::new(format!("`{}` cannot name a page", file.display())).hint("--html history.html"));
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that is made with the page has no links on its way.
    let base = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok();
    let file = folder.join(name);
    report::history(&found.title, &found.machines, &found.left_out, base.as_deref()).write_page(&file)?;
    Ok(file)
}

fn found(folders: &[PathBuf], any_host: bool) -> Result<Histories, Failure> {
    let declared: Vec<Declared> = benchmarks::abouts().into_iter().map(Declared::of).collect();
    Ok(Histories::read(folders, any_host, &declared)?)
}

/// What to type next.
fn next(found: &Histories) -> String {
    match found.to_look_at() {
        Some((Some(before), run, does)) => {
            screen::next(&["rankmark", "compare", before, run, "--fail-on", "none"], does)
        }
        Some((None, run, does)) => screen::next_report(&[Path::new(run)], does),
        None => String::new(),
    }
}
