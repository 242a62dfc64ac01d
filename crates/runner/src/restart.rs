//! A launcher that starts all ranks again after it lost one (torchrun's `--max-restarts`): the run goes on in its record.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use record::store::{RESULTS, RUN_FILE};
use record::{CaseLine, Plan};
use terms::{Error, Status};

use crate::OpenRecord;

/// The newest records that are read, at most.
const MOST: usize = 20;

/// How long the coordinator of the attempt before may still write its report.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// The record of an earlier attempt at this command and plan, which goes on; None where it left none. `given`: the user's
/// folder; `count`: how often the launcher has started these ranks again.
///
/// # Errors
/// When it cannot go on.
pub fn again(
    given: Option<&Path>,
    plan: &Plan,
    command_line: &[String],
    count: u32,
) -> Result<Option<OpenRecord>, Error> {
    let found = if count > 0 { newest(given.unwrap_or(Path::new(RESULTS)), plan, command_line) } else { None };
    let Some(directory) = found else { return Ok(None) };
    let deadline = Instant::now() + ENDS_WITHIN;
    let mut record = loop {
        match OpenRecord::resume(&directory, Some(plan)) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            other => break other?,
        }
    };
    let shown = directory.display();
    record.notes.push(format!("the launcher started its ranks again (restart {count}): the run goes on in {shown}"));
    Ok(Some(record))
}

/// The newest record of the same command and plan in a folder, or the folder itself, if it misses results.
fn newest(folder: &Path, plan: &Plan, command_line: &[String]) -> Option<PathBuf> {
    if folder.join(RUN_FILE).is_file() {
        return is_earlier(folder, plan, command_line).then(|| folder.to_owned());
    }
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut records: Vec<PathBuf> = entries.filter(|path| path.join(RUN_FILE).is_file()).collect();
    // Their names begin with their times.
    records.sort();
    records.into_iter().rev().take(MOST).find(|path| is_earlier(path, plan, command_line))
}

fn is_earlier(directory: &Path, plan: &Plan, command_line: &[String]) -> bool {
    let Ok(record) = record::read_run(directory) else { return false };
    let is_done = |id: &str| {
        let is_whole = |line: &CaseLine| match line.status {
            Status::Ok => !line.lacks_trials(),
            Status::Skipped => true,
            _ => false,
        };
        record.cases.iter().rfind(|line| line.id == id).is_some_and(is_whole)
    };
    record.file.command_line == command_line
        && crate::are_same(&record.file.plan.cases, &plan.cases)
        && !plan.cases.iter().all(|case| is_done(&case.id))
}
