//! Finding and reading the records of a history.

use std::path::{Path, PathBuf};

use diagnose::history::{KnownCases, LeftOut, Run, without_copies};
use record::store::RUN_FILE;

use crate::Failure;

/// Folders in folders, at most: a year's folder, a month's, a host's.
const DEPTH: usize = 4;

/// What the records in these folders hold, and those that cannot be used. One record is read at a time.
pub(super) fn read(folders: &[PathBuf], any_host: bool) -> Result<(Vec<Run>, Vec<LeftOut>), Failure> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = std::fs::metadata(folder);
        if !entries.is_ok_and(|found| found.is_dir()) {
            let hint = "runs make `results`; `rankmark history DIR` names another folder";
            return Err(Failure::new(format!("there is no folder {}", folder.display())).hint(hint));
        }
        directories.extend(self::directories(folder));
    }
    let mut seen = std::collections::HashSet::new();
    // The same record by two ways would be two runs.
    directories.retain(|directory| seen.insert(directory.canonicalize().unwrap_or_else(|_| directory.clone())));
    let (mut runs, mut left_out, mut known) = (Vec::new(), Vec::new(), KnownCases::default());
    for directory in directories {
        let name = directory.display().to_string();
        match record::read_run(&directory) {
            Err(error) => left_out.push(LeftOut { directory: name, why: error.error.sentence(), copy_of: None }),
            Ok(record) => match Run::of(&name, &record, any_host) {
                Ok(mut run) => {
                    run.share(&mut known);
                    runs.push(run);
                }
                Err(reason) => left_out.push(reason),
            },
        }
    }
    let (runs, copies) = without_copies(runs);
    left_out.extend(copies);
    Ok((runs, left_out))
}

/// The directories of the records in a folder, which may be one itself.
pub(in crate::commands) fn directories(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    below(folder, DEPTH, &mut found);
    found
}

/// The records in a folder, those in folders of it, too, in the order of their names. Links are not followed.
fn below(folder: &Path, depth: usize, into: &mut Vec<PathBuf>) {
    if folder.join(RUN_FILE).symlink_metadata().is_ok() {
        into.push(folder.to_owned());
        return;
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    // What cannot be listed holds nothing for this user.
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let mut folders: Vec<PathBuf> = entries.filter(is_folder).map(|entry| entry.path()).collect();
    folders.sort();
    folders.iter().for_each(|folder| below(folder, depth, into));
}
