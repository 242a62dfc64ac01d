//! Warnings on standard error of commands that read records: of a run that did not come to its end, and of a folder that
//! cannot be looked into.

use std::path::{Path, PathBuf};

use record::store::RecordFolders;

use crate::screen;

/// Says that the record in this directory is incomplete; `banner` is what the record says of it ([`record::Record::banner`]).
pub(crate) fn warn(directory: &Path, banner: Option<&str>) {
    if let Some(banner) = banner {
        screen::warn(&view::one_line(&format!("{}: {banner}", directory.display())));
    }
}

/// The records that were found, after a warning for each folder that cannot be looked into.
pub(crate) fn readable(found: RecordFolders) -> Vec<PathBuf> {
    found.readable(&mut screen::warn)
}
