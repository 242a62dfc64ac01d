//! Where new records go.

use std::path::{Path, PathBuf};

use crate::Failure;

/// Where records go when nobody says.
pub(crate) const RESULTS: &str = "results";

/// Where a new record goes: the folder that is given, or a fresh one in it where it holds records, or in `results`.
pub(crate) fn choose(
    given: Option<&Path>,
    (started, name): (jiff::Timestamp, &str),
    always_below: bool,
) -> Result<PathBuf, Failure> {
    let parent = match given {
        Some(folder) if is_folder_of_records(folder, always_below) => folder,
        Some(directory) => return Ok(directory.to_owned()),
        None => Path::new(RESULTS),
    };
    Ok(record::fresh_directory(parent, started, name)?)
}

/// Whether a new record goes below a folder and not into it: records are there already, or all of a tool's runs go there.
fn is_folder_of_records(folder: &Path, always: bool) -> bool {
    let is_record = |path: &Path| path.join(record::store::RUN_FILE).symlink_metadata().is_ok();
    if is_record(folder) {
        return false;
    }
    always || std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| is_record(&entry.path())))
}
