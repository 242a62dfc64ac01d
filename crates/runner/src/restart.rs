//! A launcher that starts all ranks again after it lost one (torchrun's `--max-restarts`): the run goes on in its record.

use std::path::{Path, PathBuf};

use record::store::{RESULTS, RUN_FILE};
use record::{CaseLine, Plan};
use terms::Status;

/// The newest records that are read, at most.
const MOST: usize = 20;

/// The record of an earlier attempt at this command and plan, to go on with; None where it left none. `given`: the user's
/// folder.
pub fn earlier(given: Option<&Path>, plan: &Plan, command_line: &[String]) -> Option<PathBuf> {
    newest(given.unwrap_or(Path::new(RESULTS)), plan, command_line)
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
