//! Finding and reading the records of a history.

use std::collections::HashSet;
use std::path::PathBuf;

use diagnose::history::{KnownCases, LeftOut, Run, without_copies};
use record::store::RecordFolders;
use terms::Error;

/// What the records in these folders hold, and those that cannot be used. One record is read at a time.
///
/// # Errors
/// A folder that is not there.
pub(crate) fn read_history(folders: &[PathBuf], any_host: bool) -> Result<(Vec<Run>, Vec<LeftOut>), Error> {
    let mut directories: Vec<PathBuf> = Vec::new();
    let mut left_out = Vec::new();
    for folder in folders {
        let entries = std::fs::metadata(folder);
        if !entries.is_ok_and(|found| found.is_dir()) {
            let hint = "runs make `results`; `rankmark history DIR` names another folder";
            return Err(Error::new(format!("there is no folder {}", folder.display())).hint(hint));
        }
        let found = RecordFolders::below(folder);
        directories.extend(found.records);
        left_out.extend(found.unreadable.into_iter().map(|(folder, error)| LeftOut {
            directory: folder.display().to_string(),
            why: format!("it cannot be read: {error}"),
            copy_of: None,
        }));
    }
    let mut seen = HashSet::new();
    // The same record by two ways would be two runs.
    directories.retain(|directory| seen.insert(directory.canonicalize().unwrap_or_else(|_| directory.clone())));
    let (mut runs, mut known) = (Vec::new(), KnownCases::default());
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
