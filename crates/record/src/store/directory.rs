//! Where a record goes when nobody says so: `<root>/<UTC>-<experiment>`.

use std::io;
use std::path::{Path, PathBuf};

use super::{RUN_FILE, StoreError};
use crate::file::FileName;

/// Where records go when nobody says.
pub const RESULTS: &str = "results";

/// Where a new record goes: the folder that is given, or a fresh one in it where it holds records or all of a tool's runs go
/// below it, or in [`RESULTS`].
///
/// # Errors
/// When a fresh one cannot be created.
pub fn directory_for(
    given: Option<&Path>,
    (started, name): (jiff::Timestamp, &str),
    always_below: bool,
) -> Result<PathBuf, StoreError> {
    let parent = match given {
        Some(folder) if is_folder_of_records(folder, always_below) => folder,
        Some(directory) => return Ok(directory.to_owned()),
        None => Path::new(RESULTS),
    };
    fresh_directory(parent, started, name)
}

/// Whether a new record goes below a folder and not into it: records are there already, or all of a tool's runs go there.
fn is_folder_of_records(folder: &Path, always: bool) -> bool {
    let is_record = |path: &Path| path.join(RUN_FILE).symlink_metadata().is_ok();
    if is_record(folder) {
        return false;
    }
    always || std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(|entry| is_record(&entry.path())))
}

/// `20261120T101500Z-sweep`. The time is given: this crate reads no clock.
pub fn directory_name(started: jiff::Timestamp, experiment: &str) -> String {
    format!("{}-{experiment}", started.strftime("%Y%m%dT%H%M%SZ"))
}

/// Creates the run's directory under `root`, with `-2`, `-3`, ... appended when the name is taken. Creating is what
/// claims the name, so two runs of one second get two directories.
///
/// # Errors
/// When it cannot be created.
pub fn fresh_directory(root: &Path, started: jiff::Timestamp, experiment: &str) -> Result<PathBuf, StoreError> {
    std::fs::create_dir_all(root).map_err(|error| StoreError::io("cannot create", root, &error).at_start())?;
    let name = FileName::checked(&directory_name(started, experiment))
        .ok_or_else(|| StoreError::new(format!("`{}` cannot name a record", experiment.escape_debug())).at_start())?;
    let mut path = root.join(&name);
    for number in 2..10_000 {
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => path = root.join(format!("{name}-{number}")),
            Err(error) => return Err(StoreError::io("cannot create", &path, &error).at_start()),
        }
    }
    Err(StoreError::new(format!("{} holds ten thousand runs of this second", root.display())))
}
