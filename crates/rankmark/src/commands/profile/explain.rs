//! Shows what traces say: of a record, of a job, of another tool, or of two of them.

use std::path::{Path, PathBuf};

use record::CaseLine;
use record::store::RUN_FILE;
use report::Explanation;
use serde_json::json;
use terms::Status;

use super::wanted::Wanted;
use crate::{Failure, incomplete, screen};

/// Explains the traces of a record, writes that into the record and its reports, and shows it.
pub(super) fn record(directory: &Path, wanted: &Wanted) -> Result<u8, Failure> {
    let of_job = || job(directory, &job::explain::traces_in(directory)?, wanted);
    if !directory.join(RUN_FILE).is_file() {
        return of_job();
    }
    let read = record::read_run(directory)?;
    incomplete::warn(directory, read.banner().as_deref());
    if job::is_of_job(&read.cases) {
        return of_job();
    }
    let all = job::explain::of_record(directory, &read.cases, &wanted.traces)?;
    if all.is_empty() {
        let hint = "`rankmark profile --model MODEL --ranks N` makes one that has";
        return Err(Failure::new(format!("{} holds no traces of training steps", directory.display())).hint(hint));
    }
    report::write(&report::Run::read(directory, benchmarks::VIEWS)?, directory)?;
    print(&all, wanted)?;
    let is_open = read.cases.iter().any(|line| line.status == Status::NotRun || line.lacks_trials());
    let next = if is_open { next_resume(directory) } else { next_page(directory) };
    wanted.say(&format!("\nreport   {}\n{next}", directory.join("report.html").display()))?;
    Ok(0)
}

/// The line that shows a profile in a browser.
fn next_page(directory: &Path) -> String {
    screen::next_report(&[directory], "the timeline of each rank, and all findings")
}

/// The line that runs the rest of a profile that was interrupted.
fn next_resume(directory: &Path) -> String {
    screen::next(&["rankmark", "run", "--resume", &directory.display().to_string()], "runs what is missing")
}

/// Explains the traces that a run recorded with its results, before its report is written. Gives a sentence for each case of
/// several ranks.
pub(crate) fn after_run(directory: &Path, cases: &[CaseLine]) -> Result<Vec<String>, Failure> {
    Ok(job::explain::after_run(directory, cases, &Wanted::default().traces)?)
}

/// Explains the traces that ranks of a job wrote.
pub(super) fn job(folder: &Path, traces: &Path, wanted: &Wanted) -> Result<u8, Failure> {
    let explanation = job::explain::job(folder, traces, &wanted.traces)?;
    print(std::slice::from_ref(&explanation), wanted)?;
    let report = folder.join("report.html");
    wanted.say(&format!("\nreport   {}\ntraces   {}\n{}", report.display(), traces.display(), next_page(folder)))?;
    Ok(0)
}

/// Explains traces of other tools, and makes a record of them.
pub(super) fn files(files: &[PathBuf], output: Option<&Path>, wanted: &Wanted) -> Result<u8, Failure> {
    let (explanation, folder) = job::explain::files(files, output, &wanted.traces)?;
    print(std::slice::from_ref(&explanation), wanted)?;
    wanted.say(&format!("\nreport   {}\n{}", folder.join("report.html").display(), next_page(&folder)))?;
    Ok(0)
}

/// What got slower from one trace to the other.
pub(super) fn compare(before: &Path, after: &Path, wanted: &Wanted) -> Result<u8, Failure> {
    let [before, after] = [before, after].map(|path| job::explain::analysed(path, &wanted.traces));
    let (before, after) = (before?, after?);
    let found = diagnose::profile::differences(&before, &after);
    if wanted.json {
        let line = json!({"kind": "profile_differences", "differences": found});
        return screen::print_json(&(line.to_string() + "\n"));
    }
    screen::print(&report::differences(&before, &after, &found).text(screen::width()))
}

fn print(all: &[Explanation], wanted: &Wanted) -> Result<(), Failure> {
    if wanted.json {
        for one in all {
            screen::print_json(&format!("{}\n", report::profile_json(one)))?;
        }
    }
    for one in all {
        wanted.say(&format!("\n{}", report::explained(one, wanted.target).text(screen::width())))?;
    }
    Ok(())
}
