//! `rankmark list records [DIR]`: the records in a folder, newest first.

use std::path::{Path, PathBuf};

use record::store::{RUN_FILE, RecordFolders};

use crate::{Failure, screen};

pub(super) fn run(folder: &Path, as_json: bool) -> Result<u8, Failure> {
    let found = report::listed(directories(folder)?.into_iter());
    if as_json {
        let lines: String = found.iter().map(|found| format!("{}\n", found.json())).collect();
        return screen::print_json(&lines);
    }
    if found.is_empty() {
        screen::remark(&format!("note: {} holds no record\n", folder.display()));
    }
    screen::print(&report::listed_table(&found))
}

/// The folder itself where it is a record, else every record in it.
fn directories(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if folder.join(RUN_FILE).symlink_metadata().is_ok() {
        return Ok(vec![folder.to_owned()]);
    }
    let found = RecordFolders::within(folder).map_err(|error| {
        let hint = "`rankmark list records DIR` names another folder; runs make `results`";
        Failure::new(format!("{} cannot be listed", folder.display())).cause(error).hint(hint)
    })?;
    // Reading a folder that cannot be looked into says why.
    let unreadable = found.unreadable.into_iter().map(|(folder, _)| folder);
    Ok(found.records.into_iter().chain(unreadable).collect())
}
